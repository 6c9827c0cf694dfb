"""A server under load: clients that ask for one sentence at a time, with requests batched in the graph and without.

Two processes of `recgraph serve`, which take turns: while one is under load the other is idle. Each answer is compared
with that to the same request when nobody else asked, byte by byte.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import selectors
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np

from recgraph.benchmarks import report
from recgraph.benchmarks.measure import Series
from recgraph.data import Vocabulary, generate_treebank
from recgraph.models import TreeLSTM
from recgraph.models.hyper import Hyper
from recgraph.train import export
from recgraph.train.batching import Batching
from recgraph.train.parsing import brought
from recgraph.train.run import load_classifier

PREDICT = "/v1/models/served:predict"
LENGTHS = (5, 35)  # words of a sentence
_PATH = PREDICT.encode()
_LENGTH = re.compile(rb"content-length: *(\d+)", re.I)


class Server:
    """A process that serves a SavedModel.

    Attributes:
      expected: the answers to requests that came alone, by request.
    """

    def __init__(self, process: subprocess.Popen[str]) -> None:
        """Waits until it listens."""
        assert process.stdout is not None
        said = process.stdout.readline()
        self._pid, self.port = process.pid, int(re.findall(r":(\d+)/", said)[0])
        self.expected: dict[str, bytes] = {}

    def ask(self, connection: http.client.HTTPConnection, body: str) -> bytes:
        """The answer to a request; another status than 200 is an error."""
        connection.request("POST", PREDICT, body)
        answer = connection.getresponse()
        text = answer.read()
        if answer.status != 200:
            raise RuntimeError(f"status {answer.status}: {text!r}")
        return text

    def connection(self) -> contextlib.closing[http.client.HTTPConnection]:
        """A connection to it."""
        return contextlib.closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=120))

    def learn(self, bodies: Sequence[str]) -> None:
        """Asks for each alone."""
        with self.connection() as connection:
            self.expected = {body: self.ask(connection, body) for body in bodies}

    @property
    def megabytes(self) -> float:
        """The most memory that it has had."""
        status = Path(f"/proc/{self._pid}/status").read_text(encoding="utf-8")
        return int(re.findall(r"VmHWM:\s*(\d+)", status)[0]) / 1024

    @property
    def processor_seconds(self) -> float:
        """What it has used."""
        with self.connection() as connection:
            connection.request("GET", "/metrics")
            text = connection.getresponse().read().decode()
        return float(re.findall(r"^process_cpu_seconds_total (\S+)", text, re.M)[0])


class Client:
    """A connection over which requests go, one after the other; it leaves the processor to the server.

    Attributes:
      socket: which is readable when an answer comes.
      start: when the last request was sent.
    """

    def __init__(self, port: int, bodies: Sequence[str], first: int, step: int) -> None:
        """Args: where to, and which of the requests."""
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=120)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._bodies, self._place, self._step = bodies, first, step
        self._came, self.start = bytearray(), 0.0

    @property
    def body(self) -> str:
        """Of the last request."""
        return self._bodies[self._place % len(self._bodies)]

    def ask(self) -> None:
        """Sends the next request."""
        self._place += self._step
        self._came.clear()
        body = self.body.encode()
        self.start = time.perf_counter()
        self.socket.sendall(b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % (_PATH, len(body)) + body)

    def answer(self) -> bytes | None:
        """The answer, when all of it has come; another status than 200 is an error."""
        self._came += self.socket.recv(1 << 16)
        head, _, body = self._came.partition(b"\r\n\r\n")
        length = _LENGTH.search(head)
        if length is None or len(body) < int(length[1]):
            return None
        if not head.startswith(b"HTTP/1.1 200 "):
            raise RuntimeError(f"the server answered: {self._came.decode()}")
        return bytes(body)


class Load:
    """Clients that ask one server, each again as soon as it has an answer; one after the other for `seconds`.

    Attributes:
      latencies: seconds of every request.
      wrong: how many answers were others than those to requests that came alone.
      processor_seconds, own_seconds: of the processor, that the server and the clients have used.
    """

    def __init__(self, clients: int) -> None:
        """Args: how many."""
        self._clients = clients
        self.latencies: list[float] = []
        self.wrong = 0
        self.processor_seconds = self.own_seconds = 0.0

    def run(self, server: Server, seconds: float) -> float:
        """Requests a second of one round."""
        before, used, own = len(self.latencies), server.processor_seconds, time.process_time()
        start = time.perf_counter()
        self._ask(server, start + seconds)
        taken = time.perf_counter() - start
        self.own_seconds += time.process_time() - own
        self.processor_seconds += server.processor_seconds - used
        return (len(self.latencies) - before) / taken

    def _ask(self, server: Server, end: float) -> None:
        bodies = list(server.expected)
        with contextlib.ExitStack() as stack:
            waiting = stack.enter_context(selectors.DefaultSelector())
            for number in range(self._clients):
                client = Client(server.port, bodies, number, self._clients)
                waiting.register(stack.enter_context(client.socket), selectors.EVENT_READ, client)
                client.ask()
            while waiting.get_map():
                for key, _ in waiting.select():
                    client = key.data
                    answer = client.answer()
                    if answer is None:
                        continue
                    self.latencies.append(time.perf_counter() - client.start)
                    self.wrong += answer != server.expected[client.body]
                    if time.perf_counter() < end:
                        client.ask()
                    else:
                        waiting.unregister(client.socket)

    def milliseconds(self, percentile: float) -> float:
        """Of a request."""
        return float(np.percentile(self.latencies, percentile)) * 1e3


@click.command("serving")
@click.option("--run", "folder", type=click.Path(exists=True, file_okay=False, path_type=Path), help="A trained run.")
@click.option("--clients", type=click.IntRange(1), default=64, show_default=True)
@click.option("--minutes", type=click.FloatRange(0, min_open=True), default=5.0, show_default=True, help="Of both.")
@click.option("--seconds", type=click.FloatRange(0, min_open=True), default=10.0, show_default=True, help="Of a turn.")
@click.option("--sentences", type=click.IntRange(1), default=640, show_default=True, help="Different ones.")
@click.option(
    "--hidden",
    type=click.IntRange(1),
    default=150,
    show_default=True,
    help="Without --run, of a model without training.",
)
@report.out_option
def main(
    folder: Path | None, clients: int, minutes: float, seconds: float, sentences: int, hidden: int, out: Path | None
) -> None:
    """Measure requests a second, latency and memory of a server, with batches of requests and without.

    With --run, trees are made by the parser of the run; without it, of a model that has learned nothing, they are
    balanced.
    """
    rounds = max(1, round(minutes * 60 / seconds / 2))
    with tempfile.TemporaryDirectory() as work, contextlib.ExitStack() as stack:
        words = _save(folder, Path(work), hidden)
        bodies = _bodies(words, sentences)
        servers = {name: stack.enter_context(_served(Path(work, name))) for name in ("batched", "alone")}
        loads = {name: Load(clients) for name in servers}
        for server in servers.values():
            server.learn(bodies)
            Load(clients).run(server, seconds)  # to warm up
        speeds: dict[str, list[float]] = {name: [] for name in servers}
        for _ in range(rounds):
            for name, server in servers.items():
                speeds[name].append(loads[name].run(server, seconds))
        results = [_result(name, loads[name], Series(tuple(speeds[name])), servers[name]) for name in servers]
    report.leave("serving", results, table(results), out)


def _result(name: str, load: Load, series: Series, server: Server) -> dict[str, Any]:
    return {
        "way": name,
        "series": series,
        "requests": len(load.latencies),
        "p50": load.milliseconds(50),
        "p99": load.milliseconds(99),
        "processor_ms": load.processor_seconds / len(load.latencies) * 1e3,
        "client_ms": load.own_seconds / len(load.latencies) * 1e3,
        "megabytes": server.megabytes,
        "wrong": load.wrong,
    }


def table(results: Sequence[dict[str, Any]]) -> str:
    """A line for each way."""
    head = [
        "requests",
        "a second",
        "p50 ms",
        "p99 ms",
        "processor ms each",
        "of a client",
        "MB at most",
        "answers unlike alone",
    ]
    rows = []
    for one in results:
        speed = f"{one['series'].median:,.0f} ±{one['series'].spread / 2:.0%}"
        figures = [f"{one[key]:,.1f}" for key in ("p50", "p99")]
        figures += [f"{one[key]:,.2f}" for key in ("processor_ms", "client_ms")]
        rows.append([one["way"], speed, *figures, f"{one['megabytes']:,.0f}", f"{one['wrong']} of {one['requests']}"])
    batched, alone = (one["series"] for one in results)
    return f"{report.markdown(head, rows)}\n\nbatched / alone: {batched.over(alone):.2f} times the requests a second"


def _save(folder: Path | None, work: Path, hidden: int) -> Sequence[str]:
    """Saves the model in both ways, and returns the words that it knows."""
    if folder is not None:
        run = load_classifier(folder)
        model, vocabulary, bringing = run.model, run.vocabulary, brought(run)
    else:
        vocabulary, bringing = Vocabulary.build(generate_treebank(500)), None
        model = TreeLSTM(len(vocabulary), Hyper(embedding=2 * hidden, hidden=hidden))
    for name, batching in (("batched", Batching()), ("alone", None)):
        export.save(model, vocabulary, work / name, (), bringing, batching)
    return vocabulary.words


def _bodies(words: Sequence[str], count: int) -> list[str]:
    random = np.random.default_rng(0)
    texts = (" ".join(random.choice(words[1:], random.integers(*LENGTHS))) for _ in range(count))
    return [json.dumps({"instances": [text]}) for text in texts]


@contextlib.contextmanager
def _served(folder: Path) -> Iterator[Server]:
    command = [sys.executable, "-m", "recgraph_command", "serve", str(folder), "--port", "0", "--name", "served"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Server(process)
        finally:
            process.terminate()
