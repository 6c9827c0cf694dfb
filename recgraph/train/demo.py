"""The main job from end to end: a generated treebank, a trained TreeLSTM, its evaluation, pictures, a SavedModel."""

from __future__ import annotations

from pathlib import Path

import click

from recgraph.data import load_sst, write_treebank
from recgraph.train import console, export, predictor, run
from recgraph.train.settings import Settings

SIZES = (3000, 400, 800)
HYPER = {"embedding": 64, "hidden": 64, "dropout": 0.2}
PICTURES = 3
SENTENCES = ("the plot is not dull", "a brilliant but predictable film")


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
    say("2. a TreeLSTM, trained on it")
    settings = Settings("tree_lstm", str(data.resolve()), epochs=12, patience=3, seed=seed, hyper=HYPER)
    console.train(trained, settings, fresh=False, as_json=as_json)
    say("3. its accuracy on trees that it has not seen")
    accuracies = console.evaluate(trained, None, "test", as_json)
    say("4. what it says about them")
    loaded = run.load(trained)
    classify = predictor.Predictor(loaded)
    trees = [*load_sst(data).test[:PICTURES], *predictor.read_inputs(SENTENCES, "sentences")]
    for index, tree in enumerate(trees):
        console.show(classify, tree, out / f"tree-{index}.png", as_json)
    export.save(loaded.model, loaded.vocabulary, out / "saved_model")
    say(f"5. saved for serving: {out / 'saved_model'}\n6. the learning curve: {trained / 'curve.png'}")
    return accuracies
