"""Batches: the flat arrays, their order, and the two tasks."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from recgraph.data import TreeBatch, Vocabulary, encode, generate_treebank, linear, parse_tree, tree_dataset

TREES = generate_treebank(60, seed=5)
VOCABULARY = Vocabulary.build(TREES)
TWO = [parse_tree("(3 (2 a) (3 b))"), parse_tree("(0 (2 (2 a) (4 c)) (1 b))")]
LETTERS = Vocabulary(("<unk>", "a", "b"))


def numpy_batches(dataset) -> list[TreeBatch]:
    return [TreeBatch(*(np.asarray(field) for field in batch)) for batch in dataset]


def assert_same(one: TreeBatch, other: TreeBatch) -> None:
    for name, left, right in zip(TreeBatch._fields, one, other, strict=True):
        np.testing.assert_array_equal(left, right, err_msg=name)
        assert left.dtype == right.dtype == np.int32, name


def test_a_batch_holds_its_trees_one_after_the_other():
    batch = encode(TWO, LETTERS)
    assert batch.words.tolist() == [1, 2, -1, 1, 0, -1, 2, -1]
    assert batch.left.tolist() == [-1, -1, 0, -1, -1, 3, -1, 5]
    assert batch.right.tolist() == [-1, -1, 1, -1, -1, 4, -1, 6]
    assert batch.labels.tolist() == [2, 3, 3, 2, 4, 2, 1, 0]
    assert batch.offsets.tolist() == [0, 3, 8]
    assert batch.roots.tolist() == [2, 7]
    assert_same(batch, encode(TWO, LETTERS))


def test_the_dataset_gives_what_encode_gives():
    batches = numpy_batches(tree_dataset(TREES, VOCABULARY, 25))
    assert [len(batch.roots) for batch in batches] == [25, 25, 10]
    for number, batch in enumerate(batches):
        assert_same(batch, encode(TREES[25 * number : 25 * number + 25], VOCABULARY))


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 70), st.integers(0, 2**31), st.integers(0, 5))
def test_a_shuffled_epoch_holds_every_tree_once(batch_size, seed, epoch):
    dataset = tree_dataset(TREES, VOCABULARY, batch_size, shuffle_seed=seed, first_epoch=epoch)
    seen = []
    for batch in numpy_batches(dataset):
        for first, last in zip(batch.offsets[:-1], batch.offsets[1:], strict=True):
            part = TreeBatch(*(field[first:last] for field in batch[:4]), np.zeros(0), np.zeros(0))
            seen.append((*part.words, *(part.left - first * (part.left >= 0)), *part.labels))
    whole = [encode([tree], VOCABULARY) for tree in TREES]
    assert sorted(seen) == sorted((*one.words, *one.left, *one.labels) for one in whole)


def test_a_run_that_was_stopped_goes_on_as_if_it_had_not_been():
    whole = numpy_batches(tree_dataset(TREES, VOCABULARY, 25, shuffle_seed=7, epochs=3))
    rest = numpy_batches(tree_dataset(TREES, VOCABULARY, 25, shuffle_seed=7, first_epoch=1, epochs=2))
    assert len(whole) == 9
    for one, other in zip(whole[3:], rest, strict=True):
        assert_same(one, other)


def test_the_order_changes_with_the_epoch_and_with_the_seed():
    def first_words(seed, epoch):
        batches = tree_dataset(TREES, VOCABULARY, 60, shuffle_seed=seed, first_epoch=epoch)
        return tuple(numpy_batches(batches)[0].words)

    assert len({first_words(1, 0), first_words(1, 1), first_words(2, 0)}) == 3
    assert first_words(1, 0) == first_words(1, 0)


def test_the_number_of_batches_is_known_and_the_spec_is_a_tree_batch():
    dataset = tree_dataset(TREES, VOCABULARY, 25, epochs=4)
    assert len(dataset) == 12
    assert isinstance(dataset.element_spec, TreeBatch)
    assert all(spec == tf.TensorSpec([None], tf.int32) for spec in dataset.element_spec)


def test_the_binary_task_drops_neutral_roots_and_takes_neutral_nodes_out_of_the_loss():
    trees = [*TWO, parse_tree("(2 (0 a) (4 b))")]
    (batch,) = numpy_batches(tree_dataset(trees, LETTERS, 5, labels="binary"))
    assert batch.labels.tolist() == [-1, 1, 1, -1, 1, -1, 0, 0]
    (kept,) = numpy_batches(tree_dataset(trees, LETTERS, 5, labels="binary", drop_neutral=False))
    assert kept.labels.tolist()[-3:] == [0, 1, -1]
    (fine,) = numpy_batches(tree_dataset(trees, LETTERS, 5, drop_neutral=True))
    assert len(fine.roots) == 2


def test_unlabelled_trees_keep_minus_one_in_both_tasks():
    for task in ("fine", "binary"):
        assert set(encode([linear(["a", "b"])], LETTERS, labels=task).labels) == {-1}


def test_an_empty_batch_is_a_batch():
    batch = encode([], LETTERS)
    assert [len(field) for field in batch] == [0, 0, 0, 0, 1, 0]
    assert all(field.dtype == np.int32 for field in batch)
    assert numpy_batches(tree_dataset([], LETTERS, 3)) == []
    assert numpy_batches(tree_dataset(TWO, LETTERS, 3, epochs=0)) == []


def test_a_word_never_seen_is_word_zero():
    assert encode([parse_tree("(2 never-seen)")], LETTERS).words.tolist() == [0]


def test_a_tree_of_100000_levels_makes_a_batch(no_recursion):
    batch = encode([linear(["a"] * 100_000)], LETTERS)
    assert len(batch.words) == 199_999
    assert batch.left[-1] == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"batch_size": 0}, "batch_size must be at least 1; found 0"),
        ({"batch_size": 1, "labels": "coarse"}, "labels must be one of fine, binary; found 'coarse'"),
        ({"batch_size": 1, "epochs": -1}, "first_epoch and epochs must be at least 0; found 0 and -1"),
    ],
)
def test_wrong_arguments_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        tree_dataset(TREES, VOCABULARY, **arguments)


def test_a_label_beyond_four_is_named():
    with pytest.raises(ValueError, match=r"sentiment labels must be 0..4, or -1 for none; found 7"):
        encode([parse_tree("(7 a)", classes=8)], LETTERS)


def test_batches_are_made_without_python():
    dataset = tree_dataset(TREES, VOCABULARY, 25, shuffle_seed=1)
    graph = dataset._as_serialized_graph().numpy()
    assert b"PyFunc" not in graph
    assert b"GeneratorDataset" not in graph
