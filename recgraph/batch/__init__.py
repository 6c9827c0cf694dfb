"""The batched engine: every invocation that stands at the same place runs as one row of the same kernels."""

from recgraph.batch import rules as rules  # enters its rules
from recgraph.batch.compiler import compile_program
from recgraph.core import engines

__all__ = [
    "rules",
]


engines.register("batched", compile_program)


def __dir__() -> list[str]:
    """What is public, for completion."""
    return sorted([*__all__, "__doc__", "__name__"])
