"""What libraries define: built-ins, the standard library, TensorFlow, Keras and NumPy, in one table of functions.

A function that has no row in `SPECIAL` is called by the general rule for its library, or refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from recgraph.speculate.machine.evaluator import registering

Arguments: TypeAlias = list[Any]
# Gets the evaluator, the arguments and the named arguments.
Special: TypeAlias = Callable[[Any, Arguments, dict[str, Any]], Any]
SPECIAL: dict[Any, Special] = {}
# Says how calls of some functions are converted.
special = registering(SPECIAL)
