"""How the gradient of a program is called: what goes in, what comes out, which sums it returns.

Written into the program itself, so that a SubGraph out of a SavedModel can be differentiated with no code of the
model at hand.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

_ATTRIBUTE = "_recgraph_contract"


@dataclasses.dataclass(frozen=True)
class Sum:
    """A sum over all invocations that a gradient program returns for one slot of the environment.

    Attributes:
        slot: its number in the environment.
        kind: "dense": contributions are added as they come; "outer": they are pairs (a, b), the sum is that of
            transpose(a) @ b; "rows": they are pairs (indices, rows), and so is the sum.
        specs: of the tensors that make up the sum.
        sparse: whether rows are a sparse gradient, as those of `tf.gather` are and those of `x[n]` are not.
    """

    slot: int
    kind: str
    specs: tuple[tf.TensorSpec, ...]
    sparse: bool


@dataclasses.dataclass(frozen=True)
class GradientContract:
    """How a gradient program is called.

    Attributes:
        arguments: how many tensors the forward call takes, captures not counted.
        targets: positions of those that get a gradient.
        seeds: positions of the results whose gradients it takes.
        sums: what it returns for the environment.
    """

    arguments: int
    targets: tuple[int, ...]
    seeds: tuple[int, ...]
    sums: tuple[Sum, ...]

    def encoded(self) -> str:
        """As text."""
        return json.dumps(self._as_json())

    def write(self, library: Any, entry: str) -> None:
        """Puts the contract into the gradient function of `entry`."""
        for function in library.function:
            if function.signature.name == f"{entry}.grad":
                function.attr[_ATTRIBUTE].s = self.encoded().encode()

    @staticmethod
    def read(library: Any, entry: str) -> GradientContract | None:
        """The contract of `entry` in a library, or None where it has no gradient."""
        for function in library.function:
            if function.signature.name == f"{entry}.grad" and _ATTRIBUTE in function.attr:
                return _from_json(json.loads(function.attr[_ATTRIBUTE].s))
        return None

    def _as_json(self) -> dict[str, Any]:
        sums = [
            {
                "slot": s.slot,
                "kind": s.kind,
                "specs": [[spec.dtype.name, _dims(spec.shape)] for spec in s.specs],
                "sparse": s.sparse,
            }
            for s in self.sums
        ]
        return {"arguments": self.arguments, "targets": self.targets, "seeds": self.seeds, "sums": sums}


def _dims(shape: tf.TensorShape) -> list[int | None] | None:
    return None if shape.rank is None else shape.as_list()


def _from_json(values: dict[str, Any]) -> GradientContract:
    sums = tuple(
        Sum(
            s["slot"],
            s["kind"],
            tuple(tf.TensorSpec(shape, dtype) for dtype, shape in s["specs"]),
            s.get("sparse", s["kind"] == "rows"),
        )
        for s in values["sums"]
    )
    return GradientContract(values["arguments"], tuple(values["targets"]), tuple(values["seeds"]), sums)


def sum_specs(kind: str, contribution: Sequence[tf.Tensor]) -> tuple[tf.TensorSpec, ...]:
    """What the sum of contributions like this one looks like."""
    if kind == "dense":
        return (tf.TensorSpec(contribution[0].shape, contribution[0].dtype),)
    if kind == "outer":
        a, b = contribution
        return (tf.TensorSpec([a.shape[1], b.shape[1]], a.dtype),)
    return tuple(tf.TensorSpec(_any_rows(part.shape), part.dtype) for part in contribution)


def _any_rows(shape: tf.TensorShape) -> tf.TensorShape:
    return shape if shape.rank is None else tf.TensorShape([None]).concatenate(shape[1:])
