"""The Stanford Sentiment Treebank: where it is looked for, and the real files against their known figures."""

import numpy as np
import pytest
from nltk.tree import Tree as NltkTree

from recgraph.data import TreeFormatError, data_dir, load_sst, sst_dir, to_nltk, write_treebank

FIGURES = {
    "train": (
        8544,
        318_582,
        163_563,
        [1092, 2218, 1624, 2322, 1288],
        [8245, 34_362, 219_788, 44_194, 11_993],
        18_280,
        29,
    ),
    "dev": (1101, 41_447, 21_274, [139, 289, 229, 279, 165], [1070, 4613, 28_305, 5781, 1678], 5374, 27),
    "test": (2210, 82_600, 42_405, [279, 633, 389, 510, 399], [2008, 9255, 56_548, 10_998, 3791], 8547, 28),
}


@pytest.fixture(scope="module")
def bank(real_data):
    return load_sst(real_data)


@pytest.mark.parametrize("split", FIGURES)
def test_the_real_treebank_has_its_published_figures(bank, split):
    trees = getattr(bank, split)
    labels = np.concatenate([tree.labels for tree in trees])
    tokens = [word for tree in trees for word in tree.tokens]
    roots = np.bincount([tree.label for tree in trees])
    found = (
        len(trees),
        len(labels),
        len(tokens),
        list(roots),
        list(np.bincount(labels)),
        len(set(tokens)),
        max(tree.depth for tree in trees),
    )
    assert found == FIGURES[split]
    assert len(trees) - roots[2] == {"train": 6920, "dev": 872, "test": 1821}[split]


@pytest.mark.parametrize("split", FIGURES)
def test_every_real_line_is_printed_byte_for_byte(bank, real_data, split):
    printed = "".join(f"{tree}\n" for tree in getattr(bank, split))
    assert printed.encode() == (real_data / "sst" / f"{split}.txt").read_bytes()


def test_nltk_reads_every_real_line_the_same(bank):
    for tree in bank.dev + bank.test:
        assert to_nltk(tree) == NltkTree.fromstring(str(tree), node_pattern="[^ ()]+", leaf_pattern="[^ ()]+")


@pytest.mark.parametrize("folder", [".", "sst", "trees"])
def test_the_treebank_is_found_in_the_data_folder_or_below(tmp_path, monkeypatch, folder):
    write_treebank(tmp_path / folder, (3, 2, 1))
    assert sst_dir(tmp_path) == tmp_path / folder
    monkeypatch.setenv("RECGRAPH_DATA", str(tmp_path))
    assert [len(split) for split in load_sst()] == [3, 2, 1]


def test_a_missing_folder_says_how_to_name_one(tmp_path, monkeypatch):
    monkeypatch.delenv("RECGRAPH_DATA", raising=False)
    with pytest.raises(FileNotFoundError, match=r"no data folder given: pass one, or set RECGRAPH_DATA to it"):
        data_dir()
    with pytest.raises(FileNotFoundError, match=r"the data folder .*nowhere \(given\) does not exist"):
        data_dir(tmp_path / "nowhere")
    monkeypatch.setenv("RECGRAPH_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(FileNotFoundError, match=r"nowhere \(named by RECGRAPH_DATA\) does not exist"):
        data_dir()


def test_a_folder_without_a_treebank_says_what_to_do(tmp_path):
    with pytest.raises(FileNotFoundError, match="no treebank in .* `recgraph data fetch sst` downloads"):
        load_sst(tmp_path)


def test_a_broken_split_names_file_and_line(tmp_path):
    write_treebank(tmp_path, (3, 2, 1))
    with open(tmp_path / "dev.txt", "a") as stream:
        stream.write("(9 film)\n")
    with pytest.raises(TreeFormatError, match=r"dev\.txt:3:2: expected a label 0\.\.4"):
        load_sst(tmp_path)
