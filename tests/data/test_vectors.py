"""Word vectors: what is read, what is drawn, what is refused."""

import lzma

import numpy as np
import pytest

from recgraph.data import VectorFormatError, Vocabulary, load_embeddings, load_sst, read_vectors

VOCABULARY = Vocabulary(("<unk>", "film", "The", "missing", "US"))
TEXT = "film 1 2\nthe 3 4\n. . 5 6\nUS 7 8\nus 9 9\n"


@pytest.mark.parametrize("name", ["v.txt", "v.txt.xz"])
def test_a_word_takes_its_own_vector_or_that_of_its_lower_case(tmp_path, name):
    (tmp_path / name).write_bytes(lzma.compress(TEXT.encode()) if name.endswith("xz") else TEXT.encode())
    result = load_embeddings(VOCABULARY, tmp_path / name, seed=1, scale=0.5)
    assert result.matrix.dtype == np.float32
    assert result.matrix[[1, 2, 4]].tolist() == [[1, 2], [3, 4], [7, 8]]
    assert result.found.tolist() == [False, True, True, False, True]
    assert np.all(np.abs(result.matrix[[0, 3]]) <= 0.5)
    assert result.coverage == 0.75
    assert str(result) == "3 of 4 words (75.0%) have a vector of 2 numbers"


def test_the_same_seed_draws_the_same_vectors(tmp_path):
    (tmp_path / "v").write_text(TEXT)
    one, two, other = (load_embeddings(VOCABULARY, tmp_path / "v", seed=seed).matrix for seed in (1, 1, 2))
    assert np.array_equal(one, two)
    assert not np.array_equal(one, other)


def test_a_header_and_words_with_spaces_are_understood(tmp_path):
    (tmp_path / "v").write_text("3 2\nfilm 1 2\n. . 5 6\n")
    assert [(word, vector.tolist()) for word, vector in read_vectors(tmp_path / "v")] == [
        ("film", [1, 2]),
        (". .", [5, 6]),
    ]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "1:1: expected a word and its values, found the end of the file"),
        (b"3 2\n", "2:1: expected a word and its values, found the end of the file"),
        (b"film\n", "1:5: expected a word and at least 1 values, found 0 values"),
        (b"film 1 2\nthe 3\n", "2:6: expected a word and 2 values, found 1 values"),
        (b"film 1 2\n\n", "2:1: expected a word and 2 values, found 0 values"),
        (b"film 1 x\n", "1:8: expected a finite number, found 'x'"),
        (b"film 1 nan\n", "1:8: expected a finite number, found 'nan'"),
        (b"film 1 2\nfilm 1  2\n", "2:8: expected a finite number, found two spaces in a row"),
        (b"film 1 2\n\xff 1 2\n", "2:1: expected UTF-8 text, found the byte 0xff"),
    ],
)
def test_a_malformed_line_is_named(tmp_path, data, message):
    (tmp_path / "v").write_bytes(data)
    with pytest.raises(VectorFormatError) as caught:
        list(read_vectors(tmp_path / "v"))
    assert str(caught.value) == f"{tmp_path / 'v'}:{message}"


def test_the_trained_vectors_cover_the_treebank(real_data):
    path = real_data / "vectors" / "imdb-word2vec.300d.sst.txt.xz"
    if not path.is_file():
        pytest.skip("no vectors/imdb-word2vec.300d.sst.txt.xz in the data folder")
    trees = [tree for split in load_sst(real_data) for tree in split]
    vocabulary = Vocabulary.build(trees)
    result = load_embeddings(vocabulary, path)
    assert result.matrix.shape == (21_702, 300)
    assert 0.87 < result.coverage < 0.89
    tokens = np.concatenate([result.found[vocabulary.ids(tree.tokens)] for tree in trees])
    assert 0.98 < tokens.mean() < 0.99
