"""Terms: expressions over tensors, such as `x @ concat(1, y, z)`, with symbolic sizes and parameters."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from recgraph.cpython.parsing import parse
from recgraph.errors import RecgraphError
from recgraph.optimize.operators import CONSTANTS, MAPS, OPERATORS, ZIPS


class TermError(RecgraphError, ValueError):
    """The text of a term, an axiom or a substitution cannot be read."""

    id = "term"


@dataclass(frozen=True)
class TensorVariable:
    """A tensor of any value and shape."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Extent:
    """The size of a tensor along an axis."""

    tensor: Term
    axis: Size

    def __str__(self) -> str:
        return f"dim({self.tensor}, {self.axis})"


@dataclass(frozen=True)
class SizeSum:
    """The sum or difference of two sizes."""

    sign: int
    left: Size
    right: Size

    def __str__(self) -> str:
        return f"{self.left} {'+' if self.sign > 0 else '-'} {self.right}"


@dataclass(frozen=True)
class Apply:
    """An operator of the table, applied to parameters and tensors."""

    operator: str
    parameters: tuple[Size, ...]
    arguments: tuple[Term, ...]

    @cached_property
    def _hash(self) -> int:
        return hash((self.operator, self.parameters, self.arguments))

    def __hash__(self) -> int:
        return self._hash

    @property
    def sign(self) -> str:
        """The sign between two tensors; empty for an operator that is written as a call."""
        return (
            "@"
            if self.operator == "matmul"
            else ZIPS.get(str(self.parameters[0]), "")
            if self.operator == "zip"
            else ""
        )

    def __str__(self) -> str:
        if self.sign:
            left, right = (f"({x})" if isinstance(x, Apply) and x.sign else str(x) for x in self.arguments)
            return f"{left} {self.sign} {right}"
        name, rest = self.operator, [str(one) for one in (*self.parameters, *self.arguments)]
        if name in ("map", "zip") and rest[0] in (*MAPS, *ZIPS):
            name, rest = rest[0].lower(), rest[1:]
        return f"{name}({', '.join(rest)})"


Term: TypeAlias = TensorVariable | Apply
# A number, a named constant (in capitals), a parameter of any value (in small letters), or what is computed of these.
Size: TypeAlias = int | str | Extent | SizeSum

_INFIX: dict[type, str] = {ast.Add: "ADD", ast.Sub: "SUB", ast.Mult: "MUL"}
_COMPARISONS: dict[type, str] = {ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<="}


@dataclass(frozen=True)
class SizeCondition:
    """A comparison of two sizes: `==`, `!=`, `<` or `<=`."""

    left: Size
    comparison: str
    right: Size

    def __str__(self) -> str:
        return f"{self.left} {self.comparison} {self.right}"


@dataclass(frozen=True)
class Equation:
    """Two lists of terms that are equal, one by one, wherever the conditions hold and the source is well formed.

    Attributes:
        source: what is found in a graph.
        target: what may stand in its place.
        conditions: on parameters and sizes.
        both_ways: whether it may be read from right to left as well.
    """

    source: tuple[Term, ...]
    target: tuple[Term, ...]
    conditions: tuple[SizeCondition, ...] = ()
    both_ways: bool = False

    def __str__(self) -> str:
        sides = [str(side[0]) if len(side) == 1 else f"[{', '.join(map(str, side))}]" for side in self.sides]
        text = (" == " if self.both_ways else " => ").join(sides)
        return f"{text} where {', '.join(map(str, self.conditions))}" if self.conditions else text

    @property
    def sides(self) -> tuple[tuple[Term, ...], tuple[Term, ...]]:
        """Source and target."""
        return self.source, self.target


def read(text: str, where: str | None = None) -> Equation:
    """The equation that a text is: `SOURCE => TARGET where CONDITION, ...`, or with `==` for both ways.

    Args:
        text: each side is a term, or a list of terms in brackets. `x + y`, `x - y`, `x * y` and `x @ y` are elementwise
            operators and the matrix product; everything else is a call, parameters first.
        where: the place of the text, for errors.

    Raises:
        TermError: it cannot be read.
    """
    both_ways = "=>" not in text
    equation, _, conditions = text.partition(" where ")
    sides = equation.split(" == " if both_ways else "=>")
    try:
        if len(sides) != 2:
            raise TermError("there must be one => or == between source and target")
        source, target = (_side(parse(side.strip(), mode="eval").body) for side in sides)
        if len(source) != len(target):
            raise TermError("source and target must have equally many results")
        nodes = parse(f"({conditions},)", mode="eval").body if conditions.strip() else ast.Tuple([])
        assert isinstance(nodes, ast.Tuple)
        return Equation(source, target, tuple(map(_condition, nodes.elts)), both_ways)
    except (SyntaxError, TermError) as error:
        raise TermError(f"the equation cannot be read: {error.args[0]}", where=where, found=text.strip()) from error


def read_term(text: str) -> Term:
    """The term that a text is.

    Raises:
        TermError: it cannot be read.
    """
    return _term(parse(text, mode="eval").body)


def _side(node: ast.expr) -> tuple[Term, ...]:
    return tuple(map(_term, node.elts)) if isinstance(node, ast.List) else (_term(node),)


def _term(node: ast.expr) -> Term:
    match node:
        case ast.Name(id=name):
            return TensorVariable(name)
        case ast.BinOp(left=left, op=ast.MatMult(), right=right):
            return Apply("matmul", (), (_term(left), _term(right)))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _INFIX:
            return Apply("zip", (_INFIX[type(op)],), (_term(left), _term(right)))
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]):
            return _call(name, arguments)
    raise TermError(f"'{ast.unparse(node)}' is no tensor")


def _call(name: str, arguments: list[ast.expr]) -> Apply:
    head: tuple[Size, ...] = ()
    written = name
    for operator, functions in (("map", MAPS), ("zip", ZIPS)):
        if name.upper() in functions:
            name, head = operator, (name.upper(),)
    if name not in OPERATORS:
        raise TermError(f"there is no operator '{name}'; there are {', '.join(OPERATORS)}")
    one = OPERATORS[name]
    count = len(one.parameters) - len(head)
    if len(arguments) != count + one.arity:
        wanted = f"{count} parameters and {one.arity} tensors"
        raise TermError(f"'{written}' takes {wanted}, found {len(arguments)} arguments")
    return Apply(name, head + tuple(map(_size, arguments[:count])), tuple(map(_term, arguments[count:])))


def _size(node: ast.expr) -> Size:
    match node:
        case ast.Constant(value=int(value)):
            return value
        case ast.Name(id=name) if not name.isupper() or name in CONSTANTS:
            return name
        case ast.Call(func=ast.Name(id="dim"), args=[tensor, axis]):
            return Extent(_term(tensor), _size(axis))
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() as op, right=right):
            return SizeSum(1 if isinstance(op, ast.Add) else -1, _size(left), _size(right))
    raise TermError(f"'{ast.unparse(node)}' is no size or parameter")


def _condition(node: ast.expr) -> SizeCondition:
    match node:
        case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _COMPARISONS:
            return SizeCondition(_size(left), _COMPARISONS[type(op)], _size(right))
    raise TermError(f"'{ast.unparse(node)}' is no condition")


def subterms(*terms: Term) -> Iterator[Term]:
    """Every term in some terms, the parts before the whole, each once; those in sizes, too."""
    seen: set[Term] = set()

    def walk(term: Term) -> Iterator[Term]:
        if term not in seen:
            if isinstance(term, Apply):
                for inner in [*(t for size in term.parameters for t in tensors_of(size)), *term.arguments]:
                    yield from walk(inner)
            seen.add(term)
            yield term

    for term in terms:
        yield from walk(term)


def tensors_of(size: Size) -> Iterator[Term]:
    """The tensors that a size is computed from."""
    match size:
        case Extent(tensor=tensor, axis=axis):
            yield tensor
            yield from tensors_of(axis)
        case SizeSum(left=left, right=right):
            yield from tensors_of(left)
            yield from tensors_of(right)


def names_of(size: Size) -> Iterator[str]:
    """The parameters in a size, without those in its tensors."""
    match size:
        case str() if size not in CONSTANTS:
            yield size
        case Extent(axis=axis):
            yield from names_of(axis)
        case SizeSum(left=left, right=right):
            yield from names_of(left)
            yield from names_of(right)


def all_terms(equation: Equation) -> list[Term]:
    """Every term in an equation, the parts before the whole."""
    inner = [t for c in equation.conditions for size in (c.left, c.right) for t in tensors_of(size)]
    return list(subterms(*equation.source, *equation.target, *inner))


def variables(terms: list[Term]) -> list[str]:
    """The names of the tensors among some terms, in order."""
    return [term.name for term in terms if isinstance(term, TensorVariable)]


def parameters(equation: Equation) -> dict[str, str]:
    """The parameters of any value in an equation, each with its kind (see `Operator.parameters`)."""
    found: dict[str, str] = {}
    for term in all_terms(equation):
        if isinstance(term, Apply):
            for size, kind in zip(term.parameters, OPERATORS[term.operator].parameters, strict=True):
                plain = isinstance(size, str)
                for name in names_of(size):
                    found[name] = kind if plain or name not in found else found[name]
            for size in term.parameters:
                found |= {name: "axis" for e in _extents(size) for name in names_of(e.axis)}
    for condition in equation.conditions:
        for size in (condition.left, condition.right):
            found |= {name: "size" for name in names_of(size) if name not in found}
    return found


def _extents(size: Size) -> Iterator[Extent]:
    match size:
        case Extent():
            yield size
        case SizeSum(left=left, right=right):
            yield from _extents(left)
            yield from _extents(right)


def renamed(term: Term, tensors: Mapping[Term, Term], sizes: Mapping[Size, Size] | None = None) -> Term:
    """A term with other terms in place of some, and other sizes in place of some."""
    return renamed_all((term,), tensors, sizes)[0]


def renamed_all(
    several: Iterable[Term], tensors: Mapping[Term, Term], sizes: Mapping[Size, Size] | None = None
) -> tuple[Term, ...]:
    """Returns the same for several terms, what they have in common once."""
    done: dict[int, Term] = {}

    def rename(term: Term) -> Term:
        if term in tensors:
            return tensors[term]
        if isinstance(term, TensorVariable):
            return term
        if id(term) not in done:
            parameters = tuple(renamed_size(size, tensors, sizes or {}) for size in term.parameters)
            done[id(term)] = Apply(term.operator, parameters, tuple(map(rename, term.arguments)))
        return done[id(term)]

    return tuple(map(rename, several))


def listing(*several: Term) -> tuple[object, ...]:
    """Terms line by line, each with the numbers of the lines that it is made of: equal for equal terms, and as long as
    they have different parts."""
    numbers: dict[int, int] = {}
    lines: list[object] = []

    def number(term: Term) -> int:
        if id(term) not in numbers:
            if isinstance(term, TensorVariable):
                line: object = term.name
            else:
                line = term.operator, term.parameters, tuple(map(number, term.arguments))
            numbers[id(term)] = len(lines)
            lines.append(line)
        return numbers[id(term)]

    roots = tuple(map(number, several))
    return (*lines, roots)


def renamed_size(size: Size, tensors: Mapping[Term, Term], sizes: Mapping[Size, Size]) -> Size:
    """Returns the same for a size."""
    if size in sizes:
        return sizes[size]
    match size:
        case Extent(tensor=tensor, axis=axis):
            return Extent(renamed(tensor, tensors, sizes), renamed_size(axis, tensors, sizes))
        case SizeSum(sign=sign, left=left, right=right):
            return SizeSum(sign, renamed_size(left, tensors, sizes), renamed_size(right, tensors, sizes))
    return size


def is_closed(equation: Equation) -> bool:
    """Whether the target can be made from what the source has: no tensor or parameter is in the target alone."""
    source = Equation(equation.source, equation.source)
    own = set(variables(all_terms(source))) | set(parameters(source))
    return {*variables(all_terms(equation)), *parameters(equation)} <= own
