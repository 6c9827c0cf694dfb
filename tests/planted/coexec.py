"""Bugs of co-execution: how traces are merged, how a graph is told which way a step takes."""

from __future__ import annotations

from tests.planted import Bug

MERGING, TRACE_GRAPH = "recgraph/coexec/merging.py", "recgraph/coexec/trace_graph.py"
DIRECTIONS, CASES, LOOPS = "recgraph/coexec/directions.py", "recgraph/coexec/cases.py", "recgraph/coexec/loops.py"
GRAPHS, WAYS = "coexec/test_trace_graph.py::", "coexec/test_directions.py::"
SWITCHES = "coexec/test_cases.py::"

BUGS = [
    Bug(
        "branches_never_meet",
        "Branches that part never meet again.",
        MERGING,
        "            number = self._meeting(item)\n",
        "            pass\n",
        (GRAPHS + "test_branches_part_and_meet_again",),
    ),
    Bug(
        "a_meeting_that_is_a_cycle",
        "Branches meet at an operation that comes before them.",
        MERGING,
        "if number != self.here and number not in self._before]",
        "if number != self.here]",
        (GRAPHS + "test_a_meeting_that_would_make_a_cycle_is_refused",),
    ),
    Bug(
        "every_count_of_trips_is_a_path",
        "A loop whose trips vary is unrolled for each number of trips.",
        MERGING,
        "for loop, count in different.items() if count > 1)",
        "for loop, count in different.items() if count > 100)",
        (WAYS + "test_a_loop_is_a_node_once_its_trips_vary",),
    ),
    Bug(
        "fetched_in_the_last_step",
        "Only what the last step fetched of an operation is fetched.",
        MERGING,
        "fetched=one.fetched | other.fetched,",
        "fetched=other.fetched,",
        (GRAPHS + "test_what_was_fetched_in_any_step_is_fetched",),
    ),
    Bug(
        "no_empty_step",
        "A step without operations is no path.",
        MERGING,
        "        if END not in self._follow:\n            self._follow.append(END)\n",
        "        if END not in self._follow and self.here != START:\n            self._follow.append(END)\n",
        (GRAPHS + "test_an_empty_step_is_a_path",),
    ),
    Bug(
        "any_variable",
        "Operations on two variables are one node.",
        TRACE_GRAPH,
        "return (self.signature, self.location, self.outputs, *self.resources)",
        "return (self.signature, self.location, self.outputs)",
        (GRAPHS + "test_other_variables_are_other_operations",),
    ),
    Bug(
        "shapes_of_the_first_feed",
        "A value of Python's whose shape varies keeps that of the first.",
        TRACE_GRAPH,
        "return tuple(a if a == b else -1 for a, b in zip(one, other, strict=True))",
        "return one",
        (GRAPHS + "test_values_of_python_become_a_feed_as_they_vary",),
    ),
    Bug(
        "inputs_of_one_branch",
        "An input that comes from either of two branches is taken from the first.",
        TRACE_GRAPH,
        "            return (*known[:i], any_time, *known[i + 1 :])\n    return (*known, new)",
        "            return (*known[:i], any_time, *known[i + 1 :])\n    return known",
        (GRAPHS + "test_inputs_of_a_meeting_may_come_from_either_branch",),
    ),
    Bug(
        "levels_passed_in_silence",
        "A switch that is passed is not told so.",
        DIRECTIONS,
        "        return (*self._passing(planned, here, there), *(((slot, case),) if slot != NONE else ()))",
        "        return ((slot, case),) if slot != NONE else ()",
        (WAYS + "test_the_graph_does_what_is_on_the_way",),
    ),
    Bug(
        "one_more_trip",
        "Where a loop ends, its graph is told that there is another trip.",
        DIRECTIONS,
        "(*over, (condition, 0)))",
        "(*over, (condition, 1)))",
        (WAYS + "test_the_graph_does_what_is_on_the_way",),
    ),
    Bug(
        "trips_take_one_way",
        "After a trip of a loop there is no other.",
        DIRECTIONS,
        "                yield from self._onward(START, scope, (*over, (condition, 1)))\n",
        "",
        (WAYS + "test_every_trace_is_a_way",),
    ),
    Bug(
        "skipped_and_executed",
        "A switch that some path passes has no case for that.",
        CASES,
        "                skipped[between] = True\n",
        "                pass\n",
        (SWITCHES + "test_switches_do_what_is_on_the_path",),
    ),
    Bug(
        "levels_of_the_shortest_path",
        "The switch of an operation is that of the shortest path to it.",
        CASES,
        "level[successor] = max(level[successor], level[head] + 1)",
        "level[successor] = level[head] + 1",
        (SWITCHES + "test_switches_do_what_is_on_the_path",),
    ),
    Bug(
        "chains_across_meetings",
        "Operations are one chain although another branch joins them half-way.",
        CASES,
        "continues = len(previous) == 1 and previous[0]",
        "continues = len(previous) >= 1 and previous[0]",
        (SWITCHES + "test_switches_do_what_is_on_the_path",),
    ),
    Bug(
        "loops_without_their_middle",
        "A loop's instructions are those right before its jump back.",
        LOOPS,
        "                waiting += preceding.get(offset, [])\n",
        "                pass\n",
        ("coexec/test_loops.py::test_trips",),
    ),
]
