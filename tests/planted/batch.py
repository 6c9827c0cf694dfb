"""Bugs of the batched engine's compiler: flows, blocks, effects, rules, expressions.

Three are known that no test catches: values of a loop that count as read once (a loop reads each of them twice at
least), a loop's body that does not lead to its condition (it changes the order of blocks only), and resources that are
made inside of a body and have no writers.
"""

from __future__ import annotations

from tests.planted import Bug

BLOCKS, FLOW, EFFECTS = "recgraph/batch/blocks.py", "recgraph/batch/flow.py", "recgraph/batch/effects.py"
RULES, VECTORIZE = "recgraph/batch/rules/", "recgraph/batch/vectorize.py"
EXPRESSIONS = "recgraph/batch/expressions.py"
ENGINE, FAULTS = "batch/test_engine.py::", "batch/test_faults.py::"
ORDER, FUSED = "batch/test_effects.py::", "batch/test_fuse.py::"
ALIKE = "batch/test_alike.py::"
ALL_ROWS = "batch/test_rules.py::test_all_rows_at_once"

BUGS = [
    Bug(
        "shared_contribution_counts_once",
        "A contribution that all rows share counts once, not once for every row.",
        BLOCKS,
        "if value.has_rows else numbers * tf.cast(count[0], numbers.dtype)",
        "if value.has_rows else numbers",
        (ENGINE + "test_a_gradient_that_is_the_same_for_all_rows",),
    ),
    Bug(
        "results_before_effects",
        "A function gives its results before its effects are done.",
        BLOCKS,
        "                arrived |= self._ends(flow.ordered)\n",
        "                pass\n",
        (ORDER + "test_a_result_comes_after_all_effects_of_the_call",),
    ),
    Bug(
        "rows_of_any_shape_meet",
        "Rows that may differ in shape count as alike.",
        BLOCKS,
        "any(not self.specs[value].shape.is_fully_defined() for value in block.unit.reads),",
        "False,",
        (FAULTS + "test_every_row_of_its_own_shape",),
    ),
    Bug(
        "effects_run_again",
        "A block with an effect may be run again to find the row that failed.",
        BLOCKS,
        "bool(graph.by_row) and names[0] in self.flow.ordered,",
        "False,",
        (ORDER + "test_python_that_fails_runs_once",),
    ),
    Bug(
        "effects_in_several_threads",
        "Functions with effects are run by several threads.",
        BLOCKS,
        "made.has_effects = flow.name in program.with_effects",
        "made.has_effects = False",
        (ORDER + "test_rows_of_a_map_have_an_order_that_does_not_depend_on_threads",),
    ),
    Bug(
        "lost_lines",
        "The operations of blocks lose the user's line.",
        BLOCKS,
        "            if place.s:\n",
        "            if False:\n",
        (ENGINE + "test_what_cannot_be_a_condition[batched]",),
    ),
    Bug(
        "groups_of_the_first_branch",
        "Results are grouped by what the first branch does only.",
        FLOW,
        "key = tuple(self._event_key(name, result, labels[name]) for name in members)",
        "key = tuple(self._event_key(name, result, labels[name]) for name in members[:1])",
        (ENGINE + "test_a_result_that_only_some_need_does_not_hold_the_others_up",),
    ),
    Bug(
        "joins_with_their_parts",
        "A block that computes a part of a join also runs what reads the join.",
        FLOW,
        "if flow.is_alone(node) or any(_is_computed(flow, part, before) for part in flow.parts(node)):",
        "if flow.is_alone(node):",
        (ENGINE + "test_what_is_computed_of_a_join_of_what_is_computed",),
    ),
    Bug(
        "effects_of_callees_of_callees",
        "A call has effects only where its callee has them itself.",
        EFFECTS,
        "        if len(effects.functions) == before:\n",
        "        if True:\n",
        (ORDER + "test_iterations_keep_their_order",),
    ),
    Bug(
        "agenda_upside_down",
        "Blocks are numbered against the ways that rows take.",
        "recgraph/batch/priority.py",
        "    return found[::-1]\n",
        "    return found\n",
        (ENGINE + "test_a_result_that_only_some_need_does_not_hold_the_others_up",),
    ),
    Bug(
        "labels_of_the_neighbour",
        "The label of a call site is the one before its own.",
        "recgraph/batch/plan.py",
        "self.add(node.selector, self.labels.index(node.site))",
        "self.add(node.selector, max(self.labels.index(node.site) - 1, 0))",
        (FAULTS + "test_a_failing_row_names_its_tree_and_path",),
    ),
    Bug(
        "ones_behind",
        "Values of a lower rank get their ones behind their dimensions, not in front.",
        VECTORIZE,
        "return reshape_rows(value.tensor, [1] * missing + shape)",
        "return reshape_rows(value.tensor, shape + [1] * missing)",
        (f"{ALL_ROWS}[add ('ab', 'b')]",),
    ),
    Bug(
        "shared_addend",
        "AddN leaves out what all rows share.",
        RULES + "elementwise.py",
        "[site.with_rows(value) for value in site.inputs])  # which",
        "[value.tensor for value in site.inputs if value.has_rows])  # which",
        (f"{ALL_ROWS}[add_n]",),
    ),
    Bug(
        "a_check_of_any_row",
        "A check passes where any row does.",
        RULES + "reductions.py",
        "site.same([tf.reduce_all(condition), *data])",
        "site.same([tf.reduce_any(condition), *data])",
        (ORDER + "test_checks",),
    ),
    Bug(
        "segments_of_the_next_row",
        "A segment number that is too large reaches the next row.",
        RULES + "lookups.py",
        "tf.where(ids < 0, ids, tf.where(ids < many, ids + many * numbers, many * rows))",
        "tf.where(ids < 0, ids, ids + many * numbers)",
        ("batch/test_rules.py::test_what_has_no_place_is_an_error_in_all_rows[segments]",),
    ),
    Bug(
        "index_from_the_end",
        "An index from the end is not counted from the front.",
        RULES + "slices.py",
        "return tf.where(self.indices < 0, self.indices + sizes, self.indices)",
        "return self.indices + 0 * sizes",
        (f"{ALL_ROWS}[element from behind]",),
    ),
    Bug(
        "slice_of_the_rows",
        "A strided slice does not take all rows.",
        RULES + "slices.py",
        '    masks["end_mask"] |= 1\n',
        "",
        (f"{ALL_ROWS}[slices]",),
    ),
    Bug(
        "negative_axis_of_a_reduction",
        "A negative axis of a reduction is one off.",
        RULES + "reductions.py",
        'return np.asarray(known(value, "the axis")) % max(rank, 1) + 1',
        'return (np.asarray(known(value, "the axis")) + 1) % (rank + 1)',
        (f"{ALL_ROWS}[softmax]",),
    ),
    Bug(
        "negative_axis_of_a_stack",
        "A negative axis of a stack is one off.",
        RULES + "shapes.py",
        "axis % (rank + 1) + 1)",
        "axis % rank + 1 if rank else 1)",
        (f"{ALL_ROWS}[stack]",),
    ),
    Bug(
        "transposed_weight",
        "A transposed weight is taken for a plain one.",
        RULES + "products.py",
        "    product = tf.matmul(rows, b.tensor, transpose_b=adjoint_b)\n",
        "    product = tf.matmul(rows, b.tensor)\n",
        (f"{ALL_ROWS}[matmul False False]",),
    ),
    Bug(
        "order_of_a_transposition",
        "A transposition of every row forgets that the rows come first.",
        RULES + "shapes.py",
        'places = [0, *(int(axis) + 1 for axis in known(order, "the order"))]',
        'places = [0, *(int(axis) + 1 for axis in sorted(known(order, "the order")))]',
        (f"{ALL_ROWS}[transpose]",),
    ),
    Bug(
        "register_used_too_soon",
        "A register is used again while its array is still read.",
        EXPRESSIONS,
        "if last_use[ended] == i and not ended.is_input and places[ended][0] == _REGISTER:",
        "if not ended.is_input and places[ended][0] == _REGISTER:",
        (FUSED + "test_chains_that_are_one_kernel[read_later]",),
    ),
    Bug(
        "loops_of_uneven_steps",
        "Pieces with different steps become one loop.",
        EXPRESSIONS,
        "if min(steps) < 0 or (self.times > 1 and steps != self.steps):",
        "if min(steps) < 0:",
        (FUSED + "test_chains_that_are_one_kernel[uneven_pieces]",),
    ),
    Bug(
        "packed_as_plain",
        "A transposed matrix is read packed as a plain one.",
        "recgraph/batch/fuse.py",
        "form = plan.PACKED_TRANSPOSED if transposed else plan.PACKED",
        "form = plan.PACKED",
        (FAULTS + "test_the_same_input_gives_the_same_bits",),
    ),
    Bug(
        "weights_of_the_first",
        "Blocks that are alike read the captured tensors of the first one.",
        BLOCKS,
        "[(slots[slot], form) for slot, form in graph.forms],",
        "list(graph.forms),",
        (ALIKE + "test_children_have_weights_of_their_own",),
    ),
    Bug(
        "constants_of_the_first",
        "Blocks are alike whichever constants they have.",
        "recgraph/batch/alike.py",
        "self._parts.append((self._content(node), references))",
        "self._parts.append((node.op, len(self._content(node)), references))",
        (ALIKE + "test_constants_tell_blocks_apart",),
    ),
    Bug(
        "lines_of_the_first",
        "The operations of a copied block have the lines of the first one.",
        "recgraph/batch/alike.py",
        "if number is not None and _ORIGIN in node.attr:",
        "if False:",
        (ALIKE + "test_an_error_names_the_operation_and_the_line_of_its_own_block",),
    ),
]
