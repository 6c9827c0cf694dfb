"""Small models, saved as they are served, and a server in this process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from recgraph.data import Vocabulary
from recgraph.models import TreeLSTM
from recgraph.models.hyper import Hyper
from recgraph.models.parser import ParserHyper, SpanParser
from recgraph.serve.application import Application
from recgraph.serve.limits import Limits
from recgraph.serve.running import DrainingServer, listening
from recgraph.train import confidence, export
from recgraph.train.batching import Batching
from recgraph.train.parsing import Brought
from recgraph.train.run import Run
from recgraph.train.settings import Settings

VOCABULARY = Vocabulary(("<unk>", "a", "film", "that", "is", "not", "dull", "never", "good", ".", "bad", "and"))


def parser() -> Run:
    """One that has learned nothing."""
    model = SpanParser(len(VOCABULARY), ParserHyper(embedding=8, hidden=8, span=8))
    return Run(Path("nowhere"), Settings("parser", "nowhere", task="parsing"), VOCABULARY, model)


@pytest.fixture(scope="session")
def vocabulary() -> Vocabulary:
    """The words of all models here."""
    return VOCABULARY


@pytest.fixture(scope="session")
def brought() -> Brought:
    """A parser, and temperatures that depend on the words."""
    return Brought(parser(), confidence.unmeasured())


@pytest.fixture(scope="session")
def saved(brought: Brought, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A SavedModel with a parser, that batches."""
    folder = tmp_path_factory.mktemp("saved")
    model = TreeLSTM(len(VOCABULARY), Hyper(embedding=8, hidden=8), seed=1)
    export.save(model, VOCABULARY, folder, (), brought, Batching())
    return folder


@pytest.fixture
def serving() -> Callable[..., Any]:
    """Serves a model in this process, as long as a block runs."""

    @contextmanager
    def server(model: Any, limits: Limits | None = None) -> Iterator[tuple[int, DrainingServer, Application]]:
        application = Application(model, "first", limits or Limits())
        running = DrainingServer(application)
        with listening("127.0.0.1", 0) as listener:
            thread = threading.Thread(target=running.run, args=([listener],))
            thread.start()
            try:
                yield listener.getsockname()[1], running, application
            finally:
                running.should_exit = True
                thread.join(30)
                assert not thread.is_alive()

    return server
