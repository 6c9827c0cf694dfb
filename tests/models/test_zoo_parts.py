"""Parts of the programs of the zoo, each beside a slow and obvious form of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import tensorflow as tf

from recgraph.models.zoo import boxes, gpt2, real
from recgraph.models.zoo.bert_qa import CONTEXT, questions
from recgraph.models.zoo.cycle_gan import Pool
from recgraph.models.zoo.dropblock import DropBlock
from recgraph.models.zoo.music_transformer import RelativeAttention


def some_boxes(count: int, seed: int) -> np.ndarray:
    """Boxes with something in them."""
    random = np.random.default_rng(seed)
    corner = random.uniform(0.0, 0.6, (count, 2))
    return np.concatenate([corner, corner + random.uniform(0.1, 0.4, (count, 2))], 1).astype(np.float32)


def test_overlaps_are_shares_of_pixels() -> None:
    """Counted on a grid."""
    one, other = some_boxes(4, 0), some_boxes(3, 1)
    middles = (np.arange(500) + 0.5) / 500
    y, x = np.meshgrid(middles, middles, indexing="ij")

    def inside(box: np.ndarray) -> np.ndarray:
        return (y > box[0]) & (x > box[1]) & (y < box[2]) & (x < box[3])

    counted = [[(inside(a) & inside(b)).sum() / (inside(a) | inside(b)).sum() for b in other] for a in one]
    np.testing.assert_allclose(boxes.overlaps(one, other), counted, atol=0.01)


def test_boxes_are_moved_to_their_targets() -> None:
    """And something is left of each, wherever it is moved."""
    one, other = some_boxes(10, 2), some_boxes(10, 3)
    np.testing.assert_allclose(boxes.moved(one, boxes.moves(one, other)), other, atol=1e-5)
    wild = boxes.moved(one, np.random.default_rng(4).normal(0.0, 50.0, (10, 4)))
    assert (wild[:, 2:] > wild[:, :2]).all()


def test_the_best_boxes_do_not_overlap() -> None:
    """Of each group the one with the highest score, the best first."""
    found = some_boxes(30, 5)
    scores = np.random.default_rng(6).normal(size=30)
    kept = boxes.best(found, scores, 30, 0.3)
    assert list(scores[kept]) == sorted(scores[kept], reverse=True)
    among = boxes.overlaps(found[kept], found[kept]) - np.eye(len(kept))
    assert among.max() <= 0.3
    for index in set(range(30)) - set(kept):
        better = [k for k in kept if scores[k] > scores[index]]
        assert boxes.overlaps(found[[index]], found[better]).max() > 0.3
    assert boxes.best(found, scores, 2, 0.3) == kept[:2]


def test_relative_attention_looks_up_each_distance() -> None:
    """The skewed product is the query times the vector for how far back the key is."""
    attention = RelativeAttention(8, 2, 6)
    random = np.random.default_rng(7)
    queries = random.normal(size=(3, 2, 4, 4)).astype(np.float32)
    keys = np.zeros_like(queries)
    scores = attention.scores(tf.constant(queries), tf.constant(keys)).numpy()
    distances = attention.distances.numpy()
    for t in range(4):
        for s in range(t + 1):
            expected = queries[:, :, t] @ distances[len(distances) - 1 - (t - s)] / 2.0
            np.testing.assert_allclose(scores[:, :, t, s], expected, atol=1e-5)
    assert attention.length == 4


def test_dropped_blocks_are_squares() -> None:
    """And what is kept is larger by as much."""
    drop = DropBlock(3, tf.random.Generator.from_seed(1))
    images = tf.ones([20, 9, 9, 2])
    assert drop(images, training=True) is images
    drop.keep = 0.8
    kept = drop(images, training=True).numpy()
    assert 0.1 < (kept == 0.0).mean() < 0.4
    np.testing.assert_allclose(kept.mean(), 1.0, atol=1e-4)
    assert drop(images, training=False) is images
    inner = kept[:, 1:-1, 1:-1]
    alone = (inner == 0.0) & (kept[:, :-2, 1:-1] != 0.0) & (kept[:, 2:, 1:-1] != 0.0)
    assert not alone.any()


def test_a_pool_gives_every_picture_once() -> None:
    """What goes in comes out, or is kept."""
    pool = Pool(4, 0)
    given = [tf.fill([1, 1, 1, 1], float(i)) for i in range(12)]
    found = [float(tf.squeeze(pool.exchanged(image))) for image in given]
    assert sorted(found[4:] + [float(tf.squeeze(image)) for image in pool.kept]) == [float(i) for i in range(12)]
    assert found[:4] == [0.0, 1.0, 2.0, 3.0]
    assert found[4:] != [float(i) for i in range(4, 12)]


def test_a_question_is_what_is_around_its_answer() -> None:
    """The words before and after it are those of the passage."""
    rows, parts, first, last = questions(np.arange(100, dtype=np.int32), 20, 24)
    for row, part, begin, end in zip(rows, parts, first, last, strict=True):
        assert part[begin] == part[end] == 1
        assert begin <= end
        assert [*row[begin - CONTEXT : begin], *row[end + 1 : end + 1 + CONTEXT]] == list(row[1 : 1 + 2 * CONTEXT])


def test_sentences_have_other_lengths_from_batch_to_batch() -> None:
    """And no word of them is taken for padding."""
    found = gpt2.sentences(50, 16, 30)
    assert len({len(words) for words in found}) > 5
    assert all(words.min() >= 1 and words.max() < 30 for words in found)


def test_reviews_are_read_as_texts_and_sentences(tmp_path: Path) -> None:
    """Of either kind in turn; rare words are 0."""
    lines = [f"neg\t{i}\t2\tBad, bad film. Never again.\n" for i in range(3)]
    lines += [f"pos\t{i}\t9\tGood film. Good.\n" for i in range(3)]
    (tmp_path / "train.tsv").write_text("".join(lines), encoding="utf-8")
    words, classes = real.reviews(tmp_path, 4, 6, 100)
    assert words.shape == (4, 6)
    assert classes.tolist() == [0, 1, 0, 1]
    assert (words[0] == words[2]).all()
    assert words[1][-1] == 0  # after its end
    assert words[0].min() > 0
    found = real.sentences(tmp_path, 4, 3, 100)
    assert [len(sentence) for sentence in found] == [3, 3, 3, 3]
    assert min(sentence.min() for sentence in found) >= 1
