"""The process that serves: it listens, says where, and ends when all that it has accepted is answered."""

from __future__ import annotations

import gc
import logging
import socket
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import uvicorn

from recgraph.serve.application import Application
from recgraph.serve.connections import connection_type
from recgraph.serve.errors import ServeError
from recgraph.serve.limits import Limits
from recgraph.serve.models import ServedModel


class DrainingServer(uvicorn.Server):
    """Sends new requests away from the first signal on, and listens until the others are answered.

    A second signal ends it as uvicorn does: the sockets are closed first.
    """

    def __init__(self, application: Application) -> None:
        """Args: what it runs."""
        super().__init__(
            uvicorn.Config(
                application.asgi,
                interface="asgi3",
                http=connection_type(application.limits),
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
            )
        )
        self._application = application

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begins to end."""
        if self._application.is_ending:
            self.should_exit = True
        self._application.is_ending = True

    async def on_tick(self, counter: int) -> bool:
        """Whether it is time to end."""
        is_done = self._application.is_ending and not self._application.in_progress
        return await super().on_tick(counter) or is_done


def serve(
    folder: Path,
    name: str,
    host: str = "127.0.0.1",
    port: int = 8501,
    limits: Limits | None = None,
    say: Callable[[str], None] = print,
) -> None:
    """Serves a SavedModel until the process is asked to end (SIGTERM or SIGINT).

    Args:
        folder: of the SavedModel.
        name: of the model in the paths of requests.
        host: the address to listen at; others than this machine reach the server by another one than the default.
        port: to listen at; 0 for any that is free.
        limits: what it takes on.
        say: prints a line for the user.

    Raises:
        ServeError: the model cannot be loaded, or the address cannot be listened at.
    """
    model = ServedModel(folder)
    for signature, reason in model.prepare().items():
        say(f"not prepared, so its first request takes longer: {signature}: {reason}")
    application = Application(model, name, limits or Limits())
    # What is there now stays until the end: going through TensorFlow's objects takes a quarter of Python's time.
    gc.collect()
    gc.freeze()
    with listening(host, port) as listener:
        shown, chosen = listener.getsockname()[:2]
        shown = f"[{shown}]" if ":" in shown else shown
        say(f"http://{shown}:{chosen}/v1/models/{name}")
        logging.getLogger("uvicorn").setLevel(logging.ERROR)
        DrainingServer(application).run([listener])
    say(f"ended: {application.answered} requests answered, none lost")


def listening(host: str, port: int) -> socket.socket:
    """A socket that listens.

    Raises:
        ServeError: the address is taken, or none of this machine, or not for this user.
    """
    try:
        return socket.create_server(
            (host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET, backlog=2048
        )
    except OSError as cause:
        raise ServeError(
            f"this address cannot be listened at: {cause.strerror or cause}",
            where=f"{host}:{port}",
            next_step="give another --port, or 0 for any that is free",
        ) from cause
