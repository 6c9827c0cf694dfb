"""`rg.keras.compile`: `fit`, `evaluate` and `predict` run the model's own steps, converted by `rg.function`."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import keras
import tensorflow as tf

from recgraph.errors import DefinitionError, SignatureError
from recgraph.explaining import Explanation, joined
from recgraph.function import function


class CompiledModel:
    """The steps of a model, as `fit`, `evaluate`, `predict` and their relatives for one batch run them.

    Attributes:
        train, test, predict: the model's `train_step`, `test_step` and `predict_step`, each an `rg.function`.
    """

    def __init__(self, model: keras.Model, mode: str, strict: bool) -> None:
        self.train, self.test, self.predict = (
            function(step, mode=mode, strict=strict) for step in (model.train_step, model.test_step, model.predict_step)
        )

    def explain(self, html: bool = False) -> Any:
        """Explains how the steps run and why, those that ran so far; see `rg.function`.

        Args:
            html: whether to return a part of an HTML page, with the program's lines, instead of text.

        Returns:
            A `str`. The text also has a method `html()`, and renders itself in a notebook.
        """
        parts: list[Explanation] = [step.explain() for step in (self.train, self.test, self.predict)]
        made = joined(parts, "")
        return made.html() if html else made


def compile(model: keras.Model, *, mode: str = "auto", strict: bool = False) -> CompiledModel:
    """Lets `fit`, `evaluate`, `predict`, `train_on_batch` and their like run the model's own steps as graphs.

    To be called after `model.compile(...)`; it holds until `model.compile` is called again. Then Keras's loop calls
    the model's `train_step`, `test_step` and `predict_step`, its own or yours, each converted by `rg.function`: at the
    speed of a graph, with the results of `run_eagerly=True`, and with Python in them (`print`, lists, `pdb`) doing what
    it does there. Callbacks, metrics, weights of classes and samples, `steps_per_execution`, gradient accumulation and
    loss scaling are Keras's, as ever.

    Args:
        model: a model that has been compiled, of any kind.
        mode: see `rg.function`.
        strict: whether a step that cannot be converted is an error, which says why.

    Returns:
        The steps, with a method `explain()`.

    Raises:
        SignatureError: `model` is no Keras model, or `mode` is unknown.
        DefinitionError: the model has not been compiled, has `run_eagerly=True`, would be compiled by XLA, or belongs
            to a distribution strategy.

    Examples:
        >>> import keras, numpy as np, recgraph as rg
        >>> model = keras.Sequential([keras.layers.Dense(1)])
        >>> model.compile("sgd", "mse")
        >>> steps = rg.keras.compile(model)
        >>> history = model.fit(np.ones([64, 3]), np.ones([64]), epochs=5, verbose=0)
        >>> steps.train.calls["graph"] > 0
        True
    """
    if not isinstance(model, keras.Model):
        raise SignatureError(f"rg.keras.compile takes a keras.Model, found {model!r}")
    for is_so, what, next_step in (
        (not model.compiled, "has not been compiled", "call model.compile(...) first"),
        (model.run_eagerly, "was compiled with run_eagerly=True", "leave run_eagerly out"),
        (
            model.jit_compile,
            "is to be compiled by XLA (jit_compile=True), which needs steps without Python",
            "call model.compile(..., jit_compile=False)",
        ),
        (
            tf.distribute.has_strategy() or model.distribute_strategy is not tf.distribute.get_strategy(),
            "belongs to a distribution strategy, whose replicas run graphs of their own",
            "make the model outside of strategy.scope(), or train it without rg.keras.compile",
        ),
    ):
        if is_so:
            raise DefinitionError(f"rg.keras.compile: model '{model.name}' {what}", next_step=next_step)
    steps = CompiledModel(model, mode, strict)
    count = model.steps_per_execution
    # Keras makes these where they are None, and sets them to None whenever its own would have to be made anew.
    model.train_function = functools.partial(_last_of, steps.train, count)
    model.test_function = functools.partial(_last_of, steps.test, count)
    model.predict_function = functools.partial(_all_of, steps.predict)
    return steps


def _last_of(step: Callable[[Any], Any], count: int, batches: Iterable[Any]) -> Any:
    """Takes steps on the next batches, at most so many; what the last gives, as tensors or None.

    Raises:
        StopIteration: there is no batch.
    """
    found = [step(_without_optionals(batch)) for batch in itertools.islice(batches, count)]
    if not found:
        raise StopIteration
    return keras.tree.map_structure(lambda x: None if x is None else tf.convert_to_tensor(x), found[-1])


def _all_of(step: Callable[[Any], Any], batches: Sequence[Any]) -> Any:
    """Takes a step on each batch; what they give, one after another."""
    outputs = [step(_without_optionals(batch)) for batch in batches]
    return outputs[0] if len(outputs) == 1 else keras.tree.map_structure(_concatenated, *outputs)


def _concatenated(*parts: Any) -> Any:
    if isinstance(parts[0], tf.SparseTensor):
        return tf.sparse.concat(0, list(parts))
    return tf.stack(parts) if parts[0].shape.rank == 0 else tf.concat(parts, 0)


def _without_optionals(batch: Any) -> Any:
    """A batch with None in place of each `tf.experimental.Optional`: so a data set says that there is nothing."""
    return keras.tree.map_structure(lambda x: None if isinstance(x, tf.experimental.Optional) else x, batch)
