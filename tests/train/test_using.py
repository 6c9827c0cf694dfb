"""What is done with a trained model: classify, draw, save, serve."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from recgraph.data import TreeBatch, TreeFormatError, Vocabulary, balanced, encode, load_sst, parse_tree
from recgraph.models import TreeModel
from recgraph.models.hyper import Hyper, State
from recgraph.train import export, pictures, predictor, tree_arrays
from recgraph.train.run import Run

SENTENCES = ["the film is not dull", "brilliant", "", "a film that nobody ever saw , yet the script is charming"]


@pytest.fixture(scope="module")
def saved(trained: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A SavedModel."""
    folder = tmp_path_factory.mktemp("saved")
    export.save(trained.model, trained.vocabulary, folder)
    return folder


def expected_roots(run: Run, sentences: list[str]) -> np.ndarray:
    """Probabilities at the roots, by way of `Predictor`."""
    trees = [balanced(sentence.split() or ["<unk>"]) for sentence in sentences]
    return np.stack([prediction.probabilities[-1] for prediction in predictor.Predictor(run)(trees)])


def test_predictions_do_not_depend_on_the_batch(trained: Run, treebank: Path) -> None:
    """A tree gets its own rows."""
    trees = load_sst(treebank).dev
    classify = predictor.Predictor(trained)
    for one, many in zip(classify(trees, batch_size=1), classify(trees, batch_size=7), strict=True):
        assert one.tree is many.tree
        assert one.probabilities.shape == (len(one.tree), 5)
        np.testing.assert_allclose(one.probabilities, many.probabilities, atol=1e-5)
        np.testing.assert_allclose(one.probabilities.sum(1), 1, atol=1e-5)


def test_input_lines_are_trees_or_sentences() -> None:
    """A sentence is tokenised as the treebank is, and gets a balanced tree."""
    tree, sentence = predictor.read_inputs(["(3 (2 quite) (3 good))\n", "It isn't (very) good.\n"], "in.txt")
    assert tree.label == 3
    assert sentence.tokens == ("It", "is", "n't", "-LRB-", "very", "-RRB-", "good", ".")


def test_a_broken_line_is_named() -> None:
    """File, line and column."""
    with pytest.raises(TreeFormatError, match=r"^in.txt:2:\d+: expected"):
        list(predictor.read_inputs(["good", "(3 (2 quite)"], "in.txt"))
    with pytest.raises(ValueError, match=r"^in.txt:1:1: expected a tree or a sentence, found an empty line"):
        list(predictor.read_inputs([" \n"], "in.txt"))


@pytest.mark.parametrize("ending", ["png", "svg"])
@pytest.mark.parametrize("classes", [2, 5])
def test_a_tree_is_drawn(tmp_path: Path, ending: str, classes: int) -> None:
    """With labels, without, and with words that matplotlib would take for formulas."""
    tree = parse_tree("(3 (? costs) (4 (2 $5) (1 $_^2)))")
    pictures.draw_tree(tree, [0, 1, 1, 0, 1], tmp_path / f"tree.{ending}", classes)
    assert (tmp_path / f"tree.{ending}").stat().st_size > 1000


def test_balanced_trees_in_the_graph_are_those_of_the_binariser() -> None:
    """What is served is what `predict` does, for sentences of every length."""
    lengths = [*range(1, 20), 1, 64, 33]
    vocabulary = Vocabulary(("<unk>", *(f"w{number}" for number in range(sum(lengths)))))
    words = iter(vocabulary.words[1:])
    trees = [balanced([next(words) for _ in range(length)]) for length in lengths]
    expected = encode(trees, vocabulary)
    place, left, right, roots = tf.function(tree_arrays.balanced_trees)(tf.constant(lengths))
    np.testing.assert_array_equal(place, np.where(expected.words < 0, -1, expected.words - 1))
    np.testing.assert_array_equal(left, expected.left)
    np.testing.assert_array_equal(right, expected.right)
    np.testing.assert_array_equal(roots, expected.roots)


def test_sentences_are_served(trained: Run, saved: Path) -> None:
    """The default signature, an empty sentence and an empty batch included."""
    serve = tf.saved_model.load(str(saved)).signatures["serving_default"]
    result = serve(sentences=tf.constant(SENTENCES))
    np.testing.assert_allclose(result["probabilities"], expected_roots(trained, SENTENCES), atol=1e-5)
    assert serve(sentences=tf.constant([], tf.string))["probabilities"].shape == [0, 5]


def test_sentences_as_people_write_them_are_served_as_they_are_predicted(trained: Run, saved: Path) -> None:
    """One tokenization: "Terrible." is two tokens in both."""
    sentences = [
        *("A warm, funny, engaging film.", "Terrible.", "It isn't (very) good!", '"The film" cannot be dull: I\'d say'),
        *("\u00a0the\u3000film\t", "na\u00efve \u2014 caf\u00e9...", "a/b * c"),
    ]
    trees = predictor.read_inputs(sentences, "in.txt")
    expected = np.stack([prediction.probabilities[-1] for prediction in predictor.Predictor(trained)(trees)])
    serve = tf.saved_model.load(str(saved)).signatures["sentences"]
    served = serve(sentences=tf.constant(sentences))["probabilities"]
    np.testing.assert_allclose(served, expected, atol=1e-5)
    apart = expected_roots(trained, ["Terrible ."])
    np.testing.assert_allclose(served[1:2], apart, atol=1e-5)


def test_trees_are_served(trained: Run, saved: Path, treebank: Path) -> None:
    """Every node of every tree."""
    trees = load_sst(treebank).test
    batch = encode(trees, trained.vocabulary)
    words = tf.constant([word for tree in trees for word in tree.words])
    serve = tf.saved_model.load(str(saved)).signatures["trees"]
    result = serve(words=words, **{name: tf.constant(getattr(batch, name)) for name in ("left", "right", "roots")})
    expected = [prediction.probabilities for prediction in predictor.Predictor(trained)(trees)]
    np.testing.assert_allclose(result["nodes"], np.concatenate(expected), atol=1e-5)


FRESH_PROCESS = """
import sys
import tensorflow as tf
import recgraph
serve = tf.saved_model.load(sys.argv[1]).signatures["sentences"]
print(*serve(sentences=tf.constant([sys.argv[2]]))["probabilities"].numpy()[0])
assert not any(name.startswith(("recgraph.models", "recgraph.train")) for name in sys.modules)
"""

SESSION = """
import sys
import tensorflow as tf
import recgraph
with tf.compat.v1.Session(graph=tf.Graph()) as session:
    model = tf.compat.v1.saved_model.load(session, ["serve"], sys.argv[1])
    signature = model.signature_def["serving_default"]
    name = next(iter(signature.inputs.values())).name
    print(*session.run(signature.outputs["probabilities"].name, {name: [sys.argv[2]]})[0])
"""


@pytest.mark.parametrize("program", [FRESH_PROCESS, SESSION], ids=["fresh", "session"])
def test_a_saved_model_runs_without_the_code_of_the_model(trained: Run, saved: Path, program: str) -> None:
    """In a process that imports `recgraph` alone, and through the loader that servers use."""
    command = [sys.executable, "-W", "ignore", "-c", program, str(saved), SENTENCES[0]]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    np.testing.assert_allclose(
        [float(p) for p in done.stdout.split()], expected_roots(trained, SENTENCES[:1])[0], atol=1e-5
    )


def test_a_model_that_was_trained_further_is_saved_again(trained: Run, saved: Path, tmp_path: Path) -> None:
    """Saving does not freeze the model, and a saved model does not change with it."""
    before = expected_roots(trained, SENTENCES)
    bias = trained.model.output_bias.numpy()
    trained.model.output_bias.assign(bias + np.array([3, 0, 0, 0, 0], np.float32))
    try:
        after = expected_roots(trained, SENTENCES)
        export.save(trained.model, trained.vocabulary, tmp_path)
    finally:
        trained.model.output_bias.assign(bias)
    for folder, expected in ((saved, before), (tmp_path, after)):
        serve = tf.saved_model.load(str(folder)).signatures["sentences"]
        np.testing.assert_allclose(serve(sentences=tf.constant(SENTENCES))["probabilities"], expected, atol=1e-5)


class Printed(TreeModel):
    """A cell with a matrix for each gate and child."""

    defaults = Hyper(embedding=8, hidden=8)

    def __init__(self, words: int) -> None:
        super().__init__(words)
        self.matrices = [self._matrix(f"gate{i}", 8, 8) for i in range(5)]

    def leaf(self, vector: tf.Tensor) -> State:
        return (tf.tanh(vector @ self.matrices[4]),)

    def compose(self, left: State, right: State) -> State:
        keep, new = (left[0] @ self.matrices[2 * i] + right[0] @ self.matrices[2 * i + 1] for i in range(2))
        return (tf.sigmoid(keep) * left[0] + tf.tanh(new),)


def test_an_exported_model_may_be_rewritten(trained: Run, tmp_path: Path) -> None:
    """Where that was measured; it gives the same."""
    model = Printed(len(trained.vocabulary.words))
    rewritten, lines = export.choose(model, trained.vocabulary)
    assert [line.split(":")[0] for line in lines] == ["sentences", "trees"]
    assert [line.endswith(": used") for line in lines] == [name in rewritten for name in ("sentences", "trees")]
    assert model.optimize is None
    found = []
    for names in ((), ("sentences", "trees")):
        folder = tmp_path / str(len(names))
        export.save(model, trained.vocabulary, folder, names)
        serve = tf.saved_model.load(str(folder)).signatures["sentences"]
        found.append(serve(sentences=tf.constant(SENTENCES)))
        assert (b"Recgraph>Merge" in (folder / "saved_model.pb").read_bytes()) is bool(names)
    np.testing.assert_allclose(found[1]["nodes"], found[0]["nodes"], atol=1e-5)


def test_batches_are_traced_once(trained: Run) -> None:
    """Every size of batch runs the same graph."""
    classify = predictor.Predictor(trained)
    list(classify([balanced(["film"])] * 3, batch_size=2))
    assert classify._probabilities.experimental_get_tracing_count() == 1


def test_the_batch_type_has_the_fields_of_the_signature() -> None:
    """`trees` takes a `TreeBatch` apart by name."""
    assert TreeBatch._fields == ("words", "left", "right", "labels", "offsets", "roots")
