"""The frames of another thread, looked at while it runs."""

from __future__ import annotations

import subprocess
import sys
import threading

from recgraph import native

# Frames come and go while collections run finalizers, in which the lock changes hands. Where a collection may begin
# while frames get their objects, this ends in other objects than frames, or not at all, within a second or two.
PROGRAM = """
import gc, sys, threading, time, types
from recgraph import native

class Cyclic:
    def __init__(self):
        self.itself = self
    def __del__(self):
        for _ in range(300):
            pass

def recurse(levels):
    Cyclic()
    if levels:
        recurse(levels - 1)
        again(levels - 1)

def again(levels):
    if levels > 2:
        recurse(levels - 3)

def look(thread):
    while not is_over:
        for frame in native.frames().stack_of(thread):
            assert type(frame) is types.FrameType, frame
            assert frame.f_globals["__name__"] and frame.f_lineno
            seen.add(frame.f_code.co_name)

seen, is_over = set(), False
sys.setswitchinterval(1e-5)
gc.set_threshold(50)
looking = threading.Thread(target=look, args=(threading.get_ident(),), daemon=True)
looking.start()
end = time.monotonic() + 5
while time.monotonic() < end and looking.is_alive():
    recurse(14)
assert looking.is_alive()
is_over = True
looking.join()
assert {"<module>", "recurse", "again", "__del__"} <= seen, seen
assert gc.isenabled()
print("as it should be")
"""


def test_frames_are_frames_while_their_thread_runs() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert "as it should be" in done.stdout, f"{done.returncode}: {done.stdout}\n{done.stderr[-3000:]}"


def test_the_innermost_frame_comes_first() -> None:
    frames = native.frames().stack_of(threading.get_ident())
    assert frames[0] is sys._getframe()
    assert frames[1] is sys._getframe().f_back


def test_a_thread_that_is_none() -> None:
    thread = threading.Thread(target=int)
    thread.start()
    thread.join()
    assert native.frames().stack_of(thread.ident) == []
