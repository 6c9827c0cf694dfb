"""How a call runs its graph: inputs become tensors, seeds are drawn, and what was done is undone where it fails."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import signal
import threading
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

import tensorflow as tf

from recgraph import tf_private

Run: TypeAlias = Callable[..., Any]


def runner(
    concrete: Any,
    inputs: list[tf.Tensor],
    draw: Callable[[], tf.Tensor] | None,
    early: list[Any],
    checked: bool = False,
) -> Run:
    """A function that runs a graph, all or nothing.

    Args:
        concrete: the graph as a function of `inputs`, then, with `draw`, of seeds.
        inputs: its placeholders.
        draw: gives the seeds of a call.
        early: the handles of variables that are written before something that may fail.
        checked: whether the function is given another, too, for the outputs: it may fail, and its result is given
            beside them.
    """
    run = _with_tensors(tf_private.fast_call(concrete), [tensor.dtype for tensor in inputs])
    run = _with_check(run) if checked else run
    if draw is not None:
        run = _with_seeds(run, draw)
    return _with_undo(run, early) if early else run


def _with_tensors(run: Run, dtypes: list[tf.DType]) -> Run:
    """Python's numbers and arrays become tensors."""
    eager, constant = tf_private.EagerTensor, tf_private.eager_constant

    def call(feeds: Sequence[Any]) -> list[tf.Tensor]:
        tensors = list(feeds)
        for i, dtype in enumerate(dtypes):
            if type(tensors[i]) is not eager:
                tensors[i] = constant(tensors[i], dtype)
        return run(tensors)

    return call


def _with_check(run: Run) -> Run:
    def call(feeds: Sequence[Any], check: Callable[[Any], Any]) -> Any:
        outputs = run(feeds)
        return outputs, check(outputs)

    return call


def _with_seeds(run: Run, draw: Callable[[], tf.Tensor]) -> Run:
    """The generator that eager operations draw seeds from is put back where the graph fails."""

    def call(feeds: Sequence[Any], *check: Any) -> Any:
        before = tf_private.seed_generator_state()
        try:
            return run([*feeds, draw()], *check)
        except BaseException:
            tf_private.set_seed_generator_state(before)
            raise

    return call


def _with_undo(run: Run, handles: list[Any]) -> Run:
    """Variables are read before the graph and put back where it fails; a buffer that was read is not overwritten."""
    dtypes = [tf_private.variable_dtype(handle) for handle in handles]

    def call(feeds: Sequence[Any], *check: Any) -> Any:
        pairs = zip(handles, dtypes, strict=True)
        values = [tf.raw_ops.ReadVariableOp(resource=handle, dtype=dtype) for handle, dtype in pairs]
        try:
            return run(feeds, *check)
        except BaseException:
            for handle, value in zip(handles, values, strict=True):
                tf.raw_ops.AssignVariableOp(resource=handle, value=value)
            raise

    return call


_INTERRUPT: Final = int(signal.SIGINT)
_RAISES: Final = signal.default_int_handler


class _Wait(tf_private.Handler):
    """Takes note of the first Ctrl-C, which cancels a graph that is running."""

    def __init__(self) -> None:
        self.has_come = False

    def __call__(self, number: int, frame: Any) -> None:
        if self.has_come:
            _RAISES(number, frame)
        self.has_come = True


def whole(call: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The call, which Python's own Ctrl-C finds done as a whole or not at all. A second Ctrl-C does not wait."""

    def uninterrupted(parameters: Any) -> Any:
        # Only the main thread is interrupted; a program that handles the signal itself knows what it does.
        if threading.get_ident() != threading.main_thread().ident or _signal.getsignal(_INTERRUPT) is not _RAISES:
            return call(parameters)
        wait = _Wait()
        _signal.signal(_INTERRUPT, wait)
        try:
            result = call(parameters)
        finally:
            _signal.signal(_INTERRUPT, _RAISES)
        if wait.has_come:
            raise KeyboardInterrupt
        return result

    return uninterrupted
