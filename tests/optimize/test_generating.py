"""Generation finds the substitutions that everybody knows, and references compute what TensorFlow does."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from click.testing import CliRunner

import recgraph_command
from recgraph.optimize import evaluate, generator, store, terms
from recgraph.optimize.arithmetic import Field, Reals
from recgraph.optimize.enumeration import Enumeration, run_task, tasks
from recgraph.optimize.families import FAMILIES
from recgraph.optimize.generator import Counts, Selection, count_operators
from recgraph.optimize.prover import Prover
from recgraph.optimize.rewriting import Rules
from recgraph.optimize.terms import TermError
from recgraph_command import main

KNOWN = [
    "[x @ y, x @ z] => [first(1, dim(y, 1), x @ concat(1, y, z)), rest(1, dim(y, 1), x @ concat(1, y, z))]",
    "x @ y + z @ w => concat(1, x, z) @ concat(0, y, w)",
    "x @ y + x @ z => x @ (y + z)",
    "(x @ y) @ z => x @ (y @ z)",
    "transpose(x) @ transpose(y) => transpose(y @ x)",
    "concat(a, relu(x), relu(y)) => relu(concat(a, x, y))",
    "conv(1, s, p, c, x, w) + conv(1, s, p, c, y, w) => conv(1, s, p, c, x + y, w)",
]


def tensor_of(array: np.ndarray) -> tf.Tensor:
    return tf.constant(array[0])


@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("padding", ["SAME", "VALID"])
def test_convolutions_and_pools_are_those_of_tensorflow(stride: int, padding: str) -> None:
    """Paddings above all: a proof is about these references."""
    random = np.random.default_rng(0)
    tensors = {"x": random.normal(size=(1, 2, 5, 4, 3)), "w": random.normal(size=(1, 3, 2, 3, 4))}
    x, w = (tensor_of(one) for one in tensors.values())
    expected = {
        f"conv(1, {stride}, {padding}, NONE, x, w)": tf.nn.conv2d(x, w, stride, padding),
        f"conv(1, {stride}, {padding}, RELU, x, w)": tf.nn.relu(tf.nn.conv2d(x, w, stride, padding)),
        f"max_pool(3, {stride}, {padding}, x)": tf.nn.max_pool2d(x, 3, stride, padding),
        f"average_pool(3, {stride}, {padding}, x)": tf.nn.avg_pool2d(x, 3, stride, padding),
    }
    for text, value in expected.items():
        term = terms.read_term(text)
        found = evaluate.values(list(terms.subterms(term)), tensors, {}, Reals())[term]
        np.testing.assert_allclose(found[0], value, rtol=1e-9, atol=1e-9)


def test_grouped_convolutions_are_those_of_tensorflow() -> None:
    """TensorFlow tells the number of groups from the shapes."""
    random = np.random.default_rng(0)
    tensors = {"x": random.normal(size=(1, 2, 5, 4, 4)), "w": random.normal(size=(1, 3, 3, 2, 6))}
    term = terms.read_term("conv(2, 1, SAME, NONE, x, w)")
    found = evaluate.values(list(terms.subterms(term)), tensors, {}, Reals())[term]
    x, w = (one[0] for one in tensors.values())
    halves = [tf.nn.conv2d(x[..., 2 * g : 2 * g + 2], w[..., 3 * g : 3 * g + 3], 1, "SAME") for g in (0, 1)]
    np.testing.assert_allclose(found[0], tf.concat(halves, -1), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("text", ["softmax(1, x)", "mean(0, x)", "sum(1, x)", "sigmoid(x)", "tanh(x)", "x @ y"])
def test_matrices_are_those_of_tensorflow(text: str) -> None:
    random = np.random.default_rng(0)
    tensors = {"x": random.normal(size=(1, 3, 4, 1, 1)), "y": random.normal(size=(1, 4, 2, 1, 1))}
    x, y = (tf.constant(one[0, :, :, 0, 0]) for one in tensors.values())
    expected = {
        "softmax(1, x)": tf.nn.softmax(x, 1),
        "mean(0, x)": tf.reduce_mean(x, 0, keepdims=True),
        "sum(1, x)": tf.reduce_sum(x, 1, keepdims=True),
        "sigmoid(x)": tf.sigmoid(x),
        "tanh(x)": tf.tanh(x),
        "x @ y": x @ y,
    }[text]
    term = terms.read_term(text)
    found = evaluate.values(list(terms.subterms(term)), tensors, {}, Reals())[term]
    np.testing.assert_allclose(found[0, :, :, 0, 0], expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("text", ["relu(x) - relu(neg(x)) => x", "sigmoid(x) + sigmoid(neg(x)) => ones(x)"])
def test_the_field_keeps_what_functions_have_in_common(text: str) -> None:
    """Otherwise a fingerprint would tell graphs apart that are equal."""
    found = evaluate.counterexample(terms.read(text), {}, {"x": (4, 4, 1, 1)}, np.random.default_rng(0), Field())
    assert found == ""


@pytest.mark.parametrize("text", [*KNOWN, "concat(a, x, y) => z where a != b, dim(x, a) < n + 1", "x - (y - z) => x"])
def test_what_is_written_is_read_again(text: str) -> None:
    equation = terms.read(text)
    assert terms.read(str(equation)) == equation


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x + y", "one => or =="),
        ("relu(x, y) => x", "'relu' takes 0 parameters and 1 tensors, found 2 arguments"),
        ("frob(x) => x", "there is no operator 'frob'"),
        ("[x, y] => x", "equally many results"),
        ("x / y => x", "'x / y' is no tensor"),
        ("sum(X, x) => x", "'X' is no size or parameter"),
    ],
)
def test_what_cannot_be_read_is_named(text: str, message: str) -> None:
    with pytest.raises(TermError, match=message) as caught:
        terms.read(text, "rules.txt:7")
    assert "rules.txt:7" in str(caught.value)


@pytest.fixture(scope="module")
def shipped() -> Rules:
    rules = Rules()
    for one in store.read(store.SHIPPED):
        rules.add(one.equation)
    return rules


@pytest.mark.parametrize("text", [KNOWN[1], KNOWN[3], KNOWN[5]])
def test_known_substitutions_follow_from_the_shipped_ones(text: str, shipped: Rules) -> None:
    equation = terms.read(text)
    assert shipped.imply(*equation.sides)


def test_parallel_products_are_shipped() -> None:
    """The one that makes a cell with a matrix a gate as fast as one that was fused by hand; for each result."""
    shipped = {str(one.equation) for one in store.read(store.SHIPPED)}
    halves = {"first": "y", "rest": "z"}
    assert {f"{part}(1, dim(y, 1), x @ concat(1, y, z)) => x @ {name}" for part, name in halves.items()} <= shipped


def test_every_graph_is_made_once() -> None:
    """Each graph of two operators over representatives, counted by brute force."""
    made = Enumeration(FAMILIES["constants"])
    made.extend()
    blocks = [
        (b.move, left, right)
        for b in made.blocks(2)
        for ls, rs in b.chunks()
        for left, right in zip(ls, rs, strict=True)
    ]
    graphs = {(int(m), int(a), int(b)) for m, a, b in blocks}
    assert len(graphs) == len(blocks)
    shapes = [made.shapes[number] for number in made.table.shape]
    expected = set()
    for move, one in enumerate(made.family.moves):
        for pair in itertools.product(range(len(made.table)), repeat=one.arity):
            operators = {int(node) for value in pair for node in made.table.nodes[value] if node >= 0}
            if len(operators) == 1 and one.numbers([shapes[value] for value in pair]) is not None:
                expected.add((move, *(sorted(pair) if one.is_commutative else pair)))
    found = set()
    for move, *pair in graphs:
        pair = [value for value in pair if value >= 0]
        found.add((move, *(sorted(pair) if made.family.moves[move].is_commutative else pair)))
    assert found == expected


def test_an_enumeration_that_was_stopped_goes_on(tmp_path: Path) -> None:
    """With what is there, and with the same result."""
    made, found = generator.enumerate_family("products", 2, tmp_path, 1, lambda line: None)
    parts = sorted(tmp_path.glob("*.part-*"))
    assert parts
    times = {path: path.stat().st_mtime_ns for path in tmp_path.glob("*.levels")}
    parts[0].unlink()
    _, again = generator.enumerate_family("products", 2, tmp_path, 1, lambda line: None)
    assert (again.graphs, again.pairs) == (found.graphs, found.pairs)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.glob("*.levels")} == times


@pytest.mark.slow
def test_processes_make_the_graphs_that_one_makes(tmp_path: Path) -> None:
    _, one = generator.enumerate_family("products", 2, tmp_path / "one", 1, lambda line: None)
    _, two = generator.enumerate_family("products", 2, tmp_path / "two", 2, lambda line: None)
    assert (one.graphs, one.pairs, len(one.members)) == (two.graphs, two.pairs, len(two.members))


def test_candidates_lose_what_both_sides_have_in_common(tmp_path: Path) -> None:
    """tanh(x) @ y + tanh(x) @ z is about any matrix, not about tanh."""
    made = Enumeration(FAMILIES["constants"])
    shapes = dict.fromkeys("xyz", (4, 4, 1, 1))
    sides = (terms.read_term("tanh(x) @ y + tanh(x) @ z"),), (terms.read_term("tanh(x) @ (y + z)"),)
    found = generator.Simplifier(made.field)(*sides, shapes)
    assert str(found.equation) == "(x @ y) + (x @ z) => x @ (y + z)"
    kept = (terms.read_term("relu(relu(x))"),), (terms.read_term("relu(x)"),)
    assert str(generator.Simplifier(made.field)(*kept, shapes).equation) == "relu(relu(x)) => relu(x)"


def test_what_follows_from_others_is_left_out(tmp_path: Path) -> None:
    rules = Rules()
    for text in ("x + y => y + x", "(x + y) + z => x + (y + z)"):
        rules.add(terms.read(text))
    side = (terms.read_term("(x + y) + (z + w)"),)
    assert rules.imply(side, (terms.read_term("(x + w) + (y + z)"),), limit=5000)
    assert not rules.imply(side, (terms.read_term("x + y"),))


def test_generation_from_end_to_end(tmp_path: Path) -> None:
    """Two operators: everything that it keeps is proven, and nothing that tests let pass is lost in the counts."""
    made, found = generator.enumerate_family("products", 2, tmp_path, 1, lambda line: None)
    counts, selection, prover = Counts(), Selection(), Prover()
    candidates = generator.distinct(found, made, counts)
    assert max(count_operators(one.source) for one in candidates) <= 3  # a split after two
    for candidate in candidates[:40]:
        selection(candidate, counts)
    kept = selection.finish()
    assert counts.independent >= counts.tested >= counts.proven > 10
    assert "(x @ y) @ z => x @ (y @ z)" in {str(one.equation) for one in kept}
    assert all(prover(one.equation, one.axioms).is_proven for one in kept)


def test_the_last_level_is_divided_into_tasks_without_rest() -> None:
    made = Enumeration(FAMILIES["products"])
    made.extend()
    whole = sum(len(block) for block in made.blocks(2, is_last=True))
    assert sum(len(block) for task in tasks(made, size=50) for block in task) == whole
    assert len(run_task(made, [block for task in tasks(made) for block in task])) <= whole


def test_the_command_names_every_family() -> None:
    """It does so without importing anything."""
    assert list(FAMILIES) == recgraph_command.FAMILIES


def test_verify_refuses_a_file_with_a_wrong_line(tmp_path: Path) -> None:
    """In words, and with an exit status."""
    path = tmp_path / "rules.txt"
    path.write_text("x @ y + x @ z => x @ (y + z)\nx @ y => y @ x\n", encoding="utf-8")
    result = CliRunner().invoke(main, ["optimize", "verify", str(path)])
    assert result.exit_code == 1
    assert "refused: x @ y => y @ x" in result.stdout
    assert "1 proven, 1 refused" in result.stdout


def test_generate_writes_a_file_that_verify_accepts(tmp_path: Path) -> None:
    out = tmp_path / "rules.txt"
    arguments = ["optimize", "generate", "--family", "products", "--operators", "1", "--processes", "1"]
    assert CliRunner().invoke(main, [*arguments, "--out", str(out)]).exit_code == 0
    assert "axioms" in out.read_text(encoding="utf-8").splitlines()[0]
    result = CliRunner().invoke(main, ["optimize", "verify", str(out), "--json"])
    assert result.exit_code == 0, result.output
    assert '"proven": true' in result.stdout
