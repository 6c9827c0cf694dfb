"""A small treebank and a run trained on it for one epoch, made once for all tests of the room."""

from __future__ import annotations

from pathlib import Path

import pytest

from recgraph.data import write_treebank
from recgraph.train.run import Run, load, prepare
from recgraph.train.settings import Settings
from recgraph.train.trainer import Trainer

HYPER = {"embedding": 8, "hidden": 8, "dropout": 0.3, "batch_size": 10}


@pytest.fixture(scope="session")
def treebank(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a generated treebank."""
    folder = tmp_path_factory.mktemp("treebank")
    write_treebank(folder, (40, 12, 12), seed=3)
    return folder


@pytest.fixture
def settings(treebank: Path) -> Settings:
    """A TreeLSTM that takes no time."""
    return Settings("tree_lstm", str(treebank), epochs=1, hyper=HYPER)


@pytest.fixture(scope="session")
def trained(treebank: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run with one epoch, opened as the commands open it."""
    folder = tmp_path_factory.mktemp("run")
    Trainer(prepare(folder, Settings("tree_lstm", str(treebank), epochs=1, hyper=HYPER))).fit(
        lambda sums: None, lambda record: None
    )
    return load(folder)
