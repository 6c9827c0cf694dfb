"""Graphs: how they are made, changed, and described to TensorFlow."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Container, Iterator, Sequence
from typing import Any

import tensorflow as tf
from tensorflow.core.framework import op_def_pb2 as _op_def_pb2
from tensorflow.core.function.polymorphism import function_type as _function_type
from tensorflow.core.protobuf import device_properties_pb2 as _device_properties_pb2
from tensorflow.python.autograph.impl import api as _autograph

# A gradient function is offered to a tape before anything is recorded: whether a tape is listening decides
# whether an eager call keeps its activations.
from tensorflow.python.client import pywrap_tf_session as _session
from tensorflow.python.eager import context as _context
from tensorflow.python.eager.polymorphic_function import atomic_function as _atomic_function
from tensorflow.python.eager.polymorphic_function import concrete_function as _concrete_function
from tensorflow.python.eager.polymorphic_function import tracing_compilation as _tracing_compilation
from tensorflow.python.framework import auto_control_deps as _auto_control_deps
from tensorflow.python.framework import func_graph as _func_graph
from tensorflow.python.framework import function_def_to_graph as _function_def_to_graph
from tensorflow.python.framework import graph_to_function_def as _graph_to_function_def
from tensorflow.python.framework import kernels as _kernels
from tensorflow.python.framework import op_def_registry as _op_def_registry
from tensorflow.python.framework import ops as _ops
from tensorflow.python.framework import tensor_util as _tensor_util
from tensorflow.python.grappler import cluster as _tf_cluster
from tensorflow.python.grappler import tf_optimizer as _tf_optimizer
from tensorflow.python.ops import cond_v2 as _cond_v2
from tensorflow.python.ops import control_flow_v2_func_graphs as _control_flow_graphs
from tensorflow.python.ops import custom_gradient as _custom_gradient
from tensorflow.python.ops import handle_data_util as _handle_data_util
from tensorflow.python.ops import resource_variable_ops as _resource_variable_ops
from tensorflow.python.ops import variable_scope as _variable_scope
from tensorflow.python.util import nest as _nest
from tensorflow.python.util import tf_stack as _tf_stack

# The type of tensors that have a value now; public code can only ask for a `numpy` method.
EagerTensor = _ops.EagerTensor

# Public only as the graph of a tf.function that has been traced; a SubGraph is a graph under construction.
FuncGraph = _func_graph.FuncGraph

# What `tf.function.get_concrete_function` gives; the class has no public name.
ConcreteFunction = _concrete_function.ConcreteFunction

# What a `tf.function` runs while it is traced: frames above it are not those of the program's own calls.
TRACING = _tracing_compilation.trace_function.__code__

# tf.function orders side effects with it; the body of a `with` block has no other way to.
AutomaticControlDependencies = _auto_control_deps.AutomaticControlDependencies


def gradient_function(op: tf.Operation) -> Any:
    """The registered gradient function of an operation, custom gradients included.

    The table behind `tf.RegisterGradient` cannot be read publicly. None for an operation without inputs or
    with a gradient that is deliberately none.

    Raises:
        LookupError: the operation's type has no gradient.
    """
    return _ops.get_gradient_function(op)


def with_own_gradient(function: Any) -> Any:
    """What is inside of a function that `tf.custom_gradient` has made; None for others. Its class is not public."""
    return function._f if isinstance(function, _custom_gradient.Bind) else None


def wrapped_gradient_functions(op: tf.Operation) -> list[Any]:
    """What the gradient function of an operation is for: itself, or the function inside of `tf.custom_gradient`."""
    found, waiting = [], [_ops.get_gradient_function(op)]
    while waiting:
        function = waiting.pop()
        if getattr(function, "__module__", None) == _custom_gradient.__name__:
            cells = [cell.cell_contents for cell in function.__closure__ or ()]
            waiting.extend(inner for inner in cells if callable(inner) and hasattr(inner, "__code__"))
        elif function is not None:
            found.append(function)
    return found


def function_graph(graph: Any, name: str) -> Any:
    """The FuncGraph of a function that `graph` knows by name: the branch of a cond, the body of a loop.

    The original graph, if there is one in this process: gradients that close over its tensors need it.
    """
    place = graph
    while place is not None:
        function = place._get_function(name)
        if function is not None:
            original = getattr(function, "graph", None)
            if original is not None:
                return original
            with graph.as_default():
                return _function_def_to_graph.function_def_to_graph(function.cached_definition)
        place = getattr(place, "outer_graph", None)
    raise KeyError(f"no function {name} in graph {graph.name}")


def function_definition(graph: Any, name: str) -> Any:
    """The FunctionDef that `graph`, or a graph around it, knows by name."""
    place = graph
    while place is not None:
        function = place._get_function(name)
        if function is not None:
            return function.cached_definition
        place = getattr(place, "outer_graph", None)
    raise KeyError(f"no function {name} in graph {graph.name}")


def capture_by_placeholder(graph: Any, tensor: Any, name: str | None = None) -> tf.Tensor:
    """A placeholder of `graph` for an outer tensor: also for a small eager one, which FuncGraph freezes."""
    captures = graph._function_captures
    if isinstance(tensor, _ops.EagerTensor):
        return captures._create_placeholder_helper(graph, tensor, name or "capture")
    return captures.capture_by_value(graph, tensor, name)


def add_operation(kind: str, inputs: Sequence[tf.Tensor], attributes: dict[str, Any], name: str) -> tf.Operation:
    """Adds an operation to the current graph; the public `create_op` looks up its own signature each time."""
    graph = tf.compat.v1.get_default_graph()
    return graph._create_op_internal(kind, list(inputs), attrs=attributes, name=name)


def is_in_loop(graph: Any) -> bool:
    """Whether what is added now is part of a `tf.while_loop` in `graph`; the classes of its graphs are not public."""
    loops = (_control_flow_graphs.WhileBodyFuncGraph, _control_flow_graphs.WhileCondFuncGraph)
    place = tf.compat.v1.get_default_graph()
    while place is not None and place is not graph:
        if isinstance(place, loops):
            return True
        place = getattr(place, "outer_graph", None)
    return False


def placeholder(spec: tf.TensorSpec) -> tf.Tensor:
    """A placeholder in the current graph."""
    attributes = {
        "dtype": tf.compat.v1.AttrValue(type=spec.dtype.as_datatype_enum),
        "shape": tf.compat.v1.AttrValue(shape=spec.shape.as_proto()),
    }
    return add_operation("Placeholder", [], attributes, "Placeholder").outputs[0]


def set_attribute(op: tf.Operation, name: str, value: Any) -> None:
    """Sets an attribute of an operation that exists already; op creation has no place for `_` attributes."""
    op._set_attr(name, value)


def handle_data(tensor: tf.Tensor) -> Any:
    """Shape and dtype of the variable behind a resource tensor, or None; not readable publicly."""
    data = _resource_variable_ops.get_eager_safe_handle_data(tensor)
    return data.shape_and_type[0] if data is not None and data.is_set and data.shape_and_type else None


def variable_of_graph(
    initial_value: Any,
    dtype: Any = None,
    shape: Any = None,
    trainable: bool | None = None,
    name: str | None = None,
    **named: Any,
) -> tf.Variable:
    """A variable that each run of the current graph makes anew and frees: nothing public makes one in a function.

    Args:
        initial_value: a value, or a function that gives one.
        dtype, shape, trainable, name: of the variable, as of `tf.Variable`.
        **named: other arguments of it.
    """
    value = tf.convert_to_tensor(initial_value() if callable(initial_value) else initial_value, dtype)
    shape = value.shape if shape is None else tf.TensorShape(shape)
    scope = tf.get_current_name_scope()
    handle_name = (f"{scope}/" if scope else "") + (name or "Variable").split(":")[0]
    make = _resource_variable_ops._variable_handle_from_shape_and_dtype
    handle = make(shape, value.dtype, None, handle_name, graph_mode=False)
    kept = {key: named[key] for key in ("constraint", "synchronization", "aggregation") if key in named}
    kind = _resource_variable_ops.ResourceVariable
    made = kind.__new__(kind)
    _resource_variable_ops.BaseResourceVariable.__init__(
        made, trainable=trainable is not False, shape=shape, dtype=value.dtype, handle=handle, name=handle_name,
        handle_name=handle_name, unique_id=f"{handle_name}_of_graph_{_ops.uid()}", in_graph_mode=False, **kept,
    )  # fmt: skip
    tf.raw_ops.AssignVariableOp(resource=handle, value=value)
    return made


def is_of_graph(variable: Any) -> bool:
    """Whether a variable was made by `variable_of_graph`."""
    return isinstance(variable, _resource_variable_ops.BaseResourceVariable) and not isinstance(
        variable.handle, EagerTensor
    )


def forget_variables_of_graph(graph: Any) -> None:
    """Who calls a finished graph is not told of the variables that it makes."""
    for variable in list(graph._watched_variables):
        if is_of_graph(variable):
            graph._watched_variables.discard(variable)


def copy_handle_data(source: tf.Tensor, target: tf.Tensor) -> None:
    """Lets shape inference see what variable is behind `target`."""
    _handle_data_util.copy_handle_data(source, target)


def describe_variable(handle: tf.Tensor, shape: tf.TensorShape, dtype: tf.DType) -> None:
    """Lets shape inference know what variable will be behind a placeholder for a handle."""
    _handle_data_util.set_handle_data(handle, _handle_data_util.create_handle_data(shape, dtype))


def constant_value(tensor: tf.Tensor) -> Any:
    """The value of a tensor that depends on constants alone, or None; `tf.get_static_value` knows few operations."""
    value = tf.get_static_value(tensor)
    return _tensor_util.try_evaluate_constant(tensor) if value is None else value


def is_graph_tensor(value: Any) -> bool:
    """Whether a value is a tensor of a graph under construction."""
    return isinstance(value, tf.Tensor) and not isinstance(value, EagerTensor)


def current_graph() -> Any:
    """The graph that operations go to now; publicly only that of TensorFlow 1."""
    return _ops.get_default_graph()


def outermost_graph() -> Any:
    """The graph of the function that is traced now, also from within its branches and loops."""
    graph = _ops.get_default_graph()
    while isinstance(getattr(graph, "outer_graph", None), FuncGraph):
        graph = graph.outer_graph
    return graph


def run_grappler(graph_def: Any, fetches: list[str], config: Any) -> Any:
    """TensorFlow's graph optimizer on a GraphDef with its library; there is no public door to it."""
    graph = tf.Graph()
    with graph.as_default():
        tf.graph_util.import_graph_def(graph_def, name="")
        meta_graph = tf.compat.v1.train.export_meta_graph(graph=graph)
    collection = meta_graph.collection_def["train_op"]
    collection.node_list.value.extend(fetches)
    return _tf_optimizer.OptimizeGraph(config, meta_graph, verbose=False, cluster=_described_cpu())


@functools.cache
def _described_cpu() -> Any:
    """One CPU as grappler knows it by description; a real cluster would open a session for every graph."""
    device = _device_properties_pb2.NamedDevice(name="/job:localhost/replica:0/task:0/device:CPU:0")
    device.properties.type = "CPU"
    device.properties.num_cores = 1
    device.properties.frequency = 1000
    return _tf_cluster.Cluster(devices=[device])


def in_function_graph(graph: Any) -> bool:
    """Whether `graph` is the graph of a function being traced."""
    return isinstance(graph, FuncGraph)


def variables_by_handle(graph: Any) -> dict[int, Any]:
    """The variables that `graph` reads, by the id of their handles; those that are still there."""
    return {id(variable.handle): variable for variable in graph._watched_variables}


def variable_names(graph: Any) -> dict[int, str]:
    """The names of the variables that `graph` reads, by the id of their handles; a handle does not know its name."""
    return {handle: variable.name.split(":")[0] for handle, variable in variables_by_handle(graph).items()}


def flatten_up_to(shallow: Any, nest: Any) -> list[Any]:
    """The parts of `nest` that stand where `shallow` has its leaves: a list may stand for one tensor.

    Raises:
        ValueError, TypeError: `nest` is not arranged like `shallow`.
    """
    return list(_nest.flatten_up_to(shallow, nest, check_types=False))


def extract_stack() -> Any:
    """This thread's stack, with the lines that AutoGraph's generated code was made from."""
    return _tf_stack.extract_stack()


@contextlib.contextmanager
def kept_variable_scope() -> Iterator[None]:
    """The variable scope has the same caching device afterwards.

    `tf.map_fn` and its like set one, and take it back only where no exception passes through them. The scope is that
    of eager execution, too, where a strategy of `tf.distribute` cannot be entered then.
    """
    scope = _variable_scope.get_variable_scope()
    before = scope.caching_device
    try:
        yield
    finally:
        scope._caching_device = before


def lines_of(converted: Any) -> Any:
    """A context in which stacks of operations have the lines that a function of `tf.autograph.to_graph` was made from.

    `tf.function` has it for itself.
    """
    return _autograph.StackTraceMapper(converted)


def run_independently(op: tf.Operation) -> None:
    """Exempts a stateful operation from the order that automatic control dependencies give to all of them.

    Two calls of a SubGraph that neither writes what the other reads may run at the same time.
    """
    manager = getattr(op.graph, "experimental_acd_manager", None)
    if manager is not None:
        manager.run_independently(op)


def op_definition(name: str) -> Any:
    """The OpDef of a registered operation type; the public list leaves out those of op libraries.

    Raises:
        KeyError: there is none.
    """
    definition = _op_def_registry.get(name)
    if definition is None:
        raise KeyError(f"no operation type {name}")
    return definition


def registered_operations() -> dict[str, Any]:
    """The OpDefs of all operation types that are registered in this process, by name; there is no public list."""
    found = _op_def_pb2.OpList.FromString(_session.TF_GetBuffer(_session.TF_GetAllOpList()))
    return {definition.name: definition for definition in found.op}


def operations_with_kernels() -> set[str]:
    """The operation types with a kernel for the CPU; there is no public list."""
    found = _kernels.get_all_registered_kernels().kernel
    return {kernel.op for kernel in found if kernel.device_type in ("CPU", "DEFAULT")}


def function_of_graph(
    graph: Any,
    name: str,
    inputs: list[tf.Tensor],
    outputs: list[tf.Tensor],
    operations: Sequence[tf.Operation] | None = None,
) -> Any:
    """A graph's operations, all or some of them, as a FunctionDef; the public way, tf.function, traces Python."""
    placeholders = {tensor.op for tensor in inputs}
    operations = [op for op in operations or graph.get_operations() if op not in placeholders]
    definition = _graph_to_function_def.graph_to_function_def(graph, operations, inputs, outputs)
    definition.signature.name = name
    return definition


def concrete_function(graph: Any, inputs: list[tf.Tensor], outputs: list[tf.Tensor]) -> Any:
    """A finished FuncGraph as something that can be called and differentiated; publicly only tf.function makes one."""
    captures = graph.function_captures
    graph.inputs = [*inputs, *captures.by_val_internal.values()]
    graph.outputs = graph.structured_outputs = outputs
    specs = [[tf.TensorSpec(tensor.shape, tensor.dtype) for tensor in tensors] for tensors in (inputs, outputs)]
    signature = _function_type.from_structured_signature((tuple(specs[0]), {}), specs[1], captures.capture_types)
    return _concrete_function.ConcreteFunction.from_func_graph(graph, signature, {})


def concrete_like(concrete: Any, graph: Any) -> Any:
    """A finished FuncGraph that is called as a concrete function is; publicly tracing alone makes one."""
    made = ConcreteFunction.from_func_graph(graph, concrete.function_type, dict(concrete.function_def.attr))
    made._arg_keywords, made._num_positional_args = concrete._arg_keywords, concrete._num_positional_args
    return made


def enter_function(graph: Any, outer: Any) -> str:
    """The name under which a finished FuncGraph can be run by operations of `outer`; publicly Python is traced."""
    name = f"{graph.name}_{_ops.uid()}"
    outer._add_function_recursive(_atomic_function.from_func_graph(name, graph, {}))
    return name


def bring_functions(op: tf.Operation, target: Any) -> None:
    """Tells a graph of the functions that an operation of another one names; copies of it need them."""
    for attribute in op.node_def.attr.values():
        for function in [attribute.func, *attribute.list.func]:
            place = op.graph
            while function.name and place is not None:
                if found := place._get_function(function.name):
                    target._add_function_recursive(found)
                    break
                place = getattr(place, "outer_graph", None)


def is_stateful(op: tf.Operation) -> bool:
    """Whether TensorFlow registers an operation as stateful; `OpDef`s of op libraries are not public."""
    return bool(op.op_def.is_stateful)


def has_deferred_captures(graph: Any) -> bool:
    """Whether a graph asks at each call what it captures."""
    return bool(graph.deferred_external_captures)


def branch_graph(name: str, build: Callable[[], None]) -> Any:
    """The graph of one branch of a conditional, whose outputs are not known yet; `tf.cond` asks for both at once."""
    outer, name = _ops.get_default_graph(), f"{name}_{_ops.uid()}"
    graph = _control_flow_graphs.CondBranchFuncGraph(name, collections=outer._collections)
    controlled = outer._add_control_dependencies
    return _func_graph.func_graph_from_py_func(name, build, [], {}, None, graph, add_control_dependencies=controlled)


def conditional(condition: tf.Tensor, branches: Sequence[Any], outputs: Sequence[list[tf.Tensor]]) -> list[tf.Tensor]:
    """What one of two branches gives, built before: `tf.cond` builds them itself."""
    for graph, tensors in zip(branches, outputs, strict=True):
        with graph.as_default():
            graph.outputs = [tf.identity(tensor) for tensor in tensors]
            graph.structured_outputs = list(graph.outputs)
    captures = [graph.external_captures for graph in branches]
    return list(_cond_v2._build_cond(condition, *branches, *captures, building_gradient=False, name="cond"))


def add_control_inputs(op: tf.Operation, before: Sequence[tf.Operation]) -> None:
    """Makes an operation wait for others; publicly only those that come later can be told to."""
    op._add_control_inputs(list(before))


def set_control_inputs(op: tf.Operation, before: Sequence[tf.Operation]) -> None:
    """Makes an operation wait for these alone, besides what it is given."""
    op._remove_all_control_inputs()
    op._add_control_inputs(list(before))


def redirect(old: tf.Tensor, new: tf.Tensor) -> None:
    """Who used a tensor uses another; publicly an operation stays as it was made."""
    for user in old.consumers():
        for i, tensor in enumerate(user.inputs):
            if tensor is old:
                user._update_input(i, new)


def replace_input(op: tf.Operation, i: int, tensor: tf.Tensor) -> None:
    """An operation uses another tensor."""
    op._update_input(i, tensor)


def captured_values(graph: Any, placeholders: list[tf.Tensor]) -> list[tf.Tensor]:
    """What the graph has captured under these placeholders."""
    pairs = {id(inner): outer for outer, inner in graph.captures}
    return [pairs[id(tensor)] for tensor in placeholders]


def _functions_from(name: str) -> dict[str, Any]:
    """The definitions of a function of the eager runtime and of those that it calls, by name."""
    context, found, waiting = _context.context(), {}, [name]
    while waiting:
        name = waiting.pop()
        if name in found or not context.has_function(name):
            continue
        found[name] = context.get_function_def(name)
        for node in found[name].node_def:
            waiting.append(node.op)
            for attribute in node.attr.values():
                waiting += [attribute.func.name, *(function.name for function in attribute.list.func)]
    return found


def operations_in_function(name: str) -> frozenset[str]:
    """The types of all operations of a function of the eager runtime, those of functions that it calls included."""
    functions = _functions_from(name)
    types = {node.op for definition in functions.values() for node in definition.node_def}
    return frozenset(types - functions.keys())


def attributes_in_function(name: str, types: Container[str]) -> list[dict[str, Any]]:
    """The attributes of all operations of some types in a function of the eager runtime, and in those it calls."""
    nodes = (node for definition in _functions_from(name).values() for node in definition.node_def)
    return [dict(node.attr) for node in nodes if node.op in types]


def _kept_function(name: str) -> Any:
    """What keeps a function of the eager runtime, if its users are counted at all."""
    context = _context.context()
    is_counted = (context.function_scope_id, name.encode()) in _atomic_function.RUNTIME_FUNCTION_REFS
    return _atomic_function.AtomicFunction(name, context, None) if is_counted else None


def call_function(
    name: str, inputs: Sequence[tf.Tensor], results: Sequence[int], attributes: dict[str, Any]
) -> tf.Operation:
    """Adds a call of a function of the eager runtime to the current graph, which keeps it alive from now on.

    Publicly a function is called by the Python object that it was made as.
    """
    graph = tf.compat.v1.get_default_graph()
    while isinstance(graph.outer_graph, FuncGraph):
        graph = graph.outer_graph
    graph._recgraph_functions = [
        *getattr(graph, "_recgraph_functions", []),
        *map(_kept_function, _functions_from(name)),
    ]
    value = tf.compat.v1.AttrValue
    types = [value.ListValue(type=[t.dtype.as_datatype_enum for t in inputs]), value.ListValue(type=results)]
    call = {"Tin": value(list=types[0]), "Tout": value(list=types[1]), "f": value()}
    call["f"].func.name = name
    options: dict[str, Any] = {key: attributes[key] for key in ("config_proto", "executor_type") if key in attributes}
    return add_operation("StatefulPartitionedCall", inputs, {**options, **call}, "call")
