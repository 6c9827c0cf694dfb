"""The only file that imports TensorFlow's private modules; each name says why there is no public way."""

from __future__ import annotations

import contextlib
import functools
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import tensorflow as tf
from tensorflow.core.function.polymorphism import function_type as _function_type
from tensorflow.core.protobuf import config_pb2 as config_pb2
from tensorflow.core.protobuf import device_properties_pb2 as _device_properties_pb2
from tensorflow.core.protobuf import meta_graph_pb2 as meta_graph_pb2
from tensorflow.python import pywrap_tfe as _pywrap_tfe
from tensorflow.python.eager import context as _context
from tensorflow.python.eager import execute as _execute

# A gradient function is offered to a tape before anything is recorded: whether a tape is listening decides
# whether an eager call keeps its activations.
from tensorflow.python.eager import record as _record
from tensorflow.python.eager.polymorphic_function import concrete_function as _concrete_function
from tensorflow.python.framework import auto_control_deps as _auto_control_deps
from tensorflow.python.framework import func_graph as _func_graph
from tensorflow.python.framework import function_def_to_graph as _function_def_to_graph
from tensorflow.python.framework import graph_to_function_def as _graph_to_function_def
from tensorflow.python.framework import op_def_registry as _op_def_registry
from tensorflow.python.framework import ops as _ops
from tensorflow.python.framework import tensor_util as _tensor_util
from tensorflow.python.grappler import cluster as _tf_cluster
from tensorflow.python.grappler import tf_optimizer as _tf_optimizer
from tensorflow.python.ops import cond_v2 as _cond_v2
from tensorflow.python.ops import control_flow_v2_func_graphs as _control_flow_graphs
from tensorflow.python.ops import gradients_util as _gradients_util
from tensorflow.python.ops import handle_data_util as _handle_data_util
from tensorflow.python.ops import resource_variable_ops as _resource_variable_ops
from tensorflow.python.util import nest as _nest
from tensorflow.python.util import tf_stack as _tf_stack

# Public only as the graph of a tf.function that has been traced; a SubGraph is a graph under construction.
FuncGraph = _func_graph.FuncGraph

# The type of tensors that have a value now; public code can only ask for a `numpy` method.
EagerTensor = _ops.EagerTensor

# Seeds of operations are taken modulo this.
_MAX_SEED = 2**31 - 1

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


def tape_is_recording(tensors: list[tf.Tensor]) -> bool:
    """Whether a gradient tape would record an eager operation on these inputs."""
    return bool(_record.could_possibly_record()) and bool(_record.should_record_backprop(tensors))


def a_tape_is_listening() -> bool:
    """Whether a gradient tape or accumulator of this thread may record what is done now."""
    return bool(_record.could_possibly_record())


def is_graph_tensor(value: Any) -> bool:
    """Whether a value is a tensor of a graph under construction."""
    return isinstance(value, tf.Tensor) and not isinstance(value, EagerTensor)


def current_graph() -> Any:
    """The graph that operations go to now; publicly only that of TensorFlow 1."""
    return _ops.get_default_graph()


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


def watch_variables(graph: Any) -> None:
    """Tells the tapes of this thread that the variables `graph` reads are used, as reading them would."""
    for variable in graph._watched_variables:
        _resource_variable_ops.variable_accessed(variable)


def variable_names(graph: Any) -> dict[int, str]:
    """The names of the variables that `graph` reads, by the id of their handles; a handle does not know its name."""
    return {id(variable.handle): variable.name.split(":")[0] for variable in graph._watched_variables}


def executing_eagerly() -> bool:
    """Whether operations run at once; `tf.executing_eagerly` is false inside of autographed Python."""
    return bool(_context.executing_eagerly())


def flatten_up_to(shallow: Any, nest: Any) -> list[Any]:
    """The parts of `nest` that stand where `shallow` has its leaves: a list may stand for one tensor.

    Raises:
        ValueError, TypeError: `nest` is not arranged like `shallow`.
    """
    return list(_nest.flatten_up_to(shallow, nest, check_types=False))


def extract_stack() -> Any:
    """This thread's stack, with the lines that AutoGraph's generated code was made from."""
    return _tf_stack.extract_stack()


def eagerly() -> Any:
    """A context in which operations run at once, also inside of an explicit graph, which `tf.init_scope` keeps."""
    return _context.eager_mode()


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


def function_of_graph(graph: Any, name: str, inputs: list[tf.Tensor], outputs: list[tf.Tensor]) -> Any:
    """A graph's operations as a FunctionDef; the public way, tf.function, traces Python."""
    placeholders = {tensor.op for tensor in inputs}
    operations = [op for op in graph.get_operations() if op not in placeholders]
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


def set_input(op: tf.Operation, number: int, tensor: tf.Tensor) -> None:
    """Gives an operation another input; publicly an operation stays as it was made."""
    op._update_input(number, tensor)


def next_seeds() -> tuple[int, int]:
    """The seeds that the next eager random operation would have; drawing them is what it does first."""
    context = _context.context()
    seeds = context._seed % _MAX_SEED, context._internal_operation_seed() % _MAX_SEED
    return (0, _MAX_SEED) if seeds == (0, 0) else seeds


def global_seed() -> int | None:
    """What `tf.random.set_seed` was given."""
    return _context.context()._seed


def seed_generator_state() -> Any:
    """Where the generator is that eager random operations draw their seeds from."""
    context = _context.context()
    return (context._rng, context._rng.getstate()) if context._seed is not None else None


def set_seed_generator_state(state: Any) -> None:
    """Puts it back."""
    if state is not None:
        state[0].setstate(state[1])


def variable_dtype(handle: tf.Tensor) -> tf.DType:
    """The dtype of the variable behind an eager handle."""
    return tf.dtypes.as_dtype(handle._handle_data.shape_and_type[0].dtype)


def eager_constant(value: Any, dtype: tf.DType) -> tf.Tensor:
    """An eager tensor; `tf.constant` takes several times as long."""
    context = _context.context()
    return EagerTensor(value, context.device_name, dtype.as_datatype_enum)


def connected_inputs(graph: Any, output: tf.Tensor) -> list[bool]:
    """Of each input of a function's graph, whether `tf.gradients` of an output with respect to it is not None.

    Asked in a graph of its own, which `tf.gradients` cannot: the function's graph is finished.
    """
    with FuncGraph("connected").as_default():
        given = placeholder(tf.TensorSpec(output.shape, output.dtype))
        found = _gradients_util._GradientsHelper([output], list(graph.inputs), grad_ys=[given], src_graph=graph)
    return [gradient is not None for gradient in found]


def record_in_groups(function: Any, groups: Callable[[], list[tuple[list[int], list[int]]]]) -> None:
    """Tells tapes which inputs each output of a concrete function depends on; TensorFlow takes it to be all.

    Args:
        function: concrete.
        groups: gives the numbers of outputs and of the inputs that they depend on; asked when a tape first records.
    """
    select, made = function._select_forward_and_backward_functions, functools.cache(groups)

    def selecting(*arguments: Any) -> Any:
        call = select(*arguments)
        functions = call._functions
        if "record" not in vars(functions):
            functions.record = functools.partial(_record_groups, functions, functions.record, made())
        return call

    function._select_forward_and_backward_functions = selecting


def _record_groups(
    functions: Any, record: Any, groups: Any, outputs: list[tf.Tensor], inputs: list[tf.Tensor], tangents: Any
) -> None:
    """Records a call for each group of outputs; what it gives besides, to the backward function, depends on all."""
    if tangents or functions._forwardprop_output_indices:
        return record(outputs, inputs, tangents)
    backward, recorded = functions._wrap_backward_function(functions._forward_graph, functions._backward, outputs)
    name = functions._forward.cached_definition.signature.name
    besides = list(range(functions._num_inference_outputs, len(recorded)))
    for given, taken in [*groups, (besides, list(range(len(inputs))))]:
        given = [i for i in given if i < len(recorded)]
        if given and taken:
            one = functools.partial(_backward_of_group, backward, len(recorded), given, taken)
            _record.record_operation(name, [recorded[i] for i in given], [inputs[j] for j in taken], one)


def _backward_of_group(backward: Any, count: int, given: list[int], taken: list[int], *gradients: Any) -> list[Any]:
    """The gradients of a group's inputs, where the other outputs have none."""
    every: list[Any] = [None] * count
    for i, gradient in zip(given, gradients, strict=True):
        every[i] = gradient
    found = backward(*every)
    return [found[j] for j in taken]


def fast_call(function: Any, keeps_order: bool = False) -> Callable[[Sequence[tf.Tensor]], list[tf.Tensor]]:
    """Calls a concrete function with tensors alone, past everything that is for tapes where there are none.

    What it captures has to be complete. Errors are raised as the runtime gives them.

    Args:
        function: the concrete function.
        keeps_order: whether control dependencies matter, or there are branches: see `_options_that_keep_order`.
    """
    captured = function.captured_inputs
    context, name, count = _context.context(), function._inference_function.name, len(function.outputs)
    could_record, text = _record.could_possibly_record, name.decode()
    options = _options_that_keep_order(context) if keeps_order else None
    attributes = tuple(part for pair in (options or context.function_call_options).as_attrs().items() for part in pair)

    def call(tensors: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        if could_record():
            return _call_with(options, function, list(tensors))
        return _execute.execute(text, count, [*tensors, *captured], attributes, context)

    return call


def _call_with(options: Any, function: Any, tensors: list[tf.Tensor]) -> list[tf.Tensor]:
    context = _context.context()
    before = context.function_call_options
    context.function_call_options = options or before
    try:
        return function._call_flat(tensors, function.captured_inputs)
    finally:
        context.function_call_options = before


def _options_that_keep_order(context: Any) -> Any:
    """Options without TensorFlow's optimization of dependencies, which is wrong in two ways.

    It drops the edge from a read of a variable to the next write where another way leads from one to the other; if
    that way is by a shape alone, it is folded away afterwards, and the write may come first. And of `(0 + x) + x` in a
    branch it makes a result without a value.
    """
    options = context.function_call_options
    config = tf.compat.v1.ConfigProto.FromString(options.config_proto_serialized)
    config.graph_options.rewrite_options.dependency_optimization = config.graph_options.rewrite_options.OFF
    return type(options)(options.executor_type, config)


def captured_values(graph: Any, placeholders: list[tf.Tensor]) -> list[tf.Tensor]:
    """What the graph has captured under these placeholders."""
    pairs = {id(inner): outer for outer, inner in graph.captures}
    return [pairs[id(tensor)] for tensor in placeholders]


_has_forked = [False]
os.register_at_fork(after_in_child=lambda: _has_forked.__setitem__(0, True))


def is_plainly_eager() -> bool:
    """Whether operations run at once, and no distribution strategy has a say in it.

    Nor in a forked process: the threads that run graphs have stayed in the other one.
    """
    if _has_forked[0]:
        return False
    return _context.executing_eagerly() and not _ops.get_default_graph()._distribution_strategy_stack


@contextlib.contextmanager
def eager_operations() -> Iterator[list[str]]:
    """The operations that run eagerly in this thread, by type, in order; a call of a graph is one with its name."""
    seen: list[str] = []
    thread = threading.get_ident()

    def noting(execute: Callable[..., Any], place: int) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            result = execute(*arguments)
            if threading.get_ident() == thread:
                seen.append(str(arguments[place]))
            return result

        return call

    originals = _pywrap_tfe.TFE_Py_FastPathExecute, _pywrap_tfe.TFE_Py_Execute
    _pywrap_tfe.TFE_Py_FastPathExecute, _pywrap_tfe.TFE_Py_Execute = noting(originals[0], 1), noting(originals[1], 2)
    try:
        yield seen
    finally:
        _pywrap_tfe.TFE_Py_FastPathExecute, _pywrap_tfe.TFE_Py_Execute = originals


def context_handle() -> Any:
    """The eager runtime's context, as a capsule: a device of ours is registered with it from C++."""
    context = _context.context()
    context.ensure_initialized()
    return context._handle


def call_options() -> bytes:
    """The serialised configuration with which eager execution runs functions whose control dependencies matter."""
    return bytes(_options_that_keep_order(_context.context()).config_proto_serialized)


def function_name(function: Any) -> bytes:
    """The name under which the eager runtime knows a concrete function."""
    return bytes(function._inference_function.name)


def stay_on_device(name: str, others: tuple[str | None, ...]) -> None:
    """Lets `tf.device` scopes for `others`, opened in a scope for the device `name`, stay on that device.

    What a name stands for in a scope is looked up in a cache of TensorFlow's, which is empty at first and again after
    the devices have changed; with entries of our own there is nothing to patch.
    """
    cache = _context._device_parsing_cache
    if (name, others[0]) not in cache:
        cache.update({(name, other): (name, tf.DeviceSpec.from_string(name)) for other in others})


def raise_status(code: int, message: str) -> None:
    """Raises what TensorFlow raises for an error of its runtime."""
    raise tf.errors.exception_type_from_error_code(code)(None, None, message)
