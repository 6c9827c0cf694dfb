"""What outlives a call and holds on to tensors, what a library reads that a program sets, and what changes outside."""

from __future__ import annotations

import collections
import functools
import operator
import tempfile
import types
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

from tests.speculate.corpus import program
from tests.speculate.corpus.basics import tensor
from tests.speculate.corpus.control import with_scalar
from tests.speculate.corpus.keras_programs import _Values


@program(eager="tapes", feature="TAPE", line="return before.gradient(value, variable)")
def a_tape_that_the_next_call_uses() -> Any:
    variable, kept = tf.Variable(2.0), []

    def step(i: int) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.sin(variable * float(i))
        kept.append((tape, loss))
        if len(kept) > 1:
            before, value = kept.pop(0)
            return before.gradient(value, variable)
        return loss

    return step, lambda i: (i,), variable


@program(eager="tapes", feature="TAPE", line='state["tape"].__enter__()')
def a_tape_that_stays_open_for_three_calls() -> Any:
    variable, state = tf.Variable(2.0), {}

    def step(i: int) -> Any:
        if i % 3 == 0:
            state["tape"] = tf.GradientTape(persistent=True)
            state["tape"].__enter__()
            state["y"] = variable * 1.0
        state["y"] = state["y"] * variable
        if i % 3 == 2:
            state["tape"].__exit__(None, None, None)
            return state["tape"].gradient(state["y"], variable)
        return state["y"]

    return step, lambda i: (i,), variable


class _TapeOf:
    """Compared as what can be asked of the tape that an object keeps: its variables, and whether it is spent."""

    def __init__(self, kept: Any) -> None:
        self._kept = kept

    @property
    def __dict__(self) -> Any:  # type: ignore[override]
        tape = self._kept.tape
        try:
            said = str(tape.gradient(tf.constant(1.0), []))
        except RuntimeError as error:
            said = str(error)
        watched = tape.watched_variables()
        with tape:  # begins anew
            y = tf.square(watched[-1]) if watched else tf.constant(1.0)
        again = tape.gradient(y, list(watched))
        return {
            "type": type(tape),
            "variables": [variable.name for variable in watched],
            "said": said,
            "again": [None if gradient is None else gradient.numpy() for gradient in again],
        }


@program
def a_spent_tape_that_is_kept() -> Any:
    kept = types.SimpleNamespace(tape=None)
    variables = [tf.Variable(2.0, name="first"), tf.Variable([1.0, 2.0], name="second")]

    def step(x: tf.Tensor) -> Any:
        with tf.GradientTape() as kept.tape:
            loss = tf.reduce_sum(x) * variables[0] + tf.reduce_sum(variables[1] ** 2)
        gradients = kept.tape.gradient(loss, variables)
        variables[0].assign_sub(0.01 * gradients[0])
        return gradients

    return step, lambda i: (tensor(i),), [*variables, _TapeOf(kept)]


@program(graphs=2)
def a_kept_tape_of_a_loss_with_two_ways() -> Any:
    """It has watched the variable of one way, so each has a graph of its own."""
    kept = types.SimpleNamespace(tape=None)
    variables = [tf.Variable(2.0, name="first"), tf.Variable(3.0, name="second")]

    def step(x: tf.Tensor, s: tf.Tensor) -> Any:
        with tf.GradientTape() as kept.tape:
            loss = tf.reduce_sum(x) * (variables[0] if s > 1.5 else variables[1])
        return kept.tape.gradient(loss, variables, unconnected_gradients="zero")

    return step, with_scalar, [*variables, _TapeOf(kept)]


@program(eager="tapes", feature="ESCAPE")
def a_persistent_tape_that_is_kept() -> Any:
    kept, variable = [], tf.Variable(2.0)

    def step(x: tf.Tensor) -> Any:
        with tf.GradientTape(persistent=True) as tape:
            loss = tf.reduce_sum(x) * variable
        kept[:] = [tape, loss]
        return tape.gradient(loss, variable)

    return step, lambda i: (tensor(i),), variable


@program(eager="arrays", feature="IN_GRAPH", line="kept[0] = kept[0].write(i, variable * float(i))")
def an_array_that_grows_from_call_to_call() -> Any:
    variable = tf.Variable(1.0)
    kept = [tf.TensorArray(tf.float32, size=0, dynamic_size=True, clear_after_read=False)]

    def step(i: int) -> Any:
        kept[0] = kept[0].write(i, variable * float(i))
        return tf.reduce_sum(kept[0].stack())

    return step, lambda i: (i,), variable


@program(eager="the library reads them", feature="FRAMEWORK", line="optimizer.momentum = [0.5, 0.0, 0.9][i // 4 % 3]")
def hyperparameters_set_before_the_update() -> Any:
    variables = [tf.Variable([1.0, 2.0])]
    optimizer = keras.optimizers.SGD(0.1, momentum=0.5)
    optimizer.build(variables)

    def step(i: int) -> Any:
        optimizer.momentum = [0.5, 0.0, 0.9][i // 4 % 3]
        optimizer.nesterov = bool(i // 4 % 2)
        optimizer.apply([tf.ones([2]) * 0.3], variables)
        return variables[0] + 0.0

    return step, lambda i: (i,), [*variables, _Values(optimizer)]


@program
def a_write_that_gives_none() -> Any:
    variable = tf.Variable([1.0, 2.0])

    def step(x: tf.Tensor) -> Any:
        return variable.assign_add(x[0, :2], read_value=False) is None, variable + 1.0

    return step, lambda i: (tensor(i),), variable


@program
def slices_made_of_lists() -> Any:
    variable = tf.Variable(tf.zeros([5]))

    def step(i: int) -> Any:
        return variable.scatter_update(tf.IndexedSlices([float(i), 2.0], [0, 1])) + 0.0

    return step, lambda i: (i,), variable


@program(eager="files", feature="FOREIGN_FUNCTION", line='path.write_text(str(i), encoding="utf-8")')
def a_file_that_is_written_between_reads() -> Any:
    path = Path(tempfile.mkdtemp()) / "text"

    def step(i: int) -> Any:
        path.write_text(str(i), encoding="utf-8")
        read = tf.io.read_file(str(path))
        path.write_text("later", encoding="utf-8")
        return read + "!"

    return step, lambda i: (i,), None


@program(
    eager="a new tf.function", feature="FRAMEWORK", line="variable.assign_sub(tf.function(lambda x: x * 0.5)(variable))"
)
def a_function_that_is_made_and_dropped() -> Any:
    variable = tf.Variable(1.0)

    def step(i: int) -> Any:
        variable.assign_add(1.0)
        if i % 5 == 3:
            variable.assign_sub(tf.function(lambda x: x * 0.5)(variable))
        return variable * 2.0

    return step, lambda i: (i,), variable


@program
def a_partial_that_is_called() -> Any:
    variable = tf.Variable(1.0)
    bump = functools.partial(lambda by, x: variable.assign_add(by) * x, 0.5)

    def step(x: tf.Tensor) -> Any:
        return bump(x)

    return step, lambda i: (tensor(i),), variable


class _Pair:
    """An object with a method."""

    def __init__(self, left: Any, right: Any) -> None:
        self.left, self.right = left, right

    def both(self, *others: Any) -> Any:
        """All of it."""
        return [self.left, self.right, *others]


@program
def what_refers_to_containers_of_the_call() -> Any:
    """Views, methods and partial functions are of the very containers that leave the call with them."""
    kept, seen = dict[str, Any](), list[Any]()

    def step(x: tf.Tensor) -> Any:
        table, members = {"k": x * 2.0, "l": 1}, [x * 3.0, x]
        ordered = collections.OrderedDict(m=x)
        kept["table"], kept["members"], kept["ordered"] = table, members, ordered
        kept["views"] = [table.keys(), table.values(), table.items(), ordered.items()]
        kept["append"], kept["length"] = members.append, functools.partial(len, members)
        return members.copy, table.__getitem__, functools.partial(tf.add, x * 2.0, y=x)

    def arguments(i: int) -> tuple[tf.Tensor]:
        if kept:
            kept["table"]["more"] = kept["ordered"]["more"] = tensor(i)
            kept["append"](tensor(i))
            seen.append([kept["length"](), *map(len, kept["views"])])
        return (tensor(i),)

    return step, arguments, [kept, seen]


@program
def what_refers_to_objects_of_the_call() -> Any:
    kept, seen = list[Any](), list[Any]()

    def step(x: tf.Tensor) -> Any:
        pair = _Pair(x * 2.0, [x])
        kept[:] = [pair, pair.both, functools.partial(pair.both, x * 4.0)]
        return pair.both, operator.methodcaller("both", x + 1.0), operator.itemgetter(0)

    def arguments(i: int) -> tuple[tf.Tensor]:
        if kept:
            kept[0].right.append(i)
            kept[0].left = float(i)
            seen.append([method() for method in kept[1:]])
        return (tensor(i),)

    return step, arguments, [kept, seen]


@program
def a_view_of_a_dict_that_was_there() -> Any:
    kept, table = dict[str, Any](), {"k": tensor(0)}

    def step(x: tf.Tensor) -> Any:
        table["k"] = x * 2.0
        kept["values"] = table.values()
        return table.items()

    def arguments(i: int) -> tuple[tf.Tensor]:
        table["more"] = tensor(i)
        return (tensor(i),)

    return step, arguments, [kept, table]


@program(eager="a library's object holds tensors", feature="ESCAPE")
def an_object_of_a_library_that_holds_tensors() -> Any:
    kept = list[Any]()

    def step(x: tf.Tensor) -> Any:
        kept[:] = [tf.linalg.LinearOperatorDiag(x[0] * 2.0)]
        return x * 2.0

    return step, lambda i: (tensor(i),), None


@program(eager="it serves once", feature="ESCAPE")
def what_serves_once_is_kept() -> Any:
    kept = list[Any]()

    def step(x: tf.Tensor) -> Any:
        kept[:] = [tf.device("cpu:0")]
        return x * 2.0

    def arguments(i: int) -> tuple[tf.Tensor]:
        for manager in kept:
            with manager:
                tensor(i)
        return (tensor(i),)

    return step, arguments, None


@program(eager="a list in itself", feature="ESCAPE")
def a_list_that_leads_to_itself() -> Any:
    kept = list[Any]()

    def step(x: tf.Tensor) -> Any:
        members = [x * 2.0]
        members.append(members.append)
        kept[:] = [members]
        return members[0]

    return step, lambda i: (tensor(i),), None
