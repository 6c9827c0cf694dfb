"""A function each of whose calls is a step that is co-executed."""

from __future__ import annotations

import functools
import sys
import types
from collections.abc import Callable
from typing import Any, ClassVar

from recgraph import sharing, tf_private
from recgraph.coexec import device
from recgraph.coexec.explaining import explanation
from recgraph.coexec.phases import AS_USUAL, Execution, Phases
from recgraph.coexec.profile import StepProfile
from recgraph.errors import NotCoexecuted


class Coexecuted:
    """A Python function whose tensor operations are computed by a graph while its Python code runs.

    Args:
        function: a function that is called repeatedly.
        strict: whether to raise an error if its steps have to run eagerly.
        execution: how its graphs are executed.

    Attributes:
        phases: what is known of the function.

    Raises:
        NotCoexecuted: on a call, if `strict` is set and steps cannot be co-executed.
    """

    is_a_part_of_its_caller: ClassVar[bool] = True  # where that is converted, so is what it does

    def __init__(self, function: Callable[..., Any], strict: bool = False, execution: Execution = AS_USUAL) -> None:
        self.__qualname__: str
        functools.update_wrapper(self, function)
        self.function, self.strict = function, strict
        self.phases = Phases(self.__qualname__, execution)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Calls the function as a step, with its arguments and result unchanged."""
        sharing.refuse("mode='coexec'", "use mode='speculate', which converts the step, or leave mode out")
        phases = self.phases
        given_up = phases.are_given_up()
        if self.strict and given_up:
            raise NotCoexecuted(
                f"the steps of {self.__qualname__} cannot be co-executed",
                found=phases.given_up,
                next_step="remove strict=True, or change the code that the reason names",
            )
        if given_up or not tf_private.is_plainly_eager() or not _begin(phases):
            phases.counts["eager"] += 1
            return self.function(*arguments, **named)
        try:
            with device.scope():
                result = self.function(*arguments, **named)
        except BaseException:
            phases.learn(device.end(phases, True), True)
            raise
        outcome = device.end(phases, False)
        phases.learn(outcome, False)
        if outcome.code:
            tf_private.raise_status(outcome.code, outcome.message)
        return result

    def explain(self, html: bool = False) -> Any:
        """Explains what happened to the steps so far, where Python and the graph exchange values, and what to change.

        Args:
            html: whether to return a part of an HTML page, with the program's lines, instead of text.

        Returns:
            A `str`. The text also has a method `html()`, and renders itself in a notebook.
        """
        made = explanation(self.phases.name, self.phases)
        return made.html() if html else made

    def timing(self) -> StepProfile:
        """Measures how long Python and its graph are busy in a step, and what they wait for."""
        return self.phases.profile()


def _begin(phases: Phases) -> bool:
    return device.begin(sys._getframe(1).f_code, phases.plan())
