"""The prover: whether the axioms imply a substitution, decided by z3.

A term is an element of one sort, an operator is a function of it. `ok(t)` says that t is well formed, and `dim(t, i)`
gives its size along axis i. What `ok` and `dim` are for an operator comes from its shape function, as a formula. So
shapes, strides, axes and sizes are quantified like tensors, and a proof holds for all of them.

In the model that is meant, everything that is ill formed is one value of its own. So an axiom, that its right side is
well formed and the same wherever its left side is well formed, is true of all elements.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from recgraph.errors import RecgraphError

try:
    import z3
except ImportError as error:
    raise RecgraphError("proofs need z3", next_step="pip install 'z3-solver>=4.13'") from error

from recgraph.optimize import axioms, terms
from recgraph.optimize.operators import AXES, CONSTANTS, OPERATORS
from recgraph.optimize.terms import Equation, Extent, Size, SizeCondition, SizeSum, TensorVariable, Term

_COMPARE = {
    "==": lambda x, y: x == y,
    "!=": lambda x, y: x != y,
    "<": lambda x, y: x < y,
    "<=": lambda x, y: x <= y,
}


EFFORT = 5_000_000


def z3_version() -> str:
    """The version of the solver."""
    return str(z3.get_version_string())


@dataclass(frozen=True)
class Verdict:
    """What the prover says of a substitution.

    Attributes:
        is_proven: whether it follows from the axioms.
        axioms: the names of those that it follows from; not all of them may be needed.
        reason: why it is refused.
    """

    is_proven: bool
    axioms: tuple[str, ...] = ()
    reason: str = ""


class Formulas:
    """The logic of formulas: what `operators.Logic` asks for, as terms of z3."""

    def __init__(self) -> None:
        self._ceil = z3.Function("ceil", z3.IntSort(), z3.IntSort(), z3.IntSort())
        self._divides = z3.Function("divides", z3.IntSort(), z3.IntSort(), z3.BoolSort())

    def choose(self, condition: Any, yes: Any, no: Any) -> Any:
        """See `Logic`."""
        if isinstance(condition, bool):
            return yes if condition else no
        return z3.If(condition, yes, no)

    def ceil(self, size: Any, stride: Any) -> Any:
        """See `Logic`: only that a stride of 1 changes nothing is known of it."""
        return self.choose(stride == 1, size, self._ceil(size, stride))

    def divides(self, factor: Any, size: Any) -> Any:
        """See `Logic`: 1 divides everything; of other factors nothing is known."""
        return self.choose(factor == 1, True, self._divides(factor, size))

    def odd(self, size: Any) -> Any:
        """See `Logic`."""
        return size % 2 == 1


class Theory:
    """The sort, the functions and the axioms, as formulas of z3."""

    def __init__(self, named: Mapping[str, Equation] | None = None) -> None:
        self.tensor = z3.DeclareSort("Tensor")
        self.ok = z3.Function("ok", self.tensor, z3.BoolSort())
        self.dim = z3.Function("dim", self.tensor, z3.IntSort(), z3.IntSort())
        self.logic = Formulas()
        self.functions = {
            name: z3.Function(name, *[z3.IntSort()] * len(one.parameters), *[self.tensor] * one.arity, self.tensor)
            for name, one in OPERATORS.items()
        }
        self.named = axioms.axioms() if named is None else named

    @cached_property
    def shapes(self) -> list[Any]:
        """What `ok` and `dim` are for each operator."""
        return [self._shape(name) for name in OPERATORS]

    def _shape(self, name: str) -> Any:
        one = OPERATORS[name]
        numbers = [z3.Int(f"p{i}") for i in range(len(one.parameters))]
        tensors = [z3.Const(f"t{i}", self.tensor) for i in range(one.arity)]
        result = self.functions[name](*numbers, *tensors)
        conditions, sizes = one.shape(self.logic, numbers, [self.sizes(t) for t in tensors])
        fits = z3.And(*(self.ok(t) for t in tensors), *conditions)
        known = z3.And(*(self.dim(result, i) == size for i, size in enumerate(sizes)))
        body = z3.And(self.ok(result) == fits, z3.Implies(self.ok(result), known))
        if not numbers and not tensors:
            return body
        return z3.ForAll([*numbers, *tensors], body, patterns=[result])

    def sizes(self, tensor: Any) -> list[Any]:
        """The sizes of a tensor."""
        return [self.dim(tensor, i) for i in range(AXES)]

    @property
    def positive(self) -> Any:
        """Every size is at least 1."""
        t, i = z3.Const("t", self.tensor), z3.Int("i")
        return z3.ForAll([t, i], z3.Implies(self.ok(t), self.dim(t, i) >= 1), patterns=[self.dim(t, i)])

    def axiom(self, equation: Equation) -> Any:
        """An axiom as a formula: for all parameters and tensors, if the left side is well formed, both are one."""
        names = terms.parameters(equation)
        numbers = {name: z3.Int(name) for name in names}
        tensors = {name: z3.Const(f"{name}'", self.tensor) for name in terms.variables(terms.all_terms(equation))}
        writer = Writer(self, numbers, tensors)
        (left,), (right,) = equation.sides
        conditions = [writer.condition(one) for one in equation.conditions]
        body = z3.Implies(z3.And(self.ok(writer(left)), *conditions), writer(left) == writer(right))
        sides = [(left,), (right,)] if equation.both_ways else [(left,)]
        return z3.And(*(self._with_pattern(side, (left, right), body, numbers, tensors) for side in sides))

    def _with_pattern(
        self,
        side: tuple[Term, ...],
        both: tuple[Term, ...],
        body: Any,
        numbers: Mapping[str, Any],
        tensors: Mapping[str, Any],
    ) -> Any:
        """The formula, to be used where z3 meets such a term; or both sides, where one does not have all names."""
        pattern = PatternWriter(self, numbers, tensors)
        found = [pattern(term) for term in side]
        bound = [*numbers.values(), *tensors.values()]
        if not {one.get_id() for one in bound} <= set().union(*map(_ids, found)):
            if side == both:
                raise ValueError(f"{both[0]} and {both[1]} do not have all names")
            return self._with_pattern(both, both, body, numbers, tensors)
        inner = z3.Implies(z3.And(*pattern.equal), body) if pattern.equal else body
        return z3.ForAll([*bound, *pattern.extra], inner, patterns=[z3.MultiPattern(*found)])


def _ids(term: Any) -> set[int]:
    return {term.get_id()}.union(*(_ids(child) for child in term.children()))


class Writer:
    """Writes terms and sizes as those of z3."""

    def __init__(self, theory: Theory, numbers: Mapping[str, Any], tensors: Mapping[str, Any]) -> None:
        self.theory = theory
        self.numbers = numbers
        self.tensors = tensors

    def __call__(self, term: Term) -> Any:
        """A term."""
        if isinstance(term, TensorVariable):
            return self.tensors[term.name]
        numbers = [self.parameter(size) for size in term.parameters]
        return self.theory.functions[term.operator](*numbers, *map(self, term.arguments))

    def parameter(self, size: Size) -> Any:
        """A parameter of an operator."""
        return self.size(size)

    def size(self, size: Size) -> Any:
        """A size."""
        match size:
            case int():
                return z3.IntVal(size)
            case str():
                return z3.IntVal(CONSTANTS[size]) if size in CONSTANTS else self.numbers[size]
            case Extent(tensor=tensor, axis=axis):
                return self.theory.dim(self(tensor), self.size(axis))
            case SizeSum(sign=sign, left=left, right=right):
                return self.size(left) + self.size(right) if sign > 0 else self.size(left) - self.size(right)

    def condition(self, condition: SizeCondition) -> Any:
        """A condition."""
        return _COMPARE[condition.comparison](self.size(condition.left), self.size(condition.right))


class PatternWriter(Writer):
    """Writes a pattern: a parameter that is computed becomes a name of its own, which equals it."""

    def __init__(self, theory: Theory, numbers: Mapping[str, Any], tensors: Mapping[str, Any]) -> None:
        super().__init__(theory, numbers, tensors)
        self.extra: list[Any] = []
        self.equal: list[Any] = []

    def parameter(self, size: Size) -> Any:
        """See `Writer`."""
        if isinstance(size, str) and size not in CONSTANTS:
            return self.numbers[size]
        self.extra.append(z3.Int(f"computed{len(self.extra)}"))
        self.equal.append(self.extra[-1] == self.size(size))
        return self.extra[-1]


class Prover:
    """Proves substitutions.

    Args:
        named: the axioms; by default all.
        effort: when it gives up on one, in z3's units, of which most proofs take 100,000. So a verdict does not depend
            on how busy the machine is.
    """

    def __init__(self, named: Mapping[str, Equation] | None = None, effort: int = EFFORT) -> None:
        self.theory = Theory(named)
        self.effort = effort
        self._labels = {name: z3.Bool(f"axiom {name}") for name in self.theory.named}
        self._formulas = {
            name: z3.Implies(self._labels[name], self.theory.axiom(axiom)) for name, axiom in self.theory.named.items()
        }

    def __call__(self, equation: Equation, hints: Sequence[str] = ()) -> Verdict:
        """Whether all results of the target are those of the source, and well formed.

        Args:
            equation: the substitution.
            hints: the axioms that it was proven from before. They are tried first; without success, all are.
        """
        if not terms.is_closed(equation):
            return Verdict(False, reason="the target has tensors or parameters that the source does not have")
        if hints and all(name in self._labels for name in hints):
            verdict = self._prove(equation, hints)
            if verdict.is_proven:
                return verdict
        return self._prove(equation, list(self._labels))

    def _prove(self, equation: Equation, names: Sequence[str]) -> Verdict:
        theory = self.theory
        solver = z3.SolverFor("UFLIA")
        solver.set("rlimit", self.effort, "smt.mbqi", False, "smt.auto_config", False, "unsat_core", True)
        solver.set("smt.random_seed", 1)
        solver.add(*theory.shapes, theory.positive, *(self._formulas[name] for name in names))
        order = terms.all_terms(equation)
        tensors = {name: z3.Const(name, theory.tensor) for name in terms.variables(order)}
        write = Writer(theory, {name: z3.Int(name) for name in terms.parameters(equation)}, tensors)
        solver.add(*(theory.ok(tensor) for tensor in tensors.values()))
        solver.add(*(theory.ok(write(term)) for term in equation.source))
        solver.add(*(write.condition(condition) for condition in equation.conditions))
        pairs = [(write(source), write(target)) for source, target in zip(*equation.sides, strict=True)]
        solver.add(z3.Or(*(source != target for source, target in pairs)))
        found = solver.check(*(self._labels[name] for name in names))
        if found == z3.unsat:
            used = {str(label).removeprefix("axiom ") for label in solver.unsat_core()}
            return Verdict(True, tuple(name for name in names if name in used))
        return Verdict(
            False, reason="it does not follow from the axioms" if found == z3.sat else solver.reason_unknown()
        )
