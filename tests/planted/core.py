"""Bugs of the core: the graphs of bodies, their gradients, programs, calls.

Making `SubGraph.__exit__` forget a body's control outputs changes nothing that can be seen: results carry the same
control dependencies. It is not here.
"""

from __future__ import annotations

from tests.planted import Bug

GRADIENT, WRITING, ENVIRONMENT = "recgraph/core/gradient.py", "recgraph/core/writing.py", "recgraph/core/environment.py"
FINISHING, INVOKE, SUMS = "recgraph/core/finishing.py", "recgraph/core/invoke.py", "recgraph/core/sums.py"
PROGRAM = "recgraph/core/program.py"
TESTS = "core/test_gradients.py::"
SHARED = TESTS + "test_shared_programs"

BUGS = [
    Bug(
        "last_of_two_gradients",
        "Of two gradients of one tensor the last counts, not the sum.",
        GRADIENT,
        "return tf.add_n([tf.convert_to_tensor(gradient) for gradient in gradients])",
        "return tf.convert_to_tensor(gradients[-1])",
        (f"{SHARED}[list_fold-cache]", f"{SHARED}[list_fold-recompute]"),
    ),
    Bug(
        "first_contribution_only",
        "Only the first contribution to an outer tensor is accumulated.",
        GRADIENT,
        "for gradient in self._gradients.get(id(placeholder), []):",
        "for gradient in self._gradients.get(id(placeholder), [])[:1]:",
        (TESTS + "test_weights_of_matrix_products_of_any_orientation[cache]",),
    ),
    Bug(
        "indices_of_one_lookup",
        "The rows of several lookups in a table all have the indices of the first.",
        GRADIENT,
        "tf.concat([gradient.indices for gradient in gradients], 0),",
        "tf.concat([gradients[0].indices for gradient in gradients], 0),",
        (TESTS + "test_two_lookups_in_one_table[cache]", TESTS + "test_two_lookups_in_one_table[recompute]"),
    ),
    Bug(
        "sparse_made_dense",
        "The gradient of a table is a dense one.",
        SUMS,
        "    if isinstance(gradient, tf.IndexedSlices):\n",
        "    gradient = tf.convert_to_tensor(gradient)\n    if isinstance(gradient, tf.IndexedSlices):\n",
        (TESTS + "test_embedding_gradients_are_indexed_slices[cache]",),
    ),
    Bug(
        "factors_swapped",
        "The factors of a weight's gradient are swapped.",
        SUMS,
        "else (a, b)",
        "else (b, a)",
        (f"{SHARED}[tree_rnn-cache]", f"{SHARED}[tree_rnn-recompute]"),
    ),
    Bug(
        "transposed_factor",
        "A transposed factor of a weight's gradient is taken for a plain one.",
        SUMS,
        'if op.get_attr("transpose_b"):',
        "if False:",
        (TESTS + "test_weights_of_matrix_products_of_any_orientation[cache]",),
    ),
    Bug(
        "branches_in_reverse",
        "The gradients of branches are in reverse order, so that one is given the frame of another.",
        GRADIENT,
        "made = regions.make_region(region.kind, [d.graph for d in derivatives], inputs, specs)",
        "made = regions.make_region(region.kind, [d.graph for d in derivatives][::-1], inputs, specs)",
        (f"{SHARED}[factorial-cache]", f"{SHARED}[factorial-recompute]"),
    ),
    Bug(
        "operand_of_one_branch",
        "An operand that not all branches use has no gradient.",
        GRADIENT,
        "if any(d.results[k] is not None for d in derivatives)]",
        "if all(d.results[k] is not None for d in derivatives)]",
        (f"{SHARED}[list_fold-cache]", f"{SHARED}[list_fold-recompute]"),
    ),
    Bug(
        "neighbouring_operand",
        "The gradient of a branch's operand goes to the one before.",
        GRADIENT,
        "results[regions.SELECTORS[region.kind] + indices[k]] = gradient",
        "results[regions.SELECTORS[region.kind] + indices[k] - 1] = gradient",
        (f"{SHARED}[list_fold-cache]", f"{SHARED}[list_fold-recompute]"),
    ),
    Bug(
        "loop_begins_with_zero",
        "The gradient of a loop begins with zeros.",
        GRADIENT,
        "tf.convert_to_tensor(gradients[i]) if gradients[i] is not None else tf.zeros_like(region.op.outputs[i])",
        "tf.zeros_like(region.op.outputs[i])",
        (f"{SHARED}[zero_trips-cache]", f"{SHARED}[zero_trips-recompute]"),
    ),
    Bug(
        "loop_without_offset",
        "The gradients of a loop's operands are taken from where the stack of frames still counts.",
        GRADIENT,
        "zip(carried, made[1:], strict=True)",
        "zip(carried, made[:-1], strict=True)",
        (TESTS + "test_switch_case_and_loops[0-cache]",),
    ),
    Bug(
        "frame_in_another_order",
        "The items of a frame are packed last to first.",
        WRITING,
        'frame = self._pack("frame", [self._item(item) for item in packed])',
        'frame = self._pack("frame", [self._item(item) for item in packed][::-1])',
        (f"{SHARED}[tree_sum-cache]", f"{SHARED}[tree_sum-recompute]"),
    ),
    Bug(
        "stack_upside_down",
        "The frame of a round and the rest of the stack are swapped when they are pushed.",
        WRITING,
        'self._pack("push", [(frame, tf.variant), (self._stack, tf.variant)])',
        'self._pack("push", [(self._stack, tf.variant), (frame, tf.variant)])',
        (f"{SHARED}[zero_trips-cache]",),
    ),
    Bug(
        "slot_of_a_read",
        "A variable that is read once a call has the slot behind its own.",
        ENVIRONMENT,
        "        return self._numbers[key]\n",
        "        return self._numbers[key] + read\n",
        (f"{SHARED}[tree_sum-cache]", f"{SHARED}[tree_sum-recompute]"),
    ),
    Bug(
        "slot_of_the_dtype",
        "All captured tensors of one dtype share a slot.",
        ENVIRONMENT,
        "key = (id(outer), read)",
        "key = (hash(outer.dtype), read)",
        (f"{SHARED}[tree_sum-cache]",),
    ),
    Bug(
        "stale_variable",
        "A variable that a body writes is read once a call.",
        ENVIRONMENT,
        "        return id(handle) not in self._written\n",
        "        return True\n",
        ("core/test_running.py::test_a_body_reads_what_it_has_just_written",),
    ),
    Bug(
        "invariant_that_changes",
        "A loop variable that changes counts as an invariant.",
        "recgraph/core/regions.py",
        "if outer is None or (region.kind == WHILE and not is_invariant(region, index)):",
        "if outer is None:",
        (TESTS + "test_a_loop_that_starts_from_captured_tensors[cache]",),
    ),
    Bug(
        "handed_in_reverse",
        "The gradients of branches are given their operands in reverse order, where values are computed again.",
        GRADIENT,
        "return [region.operands[i] for i in needed]",
        "return [region.operands[i] for i in reversed(needed)]",
        (TESTS + "test_switch_case_and_loops[1-recompute]",),
    ),
    Bug(
        "calls_with_swapped_arguments",
        "Calls in a body are given their arguments last to first.",
        INVOKE,
        "        **_common(subgraph, tensors, rows),\n    )\n    return list(made.results)",
        "        **_common(subgraph, tensors[::-1], rows),\n    )\n    return list(made.results)",
        (f"{SHARED}[list_fold-cache]",),
    ),
    Bug(
        "inference_records",
        "A call whose gradient nobody can ask for records what a gradient would need.",
        "recgraph/core/eager.py",
        "record=linked.contract is not None,",
        "record=True,",
        (f"{SHARED}[fibonacci-cache]",),
    ),
    Bug(
        "sum_for_the_neighbour",
        "A sum over all invocations is handed to the slot before its own.",
        PROGRAM,
        'key = (slots.number(outer), op.get_attr("kind").decode())',
        'key = (max(slots.number(outer) - 1, 0), op.get_attr("kind").decode())',
        (f"{SHARED}[tree_sum-cache]",),
    ),
    Bug(
        "nothing_is_remade",
        "With gradient='recompute', nothing is computed again.",
        "recgraph/core/rematerialization.py",
        "return not kept and _stands_alone(op) and does_the_same_again(op)",
        "return False",
        ("core/test_frames.py::test_recompute_keeps_inputs_and_results_of_calls_only",),
    ),
    Bug(
        "any_graph_is_in_reach",
        "A tensor of an unrelated graph can be used in a body.",
        "recgraph/core/body.py",
        "    return graph is not None\n\n\ndef enclosing_body",
        "    return True\n\n\ndef enclosing_body",
        ("core/test_failures.py::test_a_tensor_of_another_graph_in_a_body",),
    ),
    Bug(
        "key_of_half_a_program",
        "Two programs that differ in their second half have one key.",
        FINISHING,
        "return hashlib.sha256(library).hexdigest()[:32]",
        "return hashlib.sha256(library[: len(library) // 2]).hexdigest()[:32]",
        ("core/test_damaged_programs.py::test_two_programs_with_one_key",),
    ),
    Bug(
        "callees_are_not_linked",
        "Only the function that is called is linked, not those that it calls.",
        PROGRAM,
        "                queue.append(callee)\n",
        "                pass\n",
        (f"{SHARED}[even_odd-cache]",),
    ),
]
