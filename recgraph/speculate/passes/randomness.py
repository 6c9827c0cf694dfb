"""Random numbers that are the same as eagerly, bit for bit.

Eagerly, an operation without a seed of its own draws one from a generator of the context, if `tf.random.set_seed` was
called, and begins a Philox stream with both seeds. In the graph a stateless operation begins the same stream: the
seeds are drawn before the graph runs, in the same order, and put back where it fails.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import tensorflow as tf

from recgraph import ops, tf_private
from recgraph.ops import PHILOX, bodies, draws_from_philox
from recgraph.speculate.observe.reasons import Feature, Inconvertible

# Stateful operations, and those without state that fill tensors in the same way.
_STATELESS: Final[dict[str, Any]] = {
    "RandomStandardNormal": tf.raw_ops.StatelessRandomNormalV2,
    "RandomUniform": tf.raw_ops.StatelessRandomUniformV2,
    "TruncatedNormal": tf.raw_ops.StatelessTruncatedNormalV2,
    "RandomUniformInt": tf.raw_ops.StatelessRandomUniformIntV2,
}


class _OperationProxy:
    """An operation for a caller who looks at the attributes of another one that it asked for."""

    def __init__(self, op: tf.Operation) -> None:
        self.outputs, self.inputs = op.outputs, op.inputs[:1]
        self._dtype = op.outputs[0].dtype

    def _get_attr_type(self, name: str) -> tf.DType:
        return self._dtype if name in ("dtype", "Tout") else self.inputs[0].dtype

    def _get_attr_int(self, name: str) -> int:
        return 0


class RandomGraph(tf_private.FuncGraph):
    """A graph whose random operations are told their seeds.

    Attributes:
        draws: how many seeds the call draws.
        sums: collectives of workers, in order: `recgraph.distribute` adds each; a sum with what says whether all have
            taken part in it as a graph.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.is_seeded = tf_private.global_seed() is not None
        self.seed: int | None = None  # an operation without a seed of its own then has both as 0
        self.draws = 0
        self.sums: list[tuple[tf.Operation, tf.Tensor | None]] = []
        self._seeds: tf.Tensor | None = None

    @property
    def seeds(self) -> tf.Tensor:
        """The placeholder of the seeds: a row for each draw."""
        if self._seeds is None:
            with self.as_default(), tf.control_dependencies(None):
                self._seeds = tf_private.placeholder(tf.TensorSpec([None, 2], tf.int64))
        return self._seeds

    def _create_op_internal(self, op_type: str, inputs: Any, *arguments: Any, **named: Any) -> Any:
        if op_type == "RngReadAndSkip" and draws_from_philox(*inputs[:2]):
            # Apart from the read, the write can wait until nothing may fail any more.
            old = tf.raw_ops.ReadVariableOp(resource=inputs[0], dtype=tf.int64)
            super()._create_op_internal(op_type, inputs, *arguments, **named)
            return _OperationProxy(old.op)
        if op_type not in _STATELESS or not self.is_seeded:
            return super()._create_op_internal(op_type, inputs, *arguments, **named)
        attributes = named["attrs"]
        if attributes["seed"].i or attributes["seed2"].i:
            raise Inconvertible(
                Feature.RANDOM, f"a {op_type} has a seed of its own, whose state continues from call to call"
            )
        row = tf.cast(self.seeds[self.draws], tf.uint64)
        self.draws += 1
        key, counter = row[:1], tf.stack([tf.constant(0, tf.uint64), row[1]])
        more = {} if op_type == "RandomUniformInt" else {"dtype": tf.dtypes.as_dtype(attributes["dtype"].type)}
        if op_type == "RandomUniformInt":
            more = {"minval": inputs[1], "maxval": inputs[2]}
        return _OperationProxy(_STATELESS[op_type](shape=inputs[0], key=key, counter=counter, alg=PHILOX, **more).op)

    @property
    def has_random_numbers(self) -> bool:
        """Whether a call draws any, of the kinds that depend on `tf.random.set_seed`."""
        return self.draws > 0 or any(map(_draws, self.get_operations()))

    def check(self) -> None:
        """Whether all random numbers are like eager ones.

        Raises:
            Inconvertible: not these.
        """
        for op in self.get_operations():
            _check(op, self.is_seeded, False)

    def seeds_drawn(self) -> Callable[[], tf.Tensor] | None:
        """What draws the seeds of a call."""
        return None if self._seeds is None else _drawing(self.draws)


def refuse_draws(ev: Any) -> None:
    """Seeds are drawn before the graph: there has to be one way only, or a known number of rounds, to where one is.

    Raises:
        Inconvertible: the graph of a branch or round has operations that would draw one.
    """
    for op in tf_private.current_graph().get_operations():
        if _draws(op) and ev.graph.is_seeded:
            raise ev.refuse(Feature.RANDOM, f"a {op.type} in a branch or loop of the graph")


def _draws(op: tf.Operation) -> bool:
    """Whether an operation has random numbers that `tf.random.set_seed` begins."""
    return ops.facts(op.type).state is ops.State.RANDOM


def _check(op: tf.Operation, is_seeded: bool, inside: bool) -> None:
    if _draws(op):
        own_seed = bool(op.get_attr("seed") or op.get_attr("seed2"))
        if is_seeded or own_seed:
            what = "in a branch or loop of the graph" if inside and not own_seed else "whose stream only eager ops have"
            raise Inconvertible(Feature.RANDOM, f"a {op.type} {what}")
    for body, _ in bodies(op):
        for inner in body.get_operations():
            _check(inner, is_seeded, True)


def _drawing(count: int) -> Callable[[], tf.Tensor]:
    def draw() -> tf.Tensor:
        return tf.constant([tf_private.next_seeds() for _ in range(count)], tf.int64, [count, 2])

    return draw
