"""Plain sentences: trees like those of training, probabilities that admit what a model has not seen, words it lacks."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from click.testing import CliRunner

from recgraph.data import (
    TreeBatch,
    Vocabulary,
    encode,
    generate_treebank,
    linear,
    load_sst,
    moderate,
    tree_of_spans,
    write_trees,
)
from recgraph.models import SpanParser
from recgraph.models.parser import true_spans
from recgraph.train import confidence, console, export, parsing, predictor, tree_arrays
from recgraph.train.demo import plain_accuracy, run_demo
from recgraph.train.run import CONFIDENCE, Run, load_classifier, prepare
from recgraph.train.settings import Settings
from recgraph.train.trainer import Trainer
from recgraph_command import main

UNKNOWN = [f"zog{i}" for i in range(60)]


@pytest.fixture(scope="module")
def folder(treebank: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run that brings a parser; both of an epoch."""
    folder = tmp_path_factory.mktemp("brought") / "run"
    hyper = {"embedding": 8, "hidden": 8, "batch_size": 10}
    settings = Settings("tree_lstm", str(treebank), epochs=1, hyper=hyper)
    console.train(folder, settings, fresh=False, as_json=True, parser_epochs=1)
    return folder


def command(*arguments: object, text: str = "") -> tuple[list[str], str]:
    """What a command prints on standard output, and on standard error."""
    done = CliRunner().invoke(main, [str(argument) for argument in arguments], input=text)
    assert done.exit_code == 0, done.output
    return done.stdout.splitlines(), done.stderr


def test_a_classifier_brings_a_parser_and_says_which_words_it_does_not_know(folder: Path) -> None:
    """Trees of the input are its own."""
    text = f"the film is good\n(3 (2 the) (3 zog))\n{' '.join(UNKNOWN)}\n"
    found, said = command("predict", folder, "--json", text=text)
    records = [json.loads(line) for line in found]
    assert [record["tree_from"] for record in records] == ["parser", "given", "parser"]
    assert [record["unknown_words"] for record in records] == [[], ["zog"], UNKNOWN]
    assert "Warning" not in said
    lines, _ = command("predict", folder, text=text)
    assert lines[1].endswith("the zog  [1 of 2 words unknown: zog]")
    assert lines[2].endswith("[60 of 60 words unknown: zog0, zog1, zog2, zog3, zog4, ...]")


def test_without_a_parser_there_is_a_warning_with_figures(trained: Run) -> None:
    """Once, and only where a sentence is plain."""
    _, said = command("predict", trained.folder, text="the film is good\nthe plot is bad\n")
    assert said.count("Warning: ") == 1
    assert "brings no parser, so plain sentences get balanced trees" in said
    assert "% of its dev sentences, with their own about" in said
    assert f"recgraph train --model parser --task parsing --data {trained.settings.data}" in said
    _, said = command("predict", trained.folder, text="(3 (2 the) (3 film))\n")
    assert said == ""


def test_a_parser_may_be_given(trained: Run, folder: Path) -> None:
    """Another run's, for instance; a run that does not parse is refused."""
    found, said = command("predict", trained.folder, "--parser", folder / "parser", "--json", text="the film\n")
    assert json.loads(found[0])["tree_from"] == "parser"
    assert "Warning" not in said
    done = CliRunner().invoke(main, ["predict", str(trained.folder), "--parser", str(folder)], input="the film\n")
    assert "this run does not parse sentences" in done.output


def test_what_is_served_is_what_is_predicted(folder: Path, tmp_path: Path) -> None:
    """Trees of the parser, temperatures, and the number of unknown words; a sentence without a word counts as one."""
    run = load_classifier(folder)
    brought = parsing.brought(run)
    sentences = ["the film is not dull .", "zog", "the zog is good", "its plot is bad , but this cast is superb ."]
    export.save(run.model, run.vocabulary, tmp_path, brought=brought)
    serve = tf.saved_model.load(str(tmp_path)).signatures["sentences"]
    served = serve(sentences=tf.constant([*sentences, ""]))
    asked = list(brought.predictor(run)(predictor.read_inputs(sentences, "in.txt")))
    expected = np.stack([one.probabilities[-1] for one in asked])
    np.testing.assert_allclose(served["probabilities"][:-1], expected, atol=1e-5)
    assert served["unknown"].numpy().tolist() == [0, 1, 1, 0, 1]
    assert serve(sentences=tf.constant([], tf.string))["probabilities"].shape == [0, 5]


def test_trees_of_spans_in_the_graph_are_those_of_the_binariser() -> None:
    """Of every shape."""
    lengths = [1, 2, 3, 7, 1, 12, 5]
    words = [[f"w{i}" for i in range(length)] for length in lengths]
    trees = [moderate(some, seed) for seed, some in enumerate(words)] + [linear(some) for some in words]
    batch = encode(trees, Vocabulary(("<unk>",)))
    spans = true_spans(TreeBatch(*map(tf.constant, batch)))
    for tree, found in zip(trees, spans.numpy(), strict=True):
        assert tree_of_spans(tree.tokens, found[: len(tree.tokens) - 1].tolist()) == tree
    place, left, right, roots = tf.function(tree_arrays.trees_of_spans)(tf.constant(lengths * 2), spans)
    leaves = np.where(batch.words < 0, 0, 1)
    np.testing.assert_array_equal(place, np.where(leaves == 1, np.cumsum(leaves) - 1, -1))
    np.testing.assert_array_equal(left, batch.left)
    np.testing.assert_array_equal(right, batch.right)
    np.testing.assert_array_equal(roots, batch.roots)


def test_a_temperature_is_as_high_as_the_errors_ask_for() -> None:
    """None for what is always right; sure and wrong is told to be unsure; never surer than the network is."""
    random = np.random.default_rng(0)
    targets = random.integers(0, 5, 2000).astype(np.int32)
    sure = 20 * np.eye(5, dtype=np.float32)[targets]
    assert confidence.fitted(sure, targets) < 4
    mixed = 20 * np.eye(5, dtype=np.float32)[np.where(random.random(2000) < 0.6, targets, (targets + 1) % 5)]
    temperature = confidence.fitted(mixed, targets)
    shares = np.exp(mixed / temperature)
    assert abs((shares.max(1) / shares.sum(1)).mean() - 0.6) < 0.05
    assert (
        confidence.fitted(20 * np.eye(5, dtype=np.float32)[(targets + random.integers(0, 5, 2000)) % 5], targets) > 100
    )
    assert confidence.fitted(np.eye(5, dtype=np.float32)[targets], targets) == 1


def test_temperatures_rise_with_the_share_of_unknown_words_and_are_the_same_in_a_graph() -> None:
    table = {origin: [1.0, 2.0, 4.0, 8.0, 64.0] for origin in confidence.ORIGINS}
    measured = confidence.Confidence(1, "", table, {})
    shares = np.array([0, 0.1, 0.25, 0.6, 0.75, 0.99, 1.0], np.float32)
    found = measured.temperature("given", shares)
    assert (np.diff(found) > 0).all()
    assert found[[0, 2, 6]].tolist() == pytest.approx([1, 2, 64])
    np.testing.assert_allclose(measured.temperature_in_graph("given", tf.constant(shares)), found, rtol=1e-4)


def test_confidence_is_that_of_the_weights(treebank: Path, tmp_path: Path) -> None:
    """It is measured anew for other weights, for another parser and where the file is damaged; unsure without data."""
    bank = tmp_path / "bank"
    bank.mkdir()
    for split, trees in load_sst(treebank)._asdict().items():
        write_trees(bank / f"{split}.txt", trees)
    settings = Settings("tree_lstm", str(bank), epochs=1, hyper={"embedding": 8, "hidden": 8, "batch_size": 10})
    run = prepare(tmp_path / "run", settings)
    Trainer(run).fit(lambda sums: None, lambda record: None)
    first = confidence.of(run, None)
    path = run.folder / CONFIDENCE
    assert first.epoch == 1
    assert confidence.of(run, None) == first
    for damage in ("", "{}", json.dumps({**json.loads(path.read_text()), "temperatures": {"given": [0]}})):
        path.write_text(damage)
        assert confidence.of(run, None) == first
    path.write_text(path.read_text().replace('"epoch": 1', '"epoch": 7'))
    assert confidence.of(run, None) == first
    path.unlink()
    (bank / "dev.txt").unlink()
    unsure = confidence.of(run, None)
    assert unsure.accuracies == {}
    assert not path.exists()
    (one,) = predictor.Predictor(run, None, unsure)([predictor.Sentence(("the", "film"))])
    np.testing.assert_allclose(one.probabilities[-1], 0.2, atol=0.01)


def test_a_new_parser_with_random_vectors_learns_more_than_it_forgets() -> None:
    """Where the parts of a span add up to almost the same at each cut, the decay of weights is all that a step does."""
    trees = generate_treebank(25, seed=1)
    vocabulary = Vocabulary.build(trees)
    model = SpanParser(len(vocabulary))
    with tf.GradientTape() as tape:
        loss = model.loss(TreeBatch(*map(tf.constant, encode(trees, vocabulary))))[0] / len(trees)
    weights = [model.span_kernel, model.score_kernel]
    for weight, gradient in zip(weights, tape.gradient(loss, weights), strict=True):
        assert tf.norm(gradient) > model.hyper.l2 * tf.norm(weight)


def test_plain_accuracy_looks_at_words_alone(folder: Path) -> None:
    run = load_classifier(folder)
    classify = parsing.brought(run).predictor(run)
    trees = load_sst(run.settings.data).test
    right = [one.classes[-1] == tree.label for one, tree in zip(classify(
        predictor.read_inputs([" ".join(tree.tokens) for tree in trees], "in.txt")), trees, strict=True)]  # fmt: skip
    assert plain_accuracy(classify, trees) == np.mean(right)


# Phrases as people type them, and whether they praise; none is among the sentences that the demo learns from.
PHRASES = {
    "a film that is not dull": True,
    "a film that is dull": False,
    "the film that is not dull": True,
    "a film that is not good": False,
    "a story that is never engaging": False,
    "a film which lacks a good script": False,
    "an awful story that is not awful": True,
    "a brilliant comedy that is never dull": True,
    "a film without a dull plot": True,
    "a film with a dull plot": False,
    "not a good film": False,
    "not a bad film": True,
    "hardly an exquisite comedy": False,
    "not a film that is dull": True,
    "an engaging story with a fresh script": True,
    "a very good story that is funny": True,
    "not remarkably good and rather shallow": False,
    "the plot is not dull": True,
    "this film is dull": False,
}


@pytest.mark.slow
def test_the_demo_understands_phrases_that_it_has_not_seen(tmp_path: Path) -> None:
    """Noun phrases and others, with negations and without, of both polarities."""
    accuracies = run_demo(tmp_path, seed=0, as_json=True)
    assert accuracies["plain_text"] > 0.97
    seen = {" ".join(tree.tokens).removesuffix(" .") for tree in load_sst(tmp_path / "treebank").train}
    assert seen.isdisjoint(PHRASES)
    found, said = command("predict", tmp_path / "run", "--json", text="\n".join(PHRASES))
    records = [json.loads(line) for line in found]
    assert said == ""
    assert [record["unknown_words"] for record in records] == [[]] * len(PHRASES)
    praised = ("positive", "very positive")
    wrong = [record for record in records if (record["sentiment"] in praised) is not PHRASES[record["sentence"]]]
    assert wrong == []
    assert "neutral" not in {record["sentiment"] for record in records}
