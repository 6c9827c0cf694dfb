"""SavedModels behind a port, in the form of TensorFlow Serving's REST interface.

`models` runs signatures, `rest` reads and writes their JSON, `application` answers requests and keeps `limits`, and
`running` is the process: it listens, and ends without losing what it has accepted.
"""

from __future__ import annotations

import importlib

from recgraph.serve.errors import ServeError

_NEEDED = ("prometheus_client", "starlette", "uvicorn")


def require_extra() -> None:
    """Looks whether what serving needs is there.

    Raises:
        ServeError: it is not.
    """
    for name in _NEEDED:
        try:
            importlib.import_module(name)
        except ImportError as cause:
            raise ServeError(
                f"serving needs {name}",
                next_step=f"pip install {' '.join(_NEEDED)} (recgraph's extra `serve`)",
            ) from cause
