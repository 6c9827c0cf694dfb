"""What a graph costs: the sum of what its operators cost, as measured on this machine or, where that was not done, as
guessed from how much they compute and move."""

from __future__ import annotations

import dataclasses
import json
import math
import platform
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import platformdirs

from recgraph import files
from recgraph.optimize import pieces
from recgraph.optimize.evaluate import IllFormed, Shape
from recgraph.optimize.operators import CONSTANTS, OPERATORS
from recgraph.optimize.problem import UNKNOWN, Leaf, Problem
from recgraph.optimize.terms import Apply, TensorVariable, Term

_ELEMENTWISE = ("map", "zip", "scale", "bias", "gain")
# Rows that a size stands for that is not known before the graph runs.
_TYPICAL = 16


@dataclass(frozen=True)
class Guess:
    """Seconds that operators take, from how much they compute and move.

    Attributes:
        start: for each operation.
        cut: for cutting a tensor into parts, however many.
        product: for each matrix product or convolution, which has more to prepare.
        products: for each addition or multiplication of a matrix product or a convolution.
        function: for each value of an elementwise function.
        moved: for each number that is read or written.
        weight: for each number of a factor that few rows are multiplied with: it is read from memory.
    """

    start: float = 7e-7
    cut: float = 5e-7
    product: float = 1.2e-6
    products: float = 1e-11
    function: float = 2e-10
    moved: float = 1e-10
    weight: float = 7e-11


def cache_file() -> Path:
    """Where measured costs of this machine are."""
    name = "".join(c if c.isalnum() else "-" for c in platform.node() or "machine")
    return Path(platformdirs.user_cache_dir("recgraph")) / f"costs-{name}.json"


def key_of(term: Apply, arguments: list[Shape], dtype: str) -> str:
    """What a measured cost is known by."""
    sizes = " ".join("x".join(map(str, dims)) for dims in arguments)
    return f"{term.operator}({', '.join(map(str, term.parameters))}) {sizes} {dtype}"


@dataclass
class Costs:
    """Seconds for operators, shapes and dtypes.

    Attributes:
        measured: by `key_of`.
        guess: for the others.
        dtype: of the numbers.
    """

    measured: dict[str, float] = field(default_factory=dict)
    guess: Guess = Guess()
    dtype: str = "float32"
    _ratios: dict[tuple[str, int], tuple[np.ndarray, np.ndarray]] = field(
        default_factory=dict, repr=False, compare=False
    )

    @staticmethod
    def read(path: Path | None = None) -> Costs:
        """Those of a file, by default of this machine's; guesses where there is none."""
        path = path or cache_file()
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
            guess = Guess(**{name: float(value) for name, value in found["guess"].items()})
            return Costs({str(key): float(seconds) for key, seconds in found["seconds"].items()}, guess)
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return Costs()

    def write(self, path: Path | None = None) -> Path:
        """Keeps the measured costs."""
        path = path or cache_file()
        record = {"machine": platform.node(), "guess": dataclasses.asdict(self.guess), "seconds": self.measured}
        files.write_text(path, json.dumps(record, indent=1))
        return path

    def of(self, problem: Problem, roots: tuple[Term, ...]) -> float:
        """Seconds for all that computes some results."""
        total, wholes = 0.0, set()
        for term in pieces.steps(problem, roots):
            if pieces.is_part(term):
                one = pieces.cut(problem, term)
                if (one.whole, one.axis) in wholes:  # all parts of a tensor are cut by one operation
                    total -= self.guess.cut
                wholes.add((one.whole, one.axis))
            total += self.of_one(problem, term)
        return total

    def of_one(self, problem: Problem, term: Apply) -> float:
        """Seconds for one operator, as far as they are not known yet."""
        if term not in problem.costs:
            problem.costs[term] = self.of_step(problem, term)
        return problem.costs[term]

    def of_step(self, problem: Problem, term: Apply) -> float:
        """Seconds for one operator: as measured, or guessed and corrected by what was measured of similar ones."""
        if _is_fused(term):
            return 0.0
        guess = self._guess(problem, term)
        if not self.measured:
            return guess
        arguments = [_sizes(problem.dims(one)) for one in pieces.inputs(problem, term)]
        known = self.measured.get(key_of(term, arguments, self.dtype))
        return guess * self._correction(term, arguments) if known is None else known

    def _correction(self, term: Apply, arguments: list[Shape]) -> float:
        """How many times longer than guessed the same operator takes for similar sizes, the most similar ones first."""
        if not self._ratios:
            self._ratios.update(_ratios(self))
        found = self._ratios.get(_kind(term, arguments))
        if found is None:
            return 1.0
        places, ratios = found
        distances = ((places - np.log(np.array(arguments, float).ravel())) ** 2).sum(1)
        nearest = np.argsort(distances)[:8]
        weights = 1 / (distances[nearest] + 1e-6) ** 2
        return float(np.exp((weights * ratios[nearest]).sum() / weights.sum()))

    def _guess(self, problem: Problem, term: Apply) -> float:
        guess = self.guess
        result = _sizes(problem.dims(term))
        arguments = [_sizes(problem.dims(one)) for one in term.arguments]
        parameters = [CONSTANTS[p] if isinstance(p, str) else int(str(p)) for p in term.parameters]
        work = OPERATORS[term.operator].cost(parameters, arguments, result)
        if term.operator in ("matmul", "conv"):
            read = guess.moved * _count(arguments[0]) + guess.weight * _count(arguments[1])
            return guess.product + guess.products * work + read
        if term.operator == "map":
            return guess.start + guess.function * work
        if term.operator in _ELEMENTWISE:
            return guess.start + guess.moved * work
        if pieces.is_part(term):
            return guess.cut + guess.moved * _count(result)
        return guess.start + guess.moved * (_count(result) if term.operator == "concat" else work)


def _is_fused(term: Term) -> bool:
    """Whether TensorFlow computes an operator together with the convolution before it: a bias, and a rectifier then."""
    if not isinstance(term, Apply) or not term.arguments or not isinstance(inner := term.arguments[0], Apply):
        return False
    if term.operator == "bias":
        return inner.operator == "conv"
    return term.operator == "map" and term.parameters == ("RELU",) and (inner.operator == "conv" or _is_fused(inner))


def _kind(term: Apply, arguments: list[Shape]) -> tuple[str, int]:
    return f"{term.operator}({', '.join(map(str, term.parameters))})", len(arguments)


def _ratios(costs: Costs) -> dict[tuple[str, int], tuple[np.ndarray, np.ndarray]]:
    """For each operator, the sizes that were measured and the ratios to what is guessed, both as logarithms."""
    found: dict[tuple[str, int], list[tuple[list[float], float]]] = {}
    for key, seconds in costs.measured.items():
        if not key.endswith(f" {costs.dtype}"):
            continue
        text, _, sizes = key.removesuffix(f" {costs.dtype}").partition(") ")
        name, _, parameters = text.partition("(")
        try:
            arguments = [tuple(map(int, size.split("x"))) for size in sizes.split()]
            variables = tuple(TensorVariable(f"x{i}") for i in range(len(arguments)))
            values = tuple(int(one) if one.isdigit() else one for one in parameters.split(", ") if one)
            term = Apply(name, values, variables)
            problem = Problem((term,), {f"x{i}": Leaf(dims) for i, dims in enumerate(arguments)})
            ratio = math.log(seconds / costs._guess(problem, term))
        except (ValueError, KeyError, IllFormed):
            continue
        place = [math.log(size) for dims in arguments for size in dims]
        found.setdefault(_kind(term, list(arguments)), []).append((place, ratio))
    return {kind: (np.array([p for p, _ in rows]), np.array([r for _, r in rows])) for kind, rows in found.items()}


def _count(dims: Shape) -> int:
    count = 1
    for size in dims:
        count *= size
    return count


def _sizes(dims: Shape) -> Shape:
    return tuple(_TYPICAL if size >= UNKNOWN else size for size in dims)
