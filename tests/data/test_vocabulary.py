"""Words and ids, in Python, in a file and in a graph."""

import pytest
import tensorflow as tf

from recgraph.data import DataFormatError, Vocabulary, generate_treebank, lookup, parse_tree

TREES = [parse_tree("(2 (2 The) (2 (2 film) (2 film)))"), parse_tree("(2 (2 the) (2 US))")]


def test_words_are_ordered_by_count_then_alphabet():
    assert Vocabulary.build(TREES).words == ("<unk>", "film", "The", "US", "the")
    assert Vocabulary.build(TREES, min_count=2).words == ("<unk>", "film")
    assert Vocabulary.build(TREES, lowercase=True).words == ("<unk>", "film", "the", "us")


def test_a_word_falls_back_to_lower_case_and_then_to_unknown():
    vocabulary = Vocabulary(("<unk>", "film", "US", "the"))
    assert list(vocabulary.ids(["film", "FILM", "US", "us", "The", "never-seen"])) == [1, 1, 2, 0, 3, 0]
    assert "Film" in vocabulary
    assert "us" not in vocabulary


def test_the_graph_gives_the_ids_that_python_gives():
    vocabulary = Vocabulary.build([*TREES, parse_tree("(2 (2 émile) (2 ça))")])
    words = [*vocabulary.words, "FILM", "Émile", "ÇA", "never-seen", "us", ""]
    table = vocabulary.lookup_table()
    found = tf.function(lambda x: lookup(table, x))(tf.constant([words]))
    assert found.dtype == tf.int32
    assert found.numpy()[0].tolist() == [vocabulary.id(word) for word in words]


def test_a_saved_vocabulary_is_the_same_again(tmp_path):
    vocabulary = Vocabulary.build(generate_treebank(20))
    vocabulary.save(tmp_path / "words.txt")
    assert Vocabulary.load(tmp_path / "words.txt") == vocabulary
    assert (tmp_path / "words.txt").read_text().splitlines()[vocabulary.id("film")] == "film"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "1:1: expected '<unk>' as first word of a vocabulary, found an empty file"),
        ("film\n", "1:1: expected '<unk>' as first word of a vocabulary, found 'film'"),
        ("<unk>\nfilm\nfilm\n", "3:1: expected a word not seen before, found 'film', which is also in line 2"),
        ("<unk>\n\nfilm\n", "2:1: expected a word not seen before, found an empty line"),
    ],
)
def test_a_broken_file_is_named(tmp_path, text, message):
    (tmp_path / "words.txt").write_text(text)
    with pytest.raises(DataFormatError) as caught:
        Vocabulary.load(tmp_path / "words.txt")
    assert str(caught.value).endswith(f"words.txt:{message}")


def test_a_vocabulary_needs_unknown_first_and_no_word_twice():
    with pytest.raises(ValueError, match="the first word of a vocabulary must be '<unk>'; found \\(\\)"):
        Vocabulary(())
    with pytest.raises(ValueError, match="must be distinct; 'a' occurs twice"):
        Vocabulary(("<unk>", "a", "a"))
