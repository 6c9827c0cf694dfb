"""What each mode owes a program of the corpus, compared with one eager run of it."""

from __future__ import annotations

import linecache
import re
from collections.abc import Callable
from typing import Any, TypeAlias

import pytest

from recgraph import devices, racing
from recgraph.auto import Automatic, choosing, function
from recgraph.coexec import Coexecuted
from recgraph.speculate import Speculated
from recgraph.speculate.run import function as conversions
from tests.speculate import comparing, strictness
from tests.speculate.corpus import Program

# What each call of the eager run gave and left behind, and what ran in each.
Eager: TypeAlias = tuple[list[Any], list[comparing.Counts]]

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


def run_eagerly(program: Program) -> Eager:
    """What all modes are compared with."""
    expected, _, counts = comparing.run_wrapped(program, None)
    return expected, counts


def check_speculated(program: Program, eager: Eager) -> None:
    """Fifteen calls give the same; the last is one graph and no line of the program, or the reason is the expected."""
    with pytest.MonkeyPatch.context() as patch:
        strictness.require_words(patch)
        strictness.keep_graphs(patch)
        strictness.substitute_at_once(patch)
        refused = strictness.record_refusals(patch)
        found, speculated, counts = comparing.run_wrapped(program, Speculated)
    assert comparing.differences(eager[0], found) == []
    if program.converted:
        assert speculated.calls["graph"] > 0, speculated.explain()
        assert counts[-1].entered == 0, speculated.explain()
        assert [wrong for wrong in map(comparing.beside_one_graph, counts) if wrong] == []
        if program.graphs is not None:
            assert len(speculated._graphs) == program.graphs, speculated.explain()
    elif program.breaks:
        assert program.breaks in speculated.given_up, speculated.explain()
    else:
        assert refused, speculated.explain()
        last = refused[-1]
        assert speculated.given_up == last.told
        assert (last.feature.name, _line_of(last.where)) == (program.feature, program.line or _first_line(last.where))


def _line_of(where: str) -> str:
    """The source at `file:line`; "" where no place is named."""
    file, _, line = where.rpartition(":")
    return linecache.getline(file, int(line)).strip() if file else ""


def _first_line(where: str) -> str:
    """The line, if a function begins there."""
    line = _line_of(where)
    return line if line.startswith("def ") else "def"


def check_coexecuted(program: Program, eager: Eager) -> None:
    """Fifteen calls give the same, and every line of the program runs as often as in eager execution."""
    found, coexecuted, counts = comparing.run_wrapped(program, Coexecuted)
    assert comparing.differences(eager[0], found) == [], coexecuted.explain()
    assert [count.entered for count in counts] == [count.entered for count in eager[1]]
    has_operations = any(count.operations for count in eager[1])
    is_expected = has_operations and program.name not in NOT_COEXECUTED and not devices.gpu_is_visible()
    assert (coexecuted.phases.counts["coexecuted"] > 0) == is_expected, coexecuted.explain()


def unconverted(step: object) -> Automatic:
    """A function that is never converted whole."""
    made = Automatic(step)
    made._give_up("the test wants to see the other ways")
    return made


# What differs where a function is not converted whole: a variable's text in the middle of a co-executed step shows its
# value before the step; a tensor's device is ours.
DIFFER = {"variables_as_text", "a_device_that_is_asked_for"}


def check_in_turns(program: Program, eager: Eager, wrap: Callable[[Any], Automatic]) -> None:
    """Each step is taken in another way than the one before: none leaves anything behind that another trips over."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(choosing, "MAX_SECONDS", 1e6)
        patch.setattr(choosing, "MAX_WARMING", 0)
        patch.setattr(choosing, "WITHIN", 10_000)
        patch.setattr(choosing, "ENOUGH", 1e9)  # on a busy machine a way may seem hopeless
        patch.setattr(racing, "BLOCKS", (1,) * 100)
        patch.setattr(racing, "HOPELESS", (1e9, 1e9))
        patch.setattr(function, "CLEARLY", 0.0)
        patch.setattr(conversions, "MAX_SECONDS", 1e6)
        found, automatic, counts = comparing.run_wrapped(program, wrap)
        text = automatic.explain()  # which counts by what is set here
    assert comparing.differences(eager[0], found) == [], text
    assert max(count.entered for count in counts) <= max(count.entered for count in eager[1])
    ways = {way for way, count in automatic.calls.items() if count > 0 and way != "fallback"}
    assert len(ways) > 1 or _has_one_way(automatic, text), text


def _has_one_way(automatic: Automatic, text: str) -> bool:
    """Checks that it says why no step was taken as a whole in another way, or that parts of the steps were graphs."""
    return bool(automatic.given_up) and ("cannot run" in text or re.search(r", [1-9]\d* graph", text) is not None)
