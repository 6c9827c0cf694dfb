"""Axioms are true, and the prover accepts what follows from them and nothing else."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest

from recgraph.optimize import evaluate, generalizing, store, terms
from recgraph.optimize.axioms import axioms
from recgraph.optimize.operators import OPERATORS
from recgraph.optimize.prover import Prover
from recgraph.optimize.store import Substitution
from recgraph.optimize.terms import Apply, Equation
from tests import sampling

WRONG = Path(__file__).with_name("wrong.txt")
WINDOWS = {"conv", "max_pool", "average_pool", "enlarge"}
IMAGES = sorted(itertools.product((1,), (1, 2, 3), (3,), (1, 2, 4)))
Case = tuple[dict[str, int], dict[str, evaluate.Shape]]
KERNELS = sorted(itertools.product((1, 3), (1, 3), (1, 2), (1, 2)))
RIGHT = [
    "[x @ y, x @ z] => [first(1, dim(y, 1), x @ concat(1, y, z)), rest(1, dim(y, 1), x @ concat(1, y, z))]",
    "x @ y + z @ w => concat(1, x, z) @ concat(0, y, w)",
    "transpose(transpose(x) @ y) => transpose(y) @ x",
    "x + (y + (z + w)) => (w + z) + (y + x)",
    "relu(relu(x)) => relu(x)",
    "bias(1, x @ y, u) + bias(1, z @ w, v) => bias(1, concat(1, x, z) @ concat(0, y, w), u + v)",
    "sum(1, x @ concat(1, y, z)) => x @ (sum(1, y) + sum(1, z))",
    "conv(1, s, p, RELU, x, concat(3, w, v)) => relu(concat(3, conv(1, s, p, NONE, x, w), conv(1, s, p, NONE, x, v))) "
    "where dim(w, 0) == dim(v, 0), dim(w, 1) == dim(v, 1)",
    "batch_norm(conv(1, s, p, NONE, x, w), e, v, u, q) => "
    "bias(3, conv(1, s, p, NONE, x, gain(3, w, u * rsqrt(v))), q - e * (u * rsqrt(v)))",
]


@pytest.fixture(scope="module")
def prover() -> Prover:
    """With all axioms."""
    return Prover()


def shapes_for(axiom: Equation) -> list[evaluate.Shape]:
    """All shapes that an axiom is checked with."""
    has_window = any(isinstance(term, Apply) and term.operator in WINDOWS for term in terms.all_terms(axiom))
    return sorted({*IMAGES, *KERNELS}) if has_window else evaluate.SMALL


def difference(axiom: Equation, limit: int) -> tuple[int, str]:
    """Why an axiom is not true, and how many small sizes were looked at: all, or as many at random."""
    generator, choices = np.random.default_rng(0), shapes_for(axiom)
    count = 0
    cases = (
        (chosen, shapes)
        for chosen in evaluate.settings(axiom)
        for shapes in evaluate.small_shapes(axiom.source, axiom.target, chosen, choices)
    )
    for chosen, shapes in cases if limit <= 0 else some(cases, limit):
        count += evaluate.is_meant(axiom, chosen, shapes)
        found = evaluate.counterexample(axiom, chosen, shapes, generator)
        if found:
            return count, f"{found} for {chosen} and {shapes}"
    return count, ""


def some(cases: Iterable[Case], limit: int) -> list[Case]:
    """Some of the cases."""
    found = list(itertools.islice(cases, 20_000))
    return found if len(found) <= limit else random.Random(0).sample(found, limit)


@pytest.mark.parametrize("name", axioms())
def test_an_axiom_is_true_of_all_small_shapes(name: str) -> None:
    """Everything is proven from it: a wrong one would prove wrong substitutions. RECGRAPH_TEST_ALL=1 takes them all."""
    count, found = difference(axioms()[name], 0 if sampling.ALL else 150)
    assert count > 0
    assert found == ""


@pytest.mark.parametrize(
    "text",
    [
        "x @ y == y @ x",
        "concat(a, x, y) + concat(a, z, w) == concat(a, x + z, y + w)",
        "mean(a, concat(a, x, y)) == mean(a, x) + mean(a, y)",
        "sum(a, mean(b, x)) == mean(b, sum(a, x))",
        "conv(g, s, SAME, c, x, enlarge(n, w)) => conv(g, s, SAME, c, x, w)",
    ],
)
def test_an_axiom_that_is_wrong_is_noticed(text: str) -> None:
    """The check above can fail."""
    assert difference(terms.read(text), 0)[1] != ""


def test_every_operator_has_axioms() -> None:
    """Nothing could be proven of one that has none."""
    used = {t.operator for axiom in axioms().values() for t in terms.all_terms(axiom) if isinstance(t, Apply)}
    assert used == set(OPERATORS)


@pytest.mark.parametrize("text", RIGHT)
def test_what_is_right_is_proven(text: str, prover: Prover) -> None:
    """Also with the axioms alone that a file names."""
    verdict = store.verify(Substitution(terms.read(text)), prover)
    assert verdict.is_proven, verdict.reason
    assert prover(terms.read(text), verdict.axioms).is_proven


@pytest.mark.parametrize("one", store.read(WRONG), ids=str)
def test_what_is_wrong_is_refused_by_the_prover_itself(one: Substitution, prover: Prover) -> None:
    """Not because random tensors showed it; the same substitution is also shown to be wrong."""
    assert not prover(one.equation).is_proven
    assert store.counterexample(one.equation) != ""


def test_there_are_twenty_wrong_ones() -> None:
    assert len(store.read(WRONG)) == 20


def test_a_source_that_is_never_well_formed_proves_nothing(prover: Prover) -> None:
    """From what cannot be, everything follows."""
    verdict = store.verify(Substitution(terms.read("x => x + x where dim(x, 0) < dim(x, 0)")), prover)
    assert not verdict.is_proven
    assert "no sizes were found" in verdict.reason


def test_a_target_with_a_tensor_of_its_own_is_refused(prover: Prover) -> None:
    """There would be nothing to put there."""
    assert "does not have" in prover(terms.read("x => first(a, dim(x, a), concat(a, x, y))")).reason


def changed(equation: Equation, generator: random.Random) -> Equation:
    """A substitution with one parameter or two inputs of the target exchanged."""
    used = [terms.TensorVariable(name) for name in terms.variables(terms.all_terms(equation))]
    numbers = [s for t in terms.subterms(*equation.target) if isinstance(t, Apply) for s in t.parameters if s in (0, 1)]
    if numbers and generator.random() < 0.5:
        sizes = {0: 1, 1: 0} if generator.random() < 0.3 else {numbers[0]: 1 - int(str(numbers[0]))}
        return Equation(
            equation.source, tuple(terms.renamed(t, {}, sizes) for t in equation.target), equation.conditions
        )
    a, b = generator.choice(used), generator.choice(used)
    return Equation(
        equation.source, tuple(terms.renamed(t, {a: b, b: a}) for t in equation.target), equation.conditions
    )


def test_nothing_that_random_tensors_refute_is_proven() -> None:
    """Substitutions with something exchanged: those that are still proven are still true."""
    brief, generator = Prover(effort=500_000), random.Random(0)
    shipped = store.read(store.SHIPPED)
    for one in generator.sample(shipped, min(len(shipped), 60)):
        other = changed(one.equation, generator)
        if brief(other).is_proven:
            assert store.counterexample(other) == "", other


def test_a_share_of_the_shipped_substitutions_is_proven_anew(prover: Prover) -> None:
    """`recgraph optimize verify` proves all of them."""
    shipped = store.read(store.SHIPPED)
    assert len(shipped) > 100
    for one in random.Random(1).sample(shipped, 25):
        assert store.verify(one, prover).is_proven, one


def test_sizes_of_parts_are_those_of_the_tensors_that_lie_there() -> None:
    """A candidate says only that a tensor is divided in the middle."""
    source, target = (terms.read_term(text) for text in ("x @ y", "first(1, half, x @ concat(1, y, z))"))
    shapes = dict.fromkeys("xyz", (4, 4, 1, 1))
    found = next(generalizing.sized((target,), (source,), shapes))
    assert str(found) == "first(1, dim(y, 1), x @ concat(1, y, z)) => x @ y"
