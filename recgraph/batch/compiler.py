"""From the functions of a program to the plan of the batched engine, once, when the program is linked."""

from __future__ import annotations

import dataclasses
from typing import Any

import tensorflow as tf

from recgraph import tf_private
from recgraph.batch import blocks, plan, priority
from recgraph.batch.flow import Flow, Program
from recgraph.batch.nodes import origin
from recgraph.core.environment import READ_ONLY_RESOURCE_OPS
from recgraph.errors import Unbatchable

# The function that carries the plan in its attributes; `Program::ReadPlan` looks for it.
CARRIER = "recgraph_plan"

# Stateful operations whose order among rows is free.
_INDEPENDENT = (
    *("Random", "Multinomial", "Stateless", "TruncatedNormal", "ParameterizedTruncated"),
    *("Assert", "CheckNumerics", "Print"),
)


@dataclasses.dataclass
class Batched:
    """A program for the batched engine.

    Attributes:
        plan: what its machine runs.
        functions: those of the blocks.
    """

    plan: plan.Plan
    functions: list[Any]

    def carrier(self) -> Any:
        """The function that carries the plan in its attributes."""
        code, strings = self.plan.encode()
        definition = tf.compat.v1.GraphDef().library.function.add()
        definition.signature.name = CARRIER
        definition.attr["code"].list.i.extend(code)
        definition.attr["strings"].list.s.extend(text.encode() for text in strings)
        return definition

    def __str__(self) -> str:
        return str(self.plan)


def compile_program(library: Any, roots: list[str]) -> Batched:
    """The plan of the functions that `roots` reach, and the functions of its blocks.

    Args:
        library: a FunctionDefLibrary, before TensorFlow's optimizer has seen it.
        roots: names of functions.

    Raises:
        Unbatchable: the program holds what the batched engine cannot run.
    """
    definitions = {function.signature.name: function for function in library.function}
    by_row = {name: _stateful(definition) for name, definition in definitions.items()}
    joins: dict[str, set[str]] = {name: set() for name in definitions}

    def flow_of(definition: Any) -> Flow:
        name = definition.signature.name
        return Flow(definition, by_row[name], joins[name])

    while True:
        program = Program(blocks.reachable(definitions, roots, flow_of))
        assemblers = [blocks.Assembler(program, flow) for flow in program.flows.values()]
        apart = [(a.flow.name, node, reason) for a in assemblers for node, reason in a.trace().items()]
        if not apart:
            return _assemble(program, assemblers)
        for function, node, reason in apart:
            if reason is None:
                joins[function].add(node)
            else:
                by_row[function][node] = reason


def _assemble(program: Program, assemblers: list[blocks.Assembler]) -> Batched:
    functions = [assembler.assemble() for assembler in assemblers]
    functions += [blocks.made_function(program, name) for name in program.made]
    definitions = [definition for assembler in assemblers for definition in assembler.definitions]
    whole = plan.Plan(functions)
    priority.assign(whole)
    return Batched(whole, definitions)


def _stateful(definition: Any) -> dict[str, str]:
    """The operations of a function that have to run once for every row because they are stateful."""
    found = {}
    for node in definition.node_def:
        if node.op.startswith("Recgraph>") or node.op in ("If", "Case", "NoOp") or node.op in READ_ONLY_RESOURCE_OPS:
            continue
        if not tf_private.op_definition(node.op).is_stateful:
            continue
        if not node.op.startswith(_INDEPENDENT):
            raise Unbatchable(f"{node.op}, which has a state,", origin(node))
        found[node.name] = f"{node.op} has a state"
    return found
