"""TensorFlow's own graph optimizer (grappler) on the functions of a program, once, when it is linked."""

from __future__ import annotations

import dataclasses
from typing import Any

import tensorflow as tf

from recgraph import tf_private

_CPU = "/job:localhost/replica:0/task:0/device:CPU:0"
# What the optimizer makes of a branch has its name with the first of these after it, and so has each operation in it
# with the second one.
_REWRITTEN, _INLINED = "_tfg_region_specialized", "_tfg_inlined_"


@dataclasses.dataclass(frozen=True)
class Report:
    """What the optimizer did.

    Attributes:
        before: operations per function of the program, as written.
        after: the same, as run.
    """

    before: dict[str, int]
    after: dict[str, int]

    @property
    def removed(self) -> int:
        """How many operations are run less."""
        return sum(self.before.values()) - sum(self.after.values())

    def __str__(self) -> str:
        width = max((len(name) for name in self.before), default=0)
        rows = [f"{name:{width}}  {count:4d} -> {self.after[name]:4d}" for name, count in self.before.items()]
        total = f"{'operations':{width}}  {sum(self.before.values()):4d} -> {sum(self.after.values()):4d}"
        return "\n".join([*rows, total])


def optimize(library: Any) -> tuple[Any, Report]:
    """The library with every function optimized, and what that did. The given one is left as it is."""
    given = _families(library)
    chosen = _families(_run(library, device=_CPU))  # operations are fused for a device that is known
    failing = {name for name, functions in chosen.items() if not _have_kernels(functions, given.get(name, []))}
    if failing:
        chosen |= _families(_run(_with_what_they_call(library, failing), device=""), failing)
    optimized = tf.compat.v1.GraphDef().library
    optimized.CopyFrom(library)
    del optimized.function[:]
    optimized.function.extend(function for functions in chosen.values() for function in functions)
    before = _sizes(library)
    return optimized, Report(before, _sizes(optimized, set(before)))


def _families(library: Any, names: set[str] | None = None) -> dict[str, list[Any]]:
    """The functions of a library by the body that they belong to; those of some bodies only, if `names` has these.

    The optimizer writes branches anew, with the arguments in another order, and changes whatever calls them. So what
    one run has made of a body and of its branches belongs together.
    """
    families: dict[str, list[Any]] = {}
    for function in library.function:
        if names is None or _body_of(function) in names:
            families.setdefault(_body_of(function), []).append(function)
    return families


def _body_of(function: Any) -> str:
    """The body that a function belongs to, by name."""
    return str(function.signature.name.split("/")[0])


def _with_what_they_call(library: Any, bodies: set[str]) -> Any:
    """A library of the functions of some bodies, and of all that these call as functions of TensorFlow's."""
    by_name = {function.signature.name: function for function in library.function}
    stack = [function.signature.name for function in library.function if _body_of(function) in bodies]
    found: set[str] = set()
    while stack:
        name = stack.pop()
        if name in by_name and name not in found:
            found.add(name)
            stack += (called for node in by_name[name].node_def for called in _functions_of(node))
    part = tf.compat.v1.GraphDef().library
    part.CopyFrom(library)
    del part.function[:]
    part.function.extend(function for name, function in by_name.items() if name in found)
    return part


def _functions_of(node: Any) -> list[str]:
    values = list(node.attr.values())
    return [value.func.name for value in values] + [each.name for value in values for each in value.list.func]


def _run(library: Any, device: str) -> Any:
    graph_def = tf.compat.v1.GraphDef()
    graph_def.library.CopyFrom(library)
    graph_def.versions.producer = tf.version.GRAPH_DEF_VERSION
    _place(graph_def.library, device)
    roots = [function.signature for function in library.function if _is_root(function)]
    fetches = [_add_call(graph_def, signature, f"call{i}") for i, signature in enumerate(roots)]
    optimized = tf_private.run_grappler(graph_def, fetches, _config()).library
    by_name = {function.signature.name: function for function in optimized.function}
    result = tf.compat.v1.GraphDef().library
    for function in library.function:
        result.function.add().CopyFrom(by_name.get(function.signature.name, function))
    known = {function.signature.name for function in library.function}
    result.function.extend(function for name, function in sorted(by_name.items()) if name not in known)
    _place(result, "")
    return result


def _place(library: Any, device: str) -> None:
    for function in library.function:
        for node in function.node_def:
            node.device = device


def _have_kernels(functions: list[Any], given: list[Any]) -> bool:
    """Whether all fusions have a kernel of TensorFlow's own: some are for oneDNN, which a later pass would put in."""
    before = {function.signature.name: function for function in given}
    return all(
        _has_kernel(node, before.get(function.signature.name.split(_REWRITTEN)[0]))
        for function in functions
        for node in function.node_def
        if node.op.startswith(("_Fused", "_Mkl", "_OneDnn"))
    )


def _has_kernel(node: Any, given: Any) -> bool:
    fused = [name.decode() for name in node.attr["fused_ops"].list.s]
    return bool(
        given is not None
        and node.op == "_FusedMatMul"
        and node.attr["T"].type == tf.float32.as_datatype_enum
        and fused[0] == "BiasAdd"
        and (len(fused) == 1 or fused[1:] in (["Tanh"], ["Sigmoid"]))
        and _adds_a_vector(node, given)
    )


def _adds_a_vector(node: Any, given: Any) -> bool:
    """Whether what a fused product adds is one: the sum with a matrix of one row is fused, too, and then fails."""
    before = {other.name: other for other in given.node_def}
    added = before.get(_written_name(node.name))
    if added is not None and added.op in ("Tanh", "Sigmoid"):
        added = before.get(_written_name(added.input[0]))
    if added is not None and added.op == "BiasAdd":
        return True
    bias = before.get(_written_name(node.input[2]))
    return bias is not None and bias.op == "Recgraph>Capture" and len(bias.attr["shape"].shape.dim) == 1


def _written_name(reference: str) -> str:
    """The name that an operation was written with, from its name or a reference to its output after optimization."""
    return reference.split(":")[0].split(_INLINED)[0]


def _is_root(function: Any) -> bool:
    return "/" not in function.signature.name


def _sizes(library: Any, names: set[str] | None = None) -> dict[str, int]:
    return {
        function.signature.name: len(function.node_def)
        for function in library.function
        if names is None or function.signature.name in names
    }


def _add_call(graph_def: Any, signature: Any, name: str) -> str:
    """A call of a function with placeholders for its arguments; grappler optimizes what is called."""
    call = graph_def.node.add(name=name, op="StatefulPartitionedCall")
    for i, argument in enumerate(signature.input_arg):
        placeholder = graph_def.node.add(name=f"{call.name}_arg{i}", op="Placeholder")
        placeholder.attr["dtype"].type = argument.type
        placeholder.attr["shape"].shape.unknown_rank = True
        call.input.append(placeholder.name)
    call.attr["Tin"].list.SetInParent()
    call.attr["Tin"].list.type.extend(argument.type for argument in signature.input_arg)
    call.attr["Tout"].list.SetInParent()
    call.attr["Tout"].list.type.extend(argument.type for argument in signature.output_arg)
    call.attr["f"].func.name = signature.name
    return str(call.name)


def _config() -> Any:
    config = tf_private.config_pb2.ConfigProto()
    rewrite = config.graph_options.rewrite_options
    off = rewrite.OFF
    # Inlining and renaming would take the recursion's functions apart; layouts are for other devices.
    rewrite.function_optimization = off
    rewrite.layout_optimizer = off
    rewrite.memory_optimization = rewrite.NO_MEM_OPT
    rewrite.scoped_allocator_optimization = off
    rewrite.pin_to_host_optimization = off
    rewrite.loop_optimization = off
    tf_private.keep_values(rewrite)
    rewrite.min_graph_nodes = -1
    return config
