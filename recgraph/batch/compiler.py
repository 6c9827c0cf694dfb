"""From the functions of a program to the plan of the batched engine, once, when the program is linked."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from recgraph.batch import blocks, costs, effects, plan, priority
from recgraph.batch.alike import BlockCopy
from recgraph.batch.flow import Flow, FlowProgram

# The function that carries the plan in its attributes; `Program::ReadPlan` looks for it. No SubGraph's function has a
# dot in its name, unless it ends with .rec or .grad.
CARRIER = "recgraph.plan"


@dataclasses.dataclass
class Batched:
    """A program for the batched engine.

    Attributes:
        plan: what its machine runs.
        functions: those of the blocks, those left out that are copies of others.
        copies: what these are.
        traced: the operations of the blocks, for engines that run them in another way; empty where none is to.
    """

    plan: plan.Plan
    functions: list[Any]
    copies: list[BlockCopy]
    traced: list[blocks.TracedBlock]

    def copied(self, functions: dict[str, Any]) -> list[Any]:
        """The functions of the other blocks.

        Args:
            functions: those of this program, optimized, by name.
        """
        return [copy.make(functions[copy.written]) for copy in self.copies]

    def carrier(self) -> Any:
        """The function that carries the plan in its attributes."""
        code, strings = self.plan.encode()
        definition = tf.compat.v1.GraphDef().library.function.add()
        definition.signature.name = CARRIER
        definition.attr["code"].list.i.extend(code)
        definition.attr["strings"].list.s.extend(text.encode() for text in strings)
        return definition

    def costs(self, counts: Sequence[Sequence[int]], reasons: Sequence[str]) -> list[str]:
        """What its blocks have done so far, as lines of a table, and why TensorFlow runs some of them."""
        return costs.table(self.plan, counts, reasons)

    def __str__(self) -> str:
        return str(self.plan)


def compile_program(library: Any, roots: list[str], keeps_operations: bool = False) -> Batched:
    """The plan of the functions that `roots` reach, and the functions of its blocks.

    Args:
        library: a FunctionDefLibrary, before TensorFlow's optimizer has seen it.
        roots: names of functions.
        keeps_operations: whether the blocks' operations are kept as they were traced.

    Raises:
        Unbatchable: the program holds what the batched engine cannot run.
    """
    definitions = {function.signature.name: function for function in library.function}
    found = effects.find(definitions)
    by_row = found.by_row
    joins: dict[str, set[str]] = {name: set() for name in definitions}
    flows: dict[str, Flow] = {}
    assemblers: dict[str, blocks.Assembler] = {}
    traced: dict[Any, Any] = {}

    def flow_of(definition: Any) -> Flow:
        name = definition.signature.name
        if name not in flows:
            flows[name] = Flow(definition, by_row[name], joins[name], found.ordered[name])
        return flows[name]

    while True:
        program = FlowProgram(blocks.reachable(definitions, roots, flow_of), found.functions)
        assemblers = {
            name: _assembler(program, flow, assemblers.get(name), traced) for name, flow in program.flows.items()
        }
        apart = [(name, node, reason) for name, one in assemblers.items() for node, reason in one.trace().items()]
        if not apart:
            return _assemble(program, list(assemblers.values()), keeps_operations)
        for function, node, reason in apart:
            flows.pop(function, None)  # what it notes of its operations is not so
            if reason is None:
                joins[function].add(node)
            else:
                by_row[function][node] = reason


def _assembler(
    program: FlowProgram, flow: Flow, before: blocks.Assembler | None, traced: dict[Any, Any]
) -> blocks.Assembler:
    """What makes the plan of a function; what has traced it before where nothing in it is another."""
    labels = program.labels(flow.name)
    if before is not None and before.flow is flow and before.labels == labels:
        before.program = program
        return before
    return blocks.Assembler(program, flow, labels, traced)


def _assemble(program: FlowProgram, assemblers: list[blocks.Assembler], keeps_operations: bool) -> Batched:
    functions = [assembler.assemble() for assembler in assemblers]
    functions += [blocks.made_function(program, name) for name in program.made]
    definitions = [definition for assembler in assemblers for definition in assembler.definitions]
    copies = [copy for assembler in assemblers for copy in assembler.copies]
    whole = plan.Plan(functions)
    priority.assign(whole)
    traced = [block for assembler in assemblers for block in assembler.traced_blocks()] if keeps_operations else []
    return Batched(whole, definitions, copies, traced)
