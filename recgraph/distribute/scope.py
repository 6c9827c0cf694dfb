"""`Cluster.scope()`: Keras's optimizers get the mean of all workers' gradients, in eager code and in converted steps.

The seam is `apply` of Keras's optimizers, where gradients meet the optimizer. It is the same in eager code and while a
step is converted, so the operations of a step are the same, in the same order, however a worker runs it.

A worker may have to run a call eagerly that is a graph on the others. So each sum says how many workers take part in it
as a graph. Unless these are all, those that run a graph drop it, with nothing written, and run the call eagerly, and
those that run it eagerly wait for them by adding up once more: then all are there eagerly. A graph takes part only once
its assumptions hold, which `recgraph.speculate.passes.workers` sees to; so the sum decides for all workers alike.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import weakref
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import Any, Final, Protocol

import keras
import tensorflow as tf

from recgraph import sharing
from recgraph.distribute import collective_timeouts
from recgraph.distribute.cluster_spec import WorkerAddress
from recgraph.distribute.collectives import Collectives
from recgraph.distribute.errors import ClusterError, DisagreementError
from recgraph.distribute.finite import are_finite, finite_or_fail, not_finite
from recgraph.distribute.reduction import Gradient, Reduction, divided
from recgraph.tf_private import current_graph, run_independently

# Sums are counted, to find workers that are not at the same one. Sums of the squares have to be exact in float32.
_TURNS: Final = 64
_FIGURES: Final = 3
# What a gradient is on a worker.
_NONE, _ROWS, _WHOLE = "nrw"


class _Workers(Protocol):
    """What a scope needs of a cluster."""

    collectives: Collectives
    start_timeout: float
    place: WorkerAddress

    @property
    def size(self) -> int: ...

    def watched(self) -> AbstractContextManager[None]: ...

    def exchange(self, text: str) -> list[str]: ...

    def agree(self, facts: dict[str, str]) -> None: ...

    def part_ways(self) -> None: ...


class SharedCollectives(Collectives):
    """As `Collectives`, for steps that some workers run eagerly and others as a graph.

    In the graph of a `tf.function`, which all workers run alike, they are those of `Collectives`.

    Attributes:
      must_be_finite: whether a graph that adds up something infinite drops it, with nothing written; then all run the
        call eagerly, and find there who it was.
    """

    def __init__(self, plain: Collectives, watched: Callable[[], AbstractContextManager[None]]):
        """Args: those of the cluster, and a context for what may break in eager code."""
        super().__init__(plain.size, plain.index, plain.timeout)
        self.must_be_finite = False
        self._plain, self._watched = plain, watched
        self._turn = tf.Variable(0, trainable=False, dtype=tf.int64, name="recgraph_turn")

    @property
    def turn(self) -> int:
        """How many sums there were; in eager code."""
        return int(self._turn.numpy())

    def sum(self, value: tf.Tensor, timeout: float | None = None) -> tf.Tensor:
        """The sum of every worker's vector, float32 or float64 `[n]`.

        Raises:
          ClusterError: the workers are not at the same sum.
          WorkerLostError: another worker is gone; only in eager code.
        """
        if self.size == 1:
            return tf.identity(value)
        is_eager = tf.executing_eagerly()
        if not is_eager and _sums_of_graph() is None:
            return self._plain.sum(value, timeout)
        turn = tf.cast(self._turn % _TURNS, value.dtype)
        packed = tf.concat([value, tf.stack([tf.cast(not is_eager, value.dtype), turn, turn * turn])], 0)
        added = self._summed_eagerly(packed, timeout) if is_eager else self._summed_in_graph(packed, timeout)
        self._turn.assign_add(1)
        return added[:-_FIGURES]

    def _summed_eagerly(self, packed: tf.Tensor, timeout: float | None) -> tf.Tensor:
        while True:
            with self._watched():
                added = super().sum(packed, timeout)
                graphs, *turns = added[-_FIGURES:].numpy()
            if turns != [self.size * own for own in packed[1 - _FIGURES :].numpy()]:
                raise ClusterError(
                    "the workers are not at the same update",
                    found="one of them has called an optimizer more often than another",
                    next_step="let every worker take the same number of steps, with an empty batch if need be",
                )
            if graphs == 0:
                return added

    def _summed_in_graph(self, packed: tf.Tensor, timeout: float | None) -> tf.Tensor:
        added = super().sum(packed, timeout)
        has_all = tf.reduce_all(added[-_FIGURES:] == self.size * packed[-_FIGURES:])
        _take_part(added.op, has_all & tf.reduce_all(tf.math.is_finite(added)) if self.must_be_finite else has_all)
        return added

    def _gather(self, value: tf.Tensor, key: Any, timeout: float | None) -> tf.Tensor:
        gathered = super()._gather(value, key, timeout)
        if not tf.executing_eagerly() and _sums_of_graph() is not None:
            op = gathered.op if gathered.op.type.startswith("Collective") else gathered.op.inputs[0].op
            _take_part(op, tf.reduce_all(tf.math.is_finite(gathered)) if self.must_be_finite else None)
        return gathered

    @contextlib.contextmanager
    def _bounded(self, timeout: float | None) -> Iterator[float]:
        if not tf.executing_eagerly() and _sums_of_graph() is not None:
            yield 0.0  # the call of the graph is bounded as a whole
        else:
            with super()._bounded(timeout) as seconds:
                yield seconds

    def _number(self) -> int:
        """One is over before the next begins, so that they need not be told apart: eager ones have no numbers."""
        return 0 if tf.executing_eagerly() or _sums_of_graph() is not None else super()._number()


def _sums_of_graph() -> list[tuple[tf.Operation, tf.Tensor | None]] | None:
    """The sums of the graph that a step becomes; None in other graphs, and in a loop or branch of that one."""
    found: list[tuple[tf.Operation, tf.Tensor | None]] | None = getattr(current_graph(), "sums", None)
    return found


def is_speculated_graph() -> bool:
    """Whether the graph that is built now is one that a step becomes under `@rg.function`."""
    return _sums_of_graph() is not None


def _take_part(op: tf.Operation, has_all: tf.Tensor | None) -> None:
    run_independently(op)  # the conversion puts it in its place
    sums = _sums_of_graph()
    assert sums is not None
    sums.append((op, has_all))


class Sharing:
    """The gradients of the steps in a scope.

    Attributes:
      collectives: of these steps.
      may_diverge: whether gradients that are not finite are applied like others.
    """

    def __init__(self, cluster: _Workers, may_diverge: bool = False):
        """Args: whose workers share them; see the attributes."""
        self._cluster = cluster
        self.may_diverge = may_diverge
        self.collectives = SharedCollectives(cluster.collectives, cluster.watched)
        self._kinds: weakref.WeakKeyDictionary[Any, dict[tuple[int, ...], _Compared]] = weakref.WeakKeyDictionary()
        self._of_graphs: weakref.WeakKeyDictionary[Any, list[_Weights]] = weakref.WeakKeyDictionary()
        self._used: dict[int, tf.Variable] = {}  # in the scope that is open
        self._seen: weakref.WeakSet[Any] = weakref.WeakSet()  # graphs that have run in it
        self._began = 0  # how many sums there were before it
        self._left: list[weakref.ref[tf.Variable]] = []  # what the last scope has used
        self._worlds: dict[tuple[Any, ...], SharedWorld] = {}

    def world(self, owners: dict[Any, Callable[..., Any]]) -> SharedWorld:
        """Returns the same world for the same optimizers, so that graphs serve again where a scope is opened again.

        Args:
          owners: classes of optimizers, with the `apply` that each has outside of a scope.
        """
        return self._worlds.setdefault(tuple(owners.items()), SharedWorld(self, owners))

    @property
    def state(self) -> str:
        """What the last scope has left. Where it is the same on all workers, it goes on in the next one."""
        weights = [weight for reference in self._left if (weight := reference()) is not None]
        return f"{self.collectives.turn} sums, {_told(weights)}"

    def leave(self) -> None:
        """Ends the scope, whatever was in it. Models may die from here on."""
        self._left = [weakref.ref(weight) for weight in self._used.values()]
        self._used, self._seen, self._began = {}, weakref.WeakSet(), self.collectives.turn

    def mean(self, optimizer: Any, gradients: Sequence[Gradient], variables: Sequence[Any]) -> list[Gradient]:
        """The mean of all workers' gradients, where each worker counts as much.

        Args:
          optimizer: that they are for.
          gradients: of this worker, for each variable; None where there is none. A variable that has none on some
            workers has zeros there; one that has none on any has none.
          variables: of a floating dtype.

        Raises:
          ClusterError: there is a gradient where there was none on any worker, or a variable is complex.
          DisagreementError: before the first update, the weights of the workers differ.
        """
        weights = [v.value if isinstance(v, keras.Variable) else v for v in variables]
        kinds = self._kinds_of(optimizer, gradients, weights)
        self._note(weights)
        there = [number for number, kind in enumerate(kinds) if kind != _NONE]
        sparse = [place for place, number in enumerate(there) if kinds[number] == _ROWS]
        shared = [weights[number] for number in there]
        reduction = Reduction(self.collectives, shared, sparse, 0)
        sums, _ = self.added(reduction, [gradients[number] for number in there], tf.zeros([0]), _may_skip(optimizer))
        means: list[Gradient] = [None] * len(weights)
        for number, mean in zip(there, divided(sums, tf.constant(float(self._cluster.size)), shared), strict=True):
            means[number] = mean
        return means

    def added(
        self, reduction: Reduction, gradients: Sequence[Gradient], figures: tf.Tensor, may_skip: bool = False
    ) -> tuple[list[Gradient], tf.Tensor]:
        """The sums over all workers.

        Args:
          reduction: adds them up, by the collectives of this.
          gradients: of this worker.
          figures: see `Reduction`.
          may_skip: whether what takes them decides what to do where they are not finite.

        Raises:
          NotFiniteError: they are not; in eager code, and in the graph of a `tf.function` its text.
        """
        if may_skip or self.may_diverge:
            return reduction(gradients, figures)
        if not tf.executing_eagerly() and _sums_of_graph() is None:
            return finite_or_fail(reduction, gradients, figures, self.collectives)
        self.collectives.must_be_finite = True
        try:
            sums, added = reduction(gradients, figures)
        finally:
            self.collectives.must_be_finite = False
        if tf.executing_eagerly() and not bool(are_finite(sums, added)):
            self._blame(gradients, figures)
        return sums, added

    def _blame(self, gradients: Sequence[Gradient], figures: tf.Tensor) -> None:
        told = self._cluster.exchange("" if bool(are_finite(gradients, figures)) else "not finite")
        self._cluster.part_ways()
        workers = [index for index, text in enumerate(told) if text]
        raise not_finite(workers, self.collectives.turn - self._began, self._cluster.place)

    def _kinds_of(self, optimizer: Any, gradients: Sequence[Gradient], weights: Sequence[tf.Variable]) -> str:
        known = self._kinds.setdefault(optimizer, {})
        place = tuple(map(id, weights))
        own = "".join(map(_kind, gradients))
        if place not in known or not known[place].is_of(weights):
            if not tf.executing_eagerly() and _sums_of_graph() is not None:
                raise NotImplementedError("an optimizer whose workers have not compared their weights yet")
            with tf.init_scope():
                known[place] = _Compared(self._compared(own, weights), _weakly(weights))
        for weight, kind, agreed in zip(weights, own, known[place].kinds, strict=True):
            if agreed == _NONE and kind != _NONE:
                raise ClusterError(
                    f"{weight.name} has a gradient, but had none on any worker in the first update",
                    next_step="let the loss depend on it in every step, if only by a factor of zero",
                )
        return known[place].kinds

    def _note(self, weights: Sequence[tf.Variable]) -> None:
        """Weights are updated in this scope: now, or whenever the graph runs that is being made."""
        if not tf.executing_eagerly() and _sums_of_graph() is not None:
            self._of_graphs.setdefault(current_graph(), []).append(_weakly(weights))
        self._used.update((id(weight), weight) for weight in weights)

    def _compared(self, own: str, weights: Sequence[tf.Variable]) -> str:
        """What is known before the first update: the weights are the same on all workers. What each gradient is."""
        others = sorted({weight.dtype.name for weight in weights if not weight.dtype.is_floating})
        if others:
            raise ClusterError("workers add up real gradients only", found=f"a weight of {', '.join(others)}")
        self._require_equal(weights, "set the same seed on all workers, or call cluster.broadcast(model.variables)")
        return "".join(map(_together, zip(*self._cluster.exchange(own), strict=True)))

    def _require_equal(self, weights: Sequence[tf.Variable], next_step: str) -> None:
        try:
            self._cluster.agree({"weights": _told(weights)})
        except DisagreementError as error:
            error.next_step = next_step
            raise

    def bounded(self, graph: Any) -> AbstractContextManager[None]:
        """A context for the call of a step's graph, with all that it computes."""
        if graph not in self._seen:
            self._seen.add(graph)
            for weights in self._of_graphs.get(graph, ()):
                self._used.update((id(weight), weight) for one in weights if (weight := one()) is not None)
        return collective_timeouts.bounded(self._cluster.start_timeout)

    def check(self) -> None:
        """Compares the weights of all workers.

        Raises:
          DisagreementError: they have come apart.
        """
        self._require_equal(
            list(self._used.values()),
            "let nothing but Keras's optimizers write weights in a scope, or give it values that all workers share",
        )


_Weights = tuple["weakref.ref[tf.Variable]", ...]


def _weakly(weights: Sequence[tf.Variable]) -> _Weights:
    return tuple(map(weakref.ref, weights))


@dataclasses.dataclass(frozen=True)
class _Compared:
    """What the workers know together of the gradients of some weights."""

    kinds: str
    weights: _Weights

    def is_of(self, weights: Sequence[tf.Variable]) -> bool:
        """Whether they are these, and no others that have got their addresses."""
        return all(reference() is weight for reference, weight in zip(self.weights, weights, strict=True))


def _told(weights: Sequence[tf.Variable]) -> str:
    hashed = functools.reduce(lambda crc, weight: zlib.crc32(weight.numpy().tobytes(), crc), weights, 0)
    return f"{len(weights)} of them, {hashed:08x}"


class SharedWorld:
    """The world of steps that share their gradients: what each class of optimizers has for `apply` in it."""

    def __init__(self, how: Sharing, owners: dict[Any, Callable[..., Any]]):
        """Args: takes the mean; see `Sharing.world`."""
        self._how = how
        self.methods = {owner: _sharing(how, original) for owner, original in owners.items()}

    def bounded(self, graph: Any) -> AbstractContextManager[None]:
        """See `Sharing.bounded`."""
        return self._how.bounded(graph)


def _kind(gradient: Gradient) -> str:
    return _NONE if gradient is None else _ROWS if isinstance(gradient, tf.IndexedSlices) else _WHOLE


def _together(kinds: Sequence[str]) -> str:
    """What a gradient is as a sum: rows only where it is nothing else."""
    there = set(kinds) - {_NONE}
    return there.pop() if len(there) == 1 else _WHOLE if there else _NONE


def _may_skip(optimizer: Any) -> bool:
    """Whether an optimizer looks itself whether its gradients are finite."""
    return isinstance(optimizer, _SCALING)


# The class whose `apply` all of Keras's optimizers have.
_OWNER: Final = next(kind for kind in keras.Optimizer.__mro__ if "apply" in vars(kind))


# It decides by the gradients whether another optimizer updates: by the mean, so that all workers decide alike.
_SCALING: Final = keras.optimizers.LossScaleOptimizer
# Whether the gradients of the update that runs now are means already.
_has_means: ContextVar[bool] = ContextVar("has_means", default=False)


@contextlib.contextmanager
def optimizers_share(how: Sharing, others: Sequence[type]) -> Iterator[None]:
    """While this is open, optimizers apply the mean of all workers' gradients.

    Args:
      how: takes the mean.
      others: classes with `apply(gradients, variables)`, beside Keras's optimizers.
    """
    originals: dict[Any, Callable[..., Any]] = {owner: owner.apply for owner in (_SCALING, _OWNER, *others)}
    world = how.world(originals)
    for owner, method in world.methods.items():
        owner.apply = method
    try:
        with sharing.shared(world):
            yield
    finally:
        for owner, original in originals.items():
            owner.apply = original


def _sharing(how: Sharing, original: Callable[..., Any]) -> Callable[..., Any]:
    """A method that takes the mean first. It is this library's, so a conversion runs it as it is."""

    def apply(optimizer: Any, grads: Any, trainable_variables: Any = None) -> Any:
        if _has_means.get():
            return original(optimizer, grads, trainable_variables)
        grads = list(grads)
        if trainable_variables is not None:
            trainable_variables = list(trainable_variables)
        known = trainable_variables
        if known is None and getattr(optimizer, "built", False):
            known = optimizer._trainable_variables
        if grads and known is not None and len(grads) == len(known):  # else the optimizer says what is wrong
            grads = how.mean(optimizer, grads, known)
        token = _has_means.set(True)
        try:
            return original(optimizer, grads, trainable_variables)
        finally:
            _has_means.reset(token)

    return apply
