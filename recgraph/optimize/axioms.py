"""The axioms, read from `axioms.txt`."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib import resources

from recgraph.optimize import terms
from recgraph.optimize.terms import Equation


def text() -> str:
    """The file of axioms."""
    return resources.files(__package__).joinpath("axioms.txt").read_text(encoding="utf-8")


@cache
def axioms() -> dict[str, Equation]:
    """Each axiom by its name."""
    found: dict[str, Equation] = {}
    for number, line in enumerate(text().splitlines(), 1):
        if line.strip() and not line.startswith("#"):
            name, _, equation = line.partition(": ")
            if name in found:
                raise terms.TermError(f"two axioms have the name '{name}'", where=f"axioms.txt:{number}")
            found[name] = terms.read(equation, f"axioms.txt:{number}")
    return found


def fingerprint() -> str:
    """A hash of the axioms, by which a file of substitutions says from what it was proven."""
    return hashlib.sha256("\n".join(f"{name}: {axiom}" for name, axiom in axioms().items()).encode()).hexdigest()[:16]
