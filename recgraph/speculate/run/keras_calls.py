"""Programs of one line each: what models, losses, metrics and optimizers of Keras do. Speculated on in their place.

A training loop that stands where nothing can be converted around it, at the top of a module for instance, calls these.
Each is many operations: an update is a loop in Python over the variables.
"""

from __future__ import annotations

from typing import Any


def optimizer_update(optimizer: Any, gradients: Any, variables: Any) -> Any:
    """What `Optimizer.apply` does.

    Args:
        optimizer: a Keras optimizer.
        gradients: a list of gradients; None where there is none.
        variables: those that are updated, in the same order; None for those that the optimizer was built for.
    """
    return optimizer.apply(gradients, variables)


def model_call(model: Any, arguments: Any, named: Any) -> Any:
    """What a call of a model does that is made of layers, without a class of the program's."""
    return model(*arguments, **named)


def loss_call(loss: Any, targets: Any, predictions: Any, weights: Any) -> Any:
    """What a call of a `keras.losses.Loss` does."""
    return loss(targets, predictions, weights)


def metric_update(metric: Any, targets: Any, predictions: Any, weights: Any) -> Any:
    """What `update_state` of a metric does that compares predictions with targets."""
    return metric.update_state(targets, predictions, weights)
