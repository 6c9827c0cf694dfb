"""What the writers write is what the readers read, under every name, and a write that fails leaves no trace."""

from __future__ import annotations

import bz2
import gzip
import lzma
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recgraph.data import (
    DataFormatError,
    Tree,
    VectorFormatError,
    Vocabulary,
    load_sst,
    moderate,
    parse_tree,
    read_imdb,
    read_trees,
    read_vectors,
    write_treebank,
    write_trees,
)
from recgraph.data.files import COMPRESSIONS, atomic_file, open_bytes, read_lines, unpacked_lines

NAMES = ["file.txt", *(f"file.txt{ending}" for ending in COMPRESSIONS)]
PACK = {".xz": lzma.compress, ".gz": gzip.compress, ".bz2": bz2.compress}
LETTER = st.characters(exclude_characters=" ()\t\r\n", exclude_categories=["Cs"])
WORDS = st.text(LETTER, min_size=1, max_size=5)


@st.composite
def trees(draw: st.DrawFn) -> Tree:
    """Trees of every shape, words and labels."""
    tree = moderate(draw(st.lists(WORDS, min_size=1, max_size=6)), draw(st.integers(0, 2**32 - 1)))
    return tree.with_labels(draw(st.lists(st.integers(-1, 4), min_size=len(tree), max_size=len(tree))))


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=40, deadline=None)
@given(st.lists(trees(), max_size=4))
def test_trees_are_read_as_they_were_written(name: str, written: list[Tree]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        write_trees(Path(folder) / name, written)
        assert read_trees(Path(folder) / name) == written


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=40, deadline=None)
@given(st.sets(st.text(st.characters(exclude_categories=["Cs"]), max_size=4), max_size=6))
def test_a_vocabulary_is_read_as_it_was_written_or_not_written(name: str, words: set[str]) -> None:
    vocabulary = Vocabulary(("<unk>", *sorted(words - {"<unk>"})))
    with tempfile.TemporaryDirectory() as folder:
        if any(not word or "\n" in word or word.endswith("\r") for word in words):
            with pytest.raises(ValueError, match="cannot be stored as one line"):
                vocabulary.save(Path(folder) / name)
            assert not list(Path(folder).iterdir())
        else:
            vocabulary.save(Path(folder) / name)
            assert Vocabulary.load(Path(folder) / name) == vocabulary


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=40, deadline=None)
@given(st.binary(max_size=300))
def test_bytes_are_read_as_they_were_written(name: str, data: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        for _ in range(2):  # the second takes the place of the first
            with atomic_file(path) as stream:
                stream.write(data)
        with open_bytes(path) as stream:
            assert stream.read() == data
        assert list(Path(folder).iterdir()) == [path]


@pytest.mark.parametrize("ending", COMPRESSIONS)
def test_compressed_files_are_those_of_the_usual_tools(tmp_path: Path, ending: str) -> None:
    """Both ways, and equal contents give equal files."""
    tree = parse_tree("(3 (2 quite) (3 good))")
    path = tmp_path / f"trees.txt{ending}"
    path.write_bytes(PACK[ending](f"{tree}\n".encode() * 2))
    assert read_trees(path) == [tree, tree]
    write_trees(path, [tree])
    first = path.read_bytes()
    unpack = {".xz": lzma.decompress, ".gz": gzip.decompress, ".bz2": bz2.decompress}[ending]
    assert unpack(first) == b"(3 (2 quite) (3 good))\n"
    write_trees(path, [tree])
    assert path.read_bytes() == first


@pytest.mark.parametrize("ending", COMPRESSIONS)
@pytest.mark.parametrize("damage", ["plain", "cut", "changed"])
def test_a_damaged_compressed_file_is_named(tmp_path: Path, ending: str, damage: str) -> None:
    path = tmp_path / f"trees.txt{ending}"
    packed = PACK[ending](b"(2 a)\n" * 5000)
    changed = packed[:-12] + bytes(byte ^ 0xFF for byte in packed[-12:])
    path.write_bytes({"plain": b"(2 a)\n" * 9, "cut": packed[: len(packed) // 2], "changed": changed}[damage])
    expected = rf"trees\.txt\{ending}:\d+:1: expected {ending[1:]} data, found a damaged or cut-off file"
    if damage == "changed":  # the checksum is at the end, and a line may be wrong before
        expected = rf"trees\.txt\{ending}:\d+:\d+: expected"
    for read in (read_trees, lambda name: list(read_lines(name))):
        with pytest.raises(DataFormatError, match=expected):
            read(path)


def test_what_the_machine_says_of_a_compressed_file_stays_an_error_of_the_machine(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_trees(tmp_path / "missing.xz")
    (tmp_path / "folder.gz").mkdir()
    with pytest.raises(IsADirectoryError):
        read_trees(tmp_path / "folder.gz")


@pytest.mark.parametrize("name", NAMES)
def test_a_write_that_fails_leaves_the_old_file_alone(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    write_trees(path, [parse_tree("(2 a)")])
    before = path.read_bytes()

    def broken():
        yield parse_tree("(2 b)")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_trees(path, broken())
    with pytest.raises(UnicodeEncodeError):
        write_trees(path, [parse_tree("(2 b)"), Tree(("\ud800",), (-1,), (-1,), (2,))])
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_label_that_no_reader_reads_is_in_no_tree() -> None:
    with pytest.raises(ValueError, match="labels must be classes from 0, or -1 for none; found -2"):
        Tree(("a",), (-1,), (-1,), (-2,))


@pytest.mark.parametrize("ending", ["", *COMPRESSIONS])
def test_reviews_and_vectors_are_read_compressed(tmp_path: Path, ending: str) -> None:
    with atomic_file(tmp_path / f"train.tsv{ending}") as stream:
        stream.write(b"neg\t0\t2\tBad.\n")
    assert [review.text for review in read_imdb(tmp_path)] == ["Bad."]
    with atomic_file(tmp_path / f"vectors{ending}") as stream:
        stream.write(b"film 1 2\n")
    ((word, vector),) = read_vectors(tmp_path / f"vectors{ending}")
    assert (word, vector.tolist()) == ("film", [1, 2])


@pytest.mark.parametrize("name", NAMES)
def test_lines_of_an_open_file_are_unpacked(tmp_path: Path, name: str) -> None:
    with atomic_file(tmp_path / name) as stream:
        stream.write(b"one\ntw\xffo\n")
    with open(tmp_path / name, encoding="utf-8", errors="surrogateescape") as text:
        assert list(unpacked_lines(text)) == ["one\n", "tw\udcffo\n"]


def test_a_treebank_is_read_as_it_was_written(tmp_path: Path) -> None:
    write_treebank(tmp_path, (5, 3, 2), seed=4)
    bank = load_sst(tmp_path)
    for split in bank._fields:
        write_trees(tmp_path / f"{split}.txt.gz", getattr(bank, split))
        assert read_trees(tmp_path / f"{split}.txt.gz") == getattr(bank, split)


NO_TABLES = {
    "treebank": (b"(2 a)\n(3 (2 the) (3 (3 good) (2 film)))\n", r":1:4: expected a finite number, found 'a\)'"),
    "sentences": (b"the film is good\nit is not\n", r":1:5: expected a finite number, found 'film'"),
    "csv": (b"word,x,y\nfilm,1,2\n", r":1:9: expected a word and at least 1 values, found 0 values"),
    "json": (b'{"film": [1, 2]}\n', r":1:10: expected a finite number, found '\[1,'"),
    "page": (b"<!DOCTYPE html>\n<html>\n", r":1:11: expected a finite number, found 'html>'"),
    "a treebank's line below a table": (
        b"film 1 2\n(3 (2 the) (3 (3 good) (2 film)))\n",
        r":2:\d+: expected a finite number, found '\(2'",
    ),
    "an array": (b"\x93NUMPY\x01\x00v\x00{'descr': '<f4'}\n" + np.arange(4).tobytes(), r":1:\d+: expected"),
}


@pytest.mark.parametrize("kind", NO_TABLES)
def test_a_file_that_is_no_table_of_vectors_is_refused_whatever_words_are_wanted(tmp_path: Path, kind: str) -> None:
    data, message = NO_TABLES[kind]
    (tmp_path / "v").write_bytes(data)
    with pytest.raises(VectorFormatError, match=message):
        list(read_vectors(tmp_path / "v", {"never"}))
