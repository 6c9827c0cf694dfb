"""Which substitutions are applied to graphs of floating-point numbers.

All that is proven holds over the reals. In floating point, sums and products may be taken in another order; nothing
else may change. So a substitution is applied where both sides use each input, and nothing but operators that move
numbers, multiply and add them, or apply the same functions to the same numbers; and where the proof needs no axiom by
which a factor moves into a sum: an infinite one would make NaN there of parts that cancel.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from functools import cache

from recgraph.optimize import store, terms
from recgraph.optimize.terms import Apply, Equation, Size, SizeCondition, TensorVariable, Term

# Without: constants of a shape; differences, which cancel what may be infinite; laws of one function, such as those of
# the rectifier, which are other ones for NaN and infinities; softmax, means and poolings.
_OPERATORS = frozenset(
    {"concat", "first", "rest", "transpose", "matmul", "conv", "bias", "gain", "scale", "map", "zip"}
)
_ZIPS = frozenset({"ADD", "MUL"})
DISTRIBUTE = frozenset({
    "mul-distributes", "scale-add", "scale-sum", "scale-matmul-left", "scale-matmul-right", "scale-total",
    "scale-mean", "matmul-associates", "matmul-add-left", "matmul-add-right", "matmul-total-rows",
    "matmul-total-columns", "matmul-mean-rows", "matmul-mean-columns", "bias-scale", "bias-matmul",
    "gain-add", "gain-rows", "gain-bias", "gain-total", "gain-mean", "gain-matmul", "gain-matmul-left",
    "gain-matmul-inner", "conv-add-left", "conv-add-right", "conv-scale-left", "conv-scale-right", "conv-gain",
})  # fmt: skip


def is_faithful(rule: Equation, axioms: Iterable[str]) -> bool:
    """Whether a substitution that follows from some axioms changes no more than rounding, where nothing overflows."""
    if DISTRIBUTE.intersection(axioms):
        return False
    sides = [list(terms.subterms(*side)) for side in rule.sides]
    names = [{term for term in side if isinstance(term, TensorVariable)} for side in sides]
    return names[0] == names[1] and all(_is_plain(term) for side in sides for term in side)


def _is_plain(term: Term) -> bool:
    if isinstance(term, TensorVariable):
        return True
    first = str(term.parameters[0]) if term.parameters else ""
    is_known = {"map": first.islower(), "zip": first.islower() or first in _ZIPS}.get(term.operator, True)
    if term.operator == "conv":
        is_known = str(term.parameters[3]) in ("NONE", "c")  # no rectifier, whose laws are other ones for NaN
    return term.operator in _OPERATORS and is_known


def is_useful(rule: Equation) -> bool:
    """Whether the target has fewer operators for some choice of inputs that are the same in each run.

    Sums with a row are moved to the end as well, where that costs nothing: so sums of products meet.
    """
    names = [term for term in terms.subterms(*rule.source) if isinstance(term, TensorVariable)]
    choices = itertools.chain.from_iterable(itertools.combinations(names, n) for n in range(len(names)))
    counts = [[_count(side, frozenset(chosen)) for side in rule.sides] for chosen in choices]
    if any(target < source for source, target in counts):
        return True
    heads = [side[0].operator for side in rule.sides if isinstance(side[0], Apply)]
    inner = {term.operator for term in terms.subterms(*rule.source) if isinstance(term, Apply)}
    return heads == ["zip", "bias"] and "bias" in inner and all(target == source for source, target in counts)


def _count(side: tuple[Term, ...], fixed: frozenset[Term]) -> float:
    """How many operators depend on an input that is not fixed; all parts of one tensor are half of one."""
    depends: dict[Term, bool] = {}
    counted: dict[object, float] = {}
    for term in terms.subterms(*side):
        if isinstance(term, TensorVariable):
            depends[term] = term not in fixed
            continue
        depends[term] = any(depends[argument] for argument in term.arguments)
        if depends[term]:
            is_part = term.operator in ("first", "rest")
            counted[("part", term.parameters[0], term.arguments) if is_part else term] = 0.5 if is_part else 1.0
    return sum(counted.values())


def with_pairs(equations: Mapping[Equation, frozenset[str]]) -> dict[Equation, frozenset[str]]:
    """Substitutions and their axioms, and those for both parts of a tensor where there is one for each part.

    Either alone computes the whole for one part, and may lack what the other part has.
    """
    parts: dict[
        tuple[tuple[Size, ...], tuple[Term, ...], tuple[SizeCondition, ...]], dict[str, tuple[Term, frozenset[str]]]
    ] = {}
    for equation, axioms in equations.items():
        for part, other in (equation.sides, equation.sides[::-1]):
            if len(part) == 1 and isinstance(part[0], Apply) and part[0].operator in ("first", "rest"):
                key = part[0].parameters, part[0].arguments, equation.conditions
                parts.setdefault(key, {}).setdefault(part[0].operator, (other[0], axioms))
    pairs = {}
    for (parameters, arguments, conditions), others in parts.items():
        if len(others) == 2:
            both = tuple(Apply(part, parameters, arguments) for part in ("first", "rest"))
            (first, axioms), (rest, more) = others["first"], others["rest"]
            pairs[Equation((first, rest), both, conditions)] = axioms | more
    return {**equations, **pairs}


@cache
def rules() -> tuple[Equation, ...]:
    """The shipped substitutions that are faithful and useful, in the directions in which their targets can be made."""
    found: dict[Equation, None] = {}
    shipped = {one.equation: frozenset(one.axioms) for one in store.read(store.SHIPPED)}
    for equation, axioms in with_pairs(shipped).items():
        for way in (equation, Equation(equation.target, equation.source, equation.conditions)):
            can_be_made = terms.is_closed(way) and all(isinstance(term, Apply) for term in way.source)
            if can_be_made and is_faithful(way, axioms) and is_useful(way):
                found[way] = None
    return tuple(found)
