"""`distribute()` brings up the cluster that this process is a worker of; a `Cluster` is what it does with the others.

The engine is that of `tf.distribute.MultiWorkerMirroredStrategy`: it starts TensorFlow's server, and the collectives
run over its connections. Every wait has a bound, after which each worker that is left says who is missing.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import tensorflow as tf

from recgraph.distribute import watchdog
from recgraph.distribute.cluster_spec import WorkerAddress, find_place
from recgraph.distribute.collective_timeouts import bounded
from recgraph.distribute.collectives import Collectives
from recgraph.distribute.errors import ChiefError, ClusterError, DisagreementError, WorkerLostError
from recgraph.distribute.finite import finite_or_fail
from recgraph.distribute.ports import guard
from recgraph.distribute.reduction import Reduction, divided, divisor
from recgraph.distribute.scope import Sharing, is_speculated_graph, optimizers_share
from recgraph.logs import logger
from recgraph.tf_private import require_peer, tell_cluster, told_in_cluster

log = logger("distribute")

Result = TypeVar("Result")

TIMEOUT = 60.0
START_TIMEOUT = 300.0
_PROBE_SECONDS = 2.0
_TELLING_SECONDS = 3.0  # workers that wait together do not begin at the same moment
# What the runtime reports when a collective is broken off, in whichever way it has learned of it.
_BROKEN = (
    tf.errors.UnavailableError,
    tf.errors.DeadlineExceededError,
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.FailedPreconditionError,
    tf.errors.InternalError,
    tf.errors.UnknownError,
)
_SIGNS = ("ollective", "RPC", "/job:worker", "ocket", "oordination")
_REASON = re.compile(r"^Collective.*", re.MULTILINE)

_current: Cluster | None = None


class Cluster:
    """The workers that train together, seen from one of them.

    All workers run the same program and call what is here in the same order. As a context manager it leaves the cluster
    at the end of the block.

    Attributes:
      place: the addresses, and this worker's index.
      strategy: the `tf.distribute.Strategy` behind it, for programs with replica functions; None for a single worker.
      collectives: sums and gathers, for graphs.
      timeout: after so many seconds a worker that waits for the others gives up.
      start_timeout: the same, while the others are being started, or trace their graphs.
    """

    def __init__(
        self,
        place: WorkerAddress,
        strategy: Any = None,
        timeout: float = TIMEOUT,
        start_timeout: float = START_TIMEOUT,
    ):
        """See `distribute`."""
        self.place, self.strategy = place, strategy
        self.timeout, self.start_timeout = timeout, start_timeout
        self.collectives = Collectives(len(place.hosts), place.index, timeout)
        self._sharing: Sharing | None = None  # while a scope is open
        self._last_sharing: Sharing | None = None

    @property
    def size(self) -> int:
        """The number of workers."""
        return len(self.place.hosts)

    @property
    def index(self) -> int:
        """Which of them this is."""
        return self.place.index

    @property
    def is_chief(self) -> bool:
        """Is this the first worker, which writes what a training leaves?"""
        return self.index == 0

    def __repr__(self) -> str:
        return f"<Cluster: {self.place.name(self.index)} of {self.size}>"

    @contextlib.contextmanager
    def watched(self, progress: tf.Variable | None = None) -> Iterator[None]:
        """A context in which a collective that breaks raises an error that names the worker at fault.

        Args:
          progress: for a graph that takes many steps in a loop, what each of them changes: when it has not changed for
            `timeout` seconds, the others are taken as lost.

        Raises:
          WorkerLostError: another worker has ended, has stopped, or cannot be reached.
        """
        bound: contextlib.AbstractContextManager[None] = contextlib.nullcontext()
        if progress is not None and self.size > 1:
            bound = bounded(self.timeout, lambda: int(progress.numpy()))
        try:
            with bound:
                yield
        except _BROKEN as cause:
            if self.size == 1 or not any(sign in str(cause) for sign in _SIGNS):
                raise
            raise self._lost(cause) from cause

    def _lost(self, cause: tf.errors.OpError) -> WorkerLostError:
        missing = self._missing()
        hung = self._hung() if not missing and isinstance(cause, tf.errors.DeadlineExceededError) else []
        who = " and ".join(missing or hung) or "another worker"
        how = "do not answer" if len(missing) > 1 else "does not answer" if missing else "has broken off"
        if hung:
            how = "hangs, or has other work: its server answers, but it takes no part"
        log.info("collectives are broken: %s", cause.message)
        reason = _REASON.search(cause.message)
        return WorkerLostError(
            f"{who} {how}; {self.place.name(self.index)} cannot go on alone",
            found=reason.group() if reason else type(cause).__name__,
            next_step="start all workers again: training continues from the last checkpoint. "
            "--max-restarts does this by itself",
        )

    def _missing(self) -> list[str]:
        found: dict[int, bool] = {}

        def probe(index: int) -> None:
            try:
                require_peer(f"/job:worker/replica:0/task:{index}", _PROBE_SECONDS)
            except tf.errors.OpError:
                found[index] = True

        threads = [threading.Thread(target=probe, args=(i,), daemon=True) for i in range(self.size) if i != self.index]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(2 * _PROBE_SECONDS)
        return [self.place.name(index) for index in sorted(found)]

    def _hung(self) -> list[str]:
        """The workers that do not wait, too. Those that do tell so within a few seconds, for they give up as well."""
        if self.size == 2:
            return [self.place.name(1 - self.index)]
        with contextlib.suppress(*_BROKEN, tf.errors.AlreadyExistsError):
            tell_cluster(f"recgraph/waits/{self.index}", "")
        time.sleep(_TELLING_SECONDS)
        return [self.place.name(index) for index in range(self.size) if index != self.index and not _has_told(index)]

    def barrier(self, timeout: float | None = None) -> None:
        """Returns once all workers are here.

        Args:
          timeout: by default that of a start, since workers may have much to do before.

        Raises:
          WorkerLostError: one has not come.
        """
        with self.watched():
            self.collectives.sum(tf.zeros([1]), timeout or self.start_timeout).numpy()

    def leave(self) -> None:
        """Ends the work together: after this, a worker that ends breaks nobody's connection.

        Raises:
          WorkerLostError: one has not come this far.
        """
        if self.size == 1:
            return
        self.barrier()
        # A worker is through a barrier before those that still read from it are. When it is through a second one, all
        # are through the first; and if that breaks, it is because the others have gone, and may.
        with contextlib.suppress(*_BROKEN):
            self.collectives.sum(tf.zeros([1])).numpy()

    def part_ways(self) -> None:
        """Returns once all workers know what is wrong, so that none of them hears first that another has ended."""
        with contextlib.suppress(WorkerLostError):
            self.leave()

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        """Leaves, unless the block failed: then the others learn it from the connection."""
        if kind is None:
            self.leave()

    def exchange(self, text: str) -> list[str]:
        """Every worker's text, in the order of their indices.

        Raises:
          WorkerLostError: one has not given its own in time.
        """
        return [raw.decode() for raw in self._exchange(text.encode())]

    def exchange_rows(self, rows: np.ndarray) -> list[np.ndarray]:
        """Every worker's array, in the order of their indices; first dimensions may differ.

        Raises:
          DisagreementError: on every worker, rows of one are of another dtype or shape.
          WorkerLostError: one has not given its own in time.
        """
        # How many rows there are cannot be told from their bytes where a row has none.
        own = {"kind": f"{rows.dtype} {list(rows.shape[1:])}", "count": len(rows)}
        received = [raw.partition(b"\n") for raw in self._exchange(json.dumps(own).encode() + b"\n" + rows.tobytes())]
        told = [json.loads(head) for head, _, _ in received]
        self._require_equal("kind of rows to exchange", [one["kind"] for one in told])
        return [
            np.frombuffer(numbers, rows.dtype).reshape(one["count"], *rows.shape[1:])
            for one, (_, _, numbers) in zip(told, received, strict=True)
        ]

    def _exchange(self, raw: bytes) -> list[bytes]:
        if self.size == 1:
            return [raw]
        with self.watched():
            lengths = self.collectives.gather(tf.constant(len(raw)), self.start_timeout).numpy()
            width = -(-max(int(lengths.max()), 1) // 4)
            padded = np.frombuffer(raw.ljust(4 * width, b"\0"), np.int32)
            gathered = self.collectives.gather(tf.constant(padded), self.start_timeout).numpy()
        return [row.tobytes()[:length] for row, length in zip(gathered, lengths, strict=True)]

    def agree(self, facts: Mapping[str, str]) -> None:
        """Compares what the workers have to have in common.

        Args:
          facts: by what they are called in the message, such as a version or a hash of the data.

        Raises:
          DisagreementError: on every worker, the same.
          WorkerLostError: one has not answered.
        """
        told = [json.loads(text) for text in self.exchange(json.dumps(dict(facts)))]
        for name in dict.fromkeys(name for one in told for name in one):
            self._require_equal(name, [one.get(name, "none") for one in told])

    def _require_equal(self, name: str, values: list[str]) -> None:
        """Checks that all workers have told the same."""
        others = [index for index, value in enumerate(values) if value != values[0]]
        if others:
            self.part_ways()
            raise DisagreementError(
                f"the workers do not have the same {name}",
                found="; ".join(f"{self.place.name(index)}: {values[index]}" for index in others),
                expected=f"that of {self.place.name(0)}, the chief: {values[0]}",
                next_step="give every worker the same program, options and data",
            )

    def on_chief(self, action: Callable[[], Result]) -> Result | None:
        """Runs something on the chief alone, while the others wait for it.

        Returns:
          Its result; None on the other workers.

        Raises:
          Exception: on the chief, that of the action.
          ChiefError: on the other workers, with the text of that.
        """
        if self.size == 1:
            return action()
        result, problem, said = None, None, ""
        if self.is_chief:
            try:
                result = action()
            except Exception as error:  # whatever it is, the others must not wait for it
                problem, said = error, f"{type(error).__name__}: {error}"
        said = self.exchange(said)[0]
        if said:
            self.part_ways()
        if problem is not None:
            raise problem
        if said:
            raise ChiefError(f"{self.place.name(0)}, the chief, cannot go on: {said}")
        return result

    @contextlib.contextmanager
    def scope(self, *optimizers: type, may_diverge: bool = False) -> Iterator[None]:
        """A context in which Keras's optimizers apply the mean of all workers' gradients, where each counts as much.

        Steps may be eager code, or under `@rg.function`, or in a `tf.function` that is not compiled by XLA. A call that
        one worker has to run eagerly is run so by all. Every worker has to call each optimizer equally often. `mean`
        may be called in eager code, too. At the end the weights of all workers are compared.

        Args:
          optimizers: classes of the program's own that have `apply(gradients, variables)`.
          may_diverge: whether gradients that are not finite are applied, too. By default they end all workers before
            they are in any weight; Keras's `LossScaleOptimizer` skips such an update.

        Raises:
          NotFiniteError: gradients of a worker are infinite or no numbers; in the graph of a `tf.function` that is
            an `InvalidArgumentError` with the same text.
          NotShared: in it, something runs steps in a way that cannot be divided.
          ClusterError: scopes are nested; an optimizer cannot be shared.
          DisagreementError: the weights differ, before the first update or at the end.
          WorkerLostError: another worker is gone.
        """
        if self._sharing is not None:
            raise ClusterError("a scope of this cluster is open already")
        if self.size == 1:
            yield
            return
        self._sharing = self._next_sharing(may_diverge)
        try:
            with optimizers_share(self._sharing, optimizers):
                yield
            self._sharing.check()
        finally:
            self._sharing.leave()
            self._sharing = None

    def _next_sharing(self, may_diverge: bool) -> Sharing:
        """Returns that of the last scope, whose graphs serve again, unless something has come apart since then."""
        states = set(self.exchange("" if self._last_sharing is None else self._last_sharing.state))
        if self._last_sharing is None or len(states) > 1 or self._last_sharing.may_diverge != may_diverge:
            self._last_sharing = Sharing(self, may_diverge)
        return self._last_sharing

    def broadcast(self, variables: Sequence[Any]) -> None:
        """Gives variables on all workers the chief's values, to the last bit; in eager code.

        Args:
          variables: TensorFlow's or Keras's, of any dtype but string; the same shapes and dtypes on all workers.

        Raises:
          ClusterError: a variable has strings.
          DisagreementError: the variables of the workers differ in shape or dtype.
          WorkerLostError: another worker is gone.
        """
        if self.size == 1:
            return
        values = [np.asarray(variable.numpy()) for variable in variables]
        if any(value.dtype.kind in "OS" for value in values):
            raise ClusterError("a variable of strings cannot be broadcast", next_step="give numbers to all workers")
        self.agree({"variables": ", ".join(f"{value.dtype.name}{list(value.shape)}" for value in values)})
        own = b"".join(value.tobytes() for value in values)
        # Added as whole numbers, because -0.0 + 0.0 is another float.
        numbers = np.frombuffer(own + bytes(-len(own) % 4), np.int32)
        with self.watched():
            total = self.collectives.sum(
                tf.constant(numbers if self.is_chief else np.zeros_like(numbers)), self.start_timeout
            )
        given, offset = total.numpy().tobytes(), 0
        for variable, value in zip(variables, values, strict=True):
            variable.assign(np.frombuffer(given, value.dtype, value.size, offset).reshape(value.shape))
            offset += value.nbytes

    def part(self, costs: Sequence[float]) -> np.ndarray:
        """Which examples of a batch this worker gets, so that all have about as much to do.

        Args:
          costs: of all examples, such as numbers of nodes; the same on all workers.

        Returns:
          Their numbers, int64, ascending, as `tf.gather` takes them; none where there are more workers than examples.

        Examples:
          >>> from recgraph.distribute import Cluster
          >>> Cluster.alone().part([3, 1, 2])
          array([0, 1, 2])
        """
        loads, dealt = [0.0] * self.size, [0] * len(costs)
        for number in sorted(range(len(costs)), key=lambda number: -costs[number]):
            least = loads.index(min(loads))
            loads[least] += costs[number]
            dealt[number] = least
        return np.flatnonzero(np.array(dealt, np.int64) == self.index)

    def mean(
        self,
        gradients: Sequence[Any],
        variables: Sequence[tf.Variable],
        total: tf.Tensor,
        count: tf.Tensor,
        *,
        may_diverge: bool = False,
    ) -> tuple[list[Any], tf.Tensor]:
        """The gradients and the loss of one machine that has the examples of all workers; for a step's graph.

        Args:
          gradients: of the *sum* of the losses of this worker's examples; for each variable a tensor, rows
            (`tf.IndexedSlices`), or None for zeros. A variable must have rows on all workers or on none.
          variables: of a floating dtype.
          total: that sum, a scalar.
          count: how many examples it has; may differ from worker to worker, and be 0.
          may_diverge: whether what is not finite is given back like other numbers; else it is an error.

        Returns:
          Gradients of the mean loss over all examples, in the same form, and that loss, float64 if the sum is, else
          float32.

        Raises:
          tf.errors.InvalidArgumentError: when the graph runs, gradients or the loss of a worker, which is named, are
            infinite or no numbers. In eager code and in converted steps it is a NotFiniteError.
          ClusterError: there are several workers, and this is neither the graph of a `tf.function` nor in a `scope`.
        """
        if self.size > 1 and self._sharing is None and (tf.executing_eagerly() or is_speculated_graph()):
            raise ClusterError(
                "Cluster.mean works in the graph of a tf.function",
                found="a call in eager code; a step under @rg.function runs eagerly until it is converted",
                expected="a step that all workers run alike",
                next_step="call the step in `with cluster.scope():`, or use @tf.function for it",
            )
        sparse = [number for number, one in enumerate(gradients) if isinstance(one, tf.IndexedSlices)]
        total = tf.convert_to_tensor(total)
        dtype = tf.float64 if total.dtype == tf.float64 else tf.float32
        figures = tf.stack([tf.cast(total, dtype), tf.cast(count, dtype)])
        sums, added = self._added(variables, sparse, gradients, figures, may_diverge)
        loss, examples = tf.unstack(added)
        return divided(sums, examples, variables), loss / divisor(examples)

    def _added(
        self,
        variables: Sequence[tf.Variable],
        sparse: list[int],
        gradients: Sequence[Any],
        figures: tf.Tensor,
        may_diverge: bool,
    ) -> tuple[list[Any], tf.Tensor]:
        if self._sharing is not None:
            reduction = Reduction(self._sharing.collectives, variables, sparse, 2)
            return self._sharing.added(reduction, gradients, figures, may_diverge)
        reduction = Reduction(self.collectives, variables, sparse, 2)
        if may_diverge:
            return reduction(gradients, figures)
        return finite_or_fail(reduction, gradients, figures, self.collectives)

    @staticmethod
    def alone() -> Cluster:
        """A cluster of this process only: nothing waits, and sums are what they are."""
        return Cluster(WorkerAddress(("localhost:1",), 0))


def distribute(
    hosts: Sequence[str] | None = None,
    index: int | None = None,
    *,
    kubernetes: str | None = None,
    port: int = 2222,
    timeout: float = TIMEOUT,
    start_timeout: float = START_TIMEOUT,
) -> Cluster:
    """Brings up the cluster that this process is a worker of, before anything else is done with TensorFlow.

    Args:
      hosts: `host:port` of all workers; by default `TF_CONFIG` or the scheduler says.
      index: of this worker among them.
      kubernetes: label selector of the workers' pods, where there is no `TF_CONFIG`.
      port: of workers whose scheduler knows only their hosts.
      timeout: after so many seconds in which a worker does not take part in a collective, the others give up.
      start_timeout: the same, for all workers to be there, and for what the chief does alone.

    Returns:
      The cluster; of one worker where nothing describes one. A second call returns the first one's.

    Raises:
      ClusterError: the description is wrong, or a host does not resolve.
      PortTakenError: the port of this worker is in use.
    """
    global _current
    if _current is None:
        place = find_place(hosts, index, kubernetes, port)
        if place is None:
            _current = Cluster.alone()
        else:
            _current = Cluster(place, _bring_up(place, start_timeout), timeout, start_timeout)
            sys.excepthook = _end_by(sys.excepthook)
    return _current


def _has_told(index: int) -> bool:
    try:
        told_in_cluster(f"recgraph/waits/{index}", _PROBE_SECONDS)
    except (*_BROKEN, tf.errors.NotFoundError):
        return False
    return True


def _end_by(hook: Callable[..., Any]) -> Callable[..., Any]:
    """What happens with an exception that nobody handles: one that says it all ends the process without a traceback.

    At once, too: TensorFlow would wait for the workers that are gone. The exit status tells a launcher that this worker
    is not the one that failed.
    """

    def end(kind: type[BaseException], error: BaseException, traceback: Any) -> None:
        if not isinstance(error, WorkerLostError):
            hook(kind, error, traceback)
            return
        try:
            sys.stdout.flush()
            sys.stderr.write(f"Error: {error}\n")
            sys.stderr.flush()
        finally:  # also where nobody is left to read it
            os._exit(error.exit_code)

    return end


def _bring_up(place: WorkerAddress, start_timeout: float) -> Any:
    place.require_usable()
    secret = guard(place)
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec({"worker": list(place.hosts)}), task_type="worker", task_id=place.index, rpc_layer="grpc"
    )
    log.info("waiting for %d workers, as %s", len(place.hosts), place.name(place.index))
    try:
        with _deadline(place, start_timeout, secret):
            return tf.distribute.MultiWorkerMirroredStrategy(resolver)
    except tf.errors.UnknownError as cause:
        raise place.port_taken(cause.message) from cause
    except RuntimeError as cause:  # TensorFlow was in use already
        raise ClusterError(
            "the cluster cannot be brought up after other work with TensorFlow",
            found=str(cause),
            next_step="call rg.distribute() first in the program",
        ) from cause


@contextlib.contextmanager
def _deadline(place: WorkerAddress, seconds: float, secret: bytes) -> Iterator[None]:
    """Ends this process with a message where the cluster is not there in time."""
    command = [sys.executable, "-I", watchdog.__file__, str(os.getpid()), str(seconds), str(place.index)]
    with subprocess.Popen([*command, *place.hosts], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as process:
        assert process.stdin is not None
        process.stdin.write(secret.hex().encode() + b"\n")  # nobody else reads it there
        process.stdin.flush()
        yield  # at the end its input is closed
