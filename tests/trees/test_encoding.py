"""Features of several kinds, labels at some nodes, vocabularies, and batches of no trees."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import recgraph as rg
from recgraph.errors import TreeError

trees = rg.trees


def forest_of(*records: Any) -> Any:
    return trees.from_nested(records, children="of")


def encoder_of(kind: Any, *values: Any) -> Any:
    return trees.Encoder({"x": kind}).adapt(forest_of(*({"x": value} for value in values)))


def encoded(encoder: Any, *values: Any) -> Any:
    return encoder.batch(forest_of(*({"x": value} for value in values)))["x"].to_list()


def test_what_features_are_is_seen_in_the_data() -> None:
    forest = forest_of({"n": 1, "t": "a", "v": [1.0, 2.0], "of": [{"n": 2.5, "v": np.array([3, 4])}]})
    encoder = trees.Encoder().adapt(forest)
    assert encoder.features == {
        "n": trees.Number(optional=False),
        "t": trees.Category(words=["a"]),
        "v": trees.Vector(length=2, optional=False),
    }
    batch = encoder.batch(forest)
    assert batch["n"].to_list() == [[[1.0], [2.5]]]
    assert batch["t"].to_list() == [[2, trees.Category().size - 1]]
    assert batch["v"].to_list() == [[[1.0, 2.0], [3.0, 4.0]]]
    assert batch["children"].to_list() == [[[1], []]]
    assert [batch[name].dtype for name in ("n", "t", "v", "children")] == [tf.float32, tf.int32, tf.float32, tf.int32]


def test_numbers_and_vectors_that_not_all_nodes_have_say_so() -> None:
    encoder = encoder_of(trees.Number(), 1, None)
    assert encoded(encoder, 3, None, float("nan"), True) == [[[3.0, 1.0]], [[0.0, 0.0]], [[0.0, 0.0]], [[1.0, 1.0]]]
    encoder = encoder_of(trees.Vector(), [1, 2], None)
    assert encoded(encoder, None, (3, 4)) == [[[0.0, 0.0, 0.0]], [[3.0, 4.0, 1.0]]]


def test_categories_have_ids_for_no_value_and_for_unknown_ones() -> None:
    encoder = encoder_of(trees.Category(min_count=2), "b", "a", "b", "a", "b", 1, 1, True, True, None, "rare")
    assert encoder.features["x"].words == ["b", True, 1, "a"]
    assert encoder.features["x"].size == 6
    assert encoded(encoder, "b", "new", None, 1, True) == [[2], [0], [1], [4], [3]]
    unknown = encoder.unknown(forest_of({"x": "new"}, {"x": "new"}, {"x": "b"}, {"x": 0}))
    assert unknown == {"x": {"new": 2, 0: 1}}


def test_texts_of_several_words() -> None:
    encoder = encoder_of(trees.Words(), "a good a", "film")
    assert encoder.features["x"].words == ["a", "film", "good"]
    assert encoded(encoder, "a film a", "bad", None, "") == [[[2, 3, 2]], [[0]], [[]], [[]]]
    assert encoder.unknown(forest_of({"x": "bad bad a"})) == {"x": {"bad": 2}}
    assert encoder.flat(forest_of({"x": "a film"}))["x"].to_list() == [[2, 3]]
    letters = encoder_of(trees.Words(split=list), "ab")
    assert encoded(letters, "ba") == [[[3, 2]]]


def test_children_with_names_are_positions_or_none() -> None:
    tree = {"w": "a", "left": {"w": "b"}, "right": {"w": "c", "right": {"w": "d"}}}
    forest = trees.from_nested([{"w": "x"}, tree], children=("left", "right"))
    encoder = trees.Encoder().adapt(forest)
    batch = encoder.batch(forest)
    assert batch["left"].to_list() == [[-1], [1, -1, -1, -1]]
    assert batch["right"].to_list() == [[-1], [2, -1, 3, -1]]
    assert encoder.flat(forest)["right"].numpy().tolist() == [-1, 3, -1, 4, -1]
    decoded = encoder.decode(batch)[1]
    assert decoded["right"]["right"]["w"] == "d"
    assert decoded["left"]["left"] is None


def test_batches_of_no_trees() -> None:
    forest = forest_of({"n": 1, "t": "a", "w": "b c"})
    encoder = trees.Encoder({"n": trees.Number(), "t": trees.Category(), "w": trees.Words()}).adapt(forest)
    none = forest_of()
    assert encoder.batch(none)["children"].to_list() == []
    assert encoder.batch(none)["n"].shape.as_list() == [0, None, 1]
    assert encoder.flat(none)["roots"].shape == [0]
    assert list(encoder.dataset(none, 4, shuffle=1)) == []
    assert encoder.decode(encoder.batch(none)) == []
    assert list(none.at_roots(np.zeros([0, 1]))) == []


def test_labels_of_roots_and_of_nodes() -> None:
    forest = forest_of({"x": 1, "y": "b", "of": [{"x": 2}, {"x": 3, "y": "a"}]}, {"x": 4, "y": "b"})
    encoder = trees.Encoder(label="y").adapt(forest)
    assert list(encoder.features) == ["x"]
    ((batch, labels),) = encoder.dataset(forest, 2)
    assert sorted(batch) == ["children", "x"]
    assert labels.numpy().tolist() == [0, 0]
    assert encoder.labels_of(labels) == ["b", "b"]
    parts = list(encoder.dataset(forest, 1, labels="nodes"))
    assert [part[1].numpy().tolist() for part in parts] == [[0, 0, 1], [0]]
    assert [part[2].numpy().tolist() for part in parts] == [[1.0, 0.0, 1.0], [1.0]]
    (alone,) = encoder.dataset(forest, 2, labels=None)
    assert sorted(alone) == ["children", "x"]
    numbers = trees.Encoder(label="x").adapt(forest)
    assert [y.numpy().tolist() for _, y in numbers.dataset(forest, 2)] == [[1.0, 4.0]]


def test_an_order_depends_on_the_seed_and_differs_from_epoch_to_epoch() -> None:
    forest = forest_of(*({"x": number} for number in range(20)))
    encoder = trees.Encoder(label="x").adapt(forest)

    def epochs(seed: int) -> list[list[float]]:
        data = encoder.dataset(forest, 6, shuffle=seed)
        assert data.cardinality() == 4
        return [np.concatenate([y for _, y in data]).tolist() for _ in range(2)]

    first, second = epochs(3)
    assert sorted(first) == list(range(20)) == sorted(second)
    assert first != second
    assert epochs(3) == [first, second]


def test_an_encoder_is_saved_for_those_who_predict(tmp_path: Path) -> None:
    kinds = {"c": trees.Category(), "n": trees.Number(), "v": trees.Vector(), "w": trees.Words()}
    forest = trees.from_nested(
        [{"c": "ä", "n": 1, "v": [1], "w": "a b", "y": "no", "left": {"c": True}}], children=("left",)
    )
    encoder = trees.Encoder(kinds, label="y").adapt(forest)
    encoder.save(tmp_path / "encoder.json")
    again = trees.Encoder.load(tmp_path / "encoder.json")
    assert again.features == encoder.features
    assert again.labels_of([0]) == ["no"]
    for name, rows in encoder.batch(forest).items():
        assert again.batch(forest)[name].to_list() == rows.to_list()
    (tmp_path / "other.json").write_text(json.dumps({"features": 1}), encoding="utf-8")
    with pytest.raises(TreeError, match="a file has no encoder") as caught:
        trees.Encoder.load(tmp_path / "other.json")
    assert "other.json" in str(caught.value)


def test_predictions_are_of_the_users_objects() -> None:
    records = [{"x": 1, "of": [{"x": 2}]}, {"x": 3}]
    forest = trees.from_nested(records, children="of")
    assert [(item["x"], y) for item, y in forest.at_roots(np.array([[0.5], [1.5]]))] == [(1, 0.5), (3, 1.5)]
    rows = tf.RaggedTensor.from_row_lengths(np.arange(3.0), [2, 1])
    assert [(item["x"], y) for item, y in forest.at_nodes(rows)] == [(1, 0.0), (2, 1.0), (3, 2.0)]
    forest.write("y", np.arange(3))
    forest.write("p", [[0.5, 0.5], [1.0, 0.0]])
    assert records[0]["of"] == [{"x": 2, "y": 1}]
    assert (records[1]["y"], records[1]["p"].tolist()) == (2, [1.0, 0.0])
    assert json.dumps(records[0]["y"]) == "0"  # a number of Python's


WRONG: dict[str, tuple[Any, list[str]]] = {
    "several kinds": (
        lambda: trees.Encoder().adapt(forest_of({"of": [{"x": 1}, {"x": "a"}]})),
        [
            "feature 'x': its values are of several kinds",
            "trees[0].of[1]",
            "str: 'a'",
            "a number, as at trees[0].of[0]",
        ],
    ),
    "no kind at all": (
        lambda: trees.Encoder().adapt(forest_of({"x": {"y": 1}})),
        ["feature 'x': a value is no number, text or vector", "dict: {'y': 1}", "name the features"],
    ),
    "a number that is missing": (
        lambda: encoded(encoder_of(trees.Number(), 1), 2, None),
        ["feature 'x': a node has none", "trees[1]", "1 of 2 nodes have it", "Number(optional=True)"],
    ),
    "a text for a number": (
        lambda: encoded(encoder_of(trees.Number(), 1), 2, "3"),
        ["feature 'x': a value is no number", "trees[1]", "str: '3'", "Category() is for texts"],
    ),
    "a number that is not finite": (
        lambda: encoded(encoder_of(trees.Number(), 1), 1e39),
        ["a value is not finite in float32", "float: 1e+39"],
    ),
    "a number that is too large": (
        lambda: encoded(encoder_of(trees.Number(), 1), 10**400),
        ["a value is not finite in float32", "int: 1000"],
    ),
    "a vector of another length": (
        lambda: encoded(encoder_of(trees.Vector(), [1, 2]), [1, 2], [1]),
        ["feature 'x': a vector has another length", "trees[1]", "2 numbers"],
    ),
    "a vector of texts": (
        lambda: encoded(encoder_of(trees.Vector(), [1, 2]), ["a", "b"]),
        ["a value is no vector", "a list or array of numbers"],
    ),
    "a number for a category": (
        lambda: encoder_of(trees.Category(), "a", 1.5),
        ["feature 'x': a value is no category", "float: 1.5", "Number() is for numbers"],
    ),
    "a number for a text": (lambda: encoder_of(trees.Words(), 1), ["feature 'x': a value is no text", "int: 1"]),
    "a label that was not seen": (
        lambda: trees.Encoder(label="y").adapt(forest_of({"y": "a"})).dataset(forest_of({"y": "a"}, {"y": "b"}), 2),
        ["feature 'y': a label was not seen", "trees[1]", "str: 'b'", "expected:  'a'"],
    ),
    "a root without a label": (
        lambda: trees.Encoder(label="y").adapt(forest_of({"y": 1})).dataset(forest_of({"y": 1}, {"x": 2}), 2),
        ["the root of a tree has no label", "trees[1]", "labels='nodes'"],
    ),
    "an encoder that has seen nothing": (
        lambda: trees.Encoder().batch(forest_of()),
        ["the encoder has not been adapted", "encoder.adapt(forest)"],
    ),
    "children under other names": (
        lambda: trees.Encoder().adapt(forest_of()).batch(trees.from_nested([], children=("left",))),
        ["with other names of children", "found:     left", "a list of children"],
    ),
    "a name that is taken": (
        lambda: trees.Encoder().adapt(forest_of({"children": 1})),
        ["a feature cannot be named 'children'"],
    ),
    "a feature that nobody has": (
        lambda: forest_of({"x": 1}).values("y"),
        ["no node has a feature 'y'", "found:     x"],
    ),
    "predictions of others": (
        lambda: list(forest_of({"x": 1}).at_roots(np.zeros([2, 1]))),
        ["the predictions are not those of these trees", "[2, 1]", "1 trees and 1 nodes", "not shuffled"],
    ),
    "an object that takes no prediction": (
        lambda: trees.from_nested([["a"]]).write("y", [1.0]),
        ["a list cannot have 'y' written on it", "trees[0]", "at_roots or at_nodes"],
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_said_with_its_place(name: str) -> None:
    make, texts = WRONG[name]
    with pytest.raises(TreeError) as caught:
        make()
    for text in texts:
        assert text in str(caught.value)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"batch_size": 0}, "batch_size must be at least 1; found 0"),
        ({"labels": "all"}, "labels must be 'roots', 'nodes'"),
    ],
)
def test_options_that_there_are_not(options: Any, text: str) -> None:
    forest = forest_of({"x": 1})
    with pytest.raises(ValueError, match=text):
        trees.Encoder().adapt(forest).dataset(forest, **({"batch_size": 1} | options))
