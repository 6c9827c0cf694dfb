"""The engines that a program can be run by: "parallel" is part of the core, others register themselves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias

from recgraph import native, tf_private
from recgraph.errors import Unbatchable

ENGINES = ("auto", "parallel", "batched", "levels")


class EnginePlan(Protocol):
    """What another engine makes of a program."""

    functions: list[Any]

    def copied(self, functions: dict[str, Any]) -> list[Any]:
        """More functions, which are like some of the program's, given by name once they are optimized."""

    def carrier(self) -> Any:
        """A FunctionDef that carries the plan to the kernels."""

    def costs(self, counts: Sequence[Sequence[int]], reasons: Sequence[str]) -> list[str]:
        """What its blocks have done so far, as lines of a table, from what `Recgraph>BlockCounts` gives."""

    def __str__(self) -> str:
        """The plan, readable."""


class Linked(Protocol):
    """What `explain` needs of a program."""

    key: str
    plan: EnginePlan | None
    unbatchable: Unbatchable | None


Compiler: TypeAlias = Callable[[Any, list[str], bool], EnginePlan]
_compilers: dict[str, Compiler] = {}
# (subgraph, arguments, label, whether they are rows) -> results, of calls from outside in a graph that no kernel of
# ours runs.
Caller: TypeAlias = Callable[[Any, list[Any], str, bool], list[Any]]
_callers: dict[str, Caller] = {}


def register(engine: str, compiler: Compiler) -> None:
    """Makes an engine known: `compiler(library, roots, keeps_operations)` makes its plan, or raises `Unbatchable`."""
    _compilers[engine] = compiler


def register_caller(engine: str, caller: Caller) -> None:
    """Makes an engine known whose calls become operations of the graph that makes them."""
    _callers[engine] = caller


def caller_of(engine: str) -> Caller | None:
    """What makes the calls of such an engine; None for one that kernels run."""
    return _callers.get(engine)


def compile_batched(library: Any, roots: list[str], keeps_operations: bool = False) -> EnginePlan | None:
    """The plan of the batched engine; None where that engine is not there.

    Args:
        library: a FunctionDefLibrary, before TensorFlow's optimizer has seen it.
        roots: names of functions.
        keeps_operations: whether the plan keeps the operations of its blocks.

    Raises:
        Unbatchable: the program holds what it cannot run.
    """
    compiler = _compilers.get("batched")
    return None if compiler is None else compiler(library, roots, keeps_operations)


def explain(engine: str, single: bool, programs: Sequence[Linked]) -> str:
    """See `SubGraph.explain`; `single` is whether single calls may be batched."""
    lines = [f'engine "{engine}"']
    if engine == "auto" and not single:
        lines.append("single calls run parallel: no two of their invocations can be batched")
    for linked in programs:
        with tf_private.eagerly():
            report = native.ops().recgraph_engine_report(linked.key).numpy().decode()
        if linked.plan is None:
            if linked.unbatchable is not None:
                lines.append(f"runs parallel: {linked.unbatchable}")
            lines += report.splitlines()
            continue
        with tf_private.eagerly():
            counts, reasons = (tensor.numpy().tolist() for tensor in native.ops().recgraph_block_counts(linked.key))
        costs = linked.plan.costs(counts, [reason.decode() for reason in reasons])
        lines += [*report.splitlines(), *costs, str(linked.plan)]
    return "\n".join(lines)
