"""The main job from end to end: a generated treebank, a trained TreeLSTM with a parser, evaluation, plain sentences, a
SavedModel."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from recgraph.data import Tree, load_sst, write_treebank
from recgraph.train import console, export, parsing, predictor, run
from recgraph.train.settings import Settings

SIZES = (3000, 400, 800)
HYPER = {"embedding": 64, "hidden": 64, "dropout": 0.2}
PARSER_EPOCHS = 2
PICTURES = 3
SENTENCES = ("the plot is not dull", "a film that is not dull")


def run_demo(out: Path, seed: int, as_json: bool) -> dict[str, float]:
    """Runs the whole demo in a folder, or continues one that was stopped.

    Args:
      out: the folder.
      seed: of the treebank and the weights.
      as_json: whether to print JSON lines.

    Returns:
      The accuracies on the test set, fractions by name.
    """
    data, trained = out / "treebank", out / "run"
    say = (lambda text: None) if as_json else click.echo
    if not (data / "test.txt").exists():
        write_treebank(data, SIZES, seed)
    say(f"1. a treebank of {sum(SIZES)} trees, drawn from a grammar: {data}")
    say("2. a TreeLSTM, trained on it, and a parser, trained to make such trees of plain sentences")
    settings = Settings("tree_lstm", str(data.resolve()), epochs=12, patience=3, seed=seed, hyper=HYPER)
    console.train(trained, settings, fresh=False, as_json=as_json, parser_epochs=PARSER_EPOCHS)
    say("3. its accuracy on trees that it has not seen")
    accuracies = console.evaluate(trained, None, "test", as_json)
    say("4. what it says about them, and about sentences that are given as plain text")
    loaded = run.load(trained)
    brought = parsing.brought(loaded)
    classify = brought.predictor(loaded)
    test = load_sst(data).test
    inputs = [*test[:PICTURES], *predictor.read_inputs(SENTENCES, "sentences")]
    for index, prediction in enumerate(classify(inputs)):
        console.show(prediction, out / f"tree-{index}.png", as_json)
    plain = plain_accuracy(classify, test)
    if as_json:
        console.echo_json({"split": "test", "sentences": len(test), "plain_text": plain})
    say(f"5. of the {len(test)} test sentences, given as plain text without their trees, {100 * plain:.1f} % are right")
    export.save(loaded.model, loaded.vocabulary, out / "saved_model", brought=brought)
    say(f"6. saved for serving: {out / 'saved_model'}\n7. the learning curve: {trained / 'curve.png'}")
    return {**accuracies, "plain_text": plain}


def plain_accuracy(classify: predictor.Predictor, trees: Sequence[Tree]) -> float:
    """The share of sentences whose sentiment is found from their words alone.

    Args:
      classify: the predictor.
      trees: with labelled roots; their shapes are not shown to it.
    """
    sentences = [predictor.Sentence(tree.tokens) for tree in trees]
    found = zip(classify(sentences), trees, strict=True)
    return sum(int(one.classes[-1]) == tree.label for one, tree in found) / len(trees)
