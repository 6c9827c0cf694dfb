"""Masks that Keras's layers leave with tensors: they go into a call and out of it."""

from __future__ import annotations

import types

import keras
import numpy as np
import tensorflow as tf

from recgraph.speculate import Speculated


def test_a_kept_tensor_has_its_mask_in_the_call() -> None:
    """An LSTM skips what is masked."""
    masking, model = keras.layers.Masking(), types.SimpleNamespace(x=None)
    lstm = keras.layers.LSTM(2, kernel_initializer="ones", recurrent_initializer="ones")

    def step(scale: tf.Tensor) -> tf.Tensor:
        return lstm(model.x) * scale

    called = Speculated(step)
    for i in range(8):
        model.x = masking(tf.constant([[[1.0, float(i)], [2.0, 1.0], [0.0, 0.0], [0.0, 0.0]]]))
        scale = tf.constant(1.0)
        np.testing.assert_allclose(called(scale), step(scale), rtol=1e-6)
    assert called.calls["graph"] > 0, called.explain()


def test_a_result_has_its_mask() -> None:
    """What is done with it outside of the call takes the mask from it; what is kept by the program, too."""
    embed = keras.layers.Embedding(5, 3, mask_zero=True, embeddings_initializer="ones")
    pool, kept = keras.layers.GlobalAveragePooling1D(), list[tf.Tensor]()
    embed(tf.constant([[1, 0]]))

    def step(ids: tf.Tensor) -> tf.Tensor:
        made = embed(ids)
        kept.append(made * 1.0)
        kept.append(made)
        return made

    called = Speculated(step)
    for i in range(8):
        ids = tf.constant([[1, i % 4 + 1, 0, 0]])
        made = called(ids)
        np.testing.assert_allclose(pool(made), tf.ones([1, 3]))
        assert kept[-1]._keras_mask.numpy().tolist() == [[True, True, False, False]]
        assert getattr(kept[-2], "_keras_mask", None) is None
    assert called.calls["graph"] > 0, called.explain()
