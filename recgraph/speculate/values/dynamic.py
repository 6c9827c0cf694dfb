"""Python values that differ from call to call: operators and functions on them run in the script, before the graph or
after it, or in the graph where they come out of it.
"""

from __future__ import annotations

import collections
import copy
import dataclasses
import functools
import itertools
import math
import operator
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np
import tensorflow as tf

from recgraph.defects import described
from recgraph.speculate.machine.evaluator import Evaluator
from recgraph.speculate.machine.protocol import Kind
from recgraph.speculate.observe import known
from recgraph.speculate.observe.known import DATA_TYPES, IN_PLACE
from recgraph.speculate.observe.reasons import Feature, Inconvertible, ProgramException
from recgraph.speculate.observe.syntax import site_of
from recgraph.speculate.passes import ordering
from recgraph.speculate.script import symbolic
from recgraph.speculate.script.assumptions import (
    ModerateCost,
    NoException,
    Presence,
    SameDecision,
    SameLength,
    SameType,
)
from recgraph.speculate.script.contexts import CalledBack, Catching, Fork
from recgraph.speculate.script.script import Raising
from recgraph.speculate.script.symbolic import (
    COLLECTIONS,
    CONTAINERS,
    MUTABLE,
    DynamicValue,
    IterationSpace,
    LateCall,
    ListSegment,
    OwnersMethod,
    VariableSnapshot,
    is_of_graph,
    is_symbolic,
    is_unknown,
    mapped,
)
from recgraph.speculate.values import arithmetic, arrays, iterators, objects, sizes, texts
from recgraph.speculate.values.arrays import CHANGING, METHODS_ON_COPIES
from recgraph.speculate.values.objects import METHODS
from recgraph.speculate.values.texts import TEXTS, TO_TEXT, gives_text, makes_text


def _check_size(ev: Evaluator, function: Callable[..., Any], arguments: Sequence[Any], named: dict[str, Any]) -> None:
    """Checks that what the program may not come to, in this call, does not take all memory."""
    if is_large(function, *arguments, **named) and ordering.is_guarded(ev):
        raise ev.refuse(
            Feature.SIZE, "a large result is computed where a tensor decides whether the program gets there"
        )


def in_script(
    ev: Evaluator, function: Callable[..., Any], arguments: Sequence[Any], named: dict[str, Any] | None = None
) -> DynamicValue:
    """A call that the script makes: before the graph where all arguments are known then, else after it."""
    named = named or {}
    varying = [a for a in symbolic.leaves([*arguments, *named.values()]) if isinstance(a, DynamicValue)]
    is_late = any(
        is_symbolic(a) or isinstance(a, VariableSnapshot) for a in symbolic.leaves([*arguments, *named.values()])
    )
    is_late = is_late or any(a.late for a in varying)
    if is_late and changes_nothing(function, arguments, named):
        early = sizes.before(ev, arguments, named)
        if early is not None:
            return in_script(ev, function, *early)
    for array in {id(a): a for a in varying if arrays.is_array(a) and a.tensor.shape.rank != 0}.values():
        if not makes_text(function, arguments):
            arrays.keep(ev, array)
    name = ev.script.name()
    call = ev.script.constant(function)
    everything = [*symbolic.leaves([*arguments, *named.values()])]
    has_early = any(arrays.is_early(a) or isinstance(a, np.ndarray) for a in everything)
    if has_early and arrays.may_change(function, arguments, named):
        raise ev.refuse(Feature.ARRAY, "the call may modify an array that existed before the graph ran")
    if is_late:
        ev.need_sequence("a value that is known only after the graph")
        found, is_pure = results(function, arguments, named), changes_nothing(function, arguments, named)
        is_pure = is_pure and not _were_changed(ev, varying)
        given, keywords = settled(list(arguments)), settled(dict(named))
        ev.effects.append(LateCall(name, call, given, keywords, is_pure, found is None))
        text = TEXTS if gives_text(function, arguments) else ()
        return DynamicValue(name, late=True, samples=found or text)
    code = ", ".join([*(ev.code(a) for a in arguments), *(f"{k}={ev.code(v)}" for k, v in named.items())])
    examples = [*map(symbolic.example_of, arguments)]
    examples_named = {k: symbolic.example_of(v) for k, v in named.items()}
    _check_size(ev, function, examples, examples_named)
    if may_grow(function, *examples, **examples_named) and ordering.is_guarded(ev):
        ev.script.scope["is_large"] = is_large
        ev.script.assume(f"not is_large({call}, {code})", ev.noted(ModerateCost, "a result of moderate size"))
    before = _Lists(varying)
    try:
        example = arrays.note_views(function(*examples, **examples_named), everything)
    except Exception as error:
        if isinstance(error, ValueError) and _writes(function, examples, examples_named):
            raise ev.refuse(Feature.ARRAY, "the call may modify an array that it did not make") from error
        raise _raised_in_script(ev, f"{call}({code})", error) from error
    if (_are_lists_used(ev) or ev.inside(Fork, CalledBack)) and before.are_changed():
        raise ev.refuse(Feature.CONTAINER, "a list that differs from call to call is changed after it was used")
    kind = Presence if ev.inside(Catching) else NoException
    ev.script.compute(name, f"{call}({code})", kind(f"{getattr(function, '__name__', function)}", ev.where()))
    sizes_used = frozenset[int]().union(*(a.sizes for a in varying))
    return DynamicValue(name, example, site=site_of(ev.frame.syntax, ev.here), sizes=sizes_used)


def _writes(function: Callable[..., Any], examples: list[Any], named: dict[str, Any]) -> bool:
    """Whether a call that has raised writes to an array that may not be written: given copies, it raises nothing."""
    given = list(symbolic.leaves([*examples, *named.values()]))
    if not any(isinstance(one, np.ndarray) and not one.flags.writeable for one in given):
        return False
    try:
        function(*copy.deepcopy(examples), **copy.deepcopy(named))
    except Exception:
        return False
    return True


class _Lists:
    """Lists, dicts and sets that the script has before the graph, as they are at one moment.

    The script changes them whatever a tensor decides, and before anything is done with them after the graph.
    """

    def __init__(self, varying: Sequence[DynamicValue]) -> None:
        held = [a.example for a in varying if isinstance(a.example, MUTABLE)]
        self._copies = [(container, copy.copy(container)) for container in held]

    def are_changed(self) -> bool:
        """Whether one is another now; then they are made as they were."""
        changed = [pair for pair in self._copies if not _is_as(*pair)]
        for container, before in changed:
            container.clear()
            container.extend(before) if isinstance(container, list | collections.deque) else container.update(before)
        return bool(changed)


def _are_lists_used(ev: Evaluator) -> bool:
    """Whether something is done after the graph with a list, dict or set that the script has."""
    given = (symbolic.leaves([*effect.arguments, *effect.named.values()]) for effect in ev.effects)
    return any(
        isinstance(leaf, VariableSnapshot) or (isinstance(leaf, DynamicValue) and isinstance(leaf.example, MUTABLE))
        for leaf in itertools.chain.from_iterable(given)
    )


def _is_as(container: Any, before: Any) -> bool:
    """Whether a container has the members that a copy of it has."""
    if isinstance(container, set) or len(container) != len(before):
        return bool(container == before)
    if isinstance(container, dict):
        return all(map(operator.is_, container, before)) and _is_as([*container.values()], [*before.values()])
    return all(map(operator.is_, container, before))


def _were_changed(ev: Evaluator, values: Sequence[DynamicValue]) -> bool:
    """Whether the call has done something to arrays after the graph, before which nothing may look at them."""
    arrays_of_numpy = {id(value) for value in values if value.is_array and value.tensor is None}
    changed = (leaf for effect in ev.effects if not effect.is_pure for leaf in symbolic.leaves(effect.arguments))
    return bool(arrays_of_numpy) and any(id(leaf) in arrays_of_numpy for leaf in changed)


def _raised_in_script(ev: Evaluator, code: str, error: Exception) -> Inconvertible | ProgramException:
    """What a call raises that the script makes: the same kind of exception in each run."""
    if not ev.inside(Catching):
        return ev.refuse(Feature.RAISES, described(error))
    name, kind = ev.script.name(), ev.script.constant(type(error))
    number = ev.script.number(ev.noted(SameDecision, f"{type(error).__name__} is raised"))
    ev.script.before.append(Raising(name, code, kind=kind, number=number))
    return ev.raised(DynamicValue(name, error.with_traceback(None)))


_AWKWARD_FLOATS: Final = (1.5, -2.0, 0.0, -0.0, 1e-300, 1e300, float("inf"), float("-inf"), float("nan"))
_AWKWARD_INTEGERS: Final = (1, -2, 0, 7, 300)  # no large ones: a power of them would not end
_IMMUTABLE: Final = (int, float, complex, str, bytes, tuple, frozenset, range, type(None), np.generic)


def changes_nothing(function: Any, arguments: Sequence[Any], named: dict[str, Any]) -> bool:
    """Whether a call changes nothing, so that it does not matter when it is made."""
    if function is operator.setitem or arrays.is_changed_by(function, arguments):
        return False
    if isinstance(function, operator.methodcaller) or function is symbolic.call_method:
        owner = arguments[0]
        if not isinstance(owner, DynamicValue):
            return True
        name = arguments[1] if function is symbolic.call_method else function.__reduce__()[1][0]
        if owner.is_array:
            return name not in CHANGING
        if owner.tensor is not None:
            return True
        return bool(owner.samples) and isinstance(owner.samples[0], _IMMUTABLE)
    return "out" not in named and getattr(function, "__name__", "") not in CHANGING


def results(function: Callable[..., Any], arguments: Sequence[Any], named: dict[str, Any]) -> tuple[Any, ...] | None:
    """What the function gives for awkward values; `None` if it raises for one, or that cannot be tried.

    An empty tuple says that it does not raise, though what it gives is not known.
    """
    if any(is_symbolic(a) or isinstance(a, VariableSnapshot) for a in symbolic.leaves([*arguments, *named.values()])):
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
    late = list({id(a): a for a in symbolic.leaves(given) if isinstance(a, DynamicValue)}.values())
    samples = {id(one): _samples(one) for one in late}
    first = {key: values[0] for key, values in samples.items()}
    for key, values in samples.items():
        yield from (_filled(given, {**first, key: value}) for value in values)
    for row in itertools.islice(zip(*map(itertools.cycle, samples.values()), strict=False), len(_AWKWARD_FLOATS)):
        yield _filled(given, dict(zip(samples, row, strict=True)))


def _samples(value: DynamicValue) -> tuple[Any, ...]:
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
        plain = tuple(n for n in _AWKWARD_INTEGERS if dtype.min <= n <= dtype.max)
    elif dtype.is_floating:
        plain = _AWKWARD_FLOATS
    else:
        raise ValueError
    return tuple(map(dtype.as_numpy_dtype, plain)) if value.is_array else plain


def _filled(value: Any, values: dict[int, Any]) -> Any:
    """A nest with values in place of those that are late."""
    if isinstance(value, DynamicValue):
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
    rule = _SIZES.get(function) if known.is_hashable(function) else None
    if rule is not None and len(arguments) >= 2 and not named:
        return rule(*arguments[:2])
    values = [*arguments, *named.values()]
    if any(type(value) is range and len(value) > MODERATE for value in values):
        return not (known.is_hashable(function) and function in _OF_ENDS)
    if function in (bytes, bytearray) and arguments:
        return type(arguments[0]) is int and arguments[0] > MODERATE
    if function in (math.factorial, math.comb, math.perm):
        return any(type(value) is int and value > _FACTORIAL for value in values)
    if known.is_numpy(function):
        return product(values) > MODERATE
    return _is_padded(arguments)


def may_grow(function: Callable[..., Any], *arguments: Any, **named: Any) -> bool:
    """Whether other arguments of these types may make a larger result, as far as `is_large` knows."""
    rule = _SIZES.get(function) if known.is_hashable(function) else None
    if rule is _repeated:
        return any(isinstance(value, _SEQUENCES) for value in arguments)
    if rule in (_power, _shifted):
        return all(type(value) is int for value in arguments)
    if rule is not None:
        return any(isinstance(value, str | bytes) for value in arguments)
    if any(type(value) is range for value in (*arguments, *named.values())):
        return not (known.is_hashable(function) and function in _OF_ENDS)
    if function in (bytes, bytearray, math.factorial, math.comb, math.perm) or known.is_numpy(function):
        return True
    return any(isinstance(value, str) and value in _PADDING for value in arguments[1:2])


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
    return product(values if isinstance(values, tuple) else (values,)) > MODERATE if "*" in str(text) else False


_SIZES: Final[dict[Any, Callable[[Any, Any], bool]]] = {
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


def product(values: Any) -> int:
    """What sizes that are given multiply to."""
    total = 1
    for value in values:
        if isinstance(value, tuple | list):
            total *= max(product(value), 1) if len(value) < MODERATE else MODERATE + 1
        elif isinstance(value, int | np.integer) and not isinstance(value, bool):
            total *= max(abs(int(value)), 1)
    return total


def _is_padded(arguments: tuple[Any, ...]) -> bool:
    """A method by its name, as the script calls it: with a width."""
    names = [value for value in arguments[1:2] if isinstance(value, str)]
    return bool(names) and names[0] in _PADDING and any(type(v) is int and v > MODERATE for v in arguments[2:])


def settled(value: Any) -> Any:
    """A value whose containers stay as they are now, whatever the program does to them."""
    return mapped(settled, value) if type(value) in CONTAINERS or type(value) is slice else value


def changed(ev: Evaluator, function: Any, array: DynamicValue, operands: Sequence[Any]) -> DynamicValue:
    """`function` changes an array that the script has made: all that have it see another one from now on.

    What was read of it before has the array as it was then. An array of the user's is not changed before the graph,
    which may yet find that an assumption is broken.
    """
    ev.need_sequence("a change of an array")
    if not array.example.flags.writeable:
        raise ev.refuse(Feature.ARRAY, "the call modifies an array that it did not make, or of which there is a view")
    if any(is_symbolic(o) or (isinstance(o, DynamicValue) and o.late) for o in symbolic.leaves(operands)):
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


def operate(ev: Evaluator, function: Callable[..., Any], operands: Sequence[Any]) -> Any:
    """A Python operator of which neither an object of the user's nor a tensor decides."""
    if len(operands) == 2 and (found := _of_containers(ev, function, operands)) is not NotImplemented:
        return found
    return ev.python(function, [ev.lift(o) for o in operands])


def takes_as_number(ev: Evaluator, value: Any) -> bool:
    """Whether a tensor on the left takes what is on the right as it would a number, before that is asked itself."""
    if hasattr(type(value), "__array__"):
        raise ev.refuse(
            Feature.OPERATOR, f"an operator converts a {type(value).__name__} to a tensor by its __array__ method"
        )
    return isinstance(value, int | float | complex | str | bytes | list | tuple)


_JOINING = (operator.add, operator.iadd, operator.mul, operator.imul, operator.or_, operator.ior)
_NUMBERS = (bool, int, float, complex)


def _of_containers(ev: Evaluator, function: Callable[..., Any], operands: Sequence[Any]) -> Any:
    """What only moves the members of containers, or does not look at them; else `NotImplemented`."""
    kinds = [type(o.example if isinstance(o, DynamicValue) and not o.late else o) for o in operands]
    if function in (operator.eq, operator.ne) and kinds[0] is not kinds[1]:
        families = ["number" if kind in _NUMBERS else kind for kind in kinds]
        if all(kind in DATA_TYPES and kind not in (set, frozenset) for kind in kinds) and len(set(families)) == 2:
            return function is operator.ne
    if function in (operator.eq, operator.ne) and any(map(objects.is_object, symbolic.leaves(operands))):
        return _compared(ev, function, operands)
    if function not in _JOINING or not any(isinstance(o, list | tuple | dict) for o in operands):
        return NotImplemented
    whole = [ev.opened(o) for o in operands]
    if not all(isinstance(o, COLLECTIONS) or type(o) in DATA_TYPES for o in whole):
        return NotImplemented
    _check_size(ev, function, whole, {})
    try:
        return function(*whole)
    except TypeError as error:
        raise ev.raised(error) from error


def _compared(ev: Evaluator, function: Callable[..., Any], operands: Sequence[Any]) -> Any:
    """Whether two lists or tuples are equal that hold objects of the user's, which decide about themselves."""
    one, other = (ev.opened(operand) for operand in operands)
    if not isinstance(one, list | tuple) or not isinstance(other, list | tuple):
        return NotImplemented
    pairs = zip(one, other, strict=False)
    equal = len(one) == len(other) and all(objects.is_or_equals(ev, a, b) for a, b in pairs)
    return equal is (function is operator.eq)


def python(
    ev: Evaluator,
    function: Callable[..., Any],
    arguments: Sequence[Any],
    named: dict[str, Any] | None = None,
) -> Any:
    """A pure function of Python's: now, where its arguments are known; else in the script."""
    named = named or {}
    if arguments and function in METHODS and objects.is_object(arguments[0]):
        return objects.builtin(ev, function, arguments)
    if arguments and texts.by_class(function, arguments[0]):
        if function is ascii:
            return ev.python(texts.escaped, [ev.python(repr, arguments)])
        return objects.builtin(ev, function, arguments)
    as_given = texts.shown if texts.makes_text(function, arguments) else Evaluator.lift
    arguments = [as_given(ev, a) for a in arguments]
    named = {name: as_given(ev, a) for name, a in named.items()}
    flat = list(symbolic.leaves([*arguments, *named.values()]))
    objects.check(ev, function, flat)
    if not any(is_unknown(a) for a in flat):
        if arrays.may_change(function, arguments, named):
            _check_made(ev, flat)
        _check_size(ev, function, arguments, named)
        if (place := ("changed", ev.place_of("array"))) in ev.paths:
            return ev.in_script(function, arguments, named)
        try:
            found = function(*arguments, **named)
        except Exception as error:
            raise ev.raised(error) from error
        return arrays.made(ev, found, flat, place)
    of_graph = any(is_symbolic(a) or is_of_graph(a) for a in flat)
    if of_graph and not named and not any(isinstance(a, ListSegment) for a in flat):
        made = arrays.look(function, arguments) or arrays.apply(ev, function, arguments)
        made = made or arithmetic.apply(ev, function, arguments)
        if made is not None:
            return made
    if arguments and arrays.is_early(arguments[0]) and function in IN_PLACE:
        return changed(ev, function, arguments[0], arguments[1:])
    if arrays.is_changed_by(function, arguments):
        ev.in_script(function, arguments, named)
        return arguments[0]
    return ev.in_script(function, arguments, named)


def _check_made(ev: Evaluator, values: Sequence[Any]) -> None:
    """Checks that arrays which a call may change were made by the call that is converted."""
    for value in values:
        if isinstance(value, np.ndarray) and not ev.heap.is_made(value):
            raise ev.refuse(Feature.ARRAY, "the call may modify an array that it did not make")


class Method(OwnersMethod):
    """A method of a dynamic value, of a plain value with dynamic ones in it, or of a tensor."""

    def call(self, ev: Evaluator, arguments: list[Any], named: dict[str, Any]) -> Any:
        """Calls it in the script."""
        example, late = self.owner, is_symbolic(self.owner)
        if isinstance(example, DynamicValue):
            example, late = example.example, example.late
        if arrays.is_early(self.owner) and self.name in METHODS_ON_COPIES and not named:
            changed(ev, self.name, self.owner, arguments)
            return None
        if not late and not isinstance(example, (*DATA_TYPES, np.ndarray, np.generic)):
            raise ev.refuse(Feature.METHOD, f"{type(example).__name__}.{self.name} runs eagerly")
        if arguments or named:
            return ev.in_script(symbolic.call_method, [self.owner, self.name, *arguments], named)
        return ev.in_script(operator.methodcaller(self.name), [self.owner])


_NATURAL = {bool: tf.bool, int: tf.int64, float: tf.float64, str: tf.string, bytes: tf.string}


class DynamicValueKind(Kind):
    """A Python value that differs from call to call: operations on it run in the script, or in the graph."""

    name = "a value that differs from call to call"
    of = DynamicValue

    def truth(self) -> Any:
        """In the graph where it comes out of it."""
        if self.it.is_array and self.it.tensor is not None:
            return self.ev.truth(self.it.tensor)
        if self.it.tensor is not None:
            return tf.cast(self.it.tensor, tf.bool)
        if self.it.late:
            raise self.ev.refuse(
                Feature.LATE_DECISION, "the program branches on a value that is known only after the graph has run"
            )
        return self.it

    def type(self) -> type:
        """Assumed, unless the graph knows it."""
        ev, value = self.ev, self.it
        if value.is_array:
            return arrays.type_of(value)
        if value.tensor is not None:
            return {tf.bool: bool, tf.int64: int, tf.float64: float}[value.tensor.dtype]
        if value.late:
            raise ev.refuse(
                Feature.LATE_VALUE,
                "the program asks for the type of a value that is known only after the graph has run",
            )
        kind = type(value.example)
        same = ev.noted(SameType, f"a {kind.__name__}")
        ev.script.assume(f"type({value.name}) is {ev.script.constant(kind)}", same)
        return kind

    def tensor(self, dtype: tf.DType | None = None) -> tf.Tensor:
        """Returns what it comes out of, or an input."""
        ev, value, example = self.ev, self.it, self.it.example
        if value.tensor is not None:
            return value.tensor if dtype is None else tf.cast(value.tensor, dtype)
        if value.late:
            raise ev.refuse(Feature.LATE_VALUE, "the graph needs a value that is known only after the graph has run")
        if isinstance(example, np.ndarray | np.generic):
            array, site = np.asarray(example), site_of(ev.frame.syntax, ev.here, "array")
            becomes = dtype if dtype is not None and arrays.converts(array.dtype, dtype) else array.dtype
            return ev.heap.array(value, array, becomes, site, ev.where())
        kind = type(example)
        if kind not in _NATURAL:
            raise ev.refuse(Feature.VALUE, f"a {kind.__name__} varies from call to call")
        if known.may_change_type(kind):
            same = ev.noted(SameType, f"a {kind.__name__}")
            ev.script.assume(f"type({value.name}) is {ev.script.constant(kind)}", same)
        tensor = ev.heap.fed(value.name, tf.TensorSpec([], _NATURAL[kind]))
        return tensor if dtype is None else tf.cast(tensor, dtype)

    def code(self) -> str:
        """Its name."""
        return str(self.it.name)

    def call(self, arguments: list[Any], named: dict[str, Any]) -> Any:
        """Which function it is, is assumed."""
        return self.ev.call(self.ev.concrete(self.it), arguments, named)

    def get(self, name: str) -> Any:
        """An attribute, or a method to be called."""
        ev, owner = self.ev, self.it
        if owner.is_array and (found := array_attribute(ev, owner, name)) is not None:
            return found
        if owner.late:
            return Method(owner, name)
        value = getattr(owner.example, name, None)
        if isinstance(owner.example, np.ndarray) and name in ("shape", "ndim", "dtype", "size"):
            shape = ev.tensor(owner).shape  # assumes the dtype, and the dimensions that have not varied
            if shape.is_fully_defined() or name in ("ndim", "dtype"):
                return value
            if name == "shape":
                sizes = ev.in_script(getattr, [owner, name])
                return tuple(
                    ev.in_script(symbolic.get_item, [sizes, i]) if n is None else n for i, n in enumerate(shape)
                )
        return Method(owner, name) if callable(value) else ev.in_script(getattr, [owner, name])

    def has(self, name: str) -> bool:
        """As its type has."""
        return hasattr(self.type(), name)

    def put(self, name: str, value: Any) -> None:
        """Is refused."""
        raise self.ev.refuse(Feature.ATTRIBUTE, "an attribute of a tensor or number is assigned")

    def item(self, index: Any) -> Any:
        """In the graph where that knows it; else in the script."""
        if self.it.is_array and (found := arrays.item(self.it, index)) is not None:
            return found
        return self.ev.in_script(symbolic.get_item, [self.it, self.ev.lift(index)])

    def set_item(self, index: Any, value: Any) -> None:
        """Of an array."""
        if not self.it.is_array:
            raise self.ev.refuse(Feature.INDEX, "an item is assigned in a value that varies from call to call")
        self.ev.in_script(operator.setitem, [self.it, self.ev.lift(index), self.ev.lift(value)])

    def contains(self, member: Any) -> Any:
        """In the script."""
        return self.ev.python(symbolic.contains, [self.it, member])

    def members(self) -> list[Any]:
        """As many as there are in this call, which is assumed."""
        ev, iterable = self.ev, self.it
        if iterable.is_array and (members := arrays.members(iterable)) is not None:
            return members
        if iterable.late or not isinstance(iterable.example, np.ndarray | list | tuple | str | range):
            raise ev.refuse(
                Feature.ITERATOR,
                "a loop iterates over a value that varies and is no range, list, tuple, string or array",
            )
        count = len(iterable.example)
        trips = SameLength(f"{count} rounds of a loop", ev.where(), (site_of(ev.frame.syntax, ev.here, "trips"), 0))
        ev.script.assume(f"len({iterable.name}) == {count}", trips)
        return [ev.in_script(symbolic.get_item, [iterable, i]) for i in range(count)]

    def rows(self, varies: bool) -> IterationSpace | None:
        """Of a range whose length varies, or where loops are not unrolled; then that there is a first is assumed."""
        ev, value = self.ev, self.it
        rolled, site = not ev.optimizations.unrolling, site_of(ev.frame.syntax, ev.here, "trips")
        if not isinstance(value.example, range) or not (rolled or varies or ev.profile.seen(site, 0).count):
            return None
        made = iterators.range_rows([ev.tensor(ev.get(value, part)) for part in ("start", "stop", "step")], True)
        if not rolled or not value.example:
            return made
        ev.script.assume(f"len({value.name}) > 0", ev.noted(SameDecision, "there is a first round"))
        return dataclasses.replace(made, begins=True)

    def length(self) -> Any:
        """Known where the graph knows it."""
        if arrays.is_array(self.it) and self.it.tensor.shape.rank and self.it.tensor.shape[0] is not None:
            return int(self.it.tensor.shape[0])
        return self.ev.python(len, [self.it])

    def operate(self, function: Any, operands: Sequence[Any]) -> Any:
        """In the graph or the script."""
        return operate(self.ev, function, operands)


def array_attribute(ev: Evaluator, array: DynamicValue, name: str) -> Any:
    """An attribute of an array; None where NumPy has to be asked."""
    shape = array.tensor.shape if array.tensor is not None else tf.TensorShape(None)
    if array.tensor is None or not shape.is_fully_defined():
        return None
    facts = {"shape": tuple(shape), "ndim": shape.rank, "size": shape.num_elements()}
    if name == "dtype":
        return np.dtype(array.tensor.dtype.as_numpy_dtype)
    return facts.get(name, ArrayMethod(array, name) if name in arrays.METHODS or name in ("item", "tolist") else None)


class ArrayMethod(OwnersMethod):
    """A method of an array that looks at it."""

    def call(self, ev: Evaluator, arguments: list[Any], named: dict[str, Any]) -> Any:
        """Calls it, in the graph where that is the same."""
        if not arguments and not named and self.owner.tensor is not None:
            if self.name in arrays.METHODS:
                found = arrays.look(getattr(np, self.name), [self.owner])
            else:
                found = _as_python(ev, self.owner.tensor, self.name)
            if found is not None:
                return found
        return Method(self.owner, self.name).call(ev, arguments, named)


def _as_python(ev: Evaluator, tensor: tf.Tensor, name: str) -> DynamicValue | None:
    """`item()`, or `tolist()` of one number."""
    kinds = {tf.bool: bool, **dict.fromkeys(arrays.FLOATS, float), **dict.fromkeys(arrays.INTEGERS, int)}
    if tensor.dtype not in kinds or tensor.shape.num_elements() != 1 or (name == "tolist" and tensor.shape.rank != 0):
        return None
    found: DynamicValue = arithmetic.number_of(ev, kinds[tensor.dtype], tensor)
    return found
