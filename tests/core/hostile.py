"""Models that are damaged or forged at random, each run in this process: a child of `test_hostile_models.py`.

    python tests/core/hostile.py FIRST COUNT LOG [LIMIT_GB]

A mutant is one number: from it follow the model, what is done to it, and how it is called. The number is written to LOG
before the mutant runs, so that who started this process knows which one has ended it or hangs. What a mutant does is
printed by `python tests/core/hostile.py NUMBER 1 /dev/stdout`.
"""

from __future__ import annotations

import hashlib
import os
import random
import resource
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

import recgraph as rg
from recgraph import native

PATIENCE_MS = 4000  # then a mutant is cancelled: a program may go on for ever, if it ends then
DTYPES = [tf.float32, tf.int32, tf.string, tf.bool, tf.resource, tf.variant, tf.float64, tf.int64, tf.complex64]
# Attributes that say how many inputs or outputs there are: TensorFlow itself writes their types down one by one.
COUNTS = ("N", "M", "count", "shadowed", "uses")
Graph = Any  # a GraphDef
Random = random.Random


# The models, as graphs with gradients; what comes out of them is named in the collection of their outputs.


def tree_lstm(engine: str) -> list[tf.Tensor]:
    """A binary tree, with an embedding and two weights."""
    size = 4
    embedding = tf.Variable(tf.ones([9, size]), name="embedding")
    leaf, inner = tf.Variable(tf.ones([size, 3 * size])), tf.Variable(tf.ones([2 * size, 5 * size]))
    word, left, right = map(tf.constant, ([3, 5, -1, 7, -1], [-1, -1, 0, -1, 2], [-1, -1, 1, -1, 3]))
    row = tf.TensorSpec([1, size])
    with rg.SubGraph("tree_lstm", outputs=(row, row), engine=engine, max_depth=100) as lstm:
        node = lstm.input(tf.int32, name="node")

        def at_leaf() -> Any:
            i, o, u = tf.split(tf.gather(embedding, word[node])[None] @ leaf, 3, 1)
            c = tf.sigmoid(i) * tf.tanh(u)
            return tf.sigmoid(o) * tf.tanh(c), c

        def at_inner() -> Any:
            (left_h, left_c), (right_h, right_c) = lstm(left[node]), lstm(right[node])
            i, o, u, f, g = tf.split(tf.concat([left_h, right_h], 1) @ inner, 5, 1)
            c = tf.sigmoid(i) * tf.tanh(u) + tf.sigmoid(f) * left_c + tf.sigmoid(g) * right_c
            return tf.sigmoid(o) * tf.tanh(c), c

        lstm.output(tf.cond(left[node] < 0, at_leaf, at_inner))
    hidden, memory = lstm.map(tf.constant([4, 2, 4]))
    return [hidden, memory, *tf.gradients(tf.reduce_sum(hidden), [leaf, inner, embedding])]


def any_arity(engine: str) -> list[tf.Tensor]:
    """A tree of any arity: a loop of calls in a branch, with a gradient."""
    value, weight = tf.Variable(tf.range(9.0)), tf.Variable(2.0)
    children, begin = tf.constant([1, 2, 3, 4, 5, 6, 7]), tf.constant([0, 3, 3, 4, 6, 7, 7, 7, 7])
    with rg.SubGraph("any_arity", outputs=tf.TensorSpec([]), engine=engine, max_depth=100) as tree:
        node = tree.input(tf.int32)
        first, last = begin[node], begin[tf.minimum(node + 1, 8)]

        def total() -> tf.Tensor:
            return tf.while_loop(lambda i, s: i < last, lambda i, s: (i + 1, s + tree(children[i])), [first, 0.0])[1]

        tree.output(weight * value[node] + tf.cond(last > first, total, lambda: 0.0))
    result = tree(0)
    return [result, *tf.gradients(result, [weight, value])]


def mapped(engine: str) -> list[tf.Tensor]:
    """A map in a body, over rows that differ in shape with the depth, with strings."""
    scale = tf.Variable([1.0, 2.0])
    with rg.SubGraph("mapped", outputs=tf.TensorSpec([2]), engine=engine, max_depth=100) as outer:
        n, x = outer.input(tf.int32), outer.input(tf.float32, [2])

        def below() -> tf.Tensor:
            rows = outer.map(n - 1 - tf.range(n) % 2, tf.tile(x[None] * 0.5, [n, 1]))
            joined = tf.concat([rows, x[None]], 0)
            return tf.reduce_sum(joined, 0) * tf.cast(tf.strings.length(tf.strings.as_string(n)), tf.float32)

        outer.output(tf.cond(n < 1, lambda: x * scale, below))
    x = tf.constant([1.0, 3.0])
    result = outer(3, x)
    return [result, *tf.gradients(result, [x, scale])]


def branches(engine: str) -> list[tf.Tensor]:
    """Branches by a number, and a loop with a branch inside."""
    matrix = tf.Variable([[1.0, 2.0], [3.0, 4.0]])
    with rg.SubGraph("branches", outputs=tf.TensorSpec([1, 2]), engine=engine, max_depth=100) as f:
        n, x = f.input(tf.int32), f.input(tf.float32, [1, 2])
        arms = [lambda: x @ matrix, lambda: f(n - 1, tf.tanh(x)), lambda: f(n - 2, x) + f(n - 1, x @ matrix)]
        picked = tf.switch_case(tf.where(n < 1, 0, 1 + n % 2), arms)
        trip = lambda i, y: (i + 1, tf.cond(i % 2 < 1, lambda: y + x, lambda: y * 0.5))  # noqa: E731
        f.output(tf.while_loop(lambda i, y: i < n, trip, [0, picked])[1])
    x = tf.constant([[0.5, -0.5]])
    result = f(5, x)
    return [result, *tf.gradients(result, [x, matrix])]


def mutual(engine: str) -> list[tf.Tensor]:
    """Two SubGraphs that call each other, one with two results."""
    bias = tf.Variable(0.5)
    int_and_float = (tf.TensorSpec([], tf.int32), tf.TensorSpec([]))
    even = rg.SubGraph("even", inputs=int_and_float, outputs=int_and_float, engine=engine, max_depth=100)
    with rg.SubGraph("odd", inputs=int_and_float, outputs=tf.TensorSpec([]), engine=engine, max_depth=100) as odd:
        n, x = odd.input(tf.int32), odd.input(tf.float32)
        odd.output(tf.cond(n < 1, lambda: x, lambda: even(n - 1, x * 2.0)[1]))
    with even:
        n, x = even.input(tf.int32), even.input(tf.float32)
        even.output((n, tf.cond(n < 1, lambda: x + bias, lambda: odd(n - 1, x + bias))))
    x = tf.constant(1.5)
    number, result = even(7, x)
    return [number, result, *tf.gradients(result, [x, bias])]


def memoized(engine: str) -> list[tf.Tensor]:
    """A recursion that values decide, whose calls share their results; some are rows of a map."""
    scale, inputs = tf.Variable(0.5), (tf.TensorSpec([], tf.int32), tf.TensorSpec([2]))
    with rg.SubGraph("shared", inputs, tf.TensorSpec([2]), engine=engine, max_depth=100, memoize=True) as shared:
        n, x = shared.declared_arguments()

        def below() -> tf.Tensor:
            first = shared(n - 1, x)
            return tf.cond(first[0] > 0, lambda: first + shared(n - 2, x), lambda: first)

        shared.output(tf.cond(n < 2, lambda: x * scale, below))
    x = tf.constant([[0.5, -0.5], [1.0, 2.0], [1.0, 2.0]])
    result = shared.map(tf.constant([7, 8, 9]), x)
    return [result, *tf.gradients(result, [x, scale])]


MODELS: list[tuple[Callable[[str], list[tf.Tensor]], str]] = [
    (tree_lstm, "batched"),
    (any_arity, "parallel"),
    (mapped, "batched"),
    (branches, "auto"),
    (mutual, "batched"),
    (tree_lstm, "parallel"),
    (mapped, "parallel"),
    (memoized, "auto"),
]


class Model:
    """A graph as it is exported, and the names of its outputs."""

    def __init__(self, make: Callable[[str], list[tf.Tensor]], engine: str) -> None:
        with tf.Graph().as_default() as graph:
            outputs = [
                tf.identity(tf.convert_to_tensor(output), name=f"out{i}") for i, output in enumerate(make(engine))
            ]
            self.outputs = [output.name for output in outputs]
            self.graph: Graph = graph.as_graph_def()
            self.name = f"{make.__name__}, {engine}"


# What is done to them.


def calls(graph: Graph) -> list[Any]:
    """The nodes that are calls from outside."""
    return [node for node in graph.node if node.op in ("Recgraph>Invoke", "Recgraph>InvokeGradient")]


def number(dice: Random, near: int = 0) -> int:
    """A small one, one near by, or one at an end of a range."""
    edges = [-(2**63), 2**63 - 1, 2**31 - 1, -(2**31), 2**31, 2**20, 2**20 + 1, 255, 65536, -1]
    return dice.choice([dice.randrange(-2, 9), near + dice.choice([-1, 1]), near, dice.choice(edges)])


def change_attribute(dice: Random, node: Any, name: str) -> str:
    """Another value of the same or of another kind."""
    value = node.attr[name]
    kind = value.WhichOneof("value")
    if dice.random() < 0.05:
        del node.attr[name]
        return f"{node.name}: no {name}"
    if kind == "s":
        text = bytearray(value.s)
        if len(text) > 64 or dice.random() < 0.3:
            value.s = bytes(text[: dice.randrange(len(text) + 1)])
        else:
            value.s = dice.choice(
                [b"", b"parallel", b"batched", b"auto", b"dense", b"rows", b"outer", b"even", b"\xff"]
            )
    elif kind == "i" and name in COUNTS:
        value.i = dice.choice([-1, 0, 1, 2, 3, 40])
    elif kind == "i":
        value.i = number(dice, value.i)
    elif kind == "f":
        value.f = dice.choice([0.0, -1.0, float("nan"), float("inf"), 1e30])
    elif kind == "b":
        value.b = not value.b
    elif kind == "type":
        value.type = dice.choice([*DTYPES, tf.half]).as_datatype_enum if dice.random() < 0.9 else dice.choice([0, 101])
    elif kind == "shape":
        change_shape(dice, value.shape)
    elif kind == "func":
        value.func.name = dice.choice(["gone", value.func.name + "x", "tree_lstm", "f"])
    elif kind == "list":
        return f"{node.name}: {name}: {change_list(dice, value.list)}"
    elif kind == "tensor":
        change_tensor(dice, value.tensor)
    return f"{node.name}: {name} is {str(value)[:80]!r}"


def change_shape(dice: Random, shape: Any) -> None:
    """Another rank, other sizes."""
    shape.unknown_rank = dice.random() < 0.1
    del shape.dim[:]
    sizes = [0, 1, 2, 3, 7, -1, 2**20]
    for _ in range(0 if shape.unknown_rank else dice.choice([0, 1, 2, 3, 5])):
        shape.dim.add(size=dice.choice(sizes))


def change_tensor(dice: Random, tensor: Any) -> None:
    """A constant of other numbers, of the same dtype."""
    small = [[], [0], [1], [[1, 2]], [5, -3], [0] * 9]
    dtype = tf.as_dtype(tensor.dtype)
    if not (dtype.is_integer or dtype.is_floating):
        return
    tensor.CopyFrom(tf.make_tensor_proto(np.array(dice.choice([*small, 0, 1, -7]), dtype.as_numpy_dtype)))


def change_list(dice: Random, values: Any) -> str:
    """An entry less, more or other."""
    for field in ("s", "i", "b", "type", "shape"):
        entries = getattr(values, field)
        if not entries:
            continue
        at = dice.randrange(len(entries))
        if dice.random() < 0.3:
            del entries[at]
        elif dice.random() < 0.4:
            entries.append(entries[at]) if field != "shape" else entries.add()
        elif field == "i":
            entries[at] = number(dice, entries[at])
        elif field == "b":
            entries[at] = not entries[at]
        elif field == "s":
            entries[at] = dice.choice([b"dense", b"rows", b"outer", b"", b"other"])
        elif field == "type":
            entries[at] = dice.choice(DTYPES).as_datatype_enum
        else:
            change_shape(dice, entries[at])
        return f"{field}[{at}] of {len(entries)}"
    field = dice.choice(["i", "b", "type"])
    getattr(values, field).append(1)
    return f"a new {field}"


def mutate_attributes(dice: Random, graph: Graph) -> str:
    """One to three attributes of calls from outside."""
    told = []
    for _ in range(dice.randrange(1, 4)):
        node = dice.choice(calls(graph))
        told.append(change_attribute(dice, node, dice.choice(sorted(node.attr))))
    return "; ".join(told)


def with_library(dice: Random, graph: Graph, change: Callable[[Random, Any], str]) -> str:
    """Changes the library that calls carry, under its right key; sometimes of one of the calls only."""
    nodes = [node for node in calls(graph) if node.attr["program"].s]
    library = tf.compat.v1.GraphDef().library
    library.ParseFromString(nodes[0].attr["program"].s)
    told = change(dice, library)
    put_library(dice, nodes, library.SerializeToString(deterministic=True))
    return told


def put_library(dice: Random, nodes: list[Any], serialized: bytes) -> None:
    key = hashlib.sha256(serialized).hexdigest()[:32].encode()
    for node in nodes if dice.random() < 0.8 else [dice.choice(nodes)]:
        node.attr["program"].s = serialized
        node.attr["key"].s = key if dice.random() < 0.98 else b"0" * 32


def mutate_plan(dice: Random, library: Any) -> str:
    """One to three numbers or strings of the plan."""
    carrier = next((one for one in library.function if one.signature.name == "recgraph.plan"), None)
    if carrier is None:
        return mutate_functions(dice, library)
    code, strings = carrier.attr["code"].list.i, carrier.attr["strings"].list.s
    told = []
    for _ in range(dice.choice([1, 1, 1, 2, 3])):
        if dice.random() < 0.05:
            at = dice.randrange(len(strings))
            strings[at] = dice.choice([strings[dice.randrange(len(strings))], b"", b"gone"])
            told.append(f"string {at}")
            continue
        at = dice.randrange(len(code))
        code[at] = dice.choice([number(dice, code[at]), code[dice.randrange(len(code))]])
        told.append(f"number {at} is {code[at]}")
    return "plan: " + "; ".join(told)


def mutate_functions(dice: Random, library: Any) -> str:
    """One to three things about functions: nodes, their inputs and attributes, signatures, results."""
    return "functions: " + "; ".join(mutate_function(dice, library) for _ in range(dice.choice([1, 1, 2, 3])))


def mutate_function(dice: Random, library: Any) -> str:
    function = dice.choice([one for one in library.function if one.node_def] or list(library.function))
    what, name = dice.randrange(10), function.signature.name
    node = dice.choice(function.node_def) if function.node_def else None
    if node is None or what == 0:
        library.function.remove(function)
        return f"no {name}"
    if what == 1:
        other = dice.choice(library.function)
        del function.node_def[:]
        function.node_def.extend(other.node_def)
        return f"{name} has the nodes of {other.signature.name}"
    if what == 2:
        function.node_def.remove(node)
        return f"{name}: no {node.name}"
    if what == 3 and node.input:
        at = dice.randrange(len(node.input))
        source = dice.choice(function.node_def)
        references = [one for each in function.node_def for one in each.input] + [f"{source.name}:output:0"]
        node.input[at] = dice.choice(references)
        return f"{name}: {node.name} reads {node.input[at]}"
    if what == 4 and function.signature.input_arg:
        arguments = function.signature.input_arg
        dice.choice(arguments).type = dice.choice(DTYPES).as_datatype_enum
        if dice.random() < 0.5:
            del arguments[dice.randrange(len(arguments))]
        return f"{name}: other arguments"
    if what == 5 and function.signature.output_arg:
        results = function.signature.output_arg
        dice.choice(results).type = dice.choice(DTYPES).as_datatype_enum
        if dice.random() < 0.5:
            del function.ret[results.pop().name]
        return f"{name}: other results"
    if what == 6 and function.ret:
        result = dice.choice(sorted(function.ret))
        function.ret[result] = dice.choice([one for each in function.node_def for one in each.input] or ["arg0"])
        return f"{name}: {result} is {function.ret[result]}"
    ours = [one for one in function.node_def if one.op.startswith("Recgraph>")]
    if ours and dice.random() < 0.6:
        node = dice.choice(ours)
    if not node.attr:
        return f"{name}: nothing"
    return f"{name}: " + change_attribute(dice, node, dice.choice(sorted(node.attr)))


# What keeps the form that TensorFlow expects, so that it comes as far as the engines.


def nodes_of(library: Any, wanted: Callable[[Any], bool]) -> list[tuple[Any, Any]]:
    """Functions and those of their nodes that are wanted."""
    return [(function, node) for function in library.function for node in function.node_def if wanted(node)]


def at_limits(dice: Random, library: Any) -> str:
    """Numbers of a constant at their limits; its dtype and shape stay."""
    integers = (tf.int32.as_datatype_enum, tf.int64.as_datatype_enum)
    found = nodes_of(library, lambda node: node.op == "Const" and node.attr["value"].tensor.dtype in integers)
    function, node = dice.choice(found)
    value = np.array(tf.make_ndarray(node.attr["value"].tensor))
    numbers = value.reshape(-1)
    for at in range(numbers.size):
        if dice.random() < 0.5 or numbers.size == 1:
            low, high = np.iinfo(numbers.dtype).min, np.iinfo(numbers.dtype).max
            numbers[at] = min(max(number(dice, int(numbers[at])), low), high)
    node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(numbers.reshape(value.shape)))
    return f"{function.signature.name}: {node.name} is {numbers[:8].tolist()}"


INSERTED = {
    # the operation: its constant second input, and a further attribute that says the dtype of that
    "Identity": None, "Tanh": None, "Neg": None, "Shape": None, "Softmax": None,
    "Reshape": "Tshape", "ExpandDims": "Tdim", "Transpose": "Tperm", "Tile": "Tmultiples", "Sum": "Tidx",
}  # fmt: skip


def insert_nodes(dice: Random, library: Any) -> str:
    """One to five new nodes between a node and one of its inputs."""
    reads = nodes_of(library, lambda node: any(not name.startswith("^") for name in node.input))
    function, node = dice.choice(reads)
    at = dice.choice([i for i, name in enumerate(node.input) if not name.startswith("^")])
    last, told = node.input[at], []
    dtype = node.attr["T"].type if "T" in node.attr else tf.float32.as_datatype_enum
    for i in range(dice.choice([1, 1, 2, 5])):
        op = dice.choice(sorted(INSERTED))
        new = function.node_def.add(name=f"inserted{i}_{len(function.node_def)}", op=op)
        new.attr["T"].type = dtype
        new.input.append(last)
        if INSERTED[op] is not None:
            numbers = np.array([number(dice, 1) % 2**31 for _ in range(dice.choice([1, 2, 3]))], np.int32)
            constant = function.node_def.add(name=f"{new.name}_with", op="Const")
            constant.attr["dtype"].type = new.attr[INSERTED[op]].type = tf.int32.as_datatype_enum
            constant.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(numbers))
            new.input.append(f"{constant.name}:output:0")
        if op == "Shape":
            new.attr["out_type"].type = tf.int32.as_datatype_enum
        last = f"{new.name}:{ {'Tanh': 'y', 'Neg': 'y', 'Softmax': 'softmax', 'Transpose': 'y'}.get(op, 'output') }:0"
        told.append(op)
    node.input[at] = last
    return f"{function.signature.name}: {node.name} reads {told}"


def exchange(dice: Random, library: Any) -> str:
    """An attribute of two nodes of one operation, mostly of different functions."""
    function, node = dice.choice(nodes_of(library, lambda node: bool(node.attr)))
    other_function, other = dice.choice(nodes_of(library, lambda each: each.op == node.op))
    name = dice.choice(sorted(node.attr))
    mine = tf.compat.v1.AttrValue()
    mine.CopyFrom(node.attr[name])
    node.attr[name].CopyFrom(other.attr[name])
    other.attr[name].CopyFrom(mine)
    if node.op == "Const" and dice.random() < 0.5:
        for each in (node, other):
            each.attr["dtype"].type = each.attr["value"].tensor.dtype
    return f"{node.name} of {function.signature.name} and {other.name} of {other_function.signature.name}: {name}"


def call_itself(dice: Random, library: Any) -> str:
    """A plain call of a function in itself or in another one; sometimes all of its functions, in a chain."""
    function = dice.choice(library.function)
    callees = list(library.function) if dice.random() < 0.2 else [dice.choice([function, *library.function])]
    for i, callee in enumerate(callees):
        caller = function if len(callees) == 1 else library.function[i - 1]
        for _ in range(dice.choice([1, 2])):
            node = caller.node_def.add(name=f"again{len(caller.node_def)}", op="Recgraph>CallFunction")
            node.attr["f"].func.name = callee.signature.name
            node.attr["Tin"].list.type.extend(argument.type for argument in callee.signature.input_arg)
            node.attr["Tout"].list.type.extend(result.type for result in callee.signature.output_arg)
            arguments = [argument.name for argument in caller.signature.input_arg]
            node.input.extend(dice.choice(arguments or ["none"]) for _ in callee.signature.input_arg)
    return f"{function.signature.name} calls {[callee.signature.name for callee in callees][:3]}"


STRUCTURED: list[tuple[int, Callable[[Random, Any], str]]] = [
    (40, at_limits),
    (30, insert_nodes),
    (20, exchange),
    (10, call_itself),
]


def mutate_structure(dice: Random, library: Any) -> str:
    """One to three of these."""
    weights, changes = zip(*STRUCTURED, strict=True)
    count = dice.choice([1, 1, 2, 3])
    return "structure: " + "; ".join(change(dice, library) for change in dice.choices(changes, weights, k=count))


def mutate_captures(dice: Random, graph: Graph) -> str:
    """A call is given a captured tensor of another dtype, so that calls of one program differ."""
    node = dice.choice([each for each in calls(graph) if each.attr["Tcaptures"].list.type] or calls(graph))
    types = node.attr["Tcaptures"].list.type
    if not types:
        return mutate_attributes(dice, graph)
    at = dice.randrange(len(types))
    dtype = dice.choice([tf.bool, tf.float64, tf.int32, tf.int64, tf.half, tf.float32, tf.uint8])
    shape = dice.choice([[9, 4], [4, 12], [8, 20], [9], [2, 2], [], [1], [1000, 4]])
    name = f"captured{len(graph.node)}"
    constant = graph.node.add(name=name, op="Const")
    constant.attr["dtype"].type = types[at] = dtype.as_datatype_enum
    value = tf.make_tensor_proto(np.zeros(shape, dtype.as_numpy_dtype))
    constant.attr["value"].tensor.CopyFrom(value)
    inputs = [i for i, each in enumerate(node.input) if not each.startswith("^")]
    node.input[inputs[len(inputs) - len(types) + at]] = name
    reads = node.attr["reads"].list.b
    if at < len(reads):
        reads[at] = False
    return f"captures: {at} of {node.name} is {dtype.name} {shape}"


def mutate_bytes(dice: Random, graph: Graph) -> str:
    """Bits of the serialised program."""
    nodes = [node for node in calls(graph) if node.attr["program"].s]
    text = bytearray(nodes[0].attr["program"].s)
    places = []
    for _ in range(dice.choice([1, 1, 2, 5])):
        at = dice.randrange(len(text))
        text[at] = dice.choice([text[at] ^ (1 << dice.randrange(8)), dice.randrange(256), 0])
        places.append(at)
    if dice.random() < 0.1:
        del text[dice.randrange(len(text)) :]
    put_library(dice, nodes, bytes(text))
    return f"bytes {places} of {len(text)}"


def mutate_wiring(dice: Random, graph: Graph) -> str:
    """What calls are given: other tensors of the graph, less or more of them."""
    node = dice.choice(calls(graph))
    names = [other.name for other in graph.node if other.op != "NoOp" and other is not node]
    at = dice.randrange(len(node.input)) if node.input else 0
    if node.input and dice.random() < 0.2:
        del node.input[at]
    elif node.input:
        node.input[at] = dice.choice(names)
    for counted in ("Tin", "Tcaptures", "Tgrads", "Tprimals"):
        if counted in node.attr and dice.random() < 0.2:
            change_list(dice, node.attr[counted].list)
    return f"{node.name} reads {list(node.input)}"


MUTATIONS: list[tuple[int, Callable[[Random, Graph], str]]] = [
    (25, mutate_attributes),
    (35, lambda dice, graph: with_library(dice, graph, mutate_plan)),
    (25, lambda dice, graph: with_library(dice, graph, mutate_functions)),
    (40, lambda dice, graph: with_library(dice, graph, mutate_structure)),
    (10, mutate_captures),
    (8, mutate_bytes),
    (7, mutate_wiring),
]


# Raw calls of every operation of ours.


def own_operations() -> list[str]:
    """The names of all operations that the libraries register."""
    made = [name for name in dir(native.ops()) if name.startswith("recgraph_")]
    names = ["Recgraph>" + "".join(word.title() for word in name.split("_")[1:]) for name in made]
    known = {name for name in names if is_registered(name)}
    coexec = "InputFeeding CaseSelect LoopCond Keep Recall OutputFetching ChooseInput Shadow Watch Commit CheckRows"
    return sorted(known | {f"Recgraph>{name}" for name in coexec.split() if is_registered(f"Recgraph>{name}")})


def is_registered(name: str) -> bool:
    """Whether TensorFlow knows the operation."""
    with tf.Graph().as_default() as graph:
        try:
            graph.op_def_for_type(name)
        except (AttributeError, KeyError, RuntimeError, ValueError, tf.errors.NotFoundError):
            return False
    return True


def raw_inputs(dice: Random, models: list[Model]) -> dict[tf.DType, list[tf.Tensor]]:
    """Tensors of all dtypes in the current graph: numbers, handles, frames of models, and forged ones."""
    pool: dict[tf.DType, list[tf.Tensor]] = {dtype: [] for dtype in DTYPES}
    for value in (0, 1, [], [1, 2], [[1, 2], [3, 4]], [[]], 7, -1):
        for dtype in (tf.float32, tf.int32, tf.int64, tf.float64, tf.bool):
            pool[dtype].append(tf.constant(np.array(value).astype(dtype.as_numpy_dtype)))
    for text in ("", "fifo", "x", ["a", "b"], [], dice.choice(models).name):
        pool[tf.string].append(tf.constant(text, tf.string))
    for value in (1.0, [1.0, 2.0]):
        pool[tf.resource].append(tf.compat.v1.Variable(value, use_resource=True).handle)
    pool[tf.resource].append(tf.raw_ops.VarHandleOp(dtype=tf.int32, shape=[2], shared_name="not there"))
    pool[tf.resource].append(tf.raw_ops.HashTableV2(key_dtype=tf.string, value_dtype=tf.int64))
    pool[tf.resource].append(tf.stack([pool[tf.resource][0]] * 2))
    numbers = [tf.constant(1.0), tf.constant([1, 2])]
    empty, full = native.ops().recgraph_pack_frame([]), native.ops().recgraph_pack_frame(numbers)
    pool[tf.variant] += [empty, full, native.ops().recgraph_pack_frame([full, numbers[0]])]
    pool[tf.variant].append(tf.raw_ops.EmptyTensorList(element_shape=-1, max_num_elements=1, element_dtype=tf.float32))
    pool[tf.variant] += [tf.stack([full, empty]), tf.zeros_like(full)]
    model = dice.choice(models)
    recorded = [node.name + ":0" for node in model.graph.node if node.op == "Recgraph>Invoke"]
    outputs = tf.import_graph_def(model.graph, return_elements=recorded, name="model")
    for output in outputs:
        pool[tf.variant].append(output.op.outputs[-1])
    pool[tf.complex64].append(tf.constant(1j, tf.complex64))
    return pool


def raw_call(dice: Random, models: list[Model], names: list[str]) -> tuple[list[Any], str]:
    """One operation of ours in the current graph: inputs and attributes have its types, and no sense."""
    pool = raw_inputs(dice, models)
    name = dice.choice(names)
    op_def = tf.compat.v1.get_default_graph().op_def_for_type(name)
    donors = [node for model in models for node in calls(model.graph) if node.op == name]
    donor = dice.choice(donors) if donors and dice.random() < 0.9 else None
    attributes: dict[str, Any] = {}
    inputs = []
    if donor is not None:
        attributes = {key: value for key, value in donor.attr.items() if not key.startswith("_")}
    typed = {arg.type_attr or arg.type_list_attr or arg.number_attr for arg in [*op_def.input_arg, *op_def.output_arg]}
    for attr in op_def.attr:
        if attr.name not in attributes or (attr.name in typed and dice.random() < 0.15):
            attributes[attr.name] = raw_attribute(dice, attr)
    for arg in op_def.input_arg:
        if arg.type_list_attr:
            types = [tf.as_dtype(t) for t in attributes[arg.type_list_attr].list.type]
            inputs += [dice.choice(pool.get(dtype) or pool[tf.float32]) for dtype in types]
            continue
        dtype = tf.as_dtype(arg.type or attributes[arg.type_attr].type)
        count = attributes[arg.number_attr].i if arg.number_attr else 1
        inputs += [dice.choice(pool.get(dtype) or pool[tf.float32]) for _ in range(max(0, min(count, 4)))]
    node = tf.compat.v1.NodeDef(name="raw", op=name)
    for key, value in attributes.items():
        node.attr[key].CopyFrom(value)
    told = [change_attribute(dice, node, dice.choice(sorted(node.attr)))] if node.attr and dice.random() < 0.4 else []
    graph = tf.compat.v1.GraphDef()
    graph.node.append(node)
    mapping = {}
    for i, tensor in enumerate(inputs):
        graph.node.add(name=f"input{i}", op="Placeholder").attr["dtype"].type = tensor.dtype.as_datatype_enum
        node.input.append(f"input{i}")
        graph.node[0].input.append(f"input{i}")
        mapping[f"input{i}"] = tensor
    (op,) = tf.import_graph_def(graph, input_map=mapping, return_elements=["raw"], name="")
    fetched = [output for output in op.outputs if output.dtype not in (tf.resource, tf.variant)]
    return [op, *fetched], f"raw {name} of {[tensor.name for tensor in inputs]} {told}"


def raw_attribute(dice: Random, attr: Any) -> Any:
    """A value of the right kind."""
    value = tf.compat.v1.AttrValue()
    if attr.type == "int" and attr.name in COUNTS:
        value.i = dice.choice([0, 1, 2, 3])
    elif attr.type == "int":
        value.i = dice.choice([0, 1, 2, 3, -1, 2**31 - 1])
    elif attr.type == "float":
        value.f = dice.choice([0.0, 0.1, float("nan")])
    elif attr.type == "bool":
        value.b = dice.random() < 0.5
    elif attr.type == "string":
        allowed = list(attr.allowed_values.list.s)
        value.s = dice.choice(allowed or [b"", b"x", b"tree_lstm"])
    elif attr.type == "type":
        allowed = list(attr.allowed_values.list.type)
        value.type = dice.choice(allowed or [dtype.as_datatype_enum for dtype in DTYPES])
    elif attr.type == "shape":
        change_shape(dice, value.shape)
    elif attr.type == "func":
        value.func.name = "gone"
    else:
        value.list.SetInParent()
        count = dice.choice([0, 1, 1, 2, 3])
        if attr.type == "list(type)":
            value.list.type.extend(dice.choice(DTYPES).as_datatype_enum for _ in range(count))
        elif attr.type == "list(int)":
            value.list.i.extend(number(dice) for _ in range(count))
        elif attr.type == "list(bool)":
            value.list.b.extend(dice.random() < 0.5 for _ in range(count))
        elif attr.type == "list(string)":
            value.list.s.extend(dice.choice([b"dense", b"rows", b"outer"]) for _ in range(count))
        elif attr.type == "list(shape)":
            for _ in range(count):
                change_shape(dice, value.list.shape.add())
    return value


# Running them.


def run(fetches: list[Any], graph: tf.Graph) -> str:
    """Runs in a session and says how it ended; cancels what goes on for too long."""
    options = tf.compat.v1.RunOptions(timeout_in_ms=PATIENCE_MS)
    config = tf.compat.v1.ConfigProto(inter_op_parallelism_threads=2, intra_op_parallelism_threads=2)
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    with tf.compat.v1.Session(graph=graph, config=config) as session:
        for op in graph.get_operations():
            if op.type == "AssignVariableOp":
                session.run(op, options=options)
        session.run(fetches, options=options)
    return "it runs"


def mutant(seed: int, models: list[Model], names: list[str]) -> str:
    """Makes a mutant and runs it. Returns what it was and how it ended."""
    dice = Random(seed)
    told = ""
    try:
        with tf.Graph().as_default() as graph:
            if dice.random() < 0.25:
                fetches, told = raw_call(dice, models, names)
                for op in graph.get_operations():
                    if op.type == "NoOp" and op.name.endswith("init"):
                        fetches = [op, *fetches]
            else:
                model = dice.choice(models)
                changed = tf.compat.v1.GraphDef()
                changed.CopyFrom(model.graph)
                weights, mutations = zip(*MUTATIONS, strict=True)
                told = f"{model.name}: {dice.choices(mutations, weights)[0](dice, changed)}"
                fetches = tf.import_graph_def(changed, return_elements=model.outputs, name="")
            return f"{told}: {run(fetches, graph)}"
    except Exception as why:  # how it fails does not matter here
        return f"{told}: {type(why).__name__}: {str(why)[:300]}"


def settled(patience: float = 20.0) -> bool:
    """Whether all that was cancelled has ended."""
    end = time.monotonic() + patience
    while native.ops().recgraph_counters()[1].numpy() > 0:
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def main(first: int, count: int, log: str, limit_gb: float) -> None:
    """Runs mutants one by one."""
    if limit_gb > 0:
        limit = int(limit_gb * 2**30)
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    models = [Model(make, engine) for make, engine in MODELS]
    names = own_operations()
    assert len(names) > 15, names
    for model in models:
        with tf.Graph().as_default() as graph:
            assert run(tf.import_graph_def(model.graph, return_elements=model.outputs, name=""), graph) == "it runs"
    with open(log, "a", encoding="utf-8") as file:
        for seed in range(first, first + count):
            print(seed, end=" ", file=file, flush=True)
            told = mutant(seed, models, names)
            told += "" if settled() else " AND DOES NOT END"
            print(" ".join(told.splitlines()), file=file, flush=True)  # names may hold any of the ends of lines


if __name__ == "__main__":
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], float(sys.argv[4]) if len(sys.argv) > 4 else 0.0)
