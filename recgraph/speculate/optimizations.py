"""What the generator does beyond its general rules; each can be switched off, to see what it is worth."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Optimizations:
    """Switches. Results are the same whatever they say; where a general rule cannot convert, the special one does.

    Callees have no switch: what they do to Python objects belongs to the caller's call, so they are always inlined.

    Attributes:
        unrolling: loops whose number of rounds is known or assumed are unrolled; else each is a `tf.while_loop`.
        specialisation: shapes, numbers, strings and branches that have not varied are assumed not to; else shapes have
            unknown dimensions, numbers and strings are inputs, and each branch that a tensor decides is a `tf.cond`.
        batched: recursive functions may be run by the engine "batched"; else by "parallel".
    """

    unrolling: bool = True
    specialisation: bool = True
    batched: bool = True

    @property
    def engine(self) -> str:
        """The engine of recursive functions."""
        return "auto" if self.batched else "parallel"


ALL = Optimizations()
