"""The table of facts about operations against TensorFlow's registry, and what holds of what nobody has described."""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any

import pytest
import tensorflow as tf

from recgraph import native, ops, tf_private
from recgraph.ops.facts import UNKNOWN, Facts
from recgraph.ops.table import DESCRIBED, LEFT_OUT

native.ops()  # so that the registry has this library's own operations
REGISTRY = tf_private.registered_operations()
UNDESCRIBED = {name for names in LEFT_OUT.values() for name in names.split()}
RESOURCE = tf.resource.as_datatype_enum


def disagreements(name: str, facts: Facts) -> list[str]:
    """What TensorFlow's registration says otherwise than a row."""
    definition = REGISTRY.get(name)
    if definition is None:
        return [f"{name} does not exist"]
    attributes = {attribute.name: attribute.type for attribute in definition.attr}
    arguments = [argument.name for argument in definition.input_arg]
    resources = tuple(i for i, argument in enumerate(definition.input_arg) if argument.type == RESOURCE)
    makes = any(argument.type == RESOURCE for argument in definition.output_arg)
    functions = {key for key, kind in attributes.items() if kind in ("func", "list(func)")}
    checks = {
        "is stateful or not": facts.counts_as_stateful == definition.is_stateful,
        f"has the resources {resources}": facts.resources == resources,
        "says what its resources are": (facts.resource is ops.Resource.NONE) != bool(resources or makes),
        "reads or writes resources": bool(resources) or not (facts.only_reads or facts.writes),
        "has seeds": facts.state is not ops.State.RANDOM or {"seed", "seed2"} <= attributes.keys(),
        "has functions": facts.state is ops.State.OURS or (facts.calls is ops.Calls.NONE) == (not functions),
        "has indices of rows": facts.rows is None or arguments[facts.rows] == "indices",
        "has the inputs that say its size": all(i < len(arguments) for i in facts.sized_by),
        "has one input": facts.form is not ops.Form.SAME or len(arguments) == 1,
        "has two inputs": facts.form is not ops.Form.BROADCASTS or len(arguments) == 2,
        "takes no references": not any(argument.is_ref for argument in definition.input_arg),
    }
    return [f"{name}: {what}" for what, holds in checks.items() if not holds]


def undescribed(known: set[str]) -> list[str]:
    """The stateful operations that the CPU can run, and that are not among those known."""
    stateful = {name for name, definition in REGISTRY.items() if definition.is_stateful}
    return sorted((stateful & tf_private.operations_with_kernels()) - known)


def test_rows_agree_with_the_registry() -> None:
    """Whether an operation exists, is stateful, and which of its inputs are resources, TensorFlow knows."""
    assert [line for name, facts in DESCRIBED.items() for line in disagreements(name, facts)] == []


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("Abs", {"state": ops.State.SILENT}),
        ("ReadVariableOp", {"resources": ()}),
        ("ResourceApplyAdam", {"resources": (0, 1)}),
        ("ResourceScatterAdd", {"rows": 2}),
        ("While", {"calls": ops.Calls.NONE}),
        ("NonDeterministicInts", {"state": ops.State.RANDOM}),
        ("Neg", {"form": ops.Form.BROADCASTS}),
        ("HashTableV2", {"resource": ops.Resource.NONE}),
        ("NoSuchOperation", {}),
    ],
)
def test_a_wrong_row_is_found(name: str, change: dict[str, Any]) -> None:
    """The comparison above would otherwise be worth nothing."""
    row = dataclasses.replace(DESCRIBED.get(name, Facts()), **change)
    assert disagreements(name, row) != []


def test_every_stateful_operation_is_described_or_left_out() -> None:
    """A new one belongs into `recgraph/ops/table.py`, or is left out there with a reason."""
    assert undescribed(DESCRIBED.keys() | UNDESCRIBED) == []


def test_an_operation_that_is_not_there_is_reported() -> None:
    """By its name."""
    assert undescribed(DESCRIBED.keys() - {"ResourceApplyAdaMax"} | UNDESCRIBED) == ["ResourceApplyAdaMax"]


def test_what_is_left_out_is_stateful_exists_and_is_not_described() -> None:
    """A name that was described, or that TensorFlow no longer has, has to go from the listing."""
    assert [name for name in sorted(UNDESCRIBED) if name in DESCRIBED or not REGISTRY[name].is_stateful] == []


@pytest.mark.parametrize("name", [*sorted(UNDESCRIBED), "Assign", "QueueEnqueue", "NoSuchOperation"])
def test_what_nobody_has_described_may_do_anything(name: str) -> None:
    """Also operations on references, which TensorFlow does not register as stateful, and what is not registered."""
    facts = ops.facts(name)
    assert facts is UNKNOWN
    assert not facts.is_invisible
    assert not facts.does_the_same_again
    assert facts.fails is ops.Fails.VALUES
    assert facts.waits
    assert not ops.fails_only_in_shape(name, is_integer=False)


def test_functions_of_their_inputs_need_no_row() -> None:
    """They may fail; TensorFlow says that they do nothing else."""
    assert "Where" not in DESCRIBED
    assert ops.facts("Where") == Facts()
    assert not ops.fails_only_in_shape("Where", is_integer=False)


# Those of this library's own operations are attributes.
TENSORFLOWS = {name: row for name, row in DESCRIBED.items() if not name.startswith("Recgraph>")}
UPDATES = sorted(name for name, row in TENSORFLOWS.items() if row.fails is ops.Fails.UPDATES)


@pytest.mark.parametrize("name", UPDATES)
@pytest.mark.parametrize("rate", [-1.0, 0.0, float("nan"), float("inf")])
def test_updates_take_any_rate(name: str, rate: float) -> None:
    """What is said to fail by shapes only succeeds whatever the numbers are."""
    _run_update(name, rate)


@pytest.mark.parametrize("name", sorted(n for n, row in TENSORFLOWS.items() if row.fails is ops.Fails.ROWS))
@pytest.mark.parametrize("rate", [-1.0, 0.0, float("nan"), float("inf")])
def test_writes_of_rows_take_any_numbers_where_the_rows_are_there(name: str, rate: float) -> None:
    """And fail where one is not."""
    _run_update(name, rate)
    with pytest.raises(tf.errors.InvalidArgumentError, match="out of range|not in"):
        _run_update(name, rate, row=7)


@pytest.mark.parametrize(
    "name", ["ResourceApplyProximalAdagrad", "ResourceSparseApplyFtrl", "ResourceSparseApplyFtrlV2"]
)
def test_some_updates_refuse_a_rate(name: str) -> None:
    """So that they may fail on values."""
    assert ops.facts(name).fails is ops.Fails.VALUES
    with pytest.raises(tf.errors.InvalidArgumentError, match="lr"):
        _run_update(name, -1.0)


def _run_update(name: str, rate: float, row: int = 2) -> None:
    """Applies an update to variables of three rows of ones; all its scalars are `rate`."""
    variables, given = [], {}
    dense = {"grad", "delta", "updates"}
    for argument in REGISTRY[name].input_arg:
        if argument.type == RESOURCE:
            variables.append(tf.Variable(tf.ones([3, 2])))
            given[argument.name] = variables[-1].handle
        elif argument.name == "indices":
            given["indices"] = tf.constant([0, row])
        elif argument.name in dense:
            given[argument.name] = tf.ones([2 if ops.facts(name).rows is not None else 3, 2])
        elif argument.type == tf.int64.as_datatype_enum:
            given[argument.name] = tf.constant(1, tf.int64)
        else:
            given[argument.name] = tf.constant(rate)
    getattr(tf.raw_ops, name)(**given)


@pytest.mark.parametrize(
    "name", sorted(n for n, row in DESCRIBED.items() if row.form is ops.Form.MEASURES and not row.resources)
)
def test_a_measure_depends_on_shapes_alone(name: str) -> None:
    """Values make no difference."""
    function = getattr(tf.raw_ops, name)
    inputs = [tf.zeros([2, 3]), tf.ones([2, 3])]
    given = next(iter(inspect.signature(function).parameters))
    first, second = (function(**{given: [one] if name == "ShapeN" else one}) for one in inputs)
    assert tf.nest.map_structure(lambda one: one.numpy().tolist(), first) == tf.nest.map_structure(
        lambda one: one.numpy().tolist(), second
    )
