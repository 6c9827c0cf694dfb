"""Programs that were damaged, or made to do harm: what is said; and that errors of calls in bodies are not lost.

`tests/core/test_hostile_models.py` damages them at random.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import pytest
import tensorflow as tf

import recgraph as rg
from recgraph import native, tf_private
from recgraph.core import program as programs
from recgraph.errors import GradientError
from tests.core.damaging import FLOAT, Library, call, changed, linked, make, refusal


def test_an_undamaged_program_runs() -> None:
    """Otherwise the other tests would show nothing."""
    assert float(call(linked(make())).results[0]) == 8.0


def test_two_programs_with_one_key() -> None:
    """The second is refused and does not run the first, in either form of a call."""
    first, second = linked(make()), linked(make("other"))
    call(first)
    text = refusal(lambda: call(second, key=first.key), tf.errors.DataLossError)
    assert "not the one that its key is for" in text
    assert first.key in text
    assert second.key in text
    with tf_private.eagerly():
        text = refusal(lambda: native.ops().recgraph_register_program(first.key, second.library))
    assert "not the one that its key is for" in text
    text = refusal(lambda: programs.revive("f", first.key, second.library), GradientError)
    assert "the program of SubGraph 'f' is damaged: its key is" in text


def test_what_cannot_be_read_says_so() -> None:
    """Its own text, not that something below has failed."""
    f = linked(make())
    text = refusal(lambda: call(f, b"\xff\xff\xff"), tf.errors.DataLossError)
    assert "the program of this SubGraph cannot be read (3 bytes)" in text
    key = hashlib.sha256(b"\xff").hexdigest()[:32]
    assert "is damaged: " in refusal(lambda: programs.revive("f", key, b"\xff"), GradientError)
    text = refusal(lambda: call(f, b"", key="unknown"), tf.errors.FailedPreconditionError)
    assert "not known to this process (key unknown)" in text


def plan_of(library: Library) -> Any:
    """The numbers of the plan."""
    return next(one for one in library.function if one.signature.name == "recgraph.plan").attr["code"].list.i


def set_number(index: int, value: int) -> Callable[[Library], None]:
    """A change of one number of the plan."""

    def change(library: Library) -> None:
        plan_of(library)[index] = value

    return change


def without_code(library: Library) -> None:
    """The plan's carrier without its plan."""
    next(one for one in library.function if one.signature.name == "recgraph.plan").attr.pop("code")


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (set_number(0, 2), "the program of this SubGraph holds a plan of another version of recgraph"),
        (set_number(1, 10**6), "holds a damaged plan: number 1 of"),
        (without_code, "holds a damaged plan: it has no code"),
    ],
)
def test_a_damaged_plan_says_so(change: Callable[[Library], None], text: str) -> None:
    """In the call from outside, by either engine."""
    f = linked(make())
    for engine in ("batched", "parallel"):
        assert text in refusal(
            lambda engine=engine: call(f, changed(f, change), engine=engine), tf.errors.DataLossError
        )


@pytest.mark.parametrize("count", [-1, 2**31 - 1])
def test_an_operation_of_more_tensors_than_there_can_be(count: int) -> None:
    """TensorFlow would take memory for them before it looks, in a kernel of its own, and end the process."""
    with rg.SubGraph("sums", outputs=FLOAT, engine="parallel") as sums:
        n, x = sums.input(tf.int32), sums.input(tf.float32)
        sums.output(tf.cond(n < 1, lambda: x, lambda: tf.raw_ops.AddN(inputs=[x, x * 2.0, tf.sin(x)])))

    def change(library: Library) -> None:
        nodes = [node for function in library.function for node in function.node_def if node.op == "AddN"]
        assert nodes
        for node in nodes:
            node.attr["N"].i = count

    program = linked(sums)
    text = refusal(lambda: call(program, changed(program, change)), tf.errors.DataLossError)
    assert f"has {count} tensors" in text


def test_a_function_that_is_missing_below() -> None:
    """The error of a call in a body reaches the call from outside, with its path."""

    def rename(library: Library) -> None:
        for function in library.function:
            for node in function.node_def:
                if node.op == "Recgraph>Invoke":
                    node.attr["entry"].s = b"gone"

    f = linked(make(engine="parallel"))
    text = refusal(lambda: call(f, changed(f, rename)), tf.errors.NotFoundError)
    assert "the program of this SubGraph has no function gone" in text
    assert "call path: n, 2 levels" in text


@pytest.mark.parametrize("engine", ["parallel", "batched"])
def test_a_map_in_a_body_over_arguments_that_do_not_fit(engine: str) -> None:
    """It says which shapes, and not that something was cancelled."""
    pair = make("pair", engine)
    with rg.SubGraph("outer", outputs=tf.TensorSpec([None]), engine=engine) as outer:
        n, x = outer.input(tf.int32, [None]), outer.input(tf.float32, [None])
        outer.output(pair.map(n, x))
    text = refusal(lambda: outer(tf.constant([1, 2]), tf.constant([1.0])), tf.errors.InvalidArgumentError)
    assert "map: the arguments must have the same first dimension, found" in text
    assert "call path: outer" in text


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"reads": []}, "'reads' tells of 0 captured tensors, there are 2"),
        ({"output_shapes": [[], []]}, "'output_shapes' has 2 shapes for 1"),
        ({"captures": [], "reads": []}, "slot 1|captures 2 tensors"),
        ({"Tout": [tf.int32]}, "output 0 is float, not int32"),
        ({"Tout": [tf.float32] * 2, "output_shapes": [[]] * 2}, "output 1 is INVALID|has 1 results, not 2"),
        ({"args": [tf.constant(3)]}, "no argument 1|1 arguments, not 2"),
        ({"args": [tf.constant(3), tf.constant("x")]}, "string expects? float|string|Type mismatch"),
        ({"captures": [tf.constant(1.0)] * 2}, "a scalar of type resource was expected, found float"),
    ],
)
@pytest.mark.parametrize("engine", ["parallel", "batched"])
def test_attributes_that_do_not_fit(engine: str, options: dict[str, Any], text: str) -> None:
    """Each is refused, in a graph and eagerly."""
    f = linked(make(engine=engine))
    kinds = (tf.errors.OpError, ValueError)
    for run in (lambda: call(f, **options), lambda: tf.function(lambda: call(f, **options))()):
        with pytest.raises(kinds, match=text):
            run()


@pytest.mark.parametrize(
    "sums",
    [
        ["sums_shapes", [[]] * 4],
        ["slots", [0, 1]],
        ["kinds", ["dense"] * 2],
        ["slots", [7]],
        ["slots", [-1]],
        ["kinds", ["rows"]],
        ["Tsums", []],
        ["results_shapes", []],
    ],
)
def test_attributes_of_a_gradient_that_do_not_fit(sums: list[Any]) -> None:
    """Its shape function, too, ends with an error, where it left a graph locked."""
    f = linked(make(), gradient=True)
    frame = call(f).frame

    def gradient(**options: Any) -> Any:
        attributes = {
            "frame": frame,
            "grads": [tf.constant(1.0)],
            "primals": [],
            "entry": f.entry,
            "program": f.library,
            "key": f.key,
            "slots": [0],
            "kinds": ["dense"],
            "Tout": [tf.float32],
            "Tsums": [tf.float32],
            "results_shapes": [[]],
            "sums_shapes": [[]],
        }
        return native.ops().recgraph_invoke_gradient(**{**attributes, **options})

    made = gradient()
    assert (float(made.results[0]), float(made.sums[0])) == (8.0, 12.0)
    for run in (lambda: gradient(**{sums[0]: sums[1]}), lambda: tf.function(lambda: gradient(**{sums[0]: sums[1]}))()):
        with pytest.raises((tf.errors.OpError, ValueError), match="sums of|no slot|shapes for"):
            run()


@pytest.mark.parametrize("engine", ["parallel", "batched"])
def test_frames_of_other_calls(engine: str) -> None:
    """Of another program, of none, of a map."""
    f, other = linked(make(engine=engine), True), linked(make("other", engine), True)

    def gradient(frame: tf.Tensor, mapped: bool = False) -> Any:
        return native.ops().recgraph_invoke_gradient(
            frame=frame, grads=[tf.constant(1.0)], primals=[], entry=f.entry, program=f.library, key=f.key,
            map=mapped, Tout=[tf.float32], results_shapes=[[]], Tsums=[],
        )  # fmt: skip

    assert float(gradient(call(f).frame).results[0]) == 8.0
    text = refusal(lambda: gradient(call(other).frame), tf.errors.InvalidArgumentError)
    assert "the frame is that of a call of another program: of other" in text
    text = refusal(lambda: gradient(call(f).frame, True), tf.errors.InvalidArgumentError)
    assert "the frame is not that of a map" in text
    forged = native.ops().recgraph_pack_frame([tf.constant(1.0)])
    text = refusal(lambda: gradient(forged), tf.errors.InvalidArgumentError)
    assert "the frame is not that of a call from outside of a SubGraph" in text
    text = refusal(lambda: gradient(tf.raw_ops.EmptyTensorList(element_shape=-1, max_num_elements=1, element_dtype=1)))
    assert "expected the frame of an invocation" in text
