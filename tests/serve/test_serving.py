"""The server: right answers, and none lost, whatever clients do and whenever it ends."""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from click.testing import CliRunner

from recgraph.serve.errors import ServeError
from recgraph.serve.limits import Limits
from recgraph.serve.models import ServedModel
from recgraph.serve.running import listening
from recgraph_command import main

PREDICT = "/v1/models/first:predict"
TEXTS = ["a film that is not dull", "never dull", "bad", "", "nobody knows it"]


class Held:
    """A model whose calls wait until they are let go."""

    metadata: dict[str, Any] = {}

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.calls = 0

    def inputs(self, signature: str) -> dict[str, tf.TensorSpec]:
        """One number a row."""
        return {"x": tf.TensorSpec([None])}

    def joins(self, signature: str) -> tuple[int, int]:
        """Each request is a call of its own."""
        return 0, 1

    def __call__(self, signature: str, given: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Twice as much."""
        self.calls += 1
        assert self.gate.wait(30)
        return {"y": 2 * given["x"]}


def ask(port: int, path: str, body: Any = None, method: str = "") -> tuple[int, Any, Any]:
    """Status, JSON and headers of an answer."""
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
        sent = body if body is None or isinstance(body, bytes) else json.dumps(body)
        connection.request(method or ("GET" if body is None else "POST"), path, sent)
        answer = connection.getresponse()
        text = answer.read()
        is_json = answer.headers["Content-Type"] == "application/json"
        return answer.status, json.loads(text) if is_json else text.decode(), answer.headers


def until(condition: Callable[[], bool]) -> None:
    """Waits for something that is about to happen."""
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.fixture(scope="module")
def model(saved: Path) -> ServedModel:
    """The SavedModel, loaded."""
    return ServedModel(saved)


def test_answers_are_those_of_direct_calls(saved: Path, model: ServedModel, serving: Callable[..., Any]) -> None:
    """To the last bit, in rows and in columns, for all signatures, asked by many at once."""
    signatures = tf.saved_model.load(str(saved)).signatures
    rows: dict[int, Any] = {}
    with serving(model) as (port, *_):

        def client(number: int) -> None:
            rows[number] = ask(port, PREDICT, {"instances": [TEXTS[number % len(TEXTS)]]})[:2]

        threads = [threading.Thread(target=client, args=(number,)) for number in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        columns = ask(port, PREDICT, {"signature_name": "sentences", "inputs": {"sentences": TEXTS}})
        tree = {"words": ["bad", "film", ""], "left": [-1, -1, 0], "right": [-1, -1, 1], "roots": [2]}
        nodes = ask(port, PREDICT, {"signature_name": "trees", "inputs": tree})
        broken = ask(port, PREDICT, {"signature_name": "trees", "inputs": {**tree, "roots": [1]}})
    for number, (status, answer) in rows.items():
        expected = signatures["serving_default"](sentences=tf.constant([TEXTS[number % len(TEXTS)]]))
        (row,) = answer["predictions"]
        assert status == 200
        assert row["unknown"] == expected["unknown"][0]
        np.testing.assert_array_equal(np.float32(row["probabilities"]), expected["probabilities"][0])
    expected = signatures["sentences"](sentences=tf.constant(TEXTS))
    for name, value in expected.items():
        np.testing.assert_array_equal(np.array(columns[1]["outputs"][name], value.numpy().dtype), value)
    given = {name: tf.constant(value, tf.string if name == "words" else tf.int32) for name, value in tree.items()}
    expected = signatures["trees"](**given)
    np.testing.assert_array_equal(np.float32(nodes[1]["outputs"]["nodes"]), expected["nodes"])
    assert broken[0] == 400
    assert "`roots` do not rise to the last node" in broken[1]["error"]


def test_signatures_are_prepared(model: ServedModel, tmp_path: Path) -> None:
    """Each is called once before the first request, with what the model brings or with zeros."""

    class Counting(tf.Module):
        def __init__(self) -> None:
            super().__init__()
            self.calls = tf.Variable(0)

        @tf.function(input_signature=[tf.TensorSpec([None, 2]), tf.TensorSpec([], tf.string)])
        def count(self, x: tf.Tensor, text: tf.Tensor) -> dict[str, tf.Tensor]:
            return {"calls": self.calls.assign_add(tf.shape(x)[0])}

        @tf.function(input_signature=[tf.TensorSpec([None])])
        def refuse(self, x: tf.Tensor) -> dict[str, tf.Tensor]:
            with tf.control_dependencies([tf.debugging.assert_positive(x, "not positive")]):
                return {"x": tf.identity(x)}

    counting = Counting()
    tf.saved_model.save(counting, str(tmp_path), signatures={"count": counting.count, "refuse": counting.refuse})
    loaded = ServedModel(tmp_path)
    (failed,) = loaded.prepare().items()
    assert failed[0] == "refuse"
    assert "not positive" in failed[1]
    assert loaded("count", {"x": np.zeros([1, 2]), "text": np.array(b"", object)})["calls"] == 2
    assert loaded.joins("count") == (0, 1)
    assert model.prepare() == {}
    joined = {signature: model.joins(signature) for signature in ("serving_default", "sentences", "trees")}
    assert joined == {"serving_default": (64, 1), "sentences": (0, 1), "trees": (0, 1)}


def test_what_is_known_of_a_model(model: ServedModel, serving: Callable[..., Any]) -> None:
    """As TensorFlow Serving says it; and that it is well, and what was counted."""
    with serving(model) as (port, *_):
        for path in ("/v1/models/first", "/v1/models/first/versions/1"):
            status, answer, _ = ask(port, path)
            assert status == 200
            assert [one["state"] for one in answer["model_version_status"]] == ["AVAILABLE"]
            status, answer, _ = ask(port, f"{path}/metadata")
            assert answer["model_spec"] == {"name": "first", "signature_name": "", "version": "1"}
            signatures = answer["metadata"]["signature_def"]["signature_def"]
            assert set(signatures) == {"serving_default", "sentences", "trees"}
            assert signatures["sentences"]["inputs"]["sentences"]["dtype"] == "DT_STRING"
            assert ask(port, f"{path}:predict", {"instances": ["bad"]})[0] == 200
        assert ask(port, "/healthz")[:2] == (200, {"status": "ok"})
        text = ask(port, "/metrics")[1]
        assert 'recgraph_requests_total{status="200"} 2.0' in text
        assert "recgraph_request_seconds_count 2.0" in text
        assert re.search(r"^process_resident_memory_bytes \d", text, re.M)


@pytest.mark.parametrize(
    ("path", "body", "method", "status", "text"),
    [
        (PREDICT, b"{", "", 400, "the body is no JSON: "),
        (PREDICT, {"instances": [1]}, "", 400, "'sentences' has the number 1 in it, expected string[]"),
        (PREDICT, {"inputs": {"words": ["a"]}}, "", 400, "'sentences' has an object in it, expected string[]"),
        (PREDICT, {"inputs": ["a"], "signature_name": "tree"}, "", 400, "there is no signature 'tree', known: 'sen"),
        (
            PREDICT,
            {"instances": ["a film"], "signature_name": "sentences"},
            "",
            400,
            "results have different first axes",
        ),
        (PREDICT, b" " * 2049, "", 413, "the body has more than 2 kilobytes"),
        (PREDICT, None, "GET", 405, "a prediction is asked for by POST, not by GET"),
        ("/v1/models/other:predict", {"instances": ["a"]}, "", 404, "there is no version 1 of a model 'other'"),
        ("/v1/models/first/versions/2:predict", {"instances": []}, "", 404, "there is no version 2 of a model 'first'"),
        ("/v1/models/other", None, "", 404, "there is no version 1 of a model 'other', known: 'first', version 1"),
        ("/v2/models", None, "", 404, "GET /v2/models: Not Found"),
    ],
)
def test_what_cannot_be_answered_gets_an_error(
    path: str, body: Any, method: str, status: int, text: str, model: ServedModel, serving: Callable[..., Any]
) -> None:
    """As JSON, with the status that says whose mistake it is; the next request is answered."""
    with serving(model, Limits(kilobytes=2)) as (port, *_):
        found, answer, _ = ask(port, path, body, method)
        assert (found, answer["error"][: len(text)]) == (status, text)
        assert ask(port, PREDICT, {"instances": ["bad"]})[0] == 200


def test_a_body_that_grows_is_refused(serving: Callable[..., Any]) -> None:
    """One whose length is not said before."""
    with serving(Held(), Limits(kilobytes=2)) as (port, *_), socket.create_connection(("127.0.0.1", port)) as client:
        client.sendall(f"POST {PREDICT} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n".encode())
        for _ in range(3):
            client.sendall(b"400\r\n" + b" " * 1024 + b"\r\n")
        assert b" 413 " in client.recv(100)


def test_a_slow_client_keeps_nobody_waiting(serving: Callable[..., Any]) -> None:
    """It gets an error in the end."""
    held = Held()
    held.gate.set()
    with serving(held, Limits(seconds=0.5)) as (port, *_), socket.create_connection(("127.0.0.1", port)) as client:
        client.sendall(f"POST {PREDICT} HTTP/1.1\r\nHost: x\r\nContent-Length: 20\r\n\r\n{{".encode())
        assert ask(port, PREDICT, {"instances": [1]})[1] == {"predictions": [2.0]}
        answer = b"".join(iter(lambda: client.recv(1000), b""))
        assert b" 408 " in answer
        assert b"the body did not arrive within 0.5 seconds" in answer


def test_a_broken_request_and_clients_that_go_away(serving: Callable[..., Any]) -> None:
    """In the middle of the head, of the body, and before the answer: nobody else notices."""
    held = Held()
    whole = b'{"instances": [1]}'
    head = f"POST {PREDICT} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(whole)}\r\n\r\n".encode()
    with serving(held) as (port, _, application):
        with socket.create_connection(("127.0.0.1", port)) as client:
            client.sendall(b"what is this\r\n\r\n")
            assert b" 400 " in client.recv(1000)
        for sent in (head[:20], head + whole[:5], head + whole):
            with socket.create_connection(("127.0.0.1", port)) as client:
                client.sendall(sent)
                until(lambda sent=sent: application.in_progress > 0 or sent == head[:20])
            if sent != head + whole:
                until(lambda: application.in_progress == 0)
        until(lambda: held.calls == 1)
        held.gate.set()
        until(lambda: application.in_progress == 0)
        assert ask(port, PREDICT, {"instances": [4]})[1] == {"predictions": [8.0]}


@contextlib.contextmanager
def waiting(port: int, held: Held, count: int) -> Iterator[list[tuple[int, Any, Any]]]:
    """Requests that a held model has taken, and their answers at the end of the block."""
    answers: list[tuple[int, Any, Any]] = []
    threads = [
        threading.Thread(target=lambda: answers.append(ask(port, PREDICT, {"instances": [1]}))) for _ in range(count)
    ]
    for thread in threads:
        thread.start()
    until(lambda: held.calls == count)
    try:
        yield answers
    finally:
        held.gate.set()
        for thread in threads:
            thread.join()


def test_more_than_the_server_takes(serving: Callable[..., Any]) -> None:
    """They are told so at once, and when to come again; those that were taken are answered."""
    held = Held()
    with serving(held, Limits(requests=3)) as (port, *_):
        with waiting(port, held, 3) as answers:
            status, answer, headers = ask(port, PREDICT, {"instances": [1]})
            assert (status, headers["Retry-After"]) == (429, "1")
            assert answer == {"error": "3 requests are in progress, and no more are taken"}
            assert ask(port, "/healthz")[0] == 200
        assert [answer[:2] for answer in answers] == [(200, {"predictions": [2.0]})] * 3
        assert 'recgraph_requests_total{status="429"} 1.0' in ask(port, "/metrics")[1]


def test_the_end_loses_nothing_that_was_accepted(serving: Callable[..., Any]) -> None:
    """New requests are sent away, also by way of the health that a balancer looks at."""
    held = Held()
    with serving(held) as (port, server, application):
        with waiting(port, held, 5) as answers:
            server.handle_exit(signal.SIGTERM, None)
            status, answer, headers = ask(port, PREDICT, {"instances": [1]})
            assert (status, answer, headers["Connection"]) == (503, {"error": "the server is ending"}, "close")
            assert ask(port, "/healthz")[:2] == (503, {"status": "ending"})
        assert [answer[:2] for answer in answers] == [(200, {"predictions": [2.0]})] * 5
        until(lambda: not server.server_state.connections)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port)).close()


def test_a_process_that_is_ended_in_mid_load(saved: Path) -> None:
    """By SIGTERM: every answer that begins is a whole one, and what is counted as accepted was answered."""
    command = [sys.executable, "-m", "recgraph_command", "serve", str(saved), "--port", "0", "--name", "first"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        address = process.stdout.readline()
        (port,) = re.findall(r"^http://127\.0\.0\.1:(\d+)/v1/models/first$", address.strip())
        statuses: list[int] = []
        broken: list[Exception] = []

        def client() -> None:
            while True:
                try:
                    statuses.append(ask(int(port), PREDICT, {"instances": TEXTS})[0])
                except (ConnectionRefusedError, ConnectionResetError):  # it listens no more
                    return
                except Exception as error:
                    broken.append(error)
                    return

        threads = [threading.Thread(target=client) for _ in range(8)]
        for thread in threads:
            thread.start()
        until(lambda: statuses.count(200) > 20)
        process.send_signal(signal.SIGTERM)
        for thread in threads:
            thread.join(60)
        said, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    assert broken == []
    assert set(statuses) <= {200, 503}
    assert re.fullmatch(rf"ended: {statuses.count(200)} requests answered, none lost\n", said)


def test_addresses_and_folders_that_are_none(tmp_path: Path) -> None:
    """Each says what to do."""
    with listening("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ServeError, match=r"this address cannot be listened at: Address already in use") as error:
            listening("127.0.0.1", port)
        assert error.value.where == f"127.0.0.1:{port}"
    with pytest.raises(ServeError, match="there is no SavedModel that can be served"):
        ServedModel(tmp_path)
    tf.saved_model.save(tf.Module(), str(tmp_path))
    with pytest.raises(ServeError, match="the SavedModel has no signatures"):
        ServedModel(tmp_path)


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The command says what to install."""
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    done = CliRunner().invoke(main, ["serve", str(tmp_path)])
    assert done.exit_code == 1
    assert "Error: serving needs uvicorn [serve]" in done.output
    assert "pip install prometheus_client starlette uvicorn" in done.output
