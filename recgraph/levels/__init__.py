"""Calls whose structure is known before their values, level by level, in operations of TensorFlow alone.

`engine="levels"` of a SubGraph runs its calls in this way. `Levels` takes a call apart, so that XLA can compile what
runs.
"""

from recgraph.core import engines
from recgraph.levels.calls import call
from recgraph.levels.handle import LevelPlan, Levels

__all__ = [
    "LevelPlan",
    "Levels",
]


engines.register_caller("levels", call)


def __dir__() -> list[str]:
    """What is public, for completion."""
    return sorted([*__all__, "__doc__", "__name__"])
