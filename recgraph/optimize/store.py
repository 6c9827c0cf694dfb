"""Files of substitutions: one a line with the axioms that it follows from, and how they were made at the top."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from recgraph import files
from recgraph.optimize import evaluate, terms
from recgraph.optimize.cases import cases
from recgraph.optimize.terms import Equation

if TYPE_CHECKING:
    from recgraph.optimize.prover import Prover, Verdict

SHIPPED = Path(__file__).with_name("substitutions.txt")
# How many cases are tried of what is proven, and of what is not.
_BRIEFLY, _THOROUGHLY = 16, 200


@dataclass(frozen=True)
class Substitution:
    """A substitution.

    Attributes:
        equation: source, target, conditions.
        axioms: from which it was proven.
    """

    equation: Equation
    axioms: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.equation}  # {', '.join(self.axioms)}" if self.axioms else str(self.equation)


def write(path: Path, provenance: Iterable[str], substitutions: Iterable[Substitution]) -> None:
    """Writes a file, whole or not at all."""
    lines = [*(f"# {line}".rstrip() for line in provenance), "", *map(str, substitutions)]
    files.write_text(path, "\n".join(lines) + "\n")


def read(path: Path) -> list[Substitution]:
    """The substitutions of a file.

    Raises:
        TermError: a line cannot be read; the error names it.
    """
    found = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if line.strip() and not line.startswith("#"):
            equation, _, axioms = line.partition("  # ")
            names = tuple(name.strip() for name in axioms.split(",") if name.strip())
            found.append(Substitution(terms.read(equation, f"{path}:{number}"), names))
    return found


def verify(substitution: Substitution, prover: Prover) -> Verdict:
    """Proves a substitution anew. One whose source is never well formed says nothing, and is refused; so is one that is
    seen to be wrong although it follows from the axioms."""
    from recgraph.optimize.prover import Verdict  # which needs z3: whoever reads substitutions need not have it

    verdict = prover(substitution.equation, substitution.axioms)
    if not verdict.is_proven:
        difference = counterexample(substitution.equation)
        return Verdict(False, reason=difference) if difference else verdict
    if not is_possible(substitution.equation):
        return Verdict(False, reason="no sizes were found with which the source is well formed and the conditions hold")
    if difference := counterexample(substitution.equation, _BRIEFLY):
        used = ", ".join(verdict.axioms)
        return Verdict(False, reason=f"{difference}; but it follows from {used}: an axiom or an operator is wrong")
    return verdict


def is_possible(equation: Equation) -> bool:
    """Whether there are sizes with which the source is well formed and the conditions hold."""
    return any(True for _ in cases(equation, np.random.default_rng(0), 1))


def counterexample(equation: Equation, limit: int = _THOROUGHLY) -> str:
    """How the sides of a substitution differ on random tensors, if they are seen to differ.

    Args:
        equation: the substitution.
        limit: how many parameters and shapes are tried.
    """
    generator = np.random.default_rng(0)
    for chosen, shapes in cases(equation, generator, limit):
        difference = evaluate.counterexample(equation, chosen, shapes, generator)
        if difference:
            sizes = ", ".join(f"{name} is {list(shape)}" for name, shape in shapes.items())
            return f"{difference} where {sizes}"
    return ""
