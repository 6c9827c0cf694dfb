"""Writes bodies out as functions of a program: captures become slots, regions TensorFlow's own operations.

The graphs are left as they are; everything that recording adds (frames, wider branches, loops that carry a stack
of frames) exists in the written functions only.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from recgraph import ops, tf_private
from recgraph.core import origin, regions
from recgraph.core.environment import EnvironmentMap, Slots
from recgraph.core.gradient import GradientGraph, has_effect
from recgraph.core.regions import FrameOf, Region
from recgraph.errors import DefinitionError

FunctionDef = tf.compat.v1.GraphDef().library.function.add().__class__
AttrValue = tf.compat.v1.AttrValue
# Of a gradient's function: it is linear, as no operation of the body has a gradient of the program's own.
LINEAR = "_recgraph_linear"
# Of an operation: it has such a gradient.
OWN_GRADIENT = "_recgraph_own_gradient"


@dataclasses.dataclass(frozen=True)
class WritingContext:
    """What all functions of one program share."""

    library: Any
    slots: Slots
    entry_of: Callable[[str], str]
    taken: set[str] = dataclasses.field(default_factory=set)  # names of functions that are ours

    def fresh(self, name: str) -> str:
        """`name`, or with a number: users name operations and scopes as they like, so that two paths can be alike."""
        unique, i = name, 1
        while unique in self.taken:
            i += 1
            unique = f"{name}_{i}"
        self.taken.add(unique)
        return unique


@dataclasses.dataclass(frozen=True)
class Source:
    """A graph to write, and how.

    Attributes:
        graph: the graph.
        arguments: its inputs that are arguments of the function, in order.
        outputs: tensors of the graph that the function returns.
        environment: which placeholders stand for outer tensors.
        recorded_for: the gradient whose items are packed into a frame, one more result; or None.
        on_stack: the function is the body of a recorded loop (or of its gradient): frames go on (come off) a stack.
        is_condition: the function is the condition of a loop.
    """

    graph: Any
    arguments: Sequence[tf.Tensor]
    outputs: Sequence[tf.Tensor]
    environment: EnvironmentMap
    recorded_for: GradientGraph | None = None
    on_stack: bool = False
    is_condition: bool = False


def write_function(context: WritingContext, name: str, source: Source) -> None:
    """Adds `source` to the library as function `name`, with the functions of its regions."""
    _FunctionWriter(context, name, source).write()


class _FunctionWriter:
    """Writes one function."""

    def __init__(self, context: WritingContext, name: str, source: Source) -> None:
        self.context = context
        self.name = name
        self.source = source
        self.definition = FunctionDef()
        self._references: dict[int, str] = {}
        self._captures: dict[int, str] = {}
        self._frames: dict[FrameOf, str] = {}
        self._prefix = name + "/"

    def write(self) -> None:
        self.definition.signature.name = self.name
        self.definition.signature.is_stateful = True
        self._write_arguments()
        written = self._operations()
        for op in written:
            self._write_operation(op, written)
        self._write_results()
        for op in written:
            if self._is_effect(op):
                self.definition.control_ret[self._node_name(op)] = self._node_name(op)
                self.definition.signature.control_output.append(self._node_name(op))
        self.context.library.function.append(self.definition)

    # What is written.

    def _is_effect(self, op: tf.Operation) -> bool:
        if isinstance(self.source.graph, GradientGraph):
            return has_effect(op)
        return any(op is effect for effect in self.source.graph.control_outputs) and not self._read_once(op)

    def _operations(self) -> dict[tf.Operation, None]:
        """The operations that results or effects need, in the order they were made."""
        graph = self.source.graph
        stack = [tensor.op for tensor in self.source.outputs]
        stack += [op for op in graph.get_operations() if self._is_effect(op)]
        if self.source.recorded_for is not None:
            items = self.source.recorded_for.items
            stack += [item.op for item in items]
        inputs = {id(tensor.op) for tensor in graph.inputs}
        needed: set[int] = set()
        while stack:
            op = stack.pop()
            if id(op) in needed or id(op) in inputs:
                continue
            needed.add(id(op))
            stack += [tensor.op for tensor in op.inputs]
            stack += op.control_inputs
        return {op: None for op in graph.get_operations() if id(op) in needed}

    # Arguments and results.

    def _argument(self, dtype: tf.DType, shape: tf.TensorShape | None = None) -> str:
        signature = self.definition.signature
        index = len(signature.input_arg)
        argument = signature.input_arg.add(name=f"arg{index}", type=dtype.as_datatype_enum)
        if shape is not None:
            attributes = self.definition.arg_attr[index].attr
            attributes["_output_shapes"].list.shape.append(shape.as_proto())
        return str(argument.name)

    def _write_arguments(self) -> None:
        graph = self.source.graph
        if isinstance(graph, GradientGraph):
            self._write_gradient_arguments(graph)
            return
        for tensor in self.source.arguments:
            self._references[id(tensor)] = self._argument(tensor.dtype, tensor.shape)
        if self.source.on_stack:
            self._stack = self._argument(tf.variant)

    def _write_gradient_arguments(self, graph: GradientGraph) -> None:
        frame = self._argument(tf.variant)
        for tensor in graph.gradient_inputs:
            self._references[id(tensor)] = self._argument(tensor.dtype, tensor.shape)
        if self.source.on_stack:
            top = self._unpack("pop", frame, [tf.TensorSpec([], tf.variant)] * 2)
            frame, self._stack = top
        packed = []
        for item, tensor in zip(graph.items, graph.item_placeholders, strict=True):
            if self._is_packed(item):
                packed.append(tensor)
            else:
                self._references[id(tensor)] = self._reference(item)
        specs = [tf.TensorSpec(tensor.shape, tensor.dtype) for tensor in packed]
        if specs:
            for tensor, reference in zip(packed, self._unpack("frame", frame, specs), strict=True):
                self._references[id(tensor)] = reference

    def _unpack(self, name: str, frame: str, specs: Sequence[tf.TensorSpec]) -> list[str]:
        node = self._node(name, "Recgraph>UnpackFrame", [frame])
        node.attr["indices"].list.i.extend(range(len(specs)))
        _set_types(node, "T", [spec.dtype for spec in specs])
        node.attr["shapes"].list.shape.extend(spec.shape.as_proto() for spec in specs)
        return [f"{node.name}:values:{i}" for i in range(len(specs))]

    def _pack(self, name: str, values: Sequence[tuple[str, tf.DType]]) -> str:
        node = self._node(name, "Recgraph>PackFrame", [reference for reference, _ in values])
        _set_types(node, "T", [dtype for _, dtype in values])
        return f"{node.name}:frame:0"

    def _write_results(self) -> None:
        gradient_on_stack = self.source.on_stack and isinstance(self.source.graph, GradientGraph)
        if gradient_on_stack:
            self._result(self._stack, tf.variant)
        for tensor in self.source.outputs:
            reference, dtype = self._reference(tensor), tensor.dtype
            if self.source.is_condition:
                reference, dtype = self._truth(tensor, reference), tf.bool
            self._result(reference, dtype)
        if self.source.recorded_for is not None:
            packed = filter(self._is_packed, self.source.recorded_for.items)
            frame = self._pack("frame", [self._item(item) for item in packed])
            if self.source.on_stack:
                frame = self._pack("push", [(frame, tf.variant), (self._stack, tf.variant)])
            self._result(frame, tf.variant)

    def _result(self, reference: str, dtype: tf.DType) -> None:
        signature = self.definition.signature
        name = f"out{len(signature.output_arg)}"
        signature.output_arg.add(name=name, type=dtype.as_datatype_enum)
        self.definition.ret[name] = reference

    def _is_packed(self, item: Any) -> bool:
        """Whether an item goes into the frame: the value of a variable that nobody writes is in the environment."""
        return isinstance(item, FrameOf) or not self._read_once(item.op)

    def _item(self, item: Any) -> tuple[str, tf.DType]:
        if isinstance(item, FrameOf):
            return self._frames[item], tf.variant
        return self._reference(item), item.dtype

    # References to tensors.

    def _reference(self, tensor: tf.Tensor) -> str:
        outer = self.source.environment.outer(tensor)
        if outer is not None:
            return self._capture(outer, tensor, read=False)
        if id(tensor) in self._references:
            return self._references[id(tensor)]
        op = tensor.op
        if self._read_once(op):
            outer = self.source.environment.outer(op.inputs[0])
            assert outer is not None
            return self._capture(outer, tensor, read=True)
        region = regions.region_of(op)
        if region is not None:
            return self._region_output(region, tensor.value_index)
        return f"{self._node_name(op)}:{_output_name(op, tensor.value_index)}"

    def _read_once(self, op: tf.Operation) -> bool:
        if op.type != "ReadVariableOp":
            return False
        outer = self.source.environment.outer(op.inputs[0])
        return outer is not None and self.context.slots.may_read_once(outer)

    def _capture(self, outer: tf.Tensor, tensor: tf.Tensor, read: bool) -> str:
        slot = self.context.slots.number(outer, read)
        if slot not in self._captures:
            node = self._node(f"capture_{slot}", "Recgraph>Capture", [])
            node.attr["slot"].i = slot
            node.attr["dtype"].type = tensor.dtype.as_datatype_enum
            node.attr["shape"].shape.CopyFrom(tensor.shape.as_proto())
            data = tf_private.handle_data(outer) if tensor.dtype == tf.resource else None
            if data is not None:
                node.attr["_variable_dtype"].type = data.dtype
                node.attr["_variable_shape"].shape.CopyFrom(data.shape)
            self._captures[slot] = f"{node.name}:value:0"
        return self._captures[slot]

    # Nodes.

    def _node_name(self, op: tf.Operation) -> str:
        return self._prefix + op.name

    def _node(self, name: str, type_: str, inputs: Sequence[str]) -> Any:
        node = self.definition.node_def.add(name=f"{self._prefix}_{name}", op=type_)
        node.input.extend(inputs)
        return node

    def _write_operation(self, op: tf.Operation, written: dict[tf.Operation, None]) -> None:
        if self._read_once(op):
            return
        region = regions.region_of(op)
        node = self._write_region(region) if region is not None else self._copy(op)
        controls = [c for c in self._controls(op) if c in written and not self._read_once(c)]
        # TensorFlow keeps them as sets: bodies that are written alike have equal texts.
        node.input.extend(sorted(f"^{self._node_name(control)}" for control in controls))
        place = origin.of_operation(op)
        if place:
            node.attr["_recgraph_origin"].s = place.encode()

    def _controls(self, op: tf.Operation) -> list[tf.Operation]:
        """What `op` waits for: its control inputs, and what those that it overtakes, or that overtake, wait for."""
        seen: dict[tf.Operation, bool] = {}
        stack = list(op.control_inputs)
        while stack:
            control = stack.pop()
            if control in seen:
                continue
            seen[control] = overtaken = self._may_overtake(op, control)
            if _is_call_or_read(control):
                stack += [c for c in control.control_inputs if overtaken or self._may_overtake(control, c)]
        return [control for control, overtaken in seen.items() if not overtaken]

    def _may_overtake(self, op: tf.Operation, control: tf.Operation) -> bool:
        """Whether a control input is one of those that automatic control dependencies add in vain.

        They run all stateful operations of a body one after another, where calls are to run at the same time; and
        hold back the results until everything is done, as an invocation does anyway.
        """
        if _is_call_or_read(op) and _is_call_or_read(control):
            return True
        return control.type == "NoOp" and any(output.op is op for output in self.source.graph.outputs)

    def _copy(self, op: tf.Operation) -> Any:
        node = self.definition.node_def.add()
        node.CopyFrom(op.node_def)
        node.name = self._node_name(op)
        del node.input[:]
        node.device = ""
        node.ClearField("experimental_debug_info")
        if "_gradient_op_type" in node.attr:
            node.attr[OWN_GRADIENT].b = True
        for key in [key for key in node.attr if key in ("_class", "_gradient_op_type", "_recgraph_id")]:
            del node.attr[key]
        node.input.extend(self._reference(tensor) for tensor in op.inputs)
        if op.type in ("Recgraph>Invoke", "Recgraph>InvokeGradient") and not op.get_attr("key"):
            node.attr["entry"].s = self.context.entry_of(op.get_attr("entry").decode()).encode()
        if op.type == "Recgraph>Accumulate":
            node.attr["slot"].i = self.context.slots.number(op.graph.accumulated[op.name])
        self._copy_functions(op, node)
        return node

    def _copy_functions(self, op: tf.Operation, node: Any) -> None:
        """Brings along the functions that an ordinary operation refers to, and theirs."""
        known = {function.signature.name for function in self.context.library.function}
        names = _function_names(node)
        while names:
            name = names.pop()
            if name in self.context.taken:
                raise DefinitionError(
                    f"a function that is called here has the name '{name}', which a SubGraph's function has, too",
                    where=origin.of_operation(op),
                    next_step="give the SubGraph another name",
                )
            if name in known:
                continue
            known.add(name)
            definition = tf_private.function_definition(op.graph, name)
            self.context.library.function.append(definition)
            for inner in definition.node_def:
                names += _function_names(inner)

    # Regions.

    def _write_region(self, region: Region) -> Any:
        environment = self.source.environment
        regions.map_environment(region, environment)
        skipped = regions.environment_operands(region, environment)
        kept = [i for i in range(len(region.operands)) if i not in skipped]
        recorded = self._recorded_graphs(region)
        operands = [(self._reference(region.operands[i]), region.operands[i].dtype) for i in kept]
        name = self._node_name(region.op)
        node_inputs = [] if region.selector is None else [self._selector(region)]
        if recorded is not None and region.kind == regions.WHILE:
            operands.append((self._pack(f"{region.op.name}_frames", []), tf.variant))
        node = self.definition.node_def.add(name=name)
        node.input.extend(node_inputs + [reference for reference, _ in operands])
        outputs = self._outputs(region, kept)
        specs = [tf.TensorSpec(tensor.shape, tensor.dtype) for tensor in outputs]
        if recorded is not None:
            self._frames[FrameOf(region.op)] = f"{name}:output:{len(specs)}"
            specs.append(tf.TensorSpec([], tf.variant))
        functions = self._write_graphs(region, kept, recorded)
        _fill_region(node, region, functions, [dtype for _, dtype in operands], specs)
        return node

    def _selector(self, region: Region) -> str:
        assert region.selector is not None
        reference = self._reference(region.selector)
        return reference if region.kind == regions.CASE else self._truth(region.selector, reference)

    def _truth(self, condition: tf.Tensor, reference: str) -> str:
        """A condition as a bool: TensorFlow's If and While take others, its graph optimizer does not."""
        if condition.dtype == tf.bool:
            return reference
        node = self._node(f"truth_{len(self.definition.node_def)}", "ToBool", [reference])
        node.attr["T"].type = condition.dtype.as_datatype_enum
        node.attr["_recgraph_origin"].s = origin.of_operation(condition.op).encode()
        return f"{node.name}:output:0"

    def _outputs(self, region: Region, kept: list[int]) -> list[tf.Tensor]:
        if region.kind == regions.WHILE:
            return [region.op.outputs[i] for i in kept]
        return list(region.op.outputs)

    def _region_output(self, region: Region, index: int) -> str:
        if region.kind == regions.WHILE:
            skipped = regions.environment_operands(region, self.source.environment)
            if index in skipped:
                return self._reference(region.operands[index])
            index = sum(1 for i in range(index) if i not in skipped)
        return f"{self._node_name(region.op)}:output:{index}"

    def _recorded_graphs(self, region: Region) -> Sequence[GradientGraph] | None:
        if self.source.recorded_for is None:
            return None
        return self.source.recorded_for.frames.get(FrameOf(region.op))

    def _write_graphs(self, region: Region, kept: list[int], recorded: Sequence[GradientGraph] | None) -> list[str]:
        if region.kind == regions.LOOP_GRADIENT:
            return self._write_loop_gradient(region)
        names = []
        for i, graph in enumerate(region.graphs):
            is_loop = region.kind == regions.WHILE
            arguments = () if isinstance(graph, GradientGraph) else [graph.inputs[k] for k in kept]
            outputs = [graph.outputs[k] for k in kept] if is_loop and i == 1 else list(graph.outputs)
            if not is_loop:  # TensorFlow adds outputs to the graph of a tf.function that it differentiates
                outputs = outputs[: len(region.op.outputs)]
            recorded_for = None
            if recorded is not None and not (is_loop and i == 0):
                recorded_for = recorded[0 if is_loop else i]
            source = Source(
                graph,
                arguments,
                outputs,
                self.source.environment,
                recorded_for,
                on_stack=is_loop and recorded is not None,
                is_condition=is_loop and i == 0,
            )
            names.append(self.context.fresh(f"{self.name}/{region.op.name}/{_PARTS[region.kind](i)}"))
            write_function(self.context, names[-1], source)
        return names

    def _write_loop_gradient(self, region: Region) -> list[str]:
        (graph,) = region.graphs
        base = f"{self.name}/{region.op.name}"
        dtypes = [tensor.dtype for tensor in region.op.outputs]
        condition, body = self.context.fresh(f"{base}/cond"), self.context.fresh(f"{base}/body")
        self.context.library.function.append(_stack_is_not_empty(condition, dtypes))
        source = Source(graph, (), list(graph.outputs), self.source.environment, on_stack=True)
        write_function(self.context, body, source)
        return [condition, body]


def _is_call_or_read(op: tf.Operation) -> bool:
    return (regions.region_of(op) is not None or op.op_def.is_stateful) and _is_free(op)


def _is_free(op: tf.Operation) -> bool:
    """Whether an operation is stateful only by the calls that it makes and what it reads."""
    region = regions.region_of(op)
    if region is not None:
        return all(_is_free(inner) for graph in region.graphs for inner in graph.get_operations())
    return op.type in _CALLS or ops.facts(op.type).only_reads or not op.op_def.is_stateful


_CALLS = ("Recgraph>Invoke", "Recgraph>InvokeGradient")

_PARTS: dict[str, Callable[[int], str]] = {
    regions.IF: lambda i: ("then", "else")[i],
    regions.CASE: lambda i: f"branch{i}",
    regions.WHILE: lambda i: ("cond", "body")[i],
    regions.CALL: lambda i: "function",
}


def _fill_region(
    node: Any, region: Region, functions: list[str], operands: list[tf.DType], outputs: list[tf.TensorSpec]
) -> None:
    """Operation type and attributes of TensorFlow's own operation for a region."""
    types = [spec.dtype for spec in outputs]
    if region.kind in (regions.WHILE, regions.LOOP_GRADIENT):
        node.op = "Recgraph>While"
        _set_types(node, "T", operands)
        node.attr["cond"].func.name, node.attr["body"].func.name = functions
    else:
        _set_types(node, "Tin", operands)
        _set_types(node, "Tout", types)
        if region.kind == regions.IF:
            node.op = "If"
            node.attr["Tcond"].type = tf.bool.as_datatype_enum
            node.attr["then_branch"].func.name, node.attr["else_branch"].func.name = functions
        elif region.kind == regions.CASE:
            node.op = "Case"
            for function in functions:
                node.attr["branches"].list.func.add(name=function)
        else:
            node.op = "Recgraph>CallFunction"
            (node.attr["f"].func.name,) = functions
    node.attr["output_shapes"].list.SetInParent()
    node.attr["output_shapes"].list.shape.extend(spec.shape.as_proto() for spec in outputs)


def _stack_is_not_empty(name: str, dtypes: Sequence[tf.DType]) -> Any:
    """The condition of a loop's gradient: frames are left on the stack, its first argument."""
    definition = FunctionDef()
    definition.signature.name = name
    for i, dtype in enumerate(dtypes):
        definition.signature.input_arg.add(name=f"arg{i}", type=dtype.as_datatype_enum)
    definition.signature.output_arg.add(name="out0", type=tf.bool.as_datatype_enum)
    definition.node_def.add(name=f"{name}/empty", op="Recgraph>FrameIsEmpty", input=["arg0"])
    definition.node_def.add(name=f"{name}/more", op="LogicalNot", input=[f"{name}/empty:empty:0"])
    definition.ret["out0"] = f"{name}/more:y:0"
    return definition


def _set_types(node: Any, attribute: str, dtypes: Sequence[tf.DType]) -> None:
    node.attr[attribute].list.SetInParent()
    node.attr[attribute].list.type.extend(dtype.as_datatype_enum for dtype in dtypes)


def _function_names(node: Any) -> list[str]:
    names = []
    for value in node.attr.values():
        if value.HasField("func"):
            names.append(value.func.name)
        names += [function.name for function in value.list.func]
    return names


def _output_name(op: tf.Operation, index: int) -> str:
    """`name:i`, the output argument that the op's output number `index` belongs to and its place in it."""
    for argument in op.op_def.output_arg:
        if argument.number_attr:
            count = op.get_attr(argument.number_attr)
        elif argument.type_list_attr:
            count = len(op.get_attr(argument.type_list_attr))
        else:
            count = 1
        if index < count:
            return f"{argument.name}:{index}"
        index -= count
    raise IndexError(f"{op.name} has no such output")
