"""Equality saturation: all substitutions at once, in classes of equal terms, of which the cheapest graph is taken.

The library egglog applies substitutions: nothing is replaced, so no order of steps has to be searched for. What is
taken out is not what is cheapest term by term, for then two products would never become parts of one: it begins with
the given terms, and moves terms that are parts of the same whole together, as long as that is cheaper.
"""

from __future__ import annotations

import heapq
import itertools
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from recgraph.errors import RecgraphError
from recgraph.optimize import gradients, problem, terms
from recgraph.optimize.costs import Costs
from recgraph.optimize.evaluate import IllFormed
from recgraph.optimize.operators import AXES, CONSTANTS, OPERATORS
from recgraph.optimize.problem import PARTS, UNKNOWN, Problem
from recgraph.optimize.search import CostedGraph, Draft, Replacement, Roots, SearchResult, together
from recgraph.optimize.terms import Apply, Equation, Extent, Size, SizeSum, TensorVariable, Term

_NAMES = {number: name for name, number in CONSTANTS.items()}
_NAMED = ("map", "zip", "padding", "activation")
# Sizes that are not known, as egglog's numbers: sums of them differ, too. There is room for no more.
_UNKNOWN = (10**12, 10**15, 10**18)
# From how many candidates a step of the extraction makes the graph, the most promising first.
_TRIED = 12
# Of what the best change gains, what another one gains at least that is made together with it.
_SHARE = 0.9


class SaturationError(RecgraphError, ImportError):
    """egglog is not installed."""

    id = "saturation"


@dataclass(frozen=True)
class Saturation:
    """Applies all substitutions at once, some rounds of them, takes the cheapest graph, and begins anew with it.

    Attributes:
        rules: the substitutions.
        most: no more are applied once there are so many terms.
        rounds: how often substitutions of one term are applied after those of several.

    Raises:
        SaturationError: egglog is not installed.
    """

    rules: tuple[Equation, ...]
    most: int = 20_000
    rounds: int = 2

    def __call__(self, given: Problem, costs: Costs, seconds: float) -> SearchResult:
        """See `Search`."""
        start = time.thread_time()
        before = costs.of(given, given.roots)
        roots, cost, steps, looked_at = given.roots, before, tuple[str, ...](), 0

        def left() -> float:
            return seconds - (time.thread_time() - start)

        while left() > 0:
            graph = _Saturated.of(self, given, roots, left)
            if graph is None:
                break
            looked_at += graph.count
            most = 0.0
            while left() > 0 and (found := _cheaper(given, costs, roots, cost, graph, most)) is not None:
                # What gains little would take the places of what gains much in the next round.
                most = most or found.most
                roots, cost, steps = found.roots, found.cost, (*steps, *found.steps)
            if not most:
                break
        taken = time.thread_time() - start
        return SearchResult(roots, before, cost, steps, looked_at, taken, taken <= seconds)


# Substitutions in egglog's language. All parameters are numbers there.


@cache
def _program(rules: tuple[Equation, ...], axes: int) -> str:
    lines = ["(datatype Dims (D i64 i64 i64 i64))", "(sort T)", "(constructor leaf (String) T)"]
    for name, operator in OPERATORS.items():
        sorts = ["i64"] * len(operator.parameters) + ["T"] * operator.arity
        lines.append(f"(constructor {_symbol(name)} ({' '.join(sorts)}) T)")
    lines += ["(function dims (T) Dims :merge old)", "(ruleset shapes)", "(ruleset one)", "(ruleset several)", *_SHAPES]
    for sign in ("ADD", "MUL", "MAX"):
        g = CONSTANTS[sign]
        lines.append(f"(rule ((= e (o_zip {g} x y))) ((union e (o_zip {g} y x))) :ruleset one)")
    for rule in rules:
        lines += _translated(rule, axes)
    return "\n".join(lines)


def _symbol(name: str) -> str:
    return f"o_{name}"


def _shape(term: str, facts: str, result: str) -> str:
    return f"(rule ((= e {term}) {facts}) ((set (dims e) {result})) :ruleset shapes)"


def _turned(axis: int, size: str) -> str:
    return f"(D {' '.join(size if i == axis else f'x{i}' for i in range(AXES))})"


def _window(axis: int, stride: int, padding: str) -> str:
    size = f"x{axis}" if padding == "SAME" else f"(- (+ x{axis} 1) y{axis - 1})"
    return f"(/ (+ {size} {stride - 1}) {stride})"


_X, _Y = "(= (D x0 x1 x2 x3) (dims x))", "(= (D y0 y1 y2 y3) (dims y))"
_SAME = "(D x0 x1 x2 x3)"
_SHAPES = [
    _shape("(o_map f x)", _X, _SAME),
    _shape("(o_zip f x y)", _X, _SAME),
    _shape("(o_scale k x)", _X, _SAME),
    _shape("(o_bias a x u)", _X, _SAME),
    _shape("(o_gain a x u)", _X, _SAME),
    _shape("(o_matmul x y)", f"{_X} {_Y}", "(D x0 y1 1 1)"),
    _shape("(o_transpose x)", _X, "(D x1 x0 1 1)"),
    *(
        _shape(f"(o_conv g {s} {CONSTANTS[p]} c x y)", f"{_X} {_Y}", f"(D x0 {_window(1, s, p)} {_window(2, s, p)} y3)")
        for s in range(1, 5)
        for p in ("SAME", "VALID")
    ),
    *(_shape(f"(o_concat {a} x y)", f"{_X} {_Y}", _turned(a, f"(+ x{a} y{a})")) for a in range(AXES)),
    *(_shape(f"(o_first {a} n x)", _X, _turned(a, "n")) for a in range(AXES)),
    *(_shape(f"(o_rest {a} n x)", _X, _turned(a, f"(- x{a} n)")) for a in range(AXES)),
]


def _translated(rule: Equation, axes: int) -> Iterator[str]:
    """A substitution for each choice of its axes."""
    kinds = terms.parameters(rule)
    names = [name for name, kind in kinds.items() if kind == "axis"]
    for numbers in itertools.product(range(axes), repeat=len(names)):
        made = _Translation(dict(zip(names, numbers, strict=True)), {}).rule(rule)
        if made is not None:
            yield made


@dataclass
class _Translation:
    """A substitution as text.

    Attributes:
        axes: the numbers of its axes.
        facts: what has to be true, by text, in order.
    """

    axes: dict[str, int]
    facts: dict[str, None]

    def rule(self, rule: Equation) -> str | None:
        """The rule; None where it says nothing for these axes, or needs the size of what it makes."""
        for number, term in enumerate(rule.source):
            self.facts[f"(= r{number} {self.term(term, is_source=True)})"] = None
        for i, j in itertools.combinations(range(len(rule.source)), 2):
            self.facts[f"(!= r{i} r{j})"] = None
        for condition in rule.conditions:
            sides = [self.size(one) for one in (condition.left, condition.right)]
            if None in sides:
                return None
            if all(str(side).lstrip("-").isdigit() for side in sides):
                if not problem.COMPARE[condition.comparison](*map(int, map(str, sides))):
                    return None
                continue
            sign = {"==": "="}.get(condition.comparison, condition.comparison)
            self.facts[f"({sign} {sides[0]} {sides[1]})"] = None
        try:
            made = [f"(union r{number} {self.term(term)})" for number, term in enumerate(rule.target)]
        except IllFormed:
            return None
        kind = "one" if len(rule.source) == 1 else "several"
        return f"(rule ({' '.join(self.facts)}) ({' '.join(made)}) :ruleset {kind})"

    def term(self, term: Term, is_source: bool = False) -> str:
        """A term; in a source, what is computed in it is a number that has to be equal."""
        if isinstance(term, TensorVariable):
            return f"t_{term.name}"
        parts = []
        for size in term.parameters:
            text = self.size(size)
            if text is None:
                raise IllFormed
            if is_source and text.startswith("("):
                name = f"n{len(self.facts)}"
                self.facts[f"(= {name} {text})"] = None
                text = name
            elif not is_source and isinstance(size, Extent | SizeSum) and not text.isdigit():
                self.facts[f"(< {text} {_UNKNOWN[0]})"] = None
            parts.append(text)
        arguments = [self.term(one, is_source) for one in term.arguments]
        return f"({' '.join([_symbol(term.operator), *parts, *arguments])})"

    def size(self, size: Size) -> str | None:
        """A size; None where it is that of a tensor that is no input."""
        match size:
            case int():
                return str(size)
            case str():
                if size in CONSTANTS:
                    return str(CONSTANTS[size])
                return str(self.axes[size]) if size in self.axes else f"p_{size}"
            case Extent(tensor=TensorVariable(name=name), axis=axis):
                number = self.size(axis)
                if number is None or not number.isdigit() or int(number) >= AXES:
                    return None
                every = " ".join(f"d_{name}_{i}" for i in range(AXES))
                self.facts[f"(= (D {every}) (dims t_{name}))"] = None
                return f"d_{name}_{number}"
            case SizeSum(sign=sign, left=left, right=right):
                both = self.size(left), self.size(right)
                return None if None in both else f"({'+' if sign > 0 else '-'} {both[0]} {both[1]})"
        return None


# The graph of classes.

_Node = tuple[str, tuple[Size, ...], tuple[str, ...]]


@dataclass
class _Saturated:
    """Classes of equal terms.

    Attributes:
        nodes: of each class, operators with their parameters and the classes of their arguments.
        leaves: the classes of inputs, by name.
        count: how many operators there are.
    """

    nodes: dict[str, list[_Node]]
    leaves: dict[str, str]
    count: int
    class_of: dict[_Node, str] = field(default_factory=dict)

    @classmethod
    def of(cls, search: Saturation, given: Problem, roots: Roots, left: Callable[[], float]) -> _Saturated | None:
        """What substitutions make of a graph; None where it has more unknown sizes than can be told apart."""
        unknown = {size for term in terms.subterms(*roots) for size in given.dims(term) if size >= UNKNOWN}
        basic = {size for leaf in given.leaves.values() for size in leaf.dims if size >= UNKNOWN}
        if len(basic) > len(_UNKNOWN) or unknown - basic:
            return None
        numbers = dict(zip(sorted(basic), _UNKNOWN, strict=False))
        axes = 2 if all(given.dims(term)[2:] == (1, 1) for term in terms.subterms(*roots)) else AXES
        engine = _engine(search.rules, axes)
        _run(engine, "(push)")
        try:
            _run(engine, "\n".join(_lines(given, roots, numbers)))
            _run(engine, "(run-schedule (saturate shapes))")
            found = cls._read(engine)
            for ruleset in ("several", *["one"] * search.rounds):
                if found.count > search.most or left() <= 0:
                    break
                _run(engine, f"(run-schedule (run {ruleset}) (saturate shapes))")
                found = cls._read(engine)
        finally:
            _run(engine, "(pop)")
        return found

    @classmethod
    def _read(cls, engine: Any) -> _Saturated:
        made = json.loads(engine.serialize([]).to_json())["nodes"]
        found = cls({}, {}, 0)
        for node in made.values():
            name, children = node["op"], [made[one] for one in node["children"]]
            if name == "leaf":
                found.leaves[json.loads(children[0]["op"])] = node["eclass"]
            elif name.startswith("o_"):
                found._enter(name.removeprefix("o_"), children, node["eclass"])
        return found

    def _enter(self, name: str, children: list[Any], own: str) -> None:
        kinds = OPERATORS[name].parameters
        numbers = [int(child["op"]) for child in children[: len(kinds)]]
        parameters = tuple(_NAMES[n] if kind in _NAMED else n for n, kind in zip(numbers, kinds, strict=True))
        node = name, parameters, tuple(child["eclass"] for child in children[len(kinds) :])
        self.nodes.setdefault(own, []).append(node)
        self.class_of[node] = own
        self.count += 1

    def classes(self, roots: Roots) -> dict[str, Term]:
        """The class of each term of a graph, as far as it has one."""
        known: dict[Term, str] = {}
        for term in terms.subterms(*roots):
            if isinstance(term, TensorVariable):
                own = self.leaves.get(term.name)
            else:
                inner = tuple(known.get(one, "") for one in term.arguments)
                own = self.class_of.get((term.operator, term.parameters, inner))
            if own is not None:
                known[term] = own
        return {own: term for term, own in known.items()}


def _run(engine: Any, text: str) -> None:
    engine.run_program(*engine.parse_program(text))


@cache
def _engine(rules: tuple[Equation, ...], axes: int) -> Any:
    """An empty graph of classes that knows the substitutions."""
    try:
        from egglog import bindings
    except ImportError as error:
        raise SaturationError("egglog is not installed", next_step="pip install 'egglog>=13'") from error
    engine = bindings.EGraph()
    _run(engine, _program(rules, axes))
    return engine


def _lines(given: Problem, roots: Roots, numbers: dict[int, int]) -> Iterator[str]:
    """A graph as definitions, each term once."""
    names: dict[Term, str] = {}
    for term in terms.subterms(*roots):
        names[term] = f"$v{len(names)}"
        if isinstance(term, TensorVariable):
            sizes = " ".join(str(numbers.get(size, size)) for size in given.dims(term))
            yield f'(let {names[term]} (leaf "{term.name}"))'
            yield f"(set (dims {names[term]}) (D {sizes}))"
        else:
            parameters = (str(CONSTANTS[one] if isinstance(one, str) else one) for one in term.parameters)
            inner = (names[one] for one in term.arguments)
            yield f"(let {names[term]} ({' '.join([_symbol(term.operator), *parameters, *inner])}))"


# Extraction.


@dataclass(frozen=True)
class _Extracted:
    """A graph that costs less.

    Attributes:
        roots: its results.
        cost: seconds.
        steps: what was done.
        most: what the best change of a term, or of parts of one whole, gains.
    """

    roots: Roots
    cost: float
    steps: tuple[str, ...]
    most: float


def _cheaper(
    given: Problem, costs: Costs, roots: Roots, cost: float, graph: _Saturated, most: float
) -> _Extracted | None:
    """A graph that costs less, some terms being taken in another form; None where there is none.

    Args:
        given, costs: of the search.
        roots, cost: the graph, and its cost.
        graph: the classes of its terms.
        most: what the best change gains, if it is not one of this graph's; else 0.
    """
    state = CostedGraph(given, costs, roots)
    moves = [move for move in _moves(given, costs, state, graph) if move.gain <= _SHARE * most]
    best, *others = together(moves, _SHARE)
    several = [[one] for one in moves] + others
    several.sort(key=lambda chosen: sum(move.gain for move in chosen))
    for chosen in filter(None, [best, *several[:_TRIED]]):
        mapping = {place: made for move in chosen for place, made in move.mapping.items()}
        made = Draft(roots, mapping, (), chosen).finished(given)
        if made is None or not given.is_in_order(made) or not gradients.are_kept(given, made):
            continue
        after = costs.of(given, made)
        if after < cost * (1 - 1e-9):
            return _Extracted(roots=made, cost=after, steps=_steps(chosen), most=min(move.gain for move in moves))
    return None


def _steps(chosen: list[Replacement]) -> tuple[str, ...]:
    return tuple(str(move.rule) for move in chosen)


def _moves(given: Problem, costs: Costs, state: CostedGraph, graph: _Saturated) -> Iterator[Replacement]:
    """Each other form of each term; parts of one whole together."""
    current = graph.classes(state.roots)
    forms = _cheapest(given, costs, current, graph)
    wholes: dict[tuple[str, Size], dict[Term, Term]] = {}
    for own, term in current.items():
        if isinstance(term, TensorVariable) or given.is_fixed(term):
            continue
        for operator, parameters, inner in graph.nodes[own]:
            if not all(one in forms for one in inner):
                continue
            made = given.shared(Apply(operator, parameters, tuple(forms[one] for one in inner)))
            if made is term or not _is_like(given, made, term):
                continue
            if operator in PARTS:
                wholes.setdefault((inner[0], parameters[0]), {})[term] = made
            else:
                yield from _checked(state, {term: made})
    for mapping in wholes.values():
        yield from _checked(state, mapping)


def _is_like(given: Problem, made: Term, term: Term) -> bool:
    try:
        return given.dims(made) == given.dims(term)
    except IllFormed:
        return False


def _checked(state: CostedGraph, mapping: dict[Term, Term]) -> Iterator[Replacement]:
    if state.would_wait(mapping) or not state.are_differentiated_alike(mapping):
        return
    gain, gone = state.gain(mapping)
    in_order = sorted(mapping, key=lambda place: _described(mapping[place]))
    what = f"{_described(in_order[0], 0)} => {_described(mapping[in_order[0]])}"
    order = tuple(map(state.first_use, in_order))
    yield Replacement(what, mapping, gone, gain, len(set(map(state.uses, mapping))) > 1, order)


def _described(term: Term, levels: int = 1) -> str:
    """The operators at the root of a term, with the axis of parts."""
    if isinstance(term, TensorVariable):
        return "x"
    axis = f"{term.parameters[0]}, " if term.operator in PARTS else ""
    inner = ", ".join(_described(one, levels - 1) for one in term.arguments) if levels else "..."
    return f"{term.operator}({axis}{inner})"


def _cheapest(given: Problem, costs: Costs, current: dict[str, Term], graph: _Saturated) -> dict[str, Term]:
    """Of each class, the term that costs least if those of the current graph cost nothing (Knuth's algorithm)."""
    forms: dict[str, Term] = {}
    seconds: dict[str, float] = {}
    users: dict[str, list[tuple[str, _Node]]] = {}
    missing: dict[_Node, int] = {}
    for own, nodes in graph.nodes.items():
        for node in nodes:
            missing[node] = len(set(node[2]))
            for one in set(node[2]):
                users.setdefault(one, []).append((own, node))
    numbers = itertools.count()
    queue: list[tuple[float, int, str, Term]] = [(0.0, next(numbers), own, term) for own, term in current.items()]
    heapq.heapify(queue)
    while queue:
        cost, _, own, term = heapq.heappop(queue)
        if own in forms:
            continue
        forms[own], seconds[own] = term, cost
        for user, node in users.get(own, ()):
            missing[node] -= 1
            if missing[node] or user in forms:
                continue
            made = given.shared(Apply(node[0], node[1], tuple(forms[one] for one in node[2])))
            try:
                given.dims(made)
            except IllFormed:
                continue
            assert isinstance(made, Apply)
            more = 0.0 if given.is_fixed(made) else costs.of_one(given, made)
            heapq.heappush(queue, (more + sum(seconds[one] for one in set(node[2])), next(numbers), user, made))
    return forms
