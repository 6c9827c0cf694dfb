"""A program of one line: what an optimizer does with gradients. Speculated on in place of the framework's method.

Keras's update is a loop in Python over the variables, some operations each: much of a step of a small network.
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
