"""Co-executed programs do what eager ones do: results, printed text, exceptions, variables, Python state."""

from __future__ import annotations

import pytest

from recgraph.coexec import Coexecuted
from tests.speculate import comparing, corpus

PROGRAMS = corpus.load()


# Programs with operations of which no call is co-executed, and why.
NOT_COEXECUTED = {
    "a_target_that_is_a_source": "only fills tensors with a constant",
    "a_default_and_a_star": "the first calls have no operations",
    "method_patched_on_instance": "the first calls have no operations",
    "class_swapped": "the first calls have no operations",
    "nested_loops_of_tensors": "the first calls compute only with single integers, which run at once",
    "a_range_from_a_tensor_that_counts_down": "computes only with single integers, which run at once",
    "exc_group": "the first calls have no operations",
    "integers_that_grow_too_large": "the first calls have no operations",
    "a_default_that_a_loop_changes": "computes only with single integers, which run at once",
    "rows_of_a_table_in_rounds": "the loops of its rounds have other lengths in all of the calls",
    "a_power_by_a_loop": "computes only with single integers, which run at once",
    "identity_of_attrs": "the first calls have no operations",
    "a_file_that_appears": "the first calls have no operations",
    "get_shape_of_a_growing_tensor": "the first calls have no operations",
    "shuffling": "RandomShuffle is done by Python's side",
    "a_variable_made_late": "the first calls have no operations",
    "a_list_grows_or_its_last_member_changes": "each call goes another way than those before",
    "an_array_that_grows_from_call_to_call": "each call goes another way than those before",
    "a_recursive_network": "each call has another tree",
    "a_recursive_network_over_a_batch": "each call has other trees",
    "weights_change_from_tree_to_tree": "each call has other trees",
    "children_in_a_list": "each call has another tree",
    "a_tape_for_each_tree": "each call has other trees",
    **dict.fromkeys(
        (
            "a_variable_of_the_call",
            "a_counter_of_the_call",
            "descent_on_a_variable_of_the_call",
            "a_tape_that_watches_a_variable_of_the_call",
            "a_loop_of_the_graph_over_a_variable_of_the_call",
            "a_branch_with_a_variable_of_the_call",
            "variables_in_a_list_of_the_call",
            "an_object_with_variables_of_the_call",
            "meta_learning",
            "a_variable_with_random_values",
            "a_variable_of_unknown_shape",
            "a_new_variable_in_a_closure",
            "a_function_with_a_new_variable_that_is_kept",
            "an_object_with_a_new_variable_that_is_kept",
            "the_text_of_a_new_variable",
            "a_new_variable_in_every_call_that_is_kept",
            "a_new_variable_that_is_returned",
            "new_variables_in_a_list_that_stays",
            "a_metric_of_the_call",
            "a_layer_of_the_call",
            "an_optimizer_of_the_call",
        ),
        "each call makes new variables",
    ),
}


# Programs that see that they are co-executed, and by what (docs/coexecution.md).
SEEING = {"a_device_that_is_asked_for": "tensor.device"}


@pytest.mark.parametrize("name", [name for name in corpus.sample() if name not in SEEING])
def test_program(name: str) -> None:
    """Fifteen calls give the same, and every line of the program runs as often as in eager execution."""
    program = PROGRAMS[name]
    expected, _, eager = comparing.run_wrapped(program, None)
    found, coexecuted, counts = comparing.run_wrapped(program, Coexecuted)
    assert comparing.differences(expected, found) == [], coexecuted.explain()
    assert [count.entered for count in counts] == [count.entered for count in eager]
    has_operations = any(count.operations for count in eager)
    is_expected = has_operations and name not in NOT_COEXECUTED
    assert (coexecuted.phases.counts["coexecuted"] > 0) == is_expected, coexecuted.explain()


def test_the_exceptions_are_programs_of_the_corpus() -> None:
    """An entry for a program that is gone would check nothing."""
    assert set(NOT_COEXECUTED) | set(SEEING) <= set(PROGRAMS)
