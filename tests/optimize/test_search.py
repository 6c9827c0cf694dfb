"""What a search finds computes the same, is cheaper by its costs, and can be computed in some order."""

from __future__ import annotations

import dataclasses
import itertools
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from click.testing import CliRunner

from recgraph.optimize import choosing, evaluate, terms
from recgraph.optimize.arithmetic import Field, Reals
from recgraph.optimize.axioms import axioms
from recgraph.optimize.bridge import extraction, measuring
from recgraph.optimize.bridge.emission import Emission
from recgraph.optimize.costs import Costs, key_of
from recgraph.optimize.operators import MAPS, ZIPS
from recgraph.optimize.pieces import steps
from recgraph.optimize.problem import UNKNOWN, Leaf, Problem
from recgraph.optimize.prover import Prover
from recgraph.optimize.saturation import Saturation
from recgraph.optimize.search import Backtracking, Search
from recgraph.optimize.terms import Apply, TensorVariable
from recgraph_command import main
from tests import sampling

SIZES = {"x": (1, 8), "y": (1, 8), "w": (8, 8), "v": (8, 8), "r": (8, 4), "u": (1, 8), "k": (8, 8)}
ROWS = frozenset("xy")
GRAPHS = sampling.count("programs", 12)


def problem(*texts: str, needs: dict[str, frozenset[int]] | None = None) -> Problem:
    """Rows x and y; the rest is the same in each run."""
    leaves = {
        name: Leaf((*dims, 1, 1), name not in ROWS, (needs or {}).get(name, frozenset()))
        for name, dims in SIZES.items()
    }
    return Problem(tuple(map(terms.read_term, texts)), leaves)


def counted(given: Problem, roots: tuple[terms.Term, ...], operator: str) -> int:
    """How many operators of a kind are run."""
    return sum(term.operator == operator for term in steps(given, roots))


def search(name: str = "backtracking") -> Search:
    """With the shipped substitutions."""
    if name == "saturation":
        pytest.importorskip("egglog")
        return Saturation(choosing.rules())
    return Backtracking(choosing.rules())


BOTH = pytest.mark.parametrize("way", ["backtracking", "saturation"])


def values(roots: tuple[terms.Term, ...], seed: int = 0) -> list[np.ndarray]:
    """The values of terms for random inputs."""
    random = np.random.default_rng(seed)
    tensors = {name: random.normal(size=(2, *dims, 1, 1)) for name, dims in SIZES.items()}
    found = evaluate.values(list(terms.subterms(*roots)), tensors, {}, Reals())
    return [found[root] for root in roots]


@pytest.mark.parametrize(
    ("texts", "products"),
    [
        (["x @ w", "x @ v"], (1, 1)),
        (["x @ w + y @ v"], (1, 1)),
        (["sigmoid(bias(1, x @ w, u))", "sigmoid(bias(1, x @ v, u))", "tanh(bias(1, x @ k, u))"], (1, 1)),
        # Saturation stops where no single change makes the graph cheaper.
        (["sigmoid(bias(1, x @ w, u) + bias(1, y @ v, u))", "tanh(bias(1, x @ k + y @ w, u))"], (1, 2)),
        (["(x @ w) @ v"], (2, 2)),
        (["x @ w", "y @ v"], (2, 2)),
    ],
)
@BOTH
def test_products_of_cells_become_one(texts: list[str], products: tuple[int, int], way: str) -> None:
    given = problem(*texts)
    found = search(way)(given, Costs(), 60.0)
    assert counted(given, found.roots, "matmul") == products[way == "saturation"]
    assert found.after <= found.before
    for one, other in zip(values(given.roots), values(found.roots), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)


def random_terms(random: np.random.Generator, count: int) -> list[terms.Term]:
    """Results of a random graph over rows, weights and a bias."""
    rows: list[terms.Term] = [TensorVariable("x"), TensorVariable("y")]
    weights = [TensorVariable(name) for name in "wvk"]

    def some() -> terms.Term:
        return rows[random.integers(len(rows))]

    for _ in range(count):
        match random.integers(7):
            case 0 | 1 | 2:
                made = Apply("matmul", (), (some(), weights[random.integers(3)]))
            case 3:
                made = Apply("bias", (1,), (some(), TensorVariable("u")))
            case 4:
                made = Apply("map", (["SIGMOID", "TANH", "RELU", "NEG"][random.integers(4)],), (some(),))
            case 5:
                made = Apply("zip", (["ADD", "MUL", "SUB", "MAX"][random.integers(4)],), (some(), some()))
            case _:
                whole = Apply("concat", (1,), (some(), some()))
                made = Apply(["first", "rest"][random.integers(2)], (1, int(random.choice([8]))), (whole,))
        rows.append(made)
    return rows[-3:]


@BOTH
@pytest.mark.parametrize("seed", range(GRAPHS))
def test_random_graphs_compute_the_same(seed: int, way: str) -> None:
    """By the reference of each operator."""
    leaves = {name: Leaf((*dims, 1, 1), name not in ROWS) for name, dims in SIZES.items()}
    given = Problem(tuple(random_terms(np.random.default_rng(seed), 9)), leaves)
    find = Backtracking(choosing.rules(), budget=40) if way == "backtracking" else search(way)
    found = find(given, Costs(), 60.0)
    assert found.after <= found.before
    for one, other in zip(values(given.roots, seed), values(found.roots, seed), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-7, atol=1e-7)


@BOTH
def test_a_result_that_is_needed_for_an_input_comes_first(way: str) -> None:
    """y is what a call makes of the first result: one operation for both results would wait for itself."""
    texts = ["tanh(x @ w)", "tanh(y @ w)"]
    apart = problem(*texts, needs={"y": frozenset({0})})
    found = search(way)(apart, Costs(), 60.0)
    assert counted(apart, found.roots, "matmul") == 2
    assert apart.is_in_order(found.roots)


@BOTH
def test_sizes_that_are_not_known_are_never_equal(way: str) -> None:
    """Two tensors whose numbers of rows are not known are not added, joined or cut by these numbers."""
    leaves = {
        "x": Leaf((UNKNOWN, 8, 1, 1)),
        "y": Leaf((UNKNOWN + 1, 8, 1, 1)),
        **{name: Leaf((8, 8, 1, 1), True) for name in "wv"},
    }
    given = Problem(tuple(map(terms.read_term, ("x @ w", "y @ w"))), leaves)
    assert search(way)(given, Costs(), 60.0).roots == given.roots
    together = Problem(tuple(map(terms.read_term, ("x @ w", "x @ v"))), leaves)
    assert counted(together, search(way)(together, Costs(), 60.0).roots, "matmul") == 1


def test_what_changes_infinities_or_cancels_is_not_applied() -> None:
    """They are proven of the reals, and refused for floating-point numbers."""
    assert set(axioms()) >= choosing.DISTRIBUTE
    prover = Prover()
    refused = ["(x + x) - x => x", "relu(x) * relu(x) => relu(x) * x", "x - x => zeros(x)", "max(x, x) => x"]
    refused += ["(x @ y) @ z => x @ (y @ z)", "gain(1, x @ y, z) => x @ gain(1, y, z)"]
    for text in refused:
        assert not choosing.is_faithful(terms.read(text), prover(terms.read(text)).axioms), text
    for text in ("x @ y + z @ w => concat(1, x, z) @ concat(0, y, w)", "(x + y) + z => x + (y + z)"):
        assert choosing.is_faithful(terms.read(text), prover(terms.read(text)).axioms), text


@BOTH
def test_infinities_and_nan_come_out_where_they_did(way: str) -> None:
    """Of weights and of rows."""
    texts = ["sigmoid(bias(1, x @ w, u) + bias(1, y @ v, u))", "tanh(bias(1, x @ k + y @ w, u))"]
    given = problem(*texts)
    found = search(way)(given, Costs(), 60.0)
    assert counted(given, found.roots, "matmul") == (1 if way == "backtracking" else 2)
    random = np.random.default_rng(0)
    for name, value in itertools.product(SIZES, (np.inf, -np.inf, np.nan)):
        tensors = {one: random.normal(size=(1, *dims, 1, 1)) for one, dims in SIZES.items()}
        tensors[name][0, 0, 3] = value
        with np.errstate(all="ignore"):
            both = [
                evaluate.values(list(terms.subterms(*roots)), tensors, {}, Reals())
                for roots in (given.roots, found.roots)
            ]
        for one, other in zip(given.roots, found.roots, strict=True):
            np.testing.assert_allclose(both[0][one], both[1][other], rtol=1e-9, atol=1e-9)


def test_measured_costs_decide(tmp_path: Path) -> None:
    """Where the machine says that the merged product is slow, products stay apart."""
    given = problem("x @ w", "x @ v")
    merged = Apply(
        "matmul", (), (TensorVariable("x"), Apply("concat", (1,), (TensorVariable("w"), TensorVariable("v"))))
    )
    slow = Costs({
        key_of(merged, [(1, 8, 1, 1), (8, 16, 1, 1)], "float32"): 1.0,
        key_of(merged, [(1, 8, 1, 1), (8, 8, 1, 1)], "float32"): 1e-6,
    })  # fmt: skip
    path = slow.write(tmp_path / "costs.json")
    read = Costs.read(path)
    assert read.measured == slow.measured
    assert counted(given, search()(given, read, 60.0).roots, "matmul") == 2
    assert Costs.read(tmp_path / "missing.json").measured == {}
    (tmp_path / "damaged.json").write_text("{")
    assert Costs.read(tmp_path / "damaged.json").measured == {}


def test_costs_of_what_was_not_measured_follow_from_what_is_like_it() -> None:
    """The same operator of the sizes that are nearest; other operators are guessed as before."""
    given, x, w = problem("x @ w"), TensorVariable("x"), TensorVariable("w")
    product = Apply("matmul", (), (x, w))
    guessed = Costs().of_step(given, product)
    measured = {
        key_of(product, [(1, 8, 1, 1), (8, 7, 1, 1)], "float32"): 50 * guessed,
        key_of(product, [(64, 800, 1, 1), (800, 800, 1, 1)], "float32"): 1e-9,
        "damaged": 1.0,
    }
    costs = Costs(measured)
    assert 25 * guessed < costs.of_step(given, product) < 100 * guessed
    assert costs.of_step(given, Apply("map", ("TANH",), (x,))) == Costs().of_step(given, Apply("map", ("TANH",), (x,)))


def test_what_all_steps_of_a_recurrent_network_use_is_read_once() -> None:
    """Products by one weight become one, those of one input, too, and so do the functions of what comes of them; a
    state is still computed from the one before."""
    steps, gates, size = 3, 4, 256
    leaves = {f"x{t}": Leaf((1, size, 1, 1)) for t in range(steps)} | {"h": Leaf((1, size, 1, 1))}
    leaves |= {f"{name}{i}": Leaf((size, size, 1, 1), True) for name in "wu" for i in range(gates)}
    state = "h"
    for t in range(steps):
        a, b, c, d = (f"tanh(x{t} @ w{i} + {state} @ u{i})" for i in range(gates))
        state = f"(({a} + {b}) * ({c} + {d}))"
    given = Problem((terms.read_term(state),), leaves)
    found = search()(given, Costs(), 60.0)
    assert counted(given, given.roots, "matmul") == 2 * steps * gates
    assert counted(given, found.roots, "matmul") == 1 + steps
    assert counted(given, found.roots, "map") == steps
    random = np.random.default_rng(0)
    tensors = {name: random.normal(0, 0.1, size=(2, *leaf.dims)) for name, leaf in leaves.items()}
    before, after = (
        evaluate.values(list(terms.subterms(*one.roots)), tensors, {}, Reals())[one.roots[0]] for one in (given, found)
    )
    np.testing.assert_allclose(before, after, rtol=1e-9, atol=1e-9)


def test_what_tensorflow_computes_with_a_convolution_costs_nothing() -> None:
    """A bias and a rectifier are left at their convolution: behind a joint they would be operations of their own."""
    leaves = {"x": Leaf((1, 8, 8, 4)), "w": Leaf((1, 1, 4, 4), True), "v": Leaf((3, 3, 4, 4), True)}
    leaves["u"] = Leaf((1, 1, 1, 4), True)
    each = "relu(bias(3, conv(1, 1, SAME, NONE, x, {}), u))"
    given = Problem((terms.read_term(f"concat(3, {each.format('w')}, {each.format('v')})"),), leaves)
    assert search()(given, Costs(), 60.0).roots == given.roots
    plain = Problem((terms.read_term("concat(3, relu(bias(3, x, u)), relu(bias(3, sigmoid(x), u)))"),), leaves)
    assert counted(plain, search()(plain, Costs(), 60.0).roots, "bias") == 1


def test_measured_operators_run() -> None:
    """TensorFlow leaves out what nobody uses: a large product would cost as little as a small one."""
    x, y = TensorVariable("x"), TensorVariable("y")
    small = measuring._seconds(Apply("matmul", (), (x, y)), [(1, 8, 1, 1), (8, 8, 1, 1)])
    large = measuring._seconds(Apply("matmul", (), (x, y)), [(64, 512, 1, 1), (512, 512, 1, 1)])
    assert large > 20 * small


def test_parts_of_parts_have_one_form() -> None:
    """Whichever axis is cut first."""
    given = problem()
    given.declare("z", Leaf((4, 4, 1, 1)))
    for outer, inner in itertools.product(("first", "rest"), repeat=2):
        one, other = f"{outer}(0, 1, {inner}(1, 2, z))", f"{inner}(1, 2, {outer}(0, 1, z))"
        made = [given.shared(terms.read_term(text)) for text in (one, other)]
        assert made[0] is made[1]
        assert str(made[0]) == other


@pytest.mark.parametrize(
    ("texts", "cuts", "numbers"),
    [
        (["first(0, 1, z)"], 1, 6),
        (["first(0, 1, z)", "rest(0, 1, z)"], 1, 24),
        (["first(0, 1, z)", "rest(1, 2, z)"], 2, 6 + 16),
        (["first(0, 1, z)", "first(0, 1, rest(0, 2, z))"], 1, 6 + 6),
    ],
)
def test_all_parts_of_a_tensor_cost_one_cut(texts: list[str], cuts: int, numbers: int) -> None:
    """Along an axis; what is moved are the numbers of each part."""
    given, guess = Problem(tuple(map(terms.read_term, texts)), {"z": Leaf((4, 6, 1, 1))}), Costs().guess
    assert Costs().of(given, given.roots) == pytest.approx(cuts * guess.cut + numbers * guess.moved)


def test_measuring_writes_what_searches_read(tmp_path: Path) -> None:
    """A cost for each operator and shape, and positive ones for those that were not measured."""
    out = tmp_path / "costs.json"
    done = CliRunner().invoke(main, ["optimize", "measure", "--rows", "1", "--size", "8", "--out", str(out)])
    assert done.exit_code == 0, done.output
    read = Costs.read(out)
    assert len(read.measured) == 8
    assert min(read.measured.values()) > 0
    assert min(dataclasses.asdict(read.guess).values()) > 0
    given = problem("x @ w", "x @ v")
    assert read.of(given, given.roots) > 0


def test_saturation_ends_where_it_may_not_grow() -> None:
    """A limit on growth, and one on time."""
    pytest.importorskip("egglog")
    given = problem("x @ w", "x @ v", "x @ k", "y @ w", "y @ v", "y @ k")
    found = Saturation(choosing.rules(), most=50)(given, Costs(), 60.0)
    assert found.after <= found.before
    nothing = Saturation(choosing.rules())(given, Costs(), 0.0)
    assert nothing.roots == given.roots


def test_saturation_finds_nearly_what_backtracking_finds() -> None:
    """On a recurrent network, where either may stop at a graph that no single change makes cheaper."""
    leaves = {f"x{t}": Leaf((1, 256, 1, 1)) for t in range(2)} | {"h": Leaf((1, 256, 1, 1))}
    leaves |= {f"{name}{i}": Leaf((256, 256, 1, 1), True) for name in "wu" for i in range(4)}
    state = "h"
    for t in range(2):
        state = "*".join(f"tanh(x{t} @ w{i} + {state} @ u{i})" for i in range(4))
    given = Problem((terms.read_term(state),), leaves)
    best, other = (search(way)(given, Costs(), 60.0).after for way in ("backtracking", "saturation"))
    assert other < given_cost(given) * 0.85
    assert other < 1.1 * best


def given_cost(given: Problem) -> float:
    """Seconds for a graph as it is."""
    return Costs().of(given, given.roots)


@pytest.mark.parametrize("name", MAPS)
def test_every_function_of_one_tensor_is_known_everywhere(name: str) -> None:
    """As a term, by the references, and as an operation."""
    x = np.linspace(0.25, 2.0, 4).reshape(1, 2, 2, 1, 1)
    term = Apply("map", (name,), (TensorVariable("x"),))
    given = Problem((term,), {"x": Leaf((2, 2, 1, 1))})
    operation = Emission(given, lambda one, as_row: tf.constant(x[0, :, :, 0, 0]) if one != term else None)
    expected = 1 / np.sqrt(x) if name == "RSQRT" else Reals().map(name, x)
    np.testing.assert_allclose(operation(term), expected[0, :, :, 0, 0], rtol=1e-6)
    assert Field().map(name, np.ones((2, 2), np.int64)).shape == (2, 2)
    assert name in extraction._MAPS.values()
    assert Costs.read().of_one(given, term) > 0


@pytest.mark.parametrize("name", ZIPS)
def test_every_function_of_two_tensors_is_known_everywhere(name: str) -> None:
    """As a term, by the references, and as an operation."""
    x = np.linspace(0.25, 2.0, 4).reshape(1, 2, 2, 1, 1)
    term = Apply("zip", (name,), (TensorVariable("x"), TensorVariable("y")))
    given = Problem((term,), {"x": Leaf((2, 2, 1, 1)), "y": Leaf((2, 2, 1, 1))})
    inputs = {"x": tf.constant(x[0, :, :, 0, 0]), "y": tf.constant(1 - x[0, :, :, 0, 0])}
    operation = Emission(given, lambda one, as_row: inputs.get(str(one)))
    np.testing.assert_allclose(operation(term), Reals().zip(name, x, 1 - x)[0, :, :, 0, 0], rtol=1e-6)
    ones = np.ones((2, 2), np.int64)
    assert Field().zip(name, ones, ones).shape == (2, 2)
    assert name in extraction._ZIPS.values()
    assert Costs.read().of_one(given, term) > 0
