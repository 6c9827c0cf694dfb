"""The hierarchical mixture of experts equals its formula, and computes no expert that its gates leave out."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from recgraph.models.moe import ExpertsHyper, MixtureOfExperts


def unrolled(model: MixtureOfExperts, example: tf.Tensor) -> tuple[tf.Tensor, int]:
    """The answer to one example, `[inputs]`, and how many experts gave it."""
    row = tf.concat([example, [1.0]], 0)
    gates, threshold = model.gates.shape[0], model.hyper.threshold

    def visit(node: int, weight: tf.Tensor) -> list[tuple[tf.Tensor, tf.Tensor]]:
        if node >= gates:
            return [(weight, tf.linalg.matvec(model.experts[node - gates], row, transpose_a=True))]
        right = tf.sigmoid(tf.reduce_sum(model.gates[node] * row))
        sides = ((2 * node + 1, 1.0 - right), (2 * node + 2, right))
        return [found for child, part in sides if part >= threshold for found in visit(child, weight * part)]

    found = visit(0, tf.constant(1.0))
    total = tf.add_n([weight for weight, _ in found])
    return tf.add_n([weight * answer for weight, answer in found]) / total, len(found)


@pytest.mark.parametrize("threshold", [0.0, 0.2, 0.5])
def test_answers_and_gradients_equal_the_formula(threshold: float) -> None:
    """All experts, some, one."""
    model = MixtureOfExperts(ExpertsHyper(inputs=3, outputs=2, levels=3, threshold=threshold), seed=1)
    model.gates.assign(2 * model.gates)
    rng = np.random.default_rng(0)
    examples, answers = (tf.constant(rng.normal(size=[6, size]), tf.float32) for size in (3, 2))

    @tf.function
    def step() -> tuple[tf.Tensor, ...]:
        with tf.GradientTape() as tape:
            given, experts = model(examples)
            loss = tf.reduce_sum((given - answers) ** 2)
        return given, experts, *map(tf.convert_to_tensor, tape.gradient(loss, [model.gates, model.experts]))

    given, experts, *gradients = step()
    with tf.GradientTape() as tape:
        expected, counts = zip(*(unrolled(model, example) for example in examples), strict=True)
        loss = tf.reduce_sum((tf.stack(expected) - answers) ** 2)
    np.testing.assert_allclose(given, tf.stack(expected), rtol=1e-4)
    assert experts.numpy().tolist() == list(counts)
    assert {0.0: {8}, 0.5: {1}}.get(threshold, set(counts)) == set(counts)
    for mine, theirs in zip(gradients, tape.gradient(loss, [model.gates, model.experts]), strict=True):
        np.testing.assert_allclose(mine, tf.convert_to_tensor(theirs), rtol=1e-3, atol=1e-5)


def test_training_finds_the_pieces_of_a_function() -> None:
    """A function of straight pieces, which no single linear expert fits; few of the experts are asked."""
    rng = np.random.default_rng(2)
    examples = tf.constant(rng.uniform(-1, 1, [64, 1]), tf.float32)
    answers = tf.abs(examples) + tf.maximum(0.0, 2 * examples - 1.0)
    model = MixtureOfExperts(ExpertsHyper(inputs=1, outputs=1, levels=3), seed=0)
    optimizer = tf.keras.optimizers.Adam(0.05)
    optimizer.build(model.trainable_variables)

    @tf.function
    def step() -> tuple[tf.Tensor, tf.Tensor]:
        with tf.GradientTape() as tape:
            loss, experts = model.loss(examples, answers)
        variables = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return loss, experts

    first, _ = step()
    for _ in range(100):
        last, experts = step()
    line = np.polyfit(examples[:, 0], answers[:, 0], 1, full=True)[1][0] / 64
    assert float(last) < min(0.1 * line, float(first))
    assert float(experts) < 5


def test_a_threshold_that_leaves_no_expert_is_refused() -> None:
    """The message says why."""
    with pytest.raises(ValueError, match=r"threshold must be between 0 \(all experts\) and 0.5"):
        MixtureOfExperts(ExpertsHyper(inputs=1, outputs=1, threshold=0.6))


def test_no_examples_have_no_answers() -> None:
    """An empty batch."""
    answers, experts = tf.function(MixtureOfExperts())(tf.zeros([0, 2]))
    assert answers.shape == [0, 1]
    assert experts.shape == [0]
