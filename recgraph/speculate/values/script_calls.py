"""Python values that differ from call to call: operators and functions on them run in the script, before the graph or
after it, or in the graph where they come out of it.
"""

from __future__ import annotations

import copy
import functools
import itertools
import json
import math
import operator
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import keras
import numpy as np
import tensorflow as tf

from recgraph.speculate.machine.evaluator import Evaluator
from recgraph.speculate.observe import known
from recgraph.speculate.observe.reasons import Feature, Inconvertible, Raised
from recgraph.speculate.passes import ordering
from recgraph.speculate.script import stand_ins
from recgraph.speculate.script.assumptions import ModerateCost, NoException, Presence, SameDecision, SameType
from recgraph.speculate.script.contexts import Catching
from recgraph.speculate.script.stand_ins import CONTAINERS, LateCall, Residual, Showing, is_symbolic, mapped
from recgraph.speculate.values import arrays
from recgraph.speculate.values.arrays import CHANGING


def as_tensor(ev: Evaluator, value: Residual, dtype: tf.DType | None = None) -> tf.Tensor:
    """A tensor of the graph with the value: int64 or float64 for numbers unless another dtype is wanted."""
    if value.tensor is not None:
        return value.tensor if dtype is None else tf.cast(value.tensor, dtype)
    if value.late:
        raise ev.refuse(Feature.LATE_VALUE, "the graph needs a value that is known only after the graph has run")
    example = value.example
    if isinstance(example, np.ndarray | np.generic):
        array = np.asarray(example)
        kind = SameType("dtype and rank of an array", ev.where())
        ev.script.assume(f"{value.name}.dtype == {ev.script.constant(array.dtype)}", kind)
        ev.script.assume(f"{value.name}.shape == {array.shape}", kind)
        return ev.heap.fed(value.name, tf.TensorSpec(array.shape, array.dtype))
    natural = {bool: tf.bool, int: tf.int64, float: tf.float64, str: tf.string, bytes: tf.string}.get(type(example))
    if natural is None:
        raise ev.refuse(Feature.VALUE, f"a {type(example).__name__} varies from call to call")
    if known.may_change_type(type(example)):
        kind = SameType(f"a {type(example).__name__}", ev.where())
        ev.script.assume(f"type({value.name}) is {ev.script.constant(type(example))}", kind)
    tensor = ev.heap.fed(value.name, tf.TensorSpec([], natural))
    return tensor if dtype is None else tf.cast(tensor, dtype)


def _check_size(ev: Evaluator, function: Callable[..., Any], arguments: Sequence[Any], named: dict[str, Any]) -> None:
    """That what the program may not come to, in this call, does not take all memory."""
    if is_large(function, *arguments, **named) and ordering.is_guarded(ev):
        raise ev.refuse(
            Feature.SIZE, "a large result is computed where a tensor decides whether the program gets there"
        )


def in_script(ev: Evaluator, function: Callable[..., Any], arguments: Sequence[Any], named: dict[str, Any]) -> Residual:
    """A call that the script makes: before the graph where all arguments are known then, else after it."""
    residuals = [a for a in stand_ins.leaves([*arguments, *named.values()]) if isinstance(a, Residual)]
    symbolic = any(is_symbolic(a) or isinstance(a, Showing) for a in stand_ins.leaves([*arguments, *named.values()]))
    for array in {id(a): a for a in residuals if arrays.is_array(a) and a.tensor.shape.rank != 0}.values():
        if not makes_text(function, arguments):
            arrays.keep(ev, array)
    name = ev.script.name()
    call = ev.script.constant(function)
    everything = [*stand_ins.leaves([*arguments, *named.values()])]
    has_early = any(arrays.is_early(a) or isinstance(a, np.ndarray) for a in everything)
    if has_early and arrays.may_change(function, arguments, named):
        raise ev.refuse(Feature.ARRAY, "the call may modify an array that existed before the graph ran")
    if symbolic or any(a.late for a in residuals):
        ev.need_sequence("a value that is known only after the graph")
        found, is_pure = results(function, arguments, named), changes_nothing(function, arguments, named)
        is_pure = is_pure and not _were_changed(ev, residuals)
        given, keywords = settled(list(arguments)), settled(dict(named))
        ev.effects.append(LateCall(name, call, given, keywords, is_pure, found is None))
        texts = TEXTS if gives_text(function, arguments) else ()
        return Residual(name, late=True, samples=found or texts)
    code = ", ".join([*(ev.code(a) for a in arguments), *(f"{k}={ev.code(v)}" for k, v in named.items())])
    examples = [*map(stand_ins.example_of, arguments)]
    examples_named = {k: stand_ins.example_of(v) for k, v in named.items()}
    _check_size(ev, function, examples, examples_named)
    if may_grow(function, *examples, **examples_named) and ordering.is_guarded(ev):
        ev.script.scope["is_large"] = is_large
        ev.script.assume(f"not is_large({call}, {code})", ev.noted(ModerateCost, "a result of moderate size"))
    try:
        example = arrays.note_views(function(*examples, **examples_named), everything)
    except Exception as error:
        if "read-only" in str(error):
            raise ev.refuse(Feature.ARRAY, "the call may modify an array that it did not make") from error
        raise _raised_in_script(ev, f"{call}({code})", error) from error
    kind = Presence if ev.inside(Catching) else NoException
    failing = ev.script.number(kind(f"{getattr(function, '__name__', function)}", ev.where()))
    ev.script.before += [f"try: {name} = {call}({code})", f"except Exception: return broken({failing})"]
    return Residual(name, example)


def _were_changed(ev: Evaluator, values: Sequence[Residual]) -> bool:
    """Whether the call has done something to arrays after the graph, before which nothing may look at them."""
    arrays_of_numpy = {id(value) for value in values if value.is_array and value.tensor is None}
    changed = (leaf for effect in ev.effects if not effect.is_pure for leaf in stand_ins.leaves(effect.arguments))
    return bool(arrays_of_numpy) and any(id(leaf) in arrays_of_numpy for leaf in changed)


def _raised_in_script(ev: Evaluator, code: str, error: Exception) -> Inconvertible | Raised:
    """What a call raises that the script makes: the same kind of exception in each run."""
    if not ev.inside(Catching):
        return ev.refuse(Feature.RAISES, f"{type(error).__name__}: {error}")
    name, kind = ev.script.name(), ev.script.constant(type(error))
    number = ev.script.number(ev.noted(SameDecision, f"{type(error).__name__} is raised"))
    ev.script.before += [
        f"try: {name} = {code}",
        f"except Exception as error: {name} = error.with_traceback(None)",
        f"if type({name}) is not {kind}: return broken({number})",
    ]
    return ev.raised(Residual(name, error.with_traceback(None)))


def type_of(ev: Evaluator, value: Residual) -> type:
    """The type of a value that differs from call to call."""
    if value.is_array:
        return arrays.type_of(value)
    if value.tensor is not None:
        return {tf.bool: bool, tf.int64: int, tf.float64: float}[value.tensor.dtype]
    if value.late:
        raise ev.refuse(
            Feature.LATE_VALUE, "the program asks for the type of a value that is known only after the graph has run"
        )
    kind = type(value.example)
    same = SameType(f"a {kind.__name__}", ev.where())
    ev.script.assume(f"type({value.name}) is {ev.script.constant(kind)}", same)
    return kind


_FLOATS: Final = (1.5, -2.0, 0.0, -0.0, 1e-300, 1e300, float("inf"), float("-inf"), float("nan"))
_INTEGERS: Final = (1, -2, 0, 7, 300)  # no large ones: a power of them would not end
_IMMUTABLE: Final = (int, float, complex, str, bytes, tuple, frozenset, range, type(None), np.generic)


def changes_nothing(function: Any, arguments: Sequence[Any], named: dict[str, Any]) -> bool:
    """Whether a call changes nothing, so that it does not matter when it is made."""
    if function is operator.setitem or arrays.is_changed_by(function, arguments):
        return False
    if isinstance(function, operator.methodcaller) or function is stand_ins.call_method:
        owner = arguments[0]
        if not isinstance(owner, Residual) or owner.tensor is not None:
            return True
        name = arguments[1] if function is stand_ins.call_method else function.__reduce__()[1][0]
        if owner.is_array:
            return name not in CHANGING
        return bool(owner.samples) and isinstance(owner.samples[0], _IMMUTABLE)
    return "out" not in named and getattr(function, "__name__", "") not in CHANGING


def results(function: Callable[..., Any], arguments: Sequence[Any], named: dict[str, Any]) -> tuple[Any, ...] | None:
    """What the function gives for awkward values; `None` if it raises for one, or that cannot be tried.

    An empty tuple says that it does not raise, though what it gives is not known.
    """
    if any(is_symbolic(a) or isinstance(a, Showing) for a in stand_ins.leaves([*arguments, *named.values()])):
        if function in TO_TEXT:  # an array refuses most specifications
            return TEXTS if len(arguments) < 2 or arguments[1] == "" else None
        return () if isinstance(function, operator.methodcaller) else None
    found = []
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            for values, keywords in _tries([list(arguments), dict(named)]):
                found.append(function(*copy.deepcopy(values), **copy.deepcopy(keywords)))
    except Exception:
        return None
    return tuple(found)


def _tries(given: list[Any]) -> Iterator[Any]:
    """The arguments with each late value as each of its samples, one after the other and all together."""
    late = list({id(a): a for a in stand_ins.leaves(given) if isinstance(a, Residual)}.values())
    samples = {id(one): _samples(one) for one in late}
    first = {key: values[0] for key, values in samples.items()}
    for key, values in samples.items():
        yield from (_filled(given, {**first, key: value}) for value in values)
    for row in itertools.islice(zip(*map(itertools.cycle, samples.values()), strict=False), len(_FLOATS)):
        yield _filled(given, dict(zip(samples, row, strict=True)))


def _samples(value: Residual) -> tuple[Any, ...]:
    """Awkward values of the type that a late value has.

    Raises:
        ValueError: the type is not known, or it is known before the graph and may be anything.
    """
    if value.tensor is None and value.samples:
        return value.samples
    if value.tensor is None or value.tensor.shape.rank != 0:
        raise ValueError
    dtype = value.tensor.dtype
    if dtype == tf.bool:
        plain: tuple[Any, ...] = (True, False)
    elif dtype.is_integer:
        plain = tuple(n for n in _INTEGERS if dtype.min <= n <= dtype.max)
    elif dtype.is_floating:
        plain = _FLOATS
    else:
        raise ValueError
    return tuple(map(dtype.as_numpy_dtype, plain)) if value.is_array else plain


def _filled(value: Any, values: dict[int, Any]) -> Any:
    """A nest with values in place of those that are late."""
    if isinstance(value, Residual):
        return values[id(value)]
    inner = functools.partial(_filled, values=values)
    if isinstance(value, slice):
        return slice(*map(inner, (value.start, value.stop, value.step)))
    if isinstance(value, dict):
        return {key: inner(v) for key, v in value.items()}
    if type(value) in (list, tuple, set, frozenset):
        return type(value)(map(inner, value))
    return value


# Members, digits or bytes that are computed without being sure that the program does so.
MODERATE: Final = 1 << 20
_FACTORIAL: Final = 1 << 12
_SEQUENCES: Final = (str, bytes, bytearray, list, tuple)
_PADDING: Final = frozenset({"center", "ljust", "rjust", "zfill", "expandtabs", "to_bytes"})
# Of a range they take no longer than of a short one.
_OF_ENDS: Final = frozenset(
    {len, bool, range, slice, isinstance, type, hash, repr, str, iter, reversed, enumerate, zip, operator.getitem}
    | {operator.eq, operator.ne, operator.truth, operator.not_, operator.is_, operator.is_not, operator.contains}
)


def is_large(function: Callable[..., Any], *arguments: Any, **named: Any) -> bool:
    """Whether a function of Python's or NumPy's may give more than a moderate result, or take long for it.

    Args:
        function: what is called.
        arguments, named: what it is given.
    """
    rule = _RULES.get(function) if _is_hashable(function) else None
    if rule is not None and len(arguments) >= 2 and not named:
        return rule(*arguments[:2])
    values = [*arguments, *named.values()]
    if any(type(value) is range and len(value) > MODERATE for value in values):
        return not (_is_hashable(function) and function in _OF_ENDS)
    if function in (bytes, bytearray) and arguments:
        return type(arguments[0]) is int and arguments[0] > MODERATE
    if function in (math.factorial, math.comb, math.perm):
        return any(type(value) is int and value > _FACTORIAL for value in values)
    if known.is_numpy(function):
        return _product(values) > MODERATE
    return _is_padded(arguments)


def may_grow(function: Callable[..., Any], *arguments: Any, **named: Any) -> bool:
    """Whether other arguments of these types may make a larger result, as far as `is_large` knows."""
    rule = _RULES.get(function) if _is_hashable(function) else None
    if rule is _repeated:
        return any(isinstance(value, _SEQUENCES) for value in arguments)
    if rule in (_power, _shifted):
        return all(type(value) is int for value in arguments)
    if rule is not None:
        return any(isinstance(value, str | bytes) for value in arguments)
    if any(type(value) is range for value in (*arguments, *named.values())):
        return not (_is_hashable(function) and function in _OF_ENDS)
    if function in (bytes, bytearray, math.factorial, math.comb, math.perm) or known.is_numpy(function):
        return True
    return any(isinstance(value, str) and value in _PADDING for value in arguments[1:2])


def _is_hashable(thing: Any) -> bool:
    try:
        hash(thing)
    except TypeError:
        return False
    return True


def _repeated(one: Any, other: Any) -> bool:
    for members, count in ((one, other), (other, one)):
        if isinstance(members, _SEQUENCES) and isinstance(count, int | np.integer):
            return len(members) * max(int(count), 0) > MODERATE
    return isinstance(one, int) and isinstance(other, int) and one.bit_length() + other.bit_length() > 8 * MODERATE


def _power(base: Any, exponent: Any) -> bool:
    if type(base) is not int or type(exponent) is not int or exponent < 0:
        return False
    return base.bit_length() * exponent > MODERATE


def _shifted(value: Any, by: Any) -> bool:
    return type(value) is int and type(by) is int and by > MODERATE


def _formatted(value: Any, spec: Any) -> bool:
    return isinstance(spec, str) and any(int(width) > MODERATE for width in re.findall(r"\d+", spec))


def _percent(text: Any, values: Any) -> bool:
    """`%` with a width that is given."""
    if not isinstance(text, str | bytes):
        return False
    return _product(values if isinstance(values, tuple) else (values,)) > MODERATE if "*" in str(text) else False


_RULES: Final[dict[Any, Callable[[Any, Any], bool]]] = {
    operator.mul: _repeated,
    operator.imul: _repeated,
    operator.pow: _power,
    operator.ipow: _power,
    pow: _power,
    operator.lshift: _shifted,
    operator.ilshift: _shifted,
    operator.mod: _percent,
    format: _formatted,
}


def _product(values: Any) -> int:
    """What sizes that are given multiply to."""
    total = 1
    for value in values:
        if isinstance(value, tuple | list):
            total *= max(_product(value), 1) if len(value) < MODERATE else MODERATE + 1
        elif isinstance(value, int | np.integer) and not isinstance(value, bool):
            total *= max(abs(int(value)), 1)
    return total


def _is_padded(arguments: tuple[Any, ...]) -> bool:
    """A method by its name, as the script calls it: with a width."""
    names = [value for value in arguments[1:2] if isinstance(value, str)]
    return bool(names) and names[0] in _PADDING and any(type(v) is int and v > MODERATE for v in arguments[2:])


TO_TEXT: Final = (str, repr, format, ascii, print)
# What text may be that is known only after the graph.
TEXTS: Final = ("", "a", "tf.Tensor([1.5 2. ], shape=(2,), dtype=float32)")
VARIABLES: Final = (tf.Variable, keras.Variable)


def makes_text(function: Any, arguments: Sequence[Any]) -> bool:
    """Whether a function of Python's makes text of what it is given."""
    if function in TO_TEXT or function is json.dumps or isinstance(getattr(function, "__self__", None), str | bytes):
        return True
    takes_text = function in (operator.mod, operator.imod) or function is stand_ins.call_method
    return takes_text and bool(arguments) and is_text(arguments[0])


def is_text(value: Any) -> bool:
    """Whether a value is a string, or may be one that is known only after the graph."""
    if isinstance(value, Residual):
        return value.tensor is None and (value.late or isinstance(value.example, str | bytes))
    return isinstance(value, str | bytes)


def escaped(text: str) -> str:
    """What `ascii` makes of what `repr` gives."""
    return text.encode("ascii", "backslashreplace").decode("ascii")


def gives_text(function: Any, arguments: Sequence[Any]) -> bool:
    """Whether what a function gives is a string."""
    if function in (operator.mod, operator.imod) or function is stand_ins.call_method:
        is_format = function is not stand_ins.call_method or arguments[1] in ("format", "format_map", "join")
        return is_format and isinstance(stand_ins.example_of(arguments[0]), str)
    return function in (*TO_TEXT, json.dumps, escaped)


def settled(value: Any) -> Any:
    """A value whose containers stay as they are now, whatever the program does to them."""
    return mapped(settled, value) if type(value) in CONTAINERS or type(value) is slice else value


def changed(ev: Evaluator, function: Any, array: Residual, operands: Sequence[Any]) -> Residual:
    """`function` changes an array that the script has made: all that have it see another one from now on.

    What was read of it before has the array as it was then. An array of the user's is not changed before the graph,
    which may yet find that an assumption is broken.
    """
    if not array.example.flags.writeable:
        raise ev.refuse(Feature.ARRAY, "the call modifies an array that it did not make, or of which there is a view")
    if any(is_symbolic(o) or (isinstance(o, Residual) and o.late) for o in stand_ins.leaves(operands)):
        raise ev.refuse(
            Feature.LATE_VALUE, "an array is modified by a value that is known only after the graph has run"
        )
    after = in_script(ev, _on_copy, [array, function, *operands], {})
    array.name, array.example = after.name, after.example
    return array


def _on_copy(array: np.ndarray, function: Any, *operands: Any) -> np.ndarray:
    made = array.copy("K")
    if isinstance(function, str):
        getattr(made, function)(*operands)
        return made
    found: np.ndarray = function(made, *operands)
    return found
