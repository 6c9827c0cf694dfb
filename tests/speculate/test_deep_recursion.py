"""Deep recursion while some thread is in `rg.speculation()`: the C stack that calls take then comes to no end."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys, threading
import recgraph as rg

sys.setrecursionlimit(10**6)

def deep(n):
    return 0 if n == 0 else 1 + deep(n - 1)

def walk(n):
    if n:
        yield from walk(n - 1)
    yield n

def after(n):
    try:
        deep(n)
    except RecursionError as error:
        return f"{str(error)[:68]}, then {deep(100)}"
    return "there was room"

def elsewhere(work, size=0):
    before = threading.stack_size(size)
    found = []
    thread = threading.Thread(target=lambda: found.append(work()))
    thread.start()
    thread.join()
    threading.stack_size(before)
    return found[0]

def resumed(n):
    try:
        return next(walk(n))
    except RecursionError:
        return "refused"

def moderate():
    return deep(2000)

with rg.speculation():
    print("main:", after(10**6))
    print("other:", elsewhere(lambda: after(10**6)))
    print("small:", elsewhere(lambda: after(10**6), 512 * 1024))
    print("generators:", elsewhere(lambda: resumed(10**5)))
    print("moderate:", moderate(), elsewhere(moderate))
    print("large:", elsewhere(lambda: after(60_000), 512 * 2**20))
print("outside:", elsewhere(lambda: deep(60_000)))
"""
# What CPython itself says since 3.12, which counts calls through a hook, however large the stack is.
_LIMITED = () if sys.version_info < (3, 12) else ("maximum recursion depth exceeded, then 100",)
REFUSED = "maximum recursion depth exceeded: the stack of this thread is used up"


def test_recursion_ends_before_the_stack_does() -> None:
    """In each thread, by its own stack, and it can be caught; what fits runs, and so does all after the block."""
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr
    printed = dict(line.split(": ", 1) for line in done.stdout.splitlines())
    assert printed.pop("generators") == "refused"
    for where in ("main", "other", "small"):
        assert printed.pop(where) in (f"{REFUSED[:68]}, then 100", *_LIMITED), where
    assert printed.pop("large") in (_LIMITED or ("there was room",))
    assert printed == {"moderate": "2000 2000", "outside": "60000"}
