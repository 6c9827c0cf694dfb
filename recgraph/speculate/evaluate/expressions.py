"""Expressions: constants, names, operators, comparisons, attributes, subscripts, displays, comprehensions."""

from __future__ import annotations

import ast
import dataclasses
import operator
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import tensorflow as tf

from recgraph.speculate.evaluate import branches, loops
from recgraph.speculate.machine.evaluator import Evaluator, rule
from recgraph.speculate.observe.reasons import Feature
from recgraph.speculate.observe.syntax import Frame, Names
from recgraph.speculate.script.symbolic import DynamicValue, Generator, Iteration, IterationSpace, is_symbolic
from recgraph.speculate.values import containers, iterators, objects, state
from recgraph.speculate.values.functions import Closure, Super

BINARY: dict[type[ast.operator], Any] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.Pow: operator.pow, ast.MatMult: operator.matmul,
    ast.BitAnd: operator.and_, ast.BitOr: operator.or_, ast.BitXor: operator.xor, ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
}  # fmt: skip
IN_PLACE: dict[type[ast.operator], Any] = {
    ast.Add: operator.iadd, ast.Sub: operator.isub, ast.Mult: operator.imul, ast.Div: operator.itruediv,
    ast.FloorDiv: operator.ifloordiv, ast.Mod: operator.imod, ast.Pow: operator.ipow, ast.MatMult: operator.imatmul,
    ast.BitAnd: operator.iand, ast.BitOr: operator.ior, ast.BitXor: operator.ixor, ast.LShift: operator.ilshift,
    ast.RShift: operator.irshift,
}  # fmt: skip
UNARY: dict[type[ast.unaryop], Any] = {ast.UAdd: operator.pos, ast.USub: operator.neg, ast.Invert: operator.invert}
COMPARE: dict[type[ast.cmpop], Any] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}  # fmt: skip


@rule(ast.Constant)
def _constant(ev: Evaluator, node: ast.Constant) -> Any:
    return node.value


@rule(ast.Name)
def _name(ev: Evaluator, node: ast.Name) -> Any:
    return ev.read_name(node)


@rule(ast.BinOp)
def _binary(ev: Evaluator, node: ast.BinOp) -> Any:
    left = ev.value(node.left)
    return ev.operate(BINARY[type(node.op)], [left, ev.value(node.right)])


@rule(ast.UnaryOp)
def _unary(ev: Evaluator, node: ast.UnaryOp) -> Any:
    if not isinstance(node.op, ast.Not):
        return ev.operate(UNARY[type(node.op)], [ev.value(node.operand)])
    truth = ev.truth(branches.tested(ev, node.operand))
    if isinstance(truth, tf.Tensor):
        return DynamicValue("", tensor=tf.logical_not(truth), late=True)
    return ev.operate(operator.not_, [truth])


@rule(ast.BoolOp)
def _bool(ev: Evaluator, node: ast.BoolOp) -> Any:
    """Each operand decides whether the next is evaluated."""
    return _operand(ev, node.values, isinstance(node.op, ast.And))


def _operand(ev: Evaluator, operands: list[ast.expr], goes_on: bool) -> Any:
    first, *more = operands
    value = ev.value(first)
    if not more:
        return value
    decided = ev.decide(value, at=first)
    if isinstance(decided, tf.Tensor):
        ways = [lambda: value, lambda: _operand(ev, more, goes_on)]
        return branches.choose(ev, decided, ways[goes_on], ways[not goes_on], at=first)
    return _operand(ev, more, goes_on) if decided is goes_on else value


@rule(ast.Compare)
def _compare(ev: Evaluator, node: ast.Compare) -> Any:
    return _chain(ev, ev.value(node.left), list(zip(node.ops, node.comparators, strict=True)), node)


def _chain(ev: Evaluator, left: Any, links: list[tuple[ast.cmpop, ast.expr]], node: ast.Compare) -> Any:
    """Each comparison decides whether the next operand is evaluated."""
    (kind, comparator), *more = links
    right = ev.value(comparator)
    result = _comparison(ev, kind, left, right)
    if not more:
        return result
    if objects.is_object(result):  # whether its truth is asked twice depends on who asks
        raise ev.refuse(Feature.OPERATOR, f"a {type(result).__name__} decides in a chain of comparisons")
    decided = ev.decide(result, at=comparator)
    if isinstance(decided, tf.Tensor):
        return branches.choose(ev, decided, lambda: _chain(ev, right, more, node), lambda: result, at=comparator)
    return _chain(ev, right, more, node) if decided else result


def _comparison(ev: Evaluator, kind: ast.cmpop, left: Any, right: Any) -> Any:
    if isinstance(kind, ast.Is | ast.IsNot):
        identical = ev.identical(left, right)
        if isinstance(identical, tf.Tensor):
            return DynamicValue("", tensor=identical if isinstance(kind, ast.Is) else ~identical, late=True)
        return identical is isinstance(kind, ast.Is)
    if isinstance(kind, ast.In | ast.NotIn):
        found = ev.contains(right, left)
        return found if isinstance(kind, ast.In) else ev.operate(operator.not_, [found])
    return ev.operate(COMPARE[type(kind)], [left, right])


@rule(ast.IfExp)
def _if_expression(ev: Evaluator, node: ast.IfExp) -> Any:
    decided = ev.decide(branches.tested(ev, node.test), at=node.test)
    if isinstance(decided, tf.Tensor):
        return branches.choose(ev, decided, lambda: ev.value(node.body), lambda: ev.value(node.orelse), at=node.test)
    return ev.value(node.body if decided else node.orelse)


@rule(ast.NamedExpr)
def _walrus(ev: Evaluator, node: ast.NamedExpr) -> Any:
    value = ev.value(node.value)
    ev.bind(node.target.id, value)
    return value


@rule(ast.Attribute)
def _attribute(ev: Evaluator, node: ast.Attribute) -> Any:
    return ev.get(ev.value(node.value), ev.frame.syntax.private(node.attr))


@rule(ast.Subscript)
def _subscript(ev: Evaluator, node: ast.Subscript) -> Any:
    container = ev.value(node.value)
    return ev.item(container, ev.value(node.slice))


@rule(ast.Slice)
def _slice(ev: Evaluator, node: ast.Slice) -> slice:
    return slice(*(None if part is None else ev.value(part) for part in (node.lower, node.upper, node.step)))


@rule(ast.Tuple)
def _tuple(ev: Evaluator, node: ast.Tuple) -> tuple[Any, ...]:
    return tuple(elements(ev, node.elts, Evaluator.pieces))


@rule(ast.List)
def _list(ev: Evaluator, node: ast.List) -> list[Any]:
    return elements(ev, node.elts, Evaluator.pieces)


@rule(ast.Set)
def _set(ev: Evaluator, node: ast.Set) -> set[Any]:
    members = elements(ev, node.elts)
    return {_key(ev, member) for member in members}


@rule(ast.Dict)
def _dict(ev: Evaluator, node: ast.Dict) -> dict[Any, Any]:
    made: dict[Any, Any] = {}
    for key, value in zip(node.keys, node.values, strict=True):
        if key is None:
            made.update(containers.mapping(ev, ev.value(value)))
        else:
            name, held = ev.value(key), ev.value(value)
            made[_key(ev, name)] = held
    return made


def _key(ev: Evaluator, key: Any) -> Any:
    if is_symbolic(key):
        raise ev.refuse(Feature.KEY, "a tensor is used as a key")
    return objects.check_key(ev, ev.concrete(key))


@rule(ast.JoinedStr)
def _joined(ev: Evaluator, node: ast.JoinedStr) -> Any:
    return ev.operate(_concatenated, [ev.value(part) for part in node.values])


def _concatenated(*parts: Any) -> str:
    return "".join(parts)


@rule(ast.FormattedValue)
def _formatted(ev: Evaluator, node: ast.FormattedValue) -> Any:
    value = ev.value(node.value)
    convert = {-1: None, 115: str, 114: repr, 97: ascii}[node.conversion]
    if convert is not None:
        value = ev.python(convert, [value])
    specification = "" if node.format_spec is None else ev.value(node.format_spec)
    return ev.python(format, [value, specification])


@rule(ast.Call)
def _call(ev: Evaluator, node: ast.Call) -> Any:
    if isinstance(node.func, ast.Name) and node.func.id == "super" and not node.args:
        return Super.of(ev)
    function = ev.value(node.func)
    arguments = elements(ev, node.args)
    named: dict[str, Any] = {}
    for keyword in node.keywords:
        value = ev.value(keyword.value)
        given = {keyword.arg: value} if keyword.arg is not None else containers.mapping(ev, value)
        if twice := sorted(given.keys() & named.keys()):
            raise ev.refuse(Feature.RAISES, f"a call gets several values for {twice[0]}")
        named.update(given)
    return ev.call(function, arguments, named)


@rule(ast.Lambda)
def _lambda(ev: Evaluator, node: ast.Lambda) -> Any:
    return Closure(ev, node)


@rule(ast.ListComp)
def _list_comprehension(ev: Evaluator, node: ast.ListComp) -> list[Any]:
    first, rows = _begun(ev, node)
    if rows is not None:
        frame = _frame(ev, node)
        with state.held(ev, [], node) as found:

            def take(member: Any) -> None:
                _filtered(ev, node.generators, member, frame, lambda: found.append(ev.value(node.elt)))

            if loops.each(ev, rows, take):
                return found
    return list(_generated(ev, node, first, lambda: ev.value(node.elt)))


@rule(ast.SetComp)
def _set_comprehension(ev: Evaluator, node: ast.SetComp) -> set[Any]:
    return set(_generated(ev, node, _begun(ev, node)[0], lambda: _key(ev, ev.value(node.elt))))


@rule(ast.DictComp)
def _dict_comprehension(ev: Evaluator, node: ast.DictComp) -> dict[Any, Any]:
    def item() -> tuple[Any, Any]:
        return _key(ev, ev.value(node.key)), ev.value(node.value)

    return dict(_generated(ev, node, _begun(ev, node)[0], item))


@rule(ast.GeneratorExp)
def _generator_expression(ev: Evaluator, node: ast.GeneratorExp) -> Iteration:
    first, rows = _begun(ev, node)
    generators = node.generators
    if rows is None or rows.begins or len(generators) > 1 or generators[0].ifs:
        return iterators.made(ev, _generated(ev, node, first, lambda: ev.value(node.elt)))
    frame = _frame(ev, node)

    def row(number: tf.Tensor) -> Any:
        (found,) = _elements(ev, generators, iter([rows.row(number)]), frame, lambda: ev.value(node.elt))
        return found

    return iterators.made(ev, dataclasses.replace(rows, row=row))


def _begun(ev: Evaluator, node: Any) -> tuple[Any, IterationSpace | None]:
    """What a comprehension goes through first, which is evaluated at once; and as rows, if a loop in the graph may."""
    generator = node.generators[0]
    value = ev.value(generator.iter)
    if isinstance(value, tf.Variable):
        value = value.read_value()
    with ev.at(generator.iter):
        rows = ev.rows(value) if isinstance(node, ast.ListComp | ast.GeneratorExp) else None
    with ev.at(generator.iter):
        return ev.begin(value), rows


def _frame(ev: Evaluator, node: Any) -> Frame:
    """For the targets of a comprehension, which are its own names."""
    outer = ev.frame
    targets = {n.id for g in node.generators for n in ast.walk(g.target) if isinstance(n, ast.Name)}
    walrus = {n.target.id for n in ast.walk(node) if isinstance(n, ast.NamedExpr)}
    return Frame(outer.syntax, Names(targets, outer.names.globals, walrus), outer.function, {}, outer)


def _filtered(
    ev: Evaluator, generators: list[ast.comprehension], member: Any, frame: Frame, take: Callable[[], None]
) -> None:
    """A member of the first generator in a loop of the graph: what comes of it if the tests allow it."""
    generator, *more = generators
    inner = [*more[:1]]

    def one(member: Any) -> None:
        ev.assign(generator.target, member)
        test(generator.ifs)

    def test(tests: list[ast.expr]) -> None:
        if not tests:
            go_on()
            return
        decided = ev.decide(ev.value(tests[0]), at=tests[0])
        if isinstance(decided, tf.Tensor):
            branches.choose(ev, decided, lambda: test(tests[1:]), lambda: None, at=tests[0])
        elif decided:
            test(tests[1:])

    def go_on() -> None:
        if not inner:
            take()
            return
        for value in _begin(ev, inner[0].iter):
            _filtered(ev, more, value, frame, take)

    ev.frames.append(frame)
    try:
        one(member)
    finally:
        ev.frames.pop()


def _begin(ev: Evaluator, iterable: ast.expr) -> Iterator[Any]:
    with ev.at(iterable):
        return ev.iterator(ev.value(iterable))


def _generated(ev: Evaluator, node: Any, first: Any, element: Callable[[], Any]) -> Iterator[Any]:
    """The elements of a comprehension."""
    generators, frame = node.generators, _frame(ev, node)
    if not isinstance(first, Generator) or isinstance(node, ast.GeneratorExp):
        with ev.at(generators[0].iter):
            members = iterators.alone(ev, first, generators[0].iter)
            return _elements(ev, generators, members, frame, element)
    with state.held(ev, [], node) as found:

        def take(member: Any) -> bool:
            found.extend(_elements(ev, generators, iter([member]), frame, element))
            return False

        first.drive(ev, take)
    return iter(found)


def _elements(
    ev: Evaluator,
    generators: list[ast.comprehension],
    members: Iterator[Any],
    frame: Frame,
    element: Callable[[], Any],
) -> Iterator[Any]:
    """The loops of a comprehension. Its frame is the current one only while something of it is converted."""
    generator, *more = generators
    for member in members:
        ev.frames.append(frame)
        try:
            ev.assign(generator.target, member)
            if not all(ev.decided(ev.value(test), at=test) for test in generator.ifs):
                continue
            value = _begin(ev, more[0].iter) if more else element()
        finally:
            ev.frames.pop()
        if more:
            yield from _elements(ev, more, value, frame, element)
        else:
            yield value


# How the members of something are taken that a star stands before.
Unpack: TypeAlias = Callable[[Evaluator, Any], list[Any]]


def elements(ev: Evaluator, nodes: list[ast.expr], unpack: Unpack = Evaluator.members) -> list[Any]:
    """The values of a display or of positional arguments, stars unpacked."""
    values: list[Any] = []
    for node in nodes:
        if isinstance(node, ast.Starred):
            values.extend(unpack(ev, ev.value(node.value)))
        else:
            values.append(ev.value(node))
    return values


@rule(ast.Yield)
def _yield(ev: Evaluator, node: ast.Yield) -> None:
    member = None if node.value is None else ev.value(node.value)
    _taker(ev)(member)


@rule(ast.YieldFrom)
def _yield_from(ev: Evaluator, node: ast.YieldFrom) -> Any:
    inner, taker = ev.begin(ev.value(node.value)), _taker(ev)
    if isinstance(inner, Generator):
        return inner.drive(ev, lambda member: taker(member) or False)
    for member in ev.iterator(inner):
        taker(member)
    return None


def _taker(ev: Evaluator) -> Any:
    if ev.frame.taker is None:
        raise ev.refuse(Feature.GENERATOR, "`yield` or `await` outside a function that recgraph can convert")
    return ev.frame.taker
