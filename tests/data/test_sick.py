"""SICK and its dependency parses: what is read is what is written there, and mistakes are pointed at."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from recgraph.data import DependencyTree, Pair, PairFormatError, Vocabulary, load_sick, pair_dataset, read_pairs

GOOD = {
    "a.toks": "the dog barks\nno",
    "a.parents": "2 3 0\n0",
    "b.toks": "a cat\nyes it is",
    "b.parents": "2 0\n3 3 0",
    "sim.txt": "4.5\n1.0",
}


def write(folder: Path, **changes: str) -> Path:
    """A split; a keyword `a_toks` stands for the file `a.toks`."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in {**GOOD, **{key.replace("_", "."): text for key, text in changes.items()}}.items():
        (folder / name).write_text(text + "\n", encoding="utf-8")
    return folder


def test_a_split_is_read(tmp_path: Path) -> None:
    """Heads count from 1 in the file and from 0 in the tree."""
    first, second = read_pairs(write(tmp_path))
    assert first == Pair(
        DependencyTree(("the", "dog", "barks"), (1, 2, -1)), DependencyTree(("a", "cat"), (1, -1)), 4.5
    )
    assert second.right.children == ((), (), (0, 1))
    assert str(second.right) == "yes<-is it<-is is"


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("a_parents", "2 3 0\nx", r"a.parents:2:1: expected the number of a word, or 0, found 'x'"),
        ("a_parents", "2 -3 0\n0", r"a.parents:1:3: expected the number of a word, or 0, found '-3'"),
        ("a_parents", "2 0\n0", r"a.parents:1:4: expected a head for each of 3 words, found 2 heads"),
        ("a_parents", "2 9 0\n0", r"a.parents:1:3: expected heads that make a tree, found .* found 8 in 3 words"),
        ("a_parents", "0 3 0\n0", r"a.parents:1:5: expected heads that make a tree, found a sentence has one root"),
        ("a_parents", "2 1 0\n0", r"a.parents:1:1: .* the words 0, 1 go round in a circle"),
        ("a_parents", "2 3 0", r"a.parents:2:1: expected 2 lines, as in a.toks, found 1 lines"),
        ("b_toks", "a cat\n", r"b.toks:2:1: expected words with one space between, found no words"),
        ("b_toks", "a  cat\nyes it is", r"b.toks:1:3: expected words with one space between"),
        ("sim.txt", "4.5\n5.5", r"sim.txt:2:1: expected a score from 1 to 5, found '5.5'"),
        ("sim.txt", "nan\n1", r"sim.txt:1:1: expected a score from 1 to 5, found 'nan'"),
        ("sim.txt", "3", r"sim.txt:2:1: expected 2 lines, as in a.toks, found 1 lines"),
    ],
)
def test_mistakes_are_pointed_at(tmp_path: Path, file: str, text: str, message: str) -> None:
    """File, line and column."""
    with pytest.raises(PairFormatError, match=message):
        read_pairs(write(tmp_path, **{file: text}))


@pytest.mark.parametrize(
    ("words", "heads", "message"),
    [((), (), "at least one word"), (("a",), (-1, 0), "1 words and 2 heads"), (("a", "b"), (1, 0), "in a circle")],
)
def test_what_is_no_tree_is_refused(words: tuple[str, ...], heads: tuple[int, ...], message: str) -> None:
    """A circle would be an endless recursion."""
    with pytest.raises(ValueError, match=message):
        DependencyTree(words, heads)


def test_a_missing_folder_says_what_is_looked_for(tmp_path: Path) -> None:
    """The original SICK has no parses."""
    write(tmp_path / "train")
    with pytest.raises(FileNotFoundError, match="The original SICK files hold no parses"):
        load_sick(tmp_path)


def test_a_batch_links_every_word_to_its_children(tmp_path: Path) -> None:
    """The children of each node, its word and its place are those of the tree."""
    pairs = read_pairs(write(tmp_path))
    vocabulary = Vocabulary.build([tree for pair in pairs for tree in pair[:2]])
    (batch,) = pair_dataset(pairs, vocabulary, 5)
    trees = [tree for pair in pairs for tree in pair[:2]]
    start = 0
    for tree, root in zip(trees, np.stack([batch.left, batch.right], 1).ravel(), strict=True):
        assert root == start + tree.root
        for node, children in enumerate(tree.children):
            low, high = batch.offsets[start + node], batch.offsets[start + node + 1]
            assert tuple(batch.children.numpy()[low:high] - start) == children
            assert batch.words[start + node] == vocabulary.id(tree.words[node])
        start += len(tree)
    np.testing.assert_allclose(batch.scores, [4.5, 1.0])


def test_the_whole_of_sick_is_read(real_data: Path) -> None:
    """The published numbers of pairs."""
    if not (real_data / "sick").is_dir():
        pytest.skip("no SICK here")
    bank = load_sick(real_data)
    assert [len(split) for split in bank] == [4500, 500, 4927]
    assert np.mean([pair.score for pair in bank.train]) == pytest.approx(3.52, abs=0.02)
