"""What a call changes is changed once, by the method that Python would call, and not while the call is converted.

Each program is a statement or two on one object of the user's, of one of many kinds. Results and the object's state are
compared with those of eager execution after every call, and looked at around every conversion.
"""

from __future__ import annotations

import itertools
import random
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import recgraph as rg
from recgraph.speculate.run import function as speculated
from tests import sampling
from tests.speculate import comparing

CALLS = 9
MODES = ("speculate", "coexec", "auto")

HEAD = """
import array, bisect, collections, datetime, decimal, fractions, heapq, io, operator, random
import numpy as np, tensorflow as tf
class GetItem(list):
    def __getitem__(self, i): return super().__getitem__(i) * 10
class OfDict(dict):
    def __getitem__(self, key): return dict.__getitem__(self, key) * 10
class Missing(dict):
    def __missing__(self, key): self[key] = 1.0; return 2.0
class OfTuple(tuple):
    def __getitem__(self, i): return tuple.__getitem__(self, i) * 10
class Iterates(list):
    def __iter__(self): return (2 * v for v in list.__iter__(self))
class Length(list):
    def __len__(self): return 2 * list.__len__(self)
class Contains(list):
    def __contains__(self, v): return not list.__contains__(self, v)
class Appends(list):
    def append(self, v): list.append(self, v * 2)
class Sets(dict):
    def __setitem__(self, key, v): dict.__setitem__(self, key, v * 2)
class Adds(set):
    def add(self, v): set.add(self, v + 1)
class Equal(list):
    def __eq__(self, other): return True
    __hash__ = None
class Grows(list):
    def __iadd__(self, other): list.append(self, len(other)); return self
class Plain(list): pass
class Text(str):
    def upper(self): return "no"
class Factor(float):
    def __mul__(self, other): return 100.0
    __rmul__ = __mul__
class Sum(int):
    def __add__(self, other): return 100
class Property:
    def __init__(self): self._v, self.sets = 0.0, 0
    @property
    def v(self): return self._v
    @v.setter
    def v(self, value): self.sets += 1; self._v = value + 1.0
class SetsAttribute:
    def __setattr__(self, name, value):
        object.__setattr__(self, name, value)
        self.__dict__["n"] = self.__dict__.get("n", 0) + 1
class Slots:
    __slots__ = ("a", "b")
    def __init__(self): self.a, self.b = 1.0, [1.0]
class Shared:
    table = [1.0]
    count = 0
class Descriptor:
    def __get__(self, owner, kind=None): return owner.__dict__.setdefault("d", [0.0])
class Described:
    d = Descriptor()
class Context:
    def __init__(self): self.log = []
    def __enter__(self): self.log.append("in"); return self
    def __exit__(self, *_): self.log.append("out")
class Arrays:
    def __init__(self): self.a, self.b = np.ones(3, "f"), {"k": np.zeros(2, "f")}
"""

ARRAY = "np.array([3.0, 1.0, 2.0], 'f')"
# What an object is made by -> programs with it as `a`, a tensor `x`, and the number of the call `n` (a float).
PROGRAMS: dict[str, list[str]] = {
    ARRAY: [
        "a += n", "a -= 1", "a *= 2", "a **= 2", "a //= 2", "a[0] += n", "a[0] = n", "a[:] = a + n", "a.sort()",
        "a.fill(n)", "np.add(a, 1, out=a)", "np.add(a, 1, a)", "np.negative(a, a)", "np.add.at(a, [0], 1)",
        "np.copyto(a, n)", "np.put(a, [0], [n])", "a.put([0], [n])", "a.resize(3)", "a.partition(1)", "b = a; b += n",
        "b = a[:2]; b += n", "b = a.T; b *= 3", "b = np.asarray(a); b += n", "b = a.reshape(1, 3); b += n",
        "b = np.ravel(a); b += n", "b = np.atleast_2d(a); b += n", "b = [a]; b[0] += n", "a.flat[0] = n",
        "np.place(a, a > 0, [n])", "np.fill_diagonal(a.reshape(1, -1), n)", "a.byteswap(True)", "a.shape = (1, 3)",
        "np.clip(a, 0, n, out=a)", "a.clip(0, n, out=a)", "np.nan_to_num(a, copy=False)", "np.maximum(a, n, a)",
        "np.cumsum(a, out=a)", "a.view('i4')[0] += 1", "t = tf.constant(a); a += 1; return t * 2.0",
        "r = x * a[0]; a *= 2; return r", "operator.iadd(a, n)", "operator.setitem(a, 0, n)",
        "t = np.zeros(3, 'f'); u = t; u += a; return x * t[0]", "t = a * 2; u = t; u += n; return x * t[0]",
        "t = a * 2; r = x * t[0]; t += n; return r + t[0]", "t = a.copy(); v = t[:1]; t += n; return x * v[0]",
        "t = a.copy(); t.sort(); return x * t[0]", "t = a.copy(); t.fill(n); return x * t[0]",
        "t = np.zeros(3, 'f'); np.add(a, n, out=t); return x * t[0]", "t = a + 0; t -= 1; t *= a; return x * t[0]",
        "t = np.zeros(3, 'f'); np.copyto(t, a); return x * t[0]", "t = np.zeros(3, 'f'); t += 1; return x * t[0]",
        "t = np.zeros(3, 'f'); u = t + a; t += 1; return x * u[0] + t[0]",
        "t = 0; t += a; t += a; return x * t[0]", "s = a[0]; s += n; return x * s", "a *= x.numpy()[0] + 1.0",
        "np.copyto(a, (x * n).numpy()[0]); return x * a[0]",
    ],
    "collections.UserList([1.0])": [
        "a += [n]", "a.append(n)", "a.extend([n])", "a *= 2", "a[0] += n", "a.reverse()", "del a[0]; a.append(n)",
        "a.insert(0, n)", "a.pop(); a.append(n)", "b = a + [n]; return x * len(b)", "return x * len(a)",
    ],
    "[1.0]": [
        "a += [n]", "a.append(n)", "a *= 2", "a[0] += n", "a.insert(0, n)", "a.pop(); a.append(n)", "a[:] = [n, n]",
        "b = a; b += [n]; return x * len(a)", "b = a; b *= 2; return x * len(a)", "a += (n,)", "a += {n: 1}",
        "operator.iadd(a, [n])", "operator.setitem(a, 0, n)", "operator.delitem(a, 0); a.append(n)",
        "heapq.heappush(a, n)", "bisect.insort(a, n)", "random.shuffle(a)",
    ],
    "Plain([1.0])": ["a += [n]", "a.append(n); return x * len(a)", "a[0] += n; return x * a[0]"],
    "collections.deque([1.0], 20)": [
        "a += [n]", "a.append(n)", "a *= 2", "a[0] += n", "a.rotate(1)", "a.extendleft([n])", "b = a; b += [n]",
        "return x * len(a)", "a.append(n); return x * sum(a)",
    ],
    "array.array('d', [1.0])": ["a += array.array('d', [n])", "a.append(n)", "a *= 2", "a[0] += n", "a.reverse()"],
    "bytearray(b'ab')": ["a += b'c'", "a.append(100)", "a[0] = 65", "a *= 2"],
    "collections.UserDict(k=1.0)": [
        "a['n'] = n", "a['k'] = a['k'] + n", "a.update(z=n)", "a |= {'q': n}", "a.pop('k', None)",
    ],
    "{'k': 1.0}": [
        "a[str(len(a))] = n", "a['k'] += n", "a.update(z=n)", "a |= {str(len(a)): n}", "a.setdefault(str(len(a)), n)",
        "operator.setitem(a, 'k', n)", "b = a; b |= {'z': n}; return x * len(a)",
    ],
    "collections.Counter('ab')": ["a['n'] = n", "a.update('ab')", "a |= {'q': n}", "a += collections.Counter('c')"],
    "collections.ChainMap({'k': 1.0})": ["a['n'] = n", "a |= {'q': n}", "a.pop('k', None)"],
    "collections.OrderedDict(a=1.0, b=2.0)": [
        "a.move_to_end('a'); a['c'] = n", "a['a'] += n", "a.popitem(); a['q'] = n",
    ],
    "{1.0}": ["a.add(n)", "a |= {n}", "a.update([n])", "a -= {n - 1.0}", "b = a; b |= {n}; return x * len(a)"],
    "io.StringIO()": ["a.write('x')", "print(n, file=a)"],
    "random.Random(3)": ["return x * a.random()", "a.shuffle([1, 2, 3])"],
    "iter(range(1000))": ["return x * float(next(a))", "for v in a: break"],
    "(v for v in range(1000))": ["return x * float(next(a))"],
    "memoryview(bytearray(b'abc'))": ["a[0] = a[0] + 1"],
    "decimal.Context()": ["a.prec += 1"],
    "GetItem([1.0, 2.0])": [
        "return x * a[0]", "return x * a[-1]", "return x * sum(a)", "p, q = a; return x * q", "return x * max(a)",
        "return x * a[0:1][0]", "a[0] = n; return x * a[0]",
    ],
    "OfDict(k=2.0)": [
        "return x * a['k']", "return x * a.get('k')", "return x * sum(a.values())", "a['k'] = n; return x * a['k']",
    ],
    "Missing()": ["return x * a['u']"],
    "OfTuple((1.0, 2.0))": ["return x * a[0]", "p, q = a; return x * q"],
    "Iterates([1.0, 2.0])": [
        "return x * sum(a)", "p, q = a; return x * q", "return x * [v for v in a][1]", "return x * list(a)[0]",
    ],
    "Length([1.0])": ["return x * len(a)", "return x * (2.0 if a else 3.0)"],
    "Contains([1.0])": ["return x * (2.0 if 1.0 in a else 3.0)"],
    "Appends()": ["a.append(n); return x * len(a)"],
    "Sets()": ["a['k'] = n; return x * a['k']", "a.update(k=n); return x * a['k']"],
    "Adds()": ["a.add(n); return x * len(a)"],
    "Equal([1.0])": ["return x * (2.0 if a == [5.0] else 3.0)"],
    "Grows()": ["a += [1, 2]; return x * len(a)"],
    "Text('a')": ["return x * len(a.upper())"],
    "Factor(2.0)": ["return x * (a * 3.0)", "return x * a", "return a * x"],
    "Sum(2)": ["return x * float(a + 1)"],
    "Property()": ["a.v = n; return x * a.v", "a.v += n; return x * a.v"],
    "SetsAttribute()": ["a.v = n", "a.v = n; return x * a.n"],
    "Slots()": ["a.a += n", "a.b.append(n)", "a.b += [n]; return x * len(a.b)"],
    "Shared": ["a.table.append(n)", "a.count += 1; return x * a.count"],
    "Shared()": ["a.table.append(n)", "a.count += 1; return x * a.count", "type(a).count += 1; return x * a.count"],
    "Described()": ["a.d.append(n); return x * len(a.d)"],
    "Context()": ["with a: y = x * n; return y", "with a as b: b.log.append(1)"],
    "Arrays()": [
        "a.a += n", "a.a[0] = n", "a.b['k'] += n", "a.a = a.a + n; return x * a.a[0]", "b = a.a; a.a = b * 2; b += n",
    ],
}  # fmt: skip
# Programs that surely convert, so that the suite cannot agree by running everything eagerly.
CONVERTED = frozenset(
    {
        ("[1.0]", "a += [n]"), ("[1.0]", "a.append(n)"), ("{'k': 1.0}", "a['k'] += n"), ("{1.0}", "a |= {n}"),
        ("Plain([1.0])", "a.append(n); return x * len(a)"), ("Property()", "a.v = n; return x * a.v"),
        ("Slots()", "a.a += n"), (ARRAY, "t = a * 2; u = t; u += n; return x * t[0]"),
        (ARRAY, "t = a * 2; r = x * t[0]; t += n; return r + t[0]"), (ARRAY, "s = a[0]; s += n; return x * s"),
        (ARRAY, "t = np.zeros(3, 'f'); t += 1; return x * t[0]"), ("Context()", "with a: y = x * n; return y"),
        (ARRAY, "t = a + 0; t -= 1; t *= a; return x * t[0]"), ("Arrays()", "a.a = a.a + n; return x * a.a[0]"),
    }
)  # fmt: skip


def cases() -> Iterator[Any]:
    """Each program speculated on, and in turn in another mode."""
    others = itertools.cycle(MODES[1:])
    for made, programs in PROGRAMS.items():
        for body in programs:
            other = next(others)
            for mode in MODES if sampling.ALL else ("speculate", other):
                yield pytest.param(made, body, mode, id=f"{made}: {body}, {mode}")


def source_of(made: str, body: str) -> str:
    """A module with the object and the step."""
    lines = "".join(f"    {line}\n" for line in body.split("; "))
    return f"{HEAD}\na = {made}\ndef step(a, x, n):\n{lines}    return x * 2.0\n"


def state_of(value: Any) -> Any:
    """All that can be seen of an object without changing it."""
    if isinstance(value, np.ndarray):
        return value.copy(), value.shape
    if isinstance(value, type):
        return {key: state_of(v) for key, v in vars(value).items() if not key.startswith("__") and not callable(v)}
    if hasattr(value, "getvalue"):
        return value.getvalue()
    if isinstance(value, random.Random):
        return hash(value.getstate())
    if isinstance(value, types.GeneratorType) or type(value).__name__.endswith("iterator"):
        return None
    if isinstance(value, memoryview):
        return bytes(value)
    slots = {name: state_of(getattr(value, name)) for name in getattr(type(value), "__slots__", ())}
    inside = {key: state_of(v) for key, v in getattr(value, "__dict__", {}).items()}
    for kind in (list, tuple, set, frozenset, dict):
        if isinstance(value, kind):
            members = list(kind.items(value)) if isinstance(value, dict) else list(kind.__iter__(value))
            return [state_of(m) for m in members], inside
    shown = repr(value) if type(value).__module__ != "program" else type(value).__name__
    return shown, inside, slots


def outcomes(path: Path, source: str, wrap: Callable[[Any], Any]) -> tuple[list[Any], Any]:
    """Results and states of all calls."""
    names: dict[str, Any] = {"__name__": "program"}
    random.seed(0)
    exec(compile(source, path, "exec"), names)
    step, owner, found = wrap(names["step"]), names["a"], []
    for i in range(CALLS):
        try:
            result: Any = comparing.plain(step(owner, tf.constant([1.0, 2.0]) + float(i), 1.0 + i % 4))
        except Exception as error:
            result = type(error).__name__, str(error)
        found.append((result, state_of(owner)))
    return found, step


@pytest.mark.filterwarnings("ignore:.*:RuntimeWarning")
@pytest.mark.parametrize(("made", "body", "mode"), list(cases()))
def test_changes_are_made_once(
    made: str, body: str, mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = source_of(made, body)
    path = tmp_path / "program.py"
    path.write_text(source, encoding="utf-8")
    convert = speculated.convert

    def watched(function: Any, parameters: Any, *rest: Any, **named: Any) -> Any:
        before = [state_of(value) for value in parameters]
        try:
            return convert(function, parameters, *rest, **named)
        finally:
            after = [state_of(value) for value in parameters]
            assert comparing.differences(before, after, exact=True) == [], "a conversion has changed something"

    monkeypatch.setattr(speculated, "convert", watched)
    expected, _ = outcomes(path, source, lambda step: step)
    found, step = outcomes(path, source, lambda step: rg.function(step, mode=mode))
    assert comparing.differences(expected, found) == [], step.explain()
    if mode == "speculate" and (made, body) in CONVERTED:
        assert step.calls["graph"], step.explain()
