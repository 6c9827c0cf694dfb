"""A SavedModel that is served: its signatures, and what is known of them."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from google.protobuf.json_format import MessageToDict  # type: ignore[import-untyped]
from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

from recgraph import native
from recgraph.serve.errors import RefusedRequest, ServeError

DEFAULT = tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY

# What TensorFlow's errors of a call mean to whoever has sent the request; others are the server's own failures.
_STATUSES = {
    tf.errors.InvalidArgumentError: 400,
    tf.errors.OutOfRangeError: 400,
    tf.errors.UnimplementedError: 501,
    tf.errors.ResourceExhaustedError: 503,
    tf.errors.UnavailableError: 503,
    tf.errors.DeadlineExceededError: 504,
}


# A function of a SavedModel that says how its signatures may be called: `rows/SIGNATURE`, how many rows of requests one
# call may join and how many calls run at the same time; `example/SIGNATURE/ARGUMENT`, a request that prepares one.
FOR_SERVERS = "for_servers"


class ServedModel:
    """The signatures of a SavedModel. Threads may call them at the same time.

    Attributes:
        metadata: TensorFlow Serving's `SignatureDefMap` as JSON has it.
    """

    def __init__(self, folder: Path) -> None:
        """Loads it.

        Args:
            folder: of the SavedModel.

        Raises:
            ServeError: there is none, or it has no signatures.
        """
        native.ops()
        try:
            self._loaded = tf.saved_model.load(str(folder))
            written = (folder / tf.saved_model.SAVED_MODEL_FILENAME_PB).read_bytes()
        except (OSError, tf.errors.OpError) as cause:
            raise ServeError(
                "there is no SavedModel that can be served",
                where=str(folder),
                found=str(getattr(cause, "message", cause)).splitlines()[0],
                next_step="give a folder that `recgraph export` or tf.saved_model.save has written",
            ) from cause
        self._signatures: Mapping[str, Any] = self._loaded.signatures
        self._prepared, self._preparing = set[str](), threading.Lock()
        if not self._signatures:
            raise ServeError(
                "the SavedModel has no signatures",
                where=str(folder),
                next_step="give tf.saved_model.save those that are to be served: signatures=...",
            )
        says = getattr(self._loaded, FOR_SERVERS, None)
        self._says = {name: value.numpy() for name, value in says().items()} if callable(says) else {}
        graph = SavedModel.FromString(written).meta_graphs[0]
        known = {name: one for name, one in graph.signature_def.items() if name in self._signatures}
        shown = {name: MessageToDict(one, preserving_proto_field_name=True) for name, one in known.items()}
        self.metadata = {"signature_def": {"signature_def": shown}}

    def inputs(self, signature: str) -> Mapping[str, tf.TensorSpec]:
        """What a signature takes.

        Raises:
            RefusedRequest: there is none of that name.
        """
        if signature not in self._signatures:
            known = ", ".join(map(repr, sorted(self._signatures)))
            raise RefusedRequest(400, f"there is no signature {signature!r}, known: {known}")
        specs: Mapping[str, tf.TensorSpec] = self._signatures[signature].structured_input_signature[1]
        return specs

    def joins(self, signature: str) -> tuple[int, int]:
        """How many rows of requests one call of a signature may join, 0 for none, and how many calls run at once."""
        rows, calls = self._says.get(f"rows/{signature}", (0, 1))
        return int(rows), int(calls)

    def prepare(self) -> dict[str, str]:
        """Calls each signature once, since first calls take seconds.

        The request is the one that the model brings, or one of zeros, with 1 for each axis of any size.

        Returns:
            Of the signatures that have refused it, why.
        """
        failed = {}
        for signature in self._signatures:
            try:
                self(signature, self._example(signature))
            except RefusedRequest as refused:
                failed[signature] = str(refused)
        return failed

    def _example(self, signature: str) -> dict[str, np.ndarray]:
        specs = self.inputs(signature)
        return {name: self._says.get(f"example/{signature}/{name}", _nothing(spec)) for name, spec in specs.items()}

    def __call__(self, signature: str, given: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The results of a signature.

        Raises:
            RefusedRequest: it fails.
        """
        specs = self.inputs(signature)
        # TensorFlow prepares a function in its first call, or in each of several that come before that has ended.
        is_prepared = signature in self._prepared
        try:
            with contextlib.nullcontext() if is_prepared else self._preparing:
                results = self._signatures[signature](
                    **{name: tf.constant(value, specs[name].dtype) for name, value in given.items()}
                )
        except tf.errors.OpError as cause:
            raise RefusedRequest(_STATUSES.get(type(cause), 500), _first_line(cause)) from cause
        self._prepared.add(signature)
        return {name: value.numpy() for name, value in sorted(results.items())}


def _nothing(spec: tf.TensorSpec) -> np.ndarray:
    """Zeros or empty strings, with 1 for each axis of any size."""
    shape = [] if spec.shape.rank is None else [1 if size is None else size for size in spec.shape]
    return np.full(shape, b"", object) if spec.dtype == tf.string else np.zeros(shape, spec.dtype.as_numpy_dtype)


def _first_line(cause: tf.errors.OpError) -> str:
    """What an operation says, without where in the graph it is."""
    lines = [line.strip() for line in str(cause.message).splitlines()]
    told = [line for line in lines if line and not line.startswith(("Graph execution error", "Detected at", "<", "[["))]
    return told[0] if told else type(cause).__name__
