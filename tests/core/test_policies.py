"""The order in which ready invocations run changes nothing but speed: the shared programs under every policy."""

from __future__ import annotations

import pytest
import tensorflow as tf
from core import programs

from recgraph import testing


@pytest.mark.parametrize("gradient", ["cache", "recompute"])
@pytest.mark.parametrize("policy", testing.POLICIES)
@pytest.mark.parametrize("program", programs.PROGRAMS, ids=str)
def test_results_do_not_depend_on_the_order(program: programs.Program, policy: str, gradient: str) -> None:
    """Values and gradients are those of the Python program."""
    with testing.policy(policy):
        programs.check(program, gradient=gradient)


def test_random_order_many_times() -> None:
    """One lucky order proves nothing."""
    program = next(program for program in programs.PROGRAMS if program.name == "zero_trips")
    subgraph = tf.function(program.make())
    expected = programs.run(program.reference, program.arguments[-1], program.variables())
    with testing.policy("random"):
        for _ in range(20):
            programs.assert_same(programs.run(subgraph, program.arguments[-1], program.variables()), expected)


def test_a_policy_ends_with_its_block() -> None:
    """Even when a step inside of it fails."""

    def fail() -> None:
        raise RuntimeError("out")

    before = current_policy()
    with pytest.raises(RuntimeError, match="out"), testing.policy("random"):
        fail()
    assert current_policy() == before


def current_policy() -> str:
    """The policy that steps start with now."""
    from recgraph import native

    previous = native.ops().recgraph_set_policy("fifo")
    native.ops().recgraph_set_policy(previous)
    return previous.numpy().decode()


def test_an_unknown_policy_is_refused() -> None:
    """The message tells which there are."""
    with pytest.raises(tf.errors.InvalidArgumentError, match="lifo"), testing.policy("lifo"):
        pass


def test_counters_and_policies_inside_of_a_graph() -> None:
    """They are of the process: read and set at once, and no operation of theirs is left in the user's graph."""
    before = current_policy()
    with tf.Graph().as_default() as graph, tf.compat.v1.Session() as session:
        with testing.policy("fifo"):
            counted = testing.counters().invocations
            result = programs.make_fibonacci(engine="parallel")(5)
            operations = len(graph.get_operations())
            assert session.run(result) == 5
            assert testing.counters(reset_peak=True).invocations == counted + 15
        with pytest.raises(tf.errors.InvalidArgumentError, match="lifo"), testing.policy("lifo"):
            pass
        assert len(graph.get_operations()) == operations
    assert current_policy() == before


def test_counters_inside_of_a_function_are_those_of_its_tracing() -> None:
    """Not an operation of the function, either."""
    read: list[testing.Counters] = []

    @tf.function
    def traced(n: tf.Tensor) -> tf.Tensor:
        with testing.policy("fifo"):
            read.append(testing.counters())
        return n + 1

    assert int(traced(tf.constant(1))) == 2
    assert read[0].live_invocations == 0
    assert not any("Recgraph" in op.type for op in traced.get_concrete_function(tf.constant(1)).graph.get_operations())
