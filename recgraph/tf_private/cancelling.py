"""Signals that come while the main thread runs a graph: the graph is cancelled, so that Python can handle them.

Python's handlers run in the main thread, between two instructions. A graph is one instruction, and may run for hours.
So a thread of ours waits at the pipe to which Python writes the number of each signal as it comes (`set_wakeup_fd`),
and cancels the graph that the main thread runs then: at once where Ctrl-C is going to raise `KeyboardInterrupt`, else,
where the call can be made in another way, after a time in which most graphs end.
"""

from __future__ import annotations

import array
import fcntl
import os
import select
import signal
import sys
import termios
import threading
import time
from collections.abc import Callable
from typing import Any

import tensorflow as tf
from tensorflow.python.eager import backprop as _backprop
from tensorflow.python.eager import cancellation as _cancellation  # `tf.function` has no public way to be cancelled
from tensorflow.python.eager import context as _context
from tensorflow.python.eager import execute as _execute
from tensorflow.python.eager import record as _record

from recgraph.cpython.sources import told
from recgraph.tf_private.messages import plain_message, with_message

# Seconds that a graph may go on for when a signal has come whose handler may raise nothing.
PATIENCE = 0.5
# Seconds for which nobody is taken to have put another pipe in the place of ours.
_TRUST = 0.02
_SIGNAL = int(signal.SIGINT)
# What an exception says that was to be another one: while it was made, a handler has raised one.
_LOST = "REPLACED BY"


class Interrupted(Exception):
    """A graph was cancelled, with nothing done, so that the program's handler of a signal can run."""


class Handler:
    """A handler of Ctrl-C: the call in which it runs is going to raise `KeyboardInterrupt`, be it later."""


def _raises(handler: Any) -> bool:
    return handler is signal.default_int_handler or issubclass(type(handler), Handler)


class _Watch:
    """The thread at the pipe, and the graph that the main thread runs.

    The main thread alone calls `run`.

    A signal concerns the graph that runs when its number arrives at the pipe, not the one that runs when our thread
    gets to it: Python may have handled it, and begun another graph, before our thread has woken. So whatever lies in
    the pipe when a graph begins is taken out by the main thread; `_lock` makes that, and what our thread does with the
    numbers that it reads, one step each. Handlers run in the main thread wherever it is, so the lock is reentrant.
    """

    def __init__(self) -> None:
        self.main = threading.main_thread().ident
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._reader, False)
        os.set_blocking(self._writer, False)
        self._waiting = array.array("i", [0])  # bytes in the pipe
        self._lock = threading.RLock()
        self._manager = _cancellation.CancellationManager()
        self._run = 0  # the number of the graph that is running; 0 between two
        self._count = 0
        self._may_repeat = False
        self._used: Any = None  # the manager that has cancelled something
        self._cancelled = 0  # the number of the last one that was cancelled
        self._come: list[int] = []  # the signals that have come while it runs
        self._checked = 0.0
        self._other = -1  # somebody else's pipe, in whose place ours is while a graph runs
        threading.Thread(target=self._wait, name="recgraph-signals", daemon=True).start()

    def run(self, call: Callable[..., Any], arguments: tuple[Any, ...], may_repeat: bool) -> Any:
        """Runs a graph, `call` with the cancellation manager as its last argument."""
        now = time.monotonic()
        if now > self._checked + _TRUST:
            self._install(now)
        outer = self._run
        with self._lock:
            fcntl.ioctl(self._reader, termios.FIONREAD, self._waiting)
            if self._waiting[0]:
                self._take()  # of signals before this graph: Python has handled them, or will before the graph begins
            self._come.clear()
            if self._manager is self._used:
                self._manager = _cancellation.CancellationManager()
            self._count += 1
            number = self._run = self._count
            self._may_repeat = may_repeat
        try:
            return call(*arguments, self._manager)
        except Exception as error:
            self._used = self._manager  # what fails cancels what runs beside it, by this manager
            if _LOST in str(error):
                self._handle_again()
            if isinstance(error, tf.errors.OpError):
                error._message = told(error._message)  # which names the user's lines
            # Another class is that of a handler's exception, raised while TensorFlow made its own (CPython 3.12).
            if self._cancelled == number and may_repeat and isinstance(error, tf.errors.OpError):
                raise Interrupted from None
            raise
        finally:
            self._run = outer
            if self._other >= 0:
                self._give_back()

    @property
    def has_signal(self) -> bool:
        """Whether signals have come since the last graph began."""
        with self._lock:
            self._come.extend(self._take())
        return bool(self._come)

    def _handle_again(self) -> None:
        """A handler has run, and raised, while TensorFlow made its own exception, in which the other one was lost."""
        for number in dict.fromkeys(self._come) or [_SIGNAL]:
            handler = signal.getsignal(number)
            if callable(handler):
                handler(number, sys._getframe())

    def _install(self, now: float) -> None:
        other = signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        self._other = other if other != self._writer else -1
        self._checked = now if self._other < 0 else 0.0

    def _give_back(self) -> None:
        if signal.set_wakeup_fd(self._other) != self._writer:  # a third one has come meanwhile
            self._checked = 0.0
        with self._lock:
            self._come.extend(self._take())
            self._other = -1

    def _take(self) -> bytes:
        """Takes the numbers out of the pipe, and passes them on to the one in whose place ours is; holds the lock."""
        try:
            numbers = os.read(self._reader, 64)
        except BlockingIOError:  # another has taken them
            return b""
        if self._other >= 0:
            os.write(self._other, numbers)
        return numbers

    def _wait(self) -> None:
        ready = select.poll()
        ready.register(self._reader, select.POLLIN)
        while True:
            ready.poll()
            with self._lock:
                numbers, number = self._take(), self._run
                if not numbers or not number:
                    continue
                self._come.extend(numbers)
                handlers = {of: signal.getsignal(of) for of in numbers}
                if _raises(handlers.get(_SIGNAL)):
                    self._cancel(number)
                elif self._may_repeat and any(map(callable, handlers.values())):
                    self._cancel_later(number)

    def _cancel_later(self, number: int) -> None:
        timer = threading.Timer(PATIENCE, self._cancel, [number])
        timer.daemon = True
        timer.start()

    def _cancel(self, number: int) -> None:
        with self._lock:
            if self._run == number:
                self._cancelled, self._used = number, self._manager  # the next graph gets a new one
                self._manager.start_cancel()

    def forget(self) -> None:
        """In a forked process: the pipe is the other one's."""
        if signal.set_wakeup_fd(-1) not in (-1, self._writer):
            signal.set_wakeup_fd(self._other)


_watches: list[_Watch] = []
_get_ident = threading.get_ident


def _in_child() -> None:
    for watch in _watches:
        watch.forget()
    _watches.clear()


os.register_at_fork(after_in_child=_in_child)


def _watch() -> _Watch | None:
    """The watch, made when the main thread runs a graph first; None in other threads, which no signal interrupts."""
    if not _watches:
        if threading.current_thread() is not threading.main_thread():
            return None
        _watches.append(_Watch())
    watch = _watches[0]
    return watch if _get_ident() == watch.main else None


def is_of_handler(error: Exception) -> bool:
    """Whether an exception, caught where a graph was run, was raised by a handler of a signal."""
    watch = _watch()
    return watch is not None and watch.has_signal and not isinstance(error, Interrupted | tf.errors.OpError)


def execute(
    op_name: Any,
    num_outputs: int,
    inputs: list[Any],
    attrs: Any,
    ctx: Any,
    name: str | None = None,
    may_repeat: bool = False,
) -> list[Any]:
    """Runs an operation or a function, as TensorFlow's `execute` does; what runs in the main thread can be cancelled.

    Args:
        op_name, num_outputs, inputs, attrs, ctx, name: as there.
        may_repeat: whether the call can be made in another way, if the graph was cancelled: then any signal with a
            handler may cancel it, which raises `Interrupted`.
    """
    watch = _watch()
    if watch is None:
        made: list[Any] = _execute.execute(op_name, num_outputs, inputs, attrs, ctx, name)
    else:
        arguments = (op_name, num_outputs, inputs, attrs, ctx)
        made = watch.run(_execute.execute_with_cancellation, arguments, may_repeat)
    return made


def run_operation(name: str, count: int, inputs: list[tf.Tensor], attributes: tuple[Any, ...]) -> list[tf.Tensor]:
    """Runs an operation eagerly, so that Ctrl-C cancels it in the main thread, and tells tapes of it.

    Generated wrappers do the same, but take the way that cannot be cancelled first, and convert the attributes anew for
    each call.

    Args:
        name: the operation's type.
        count: the number of its outputs.
        inputs: eager tensors.
        attributes: see `attributes_of`.
    """
    try:
        outputs = execute(name, count, inputs, attributes, _context.context())
    except tf.errors.OpError as error:
        raise with_message(error, plain_message(error)) from None
    record(name, inputs, attributes, outputs)
    return outputs


def record(name: str, inputs: list[tf.Tensor], attributes: tuple[Any, ...], outputs: list[tf.Tensor]) -> None:
    """Tells tapes of an operation that has run; see `run_operation`."""
    if _execute.must_record_gradient():
        _execute.record_gradient(name, inputs, attributes, outputs)


def record_all_but_last(
    name: str, inputs: list[tf.Tensor], attributes: tuple[Any, ...], outputs: list[tf.Tensor]
) -> None:
    """Tells tapes of an operation, but not of its last output, so that they do not ask for zeros like it.

    Args:
        name: the operation's type.
        inputs, attributes, outputs: of the operation.
    """

    def backward(*gradients: Any) -> Any:
        given = [*gradients, None]
        return _backprop._gradient_function(name, attributes, len(inputs), inputs, outputs, given, None, "")

    _record.record_operation(name, outputs[:-1], inputs, backward)


def attributes_of(**named: Any) -> tuple[Any, ...]:
    """An operation's attributes, by name, as the eager runtime takes them and tapes keep them."""
    return tuple(part for name, value in named.items() for part in (name, _attribute(value)))


def _attribute(value: Any) -> Any:
    if isinstance(value, list):
        return [_attribute(part) for part in value]
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, tf.DType):
        return value.as_datatype_enum
    if isinstance(value, tf.TensorShape):
        return None if value.rank is None else value.as_list()
    return value
