"""From graphs with one fingerprint to substitutions: renamed, without what they have in common, without what follows.

The order is that of TASO: candidates, tests on random tensors, pruning, proof. A candidate that follows from smaller
substitutions is left out before it is proven.
"""

from __future__ import annotations

import hashlib
import itertools
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np

from recgraph import files
from recgraph.errors import RecgraphError
from recgraph.optimize import enumeration, evaluate, generalizing, rewriting, terms
from recgraph.optimize.arithmetic import Field
from recgraph.optimize.enumeration import Candidates, Enumeration, GraphList
from recgraph.optimize.families import FAMILIES, Shape
from recgraph.optimize.generalizing import HALF
from recgraph.optimize.prover import EFFORT, Prover
from recgraph.optimize.store import Substitution
from recgraph.optimize.terms import Apply, Equation, Size, SizeCondition, TensorVariable, Term

_NAMES = "xyzwuvpqrstklmn"


Kept = TypeVar("Kept")


@dataclass
class Counts:
    """How many there were after each step.

    Attributes:
        graphs: made, by number of operators; of the last number only those that use the inputs of each shape in order.
        values: different ones among them.
        pairs: of graphs with one fingerprint.
        candidates: of them, those with the first graph of their value.
        renamed: without those that differ in the names of inputs.
        pruned: after common subgraphs were replaced by inputs.
        examined: of these, the smallest first, and of these the most general.
        independent: without those that follow from others.
        tested: of them, those that hold on random tensors of other sizes.
        proven: by the prover.
        enumerated: seconds for the graphs.
        proved: seconds for tests and proofs.
    """

    graphs: list[int] = field(default_factory=list)
    values: list[int] = field(default_factory=list)
    pairs: int = 0
    candidates: int = 0
    renamed: int = 0
    pruned: int = 0
    examined: int = 0
    independent: int = 0
    tested: int = 0
    proven: int = 0
    enumerated: float = 0.0
    proved: float = 0.0

    def __str__(self) -> str:
        steps = ("pairs", "candidates", "renamed", "pruned", "examined", "independent", "tested", "proven")
        graphs = " + ".join(map(str, self.graphs))
        numbers = ", ".join(f"{getattr(self, step)} {step}" for step in steps)
        return f"{graphs} graphs in {self.enumerated:.0f} s; {numbers} in {self.proved:.0f} s"


@dataclass(frozen=True)
class Candidate:
    """Two graphs with one value: terms, and the shapes of their inputs."""

    source: tuple[Term, ...]
    target: tuple[Term, ...]
    shapes: tuple[tuple[str, Shape], ...]

    @property
    def equation(self) -> Equation:
        """Source and target."""
        return Equation(self.source, self.target)

    @property
    def repetitions(self) -> int:
        """How often inputs are used again: the substitutions with the fewest are the most general."""
        return max(map(count_inputs, (self.source, self.target))) - len(self.shapes)

    @property
    def size(self) -> int:
        """Number of operators of the larger side."""
        return max(count_operators(self.source), count_operators(self.target))


def count_inputs(side: tuple[Term, ...]) -> int:
    """How many inputs the terms of one side have, each as often as an operator, or a result, has it.

    An operator counts once, however many have its result: both parts of a split have one whole.
    """
    applied = [term for term in terms.subterms(*side) if isinstance(term, Apply)]
    wholes = {(term.parameters, term.arguments) for term in applied if term.operator in ("first", "rest")}
    plain = [term.arguments for term in applied if term.operator not in ("first", "rest")]
    read = itertools.chain(side, *plain, *(arguments for _, arguments in wholes))
    return sum(isinstance(term, TensorVariable) for term in read)


def count_operators(side: tuple[Term, ...]) -> int:
    """How many operators the terms of one side have; both parts of a split are one."""
    found = set()
    for term in terms.subterms(*side):
        if isinstance(term, Apply):
            is_part = term.operator in ("first", "rest")
            found.add(("split", term.parameters, term.arguments) if is_part else term)
    return len(found)


# Enumeration in processes.


def enumerate_family(
    name: str, operators: int, folder: Path, processes: int, report: Callable[[str], None]
) -> tuple[Enumeration, Candidates]:
    """Makes all graphs of a family, in several processes; what the folder has is not made again."""
    folder.mkdir(parents=True, exist_ok=True)
    meant = hashlib.sha256(repr(FAMILIES[name]).encode()).hexdigest()[:8]  # a family that has changed is made anew
    levels = folder / f"{name}-{operators}-{meant}.levels"
    if not levels.exists():
        made = Enumeration(FAMILIES[name])
        for level in range(1, operators):
            made.extend()
            report(f"{name}: {made.counts[-1][0]} graphs of {level} operators, {made.counts[-1][1]} new values")
        _write(levels, made)
    _share(levels, processes)
    made = _read(levels, Enumeration)
    last = GraphList.joined([_read(path, GraphList) for path in sorted(folder.glob(f"{levels.stem}.part-*"))])
    report(f"{name}: {len(last)} graphs of {operators} operators")
    return made, enumeration.candidates(made, last)


def _share(levels: Path, processes: int) -> None:
    """Has the graphs of the last level made by several processes."""
    if processes == 1:
        work(levels, 0, 1)
        return
    command = [sys.executable, "-m", "recgraph.optimize.worker", str(levels)]
    shares = [[*command, str(part), str(processes)] for part in range(processes)]
    running = [subprocess.Popen(share, stderr=subprocess.PIPE, text=True) for share in shares]
    errors = [one.communicate()[1] for one in running]
    for one, written in zip(running, errors, strict=True):
        if one.returncode:
            raise RecgraphError("a process that enumerates graphs has failed", found=written.strip()[-500:])


def work(levels: Path, part: int, parts: int) -> None:
    """Makes each graph of the last level that is this process's; a task that is done is a file."""
    made = _read(levels, Enumeration)
    for number, blocks in enumerate(enumeration.tasks(made)):
        path = levels.with_suffix(f".part-{number:05d}")
        if number % parts == part and not path.exists():
            _write(path, enumeration.run_task(made, blocks))


def _write(path: Path, value: object) -> None:
    with files.replacing(path) as stream:
        pickle.dump(value, stream)


def _read(path: Path, kind: type[Kept]) -> Kept:
    value = pickle.loads(path.read_bytes())
    assert isinstance(value, kind)
    return value


# Candidates as terms.


class GraphTerms:
    """GraphList of an enumeration as terms."""

    def __init__(self, made: Enumeration) -> None:
        self._made = made
        self._inputs = [TensorVariable(name) for name in made.family.inputs]
        self._terms: dict[int, Term] = {}

    def value(self, number: int) -> Term:
        """The representative of a value."""
        if number < len(self._inputs):
            return self._inputs[number]
        if number not in self._terms:
            table = self._made.table
            self._terms[number] = self.graph(table.move[number], table.left[number], table.right[number])
        return self._terms[number]

    def graph(self, move: int, left: int, right: int) -> Term:
        """A graph with this last operator."""
        if move < 0:  # an input represents itself
            return self._inputs[left]
        numbers = [int(one) for one in (left, right) if one >= 0]
        return self._made.family.moves[int(move)].term(tuple(map(self.value, numbers)), HALF)


def distinct(found: Candidates, made: Enumeration, counts: Counts) -> list[Candidate]:
    """The candidates of a family, each once: renamed, without common subgraphs, the smallest first."""
    names = GraphTerms(made)
    splits: dict[tuple[Term, Size], dict[str, Term]] = {}
    chosen: dict[tuple[tuple[Term, ...], tuple[Term, ...]], Candidate] = {}
    shapes = made.family.inputs
    simplify = Simplifier(made.field)
    for i in found.renamed:
        member, other = (
            names.graph(side.move[i], side.left[i], side.right[i]) for side in (found.members, found.others)
        )
        if isinstance(member, Apply) and member.operator in ("first", "rest"):
            key = member.arguments[0], member.parameters[0]
            splits.setdefault(key, {})[member.operator] = other
        _add(chosen, simplify((member,), (other,), shapes))
    for (whole, axis), parts in splits.items():
        if len(parts) == 2:
            both = tuple(Apply(part, (axis, HALF), (whole,)) for part in ("first", "rest"))
            _add(chosen, simplify((parts["first"], parts["rest"]), both, shapes))
    counts.candidates, counts.renamed, counts.pruned = len(found.members), len(found.renamed), len(chosen)
    return sorted(chosen.values(), key=lambda one: (one.size, one.repetitions, -len(one.shapes), str(one.equation)))


def _add(chosen: dict[tuple[tuple[Term, ...], tuple[Term, ...]], Candidate], one: Candidate | None) -> None:
    if one is not None and one.source != one.target and any(isinstance(term, Apply) for term in one.source):
        chosen.setdefault((one.source, one.target), one)


class Simplifier:
    """Replaces what both sides of a candidate have in common by inputs, where it is then still true."""

    def __init__(self, arithmetic: Field) -> None:
        self._arithmetic = arithmetic
        self._generator = np.random.default_rng(1)
        self._known: dict[tuple[tuple[Term, ...], tuple[Term, ...]], bool] = {}

    def __call__(self, source: tuple[Term, ...], target: tuple[Term, ...], shapes: Mapping[str, Shape]) -> Candidate:
        """The candidate without common subgraphs, its inputs named in order."""
        while True:
            for shared in self._choices(source, target):
                sizes = generalizing.Sizes(shapes, 0)
                fresh = {term: TensorVariable(f"_{i}") for i, term in enumerate(shared)}
                wider = {**shapes, **{v.name: sizes.shape(term) for term, v in fresh.items()}}
                sides = [tuple(terms.renamed(term, fresh) for term in side) for side in (source, target)]
                candidate = self._named(sides[0], sides[1], wider)
                if self._is_true(candidate):
                    source, target, shapes = candidate.source, candidate.target, dict(candidate.shapes)
                    break
            else:
                return self._named(source, target, shapes)

    def _choices(self, source: tuple[Term, ...], target: tuple[Term, ...]) -> Iterator[list[Term]]:
        """What to replace: everything that both sides have in common, or one thing."""
        shared = rewriting.common(source, target)
        if shared:
            yield shared
        if len(shared) > 1:
            yield from ([one] for one in shared)

    def _named(self, source: tuple[Term, ...], target: tuple[Term, ...], shapes: Mapping[str, Shape]) -> Candidate:
        used = [term.name for term in terms.subterms(*source, *target) if isinstance(term, TensorVariable)]
        new = dict(zip(used, _NAMES, strict=False))
        sides = rewriting.named((source, target), new)
        return Candidate(*sides, tuple((new[name], shapes[name]) for name in used))

    def _is_true(self, candidate: Candidate) -> bool:
        """Whether both sides have one value for other random inputs modulo the prime."""
        key = candidate.source, candidate.target
        if key not in self._known:
            self._known[key] = self._compute(candidate)
        return self._known[key]

    def _compute(self, candidate: Candidate) -> bool:
        shapes = dict(candidate.shapes)
        sizes = generalizing.Sizes(shapes, 0)
        sides = [
            tuple(generalizing.all_halved(term, sizes.shape) for term in side) for side in candidate.equation.sides
        ]
        return not evaluate.counterexample(
            Equation(sides[0], sides[1]), {}, shapes, self._generator, self._arithmetic, samples=1
        )


# Candidates as substitutions.


class Selection:
    """Goes through candidates, the smallest first, and keeps what does not follow from smaller ones and is proven.

    Attributes:
        kept: the substitutions.
        refused: what holds on random tensors and could not be proven.
    """

    def __init__(self) -> None:
        self.kept: dict[str, Substitution] = {}
        self.refused: list[str] = []
        self._prover = Prover()
        self._brief = Prover(effort=EFFORT // 5)
        self._rules = rewriting.Rules()
        for operator in ("x + y => y + x", "x * y => y * x", "max(x, y) => max(y, x)"):
            equation = terms.read(operator)  # no candidates: the enumeration takes both for one graph
            self._rules.add(equation)
            self.kept[operator] = Substitution(equation, self._prover(equation).axioms)

    def __call__(self, candidate: Candidate, counts: Counts) -> None:
        """Looks at one."""
        if self._follows(candidate):
            return
        counts.independent += 1
        shapes = dict(candidate.shapes)
        refused: list[str] = []
        held = None
        for equation in generalizing.sized(*candidate.equation.sides, shapes):
            held = generalizing.with_conditions(equation, shapes)
            if held is not None and self._prover(held).is_proven:
                break
            if held is not None:
                refused.append(str(held))
                held = None
        counts.tested += bool(held or refused)
        if held is None:
            self.refused += refused[-1:]
            return
        counts.proven += 1
        equation, rule = self._abstracted(held, candidate)
        self._rules.add(rule)
        self.kept.setdefault(str(equation), Substitution(equation, self._prover(equation).axioms))

    def _follows(self, candidate: Candidate) -> bool:
        ways = (Equation(*candidate.equation.sides), Equation(*candidate.equation.sides[::-1]))
        closed = [one for one in ways if terms.is_closed(one)]
        return all(self._rules.imply(*one.sides) for one in closed)

    def finish(self) -> list[Substitution]:
        """The substitutions, without those that later ones make superfluous: the most special ones go first."""
        order = sorted(self.kept, key=lambda text: len(terms.variables(terms.all_terms(self.kept[text].equation))))
        for text in order:
            others = rewriting.Rules()
            for name, one in self.kept.items():
                if name != text:
                    others.add(one.equation)
            sides = self.kept[text].equation.sides
            ways = [one for one in (Equation(*sides), Equation(*sides[::-1])) if terms.is_closed(one)]
            if all(others.imply(*one.sides, limit=60) for one in ways):
                del self.kept[text]
        return list(self.kept.values())

    def _abstracted(self, equation: Equation, candidate: Candidate) -> tuple[Equation, Equation]:
        """The substitution with parameters of any value, as many as the prover allows; and the candidate with these."""
        for names in generalizing.window_abstractions(equation):
            change = partial(generalizing.with_names, names=names)
            wider = changed(equation, change, lambda size: size)
            if self._brief(wider).is_proven:
                return wider, changed(candidate.equation, change, lambda size: size)
        for mapping, conditions in generalizing.abstractions(equation):
            change = partial(terms.renamed, tensors={}, sizes=mapping)
            wider = changed(equation, change, partial(terms.renamed_size, tensors={}, sizes=mapping), conditions)
            if self._brief(wider).is_proven:
                return wider, changed(candidate.equation, change, lambda size: size, conditions)
        return equation, candidate.equation


def changed(
    equation: Equation,
    change: Callable[[Term], Term],
    change_size: Callable[[Size], Size],
    conditions: tuple[SizeCondition, ...] = (),
) -> Equation:
    """An equation with all its terms and sizes changed, and more conditions."""
    sides = [tuple(map(change, side)) for side in equation.sides]
    own = [SizeCondition(change_size(c.left), c.comparison, change_size(c.right)) for c in equation.conditions]
    return Equation(sides[0], sides[1], (*own, *conditions))
