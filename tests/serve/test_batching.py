"""Requests that come at the same time are one batch inside of the graph, and none of them can tell."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from recgraph.data import Vocabulary
from recgraph.models import MODELS, TreeLSTM
from recgraph.models.hyper import Hyper
from recgraph.train import export
from recgraph.train.batching import Batching
from recgraph.train.parsing import Brought
from recgraph.train.tree_arrays import post_order

EACH = 12


def at_once(calls: list[Callable[[], Any]]) -> list[Any]:
    """What calls return that begin at the same time; an exception is what it returns, too."""
    found: list[Any] = [None] * len(calls)
    together = threading.Barrier(len(calls))

    def run(number: int) -> None:
        together.wait()
        try:
            found[number] = calls[number]()
        except tf.errors.OpError as error:
            found[number] = error

    threads = [threading.Thread(target=run, args=(number,)) for number in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    return found


def sentences(vocabulary: Vocabulary) -> list[str]:
    """Of all lengths, with unknown words and without any."""
    random = np.random.default_rng(0)
    known = [" ".join(random.choice(vocabulary.words[1:], length)) for length in (*range(1, 2 * EACH - 3), 40)]
    return [*known, "", "Nobody knows these."]


def test_calls_at_the_same_time_are_one() -> None:
    """As many as a batch takes; each gets its own rows."""
    batching = Batching(size=6, delay=1000.0)

    @tf.function(input_signature=[tf.TensorSpec([None])], autograph=False)
    def served(x: tf.Tensor) -> tuple[tf.Tensor, ...]:
        return batching(lambda rows: (2.0 * rows, tf.fill(tf.shape(rows), tf.size(rows))))(x)

    found = at_once([lambda i=i: served(tf.constant([i, -i], tf.float32)) for i in range(3)])
    assert [(list(twice), list(sizes)) for twice, sizes in found] == [([2 * i, -2 * i], [6, 6]) for i in range(3)]
    assert list(served(tf.zeros([7]))[1]) == [7] * 7, "larger than a batch, and so it waits for none"
    assert list(served(tf.zeros([0]))[1]) == []


@pytest.mark.parametrize(
    "name", [name if name == "tree_lstm" else pytest.param(name, marks=pytest.mark.slow) for name in MODELS]
)
def test_results_are_those_of_single_requests(
    name: str, vocabulary: Vocabulary, brought: Brought, tmp_path: Path
) -> None:
    """To the last bit, of every model, with trees by a parser, for classes and for all phrases."""
    hyper = Hyper(embedding=8, hidden=8) if name != "mv_rnn" else Hyper(embedding=24, hidden=4)
    model = MODELS[name](len(vocabulary), hyper, seed=1)
    export.save(model, vocabulary, tmp_path, (), brought, Batching(delay=20.0))
    loaded = tf.saved_model.load(str(tmp_path))
    for signature in ("serving_default", "sentences"):
        serve = loaded.signatures[signature]
        calls = [lambda s=s, f=serve: f(sentences=tf.constant([s])) for s in sentences(vocabulary)]
        alone = [call() for call in calls]
        for expected, found in zip(alone, at_once(calls), strict=True):
            for key, value in expected.items():
                np.testing.assert_array_equal(found[key], value, err_msg=key)


def test_two_models_in_one_process_do_not_share_batches(vocabulary: Vocabulary, tmp_path: Path) -> None:
    """TensorFlow has one queue for each name, whoever has given it."""
    serve = []
    for seed in (1, 2):
        model = TreeLSTM(len(vocabulary), Hyper(embedding=8, hidden=8), seed=seed)
        export.save(model, vocabulary, tmp_path / str(seed), batching=Batching(delay=20.0))
        serve.append(tf.saved_model.load(str(tmp_path / str(seed))).signatures["serving_default"])
    calls = [lambda i=i: serve[i % 2](sentences=tf.constant(["good film"]))["probabilities"].numpy() for i in range(8)]
    alone = [call() for call in calls]
    assert (alone[0] != alone[1]).any()
    np.testing.assert_array_equal(at_once(calls), alone)


BROKEN = {
    "a word too few": ({"words": ["a", "b"]}, "`words` and `left` have different lengths"),
    "a right child too few": ({"right": [-1, -1]}, "`words` and `right` have different lengths"),
    "no root": ({"roots": []}, "`roots` do not rise to the last node"),
    "a root too far": ({"roots": [3]}, "`roots` do not rise to the last node"),
    "a root before the last node": ({"roots": [1]}, "`roots` do not rise to the last node"),
    "roots that fall": ({"roots": [2, 1, 2]}, "`roots` do not rise to the last node"),
    "itself as a child": ({"left": [-1, -1, 2]}, "`left` and `right` are no trees in post-order"),
    "a later child": ({"left": [-1, -1, 5]}, "`left` and `right` are no trees in post-order"),
    "one child twice": ({"left": [-1, -1, 1]}, "`left` and `right` are no trees in post-order"),
    "children the wrong way": ({"left": [-1, -1, 1], "right": [-1, -1, 0]}, "are no trees in post-order"),
    "one child": ({"left": [-1, -1, -1]}, "`left` and `right` are no trees in post-order"),
    "a child of nobody": ({"left": [-1, -1, -1], "right": [-1, -1, -1]}, "are no trees in post-order"),
    "a child in another tree": ({"roots": [0, 2]}, "`left` and `right` are no trees in post-order"),
}


@pytest.mark.parametrize("what", BROKEN)
def test_arrays_that_are_no_trees_are_refused(what: str, trees: Any) -> None:
    """And requests at the same time are not: a recursion over such arrays might not end."""
    good = {"words": ["good", "film", ""], "left": [-1, -1, 0], "right": [-1, -1, 1], "roots": [2]}
    changes, text = BROKEN[what]
    broken = good | changes
    calls = [lambda given=given: trees(**tensors(given)) for given in (good, broken, good)]
    first, error, last = at_once(calls)
    assert text in str(error)
    np.testing.assert_array_equal(first["nodes"], last["nodes"])


@pytest.fixture(scope="module")
def trees(saved: Path) -> Any:
    """The signature for trees."""
    return tf.saved_model.load(str(saved)).signatures["trees"]


def tensors(given: dict[str, Any]) -> dict[str, tf.Tensor]:
    """Arguments of `trees`."""
    return {name: tf.constant(value, tf.string if name == "words" else tf.int32) for name, value in given.items()}


def test_every_post_order_is_accepted() -> None:
    """And none other, of five nodes of which two at most are inner ones."""
    check = tf.function(
        lambda left, right, roots: post_order(tf.size(left), left, right, roots) and tf.size(left),
        input_signature=[tf.TensorSpec([None], tf.int32)] * 3,
        autograph=False,
    )
    accepted = set()
    for flags in np.ndindex(*[2] * 5):
        inner = [place for place, flag in enumerate(flags) if flag]
        if len(inner) > 2:
            continue
        for lefts in np.ndindex(*[5] * len(inner)):
            left, right = np.full(5, -1, np.int32), np.full(5, -1, np.int32)
            left[inner], right[inner] = lefts, [place - 1 for place in inner]
            try:
                check(left, right, np.array([4], np.int32))
            except tf.errors.InvalidArgumentError:
                continue
            accepted.add(tuple(left.tolist()))
    assert accepted == {(-1, -1, 0, -1, 2), (-1, -1, -1, 1, 0)}
