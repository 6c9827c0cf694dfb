"""Types of options that benchmarks share."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import click


class Several(click.ParamType):
    """A list with commas, such as `1,10,25`; each part is of a type of click's."""

    def __init__(self, part: Any):
        """Args: the type of a part; names are choices."""
        choices = isinstance(part, Iterable) and not isinstance(part, type)
        self.part: click.ParamType = click.Choice(list(part)) if choices else click.types.convert_type(part)
        self.name = f"{self.part.name},..."

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The parts.

        Raises:
          click.BadParameter: one of them is none of the choices, or no number.
        """
        if not isinstance(value, str):
            return value
        return [self.part.convert(part.strip(), param, ctx) for part in value.split(",")]


COUNTS = Several(click.IntRange(1))
PHASES = Several(("train", "infer"))
