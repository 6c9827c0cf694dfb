"""Axioms are true, and the prover accepts what follows from them and nothing else."""

from __future__ import annotations

import collections
import random
from pathlib import Path

import numpy as np
import pytest

from recgraph.optimize import evaluate, generalizing, store, terms
from recgraph.optimize.axioms import axioms
from recgraph.optimize.cases import cases
from recgraph.optimize.operators import OPERATORS
from recgraph.optimize.prover import Prover
from recgraph.optimize.store import Substitution
from recgraph.optimize.terms import Apply, Equation
from tests import sampling

WRONG = Path(__file__).with_name("wrong.txt")
WRONG_AXIOMS = Path(__file__).with_name("wrong_axioms.txt")
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


def difference(equation: Equation, limit: int | None) -> tuple[int, str]:
    """Why an equation is not true, and in how many cases it was tried; see `cases.cases`."""
    generator, count = np.random.default_rng(0), 0
    for chosen, shapes in cases(equation, generator, limit):
        count += 1
        found = evaluate.counterexample(equation, chosen, shapes, generator)
        if found:
            return count, f"{found} for {chosen} and {shapes}"
    return count, ""


@pytest.mark.parametrize("name", axioms())
def test_an_axiom_is_true(name: str) -> None:
    """Everything is proven from it: a wrong one would prove wrong substitutions.

    `--all` tries it until nothing new is seen.
    """
    count, found = difference(axioms()[name], None if sampling.ALL else 24)
    assert count > 0
    assert found == ""


@pytest.mark.parametrize("one", sampling.share(store.read(store.SHIPPED)[:: 1 if sampling.ALL else 6]), ids=str)
def test_a_shipped_substitution_is_true(one: Substitution) -> None:
    """Whatever has proven it."""
    count, found = difference(one.equation, None if sampling.ALL else 12)
    assert count > 0
    assert found == ""


def wrong_axioms() -> list[tuple[str, str]]:
    """Operators, and axioms that are wrong about them."""
    lines = WRONG_AXIOMS.read_text(encoding="utf-8").splitlines()
    found = [line.partition(": ") for line in lines if line and not line.startswith("#")]
    return [(operator, text) for operator, _, text in found]


@pytest.mark.parametrize(("operator", "text"), wrong_axioms())
def test_an_axiom_that_is_wrong_is_noticed(operator: str, text: str) -> None:
    """The check above can fail: also where one remainder or one missing condition makes the difference."""
    equation = terms.read(text)
    assert operator in {term.operator for term in terms.all_terms(equation) if isinstance(term, Apply)}
    assert difference(equation, None)[1] != ""


def test_there_are_two_wrong_axioms_for_each_operator() -> None:
    counts = collections.Counter(operator for operator, _ in wrong_axioms())
    assert set(counts) == set(OPERATORS)
    assert min(counts.values()) >= 2
    assert counts.total() >= 60


@pytest.mark.parametrize("name", ["conv-groups", "max-pool-map"])
def test_what_follows_from_a_wrong_axiom_is_refused(name: str) -> None:
    """`verify` tries what it has proven, too, and says which axioms it has used."""
    true = axioms()[name]
    wrong = Equation(true.source, true.target, true.conditions[: -3 if name == "conv-groups" else -1])
    verdict = store.verify(Substitution(wrong), Prover({**axioms(), name: wrong}))
    assert not verdict.is_proven
    assert f"but it follows from {name}: an axiom or an operator is wrong" in verdict.reason


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
