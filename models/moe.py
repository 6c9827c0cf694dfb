"""Hierarchical mixtures of experts of Jordan and Jacobs (Neural Computation 6, 1994) whose gates route: an expert
that counts for too little is not computed, as in Shazeer et al., "Outrageously Large Neural Networks" (ICLR 2017)."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import numpy as np
import tensorflow as tf

from recgraph.models.common import Network


@dataclasses.dataclass(frozen=True)
class ExpertsHyper:
    """Sizes of a tree of experts.

    Attributes:
      inputs: size of an example.
      outputs: size of an answer.
      levels: gates on the way to an expert; there are 2 ** levels experts.
      threshold: a side whose gate gives it less is not computed. With 0 all experts are, as in 1994, and with 0.5 one.
    """

    inputs: int
    outputs: int
    levels: int = 4
    threshold: float = 0.2


class MixtureOfExperts(Network):
    """A complete binary tree: gates inside, linear experts at the leaves. The children of gate n are 2n + 1 and 2n + 2.

    An example goes down every side that its gate gives enough weight, so how many experts work, and which, is computed.
    """

    defaults: ClassVar[ExpertsHyper] = ExpertsHyper(inputs=2, outputs=1)

    def __init__(self, hyper: ExpertsHyper | None = None, seed: int = 0):
        """Creates the weights.

        Args:
          hyper: sizes of the tree of experts.
          seed: of the initial weights.

        Raises:
          ValueError: the threshold is above 0.5, so an example could reach no expert, or negative.
        """
        super().__init__(hyper or self.defaults, seed)
        if not 0.0 <= self.hyper.threshold <= 0.5:
            raise ValueError(
                f"threshold must be between 0 (all experts) and 0.5 (one expert); found {self.hyper.threshold}. "
                "Above 0.5, an even gate would send an example to neither side."
            )
        inputs, outputs, experts = self.hyper.inputs, self.hyper.outputs, 2**self.hyper.levels
        self.gates = self._matrix("gates", experts - 1, inputs + 1, bound=1.0)
        bound = 1.0 / np.sqrt(inputs)
        first = self._random.uniform(-bound, bound, (experts, inputs + 1, outputs))
        self.experts = self._variable("experts", first.astype(np.float32))

    def __call__(self, examples: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Answers examples.

        Args:
          examples: float32 `[B, inputs]`.

        Returns:
          The answers, float32 `[B, outputs]`, and how many experts contributed to each, `[B]`.
        """
        outputs, gates, threshold = self.hyper.outputs, self.gates.shape[0], self.hyper.threshold
        vector, answer = tf.TensorSpec([self.hyper.inputs + 1]), tf.TensorSpec([outputs + 2])
        with self.subgraph("answer", (tf.TensorSpec([], tf.int32), vector), answer) as tree:
            node, example = tree.input(tf.int32), tree.input(shape=vector.shape)

            def expert() -> tf.Tensor:
                own = tf.linalg.matvec(tf.gather(self.experts, node - gates), example, transpose_a=True)
                return tf.concat([own, [1.0, 1.0]], 0)  # its answer, the weight of the answer, one expert

            def gate() -> tf.Tensor:
                right = tf.sigmoid(tf.reduce_sum(tf.gather(self.gates, node) * example))
                return side(2 * node + 1, 1.0 - right) + side(2 * node + 2, right)

            def side(child: tf.Tensor, weight: tf.Tensor) -> tf.Tensor:
                scale = tf.concat([tf.fill([outputs + 1], weight), [1.0]], 0)
                return tf.cond(
                    weight >= threshold, lambda: scale * tree(child, example), lambda: tf.zeros(answer.shape)
                )

            tree.output(tf.cond(node >= gates, expert, gate))
        rows = tf.concat([examples, tf.ones_like(examples[:, :1])], 1)
        mixed = tree.map(tf.zeros(tf.shape(examples)[:1], tf.int32), rows)
        return mixed[:, :outputs] / mixed[:, outputs : outputs + 1], mixed[:, outputs + 1]

    def loss(self, examples: tf.Tensor, answers: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """The mean squared error, and the mean number of experts that an example took, float32 scalars."""
        given, experts = self(examples)
        return tf.reduce_mean(tf.math.squared_difference(given, answers)), tf.reduce_mean(experts)
