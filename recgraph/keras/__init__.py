"""recgraph in Keras: recursion as layers, and `fit` with the model's own steps as graphs."""

from recgraph.keras.compiling import CompiledModel, compile
from recgraph.keras.layer import SubGraphLayer
from recgraph.keras.trees import TreeLayer

__all__ = ["CompiledModel", "SubGraphLayer", "TreeLayer", "compile"]


def __dir__() -> list[str]:
    """What is public, for completion."""
    return sorted([*__all__, "__doc__", "__name__"])
