"""Bugs of speculation: assumptions that are not checked, effects out of order, what a conversion gets wrong.

Not here is what cannot be seen: a place that was relaxed by hand is seen to vary in the eager call that follows; a read
of an attribute asks the shadow heap twice; what a conversion leaves in the losses of layers is overwritten later.
Occurrences that are counted in branches that were thrown away make other assumptions, which are checked as well.
"""

from __future__ import annotations

from tests.planted import Bug

HEAP, RENDERING = "recgraph/speculate/script/heap.py", "recgraph/speculate/run/rendering.py"
ORDERING, CONVERSION = "recgraph/speculate/passes/ordering.py", "recgraph/speculate/run/conversion.py"
RANDOMNESS, PROFILE = "recgraph/speculate/passes/randomness.py", "recgraph/speculate/observe/profile.py"
BRANCHES, LOOPS = "recgraph/speculate/evaluate/branches.py", "recgraph/speculate/evaluate/loops.py"
EVALUATOR, GRAPHS = "recgraph/speculate/machine/evaluator.py", "recgraph/speculate/run/graphs.py"
SCRIPT = "recgraph/speculate/script/script.py"


def _by(*programs: str) -> tuple[str, ...]:
    """Programs of the corpus."""
    return tuple(f"speculate/test_corpus.py::test_program[{program}]" for program in programs)


BUGS = [
    Bug(
        "one_object_or_two",
        "The guard that two names are one object is left out.",
        HEAP,
        '        if before != name:\n            assume(OneObject, f"{name} is {before}")\n',
        "",
        _by("names_stop_being_one_object"),
    ),
    Bug(
        "two_objects_or_one",
        "Objects that are written may be one and the same.",
        RENDERING,
        "        self._assume_distinct()\n",
        "",
        _by("two_names_of_one_list"),
    ),
    Bug(
        "writes_do_not_wait",
        "Writes do not wait for what may fail.",
        ORDERING,
        "            tf_private.add_control_inputs(writer, [barrier])\n",
        "            pass\n",
        _by("scatter_out_of_range"),
    ),
    Bug(
        "not_put_back",
        "What is written early is not put back where the graph fails.",
        CONVERSION,
        "                tf.raw_ops.AssignVariableOp(resource=handle, value=value)\n",
        "                pass\n",
        _by("fails_on_what_was_written"),
    ),
    Bug(
        "early_writes",
        "A write before something that may fail does not count as an early one.",
        ORDERING,
        "if op in self.early or op in self.fallible}",
        "if op in self.fallible}",
        _by("fails_on_what_was_written"),
    ),
    Bug(
        "seeds_are_gone",
        "Seeds are not given back where a graph fails.",
        CONVERSION,
        "            tf_private.set_seed_generator_state(before)\n",
        "",
        _by("random_numbers_and_a_failure"),
    ),
    Bug(
        "one_seed_for_all",
        "All random operations of a call have the seeds of the first.",
        RANDOMNESS,
        "row = tf.cast(self.seeds[self.draws], tf.uint64)",
        "row = tf.cast(self.seeds[0], tf.uint64)",
        _by("random_numbers"),
    ),
    Bug(
        "a_seed_too_many",
        "A call draws one seed too many.",
        RANDOMNESS,
        "[tf_private.next_seeds() for _ in range(count)]",
        "[tf_private.next_seeds() for _ in range(count + 1)][:count]",
        _by("random_numbers"),
    ),
    Bug(
        "a_late_seed",
        "Whether there is a global seed is not asked.",
        "recgraph/speculate/run/conversion.py",
        "    if graph.has_random_numbers:\n",
        "    if False:\n",
        _by("a_seed_is_set_late"),
    ),
    Bug(
        "changes_of_the_first_branch",
        "Of two branches only what the first changes is merged.",
        BRANCHES,
        "slots = list({**one.changes, **other.changes})",
        "slots = list(one.changes)",
        _by("branches_change_everything"),
    ),
    Bug(
        "slots_swapped",
        "The values of the slots that a branch has changed are set in reverse order.",
        BRANCHES,
        "    for slot, p in zip(slots, pattern, strict=True):\n",
        "    for slot, p in zip(slots[::-1], pattern, strict=True):\n",
        _by("branches_change_everything"),
    ),
    Bug(
        "broken_in_a_branch",
        "An assumption that breaks in a branch is forgotten.",
        BRANCHES,
        "    ev.assertions.append(next(outputs))\n",
        "",
        _by("an_assertion_in_one_of_two_branches"),
    ),
    Bug(
        "broken_in_a_loop",
        "An assumption that breaks in a loop is forgotten.",
        LOOPS,
        "    ev.assertions.append(number)\n",
        "",
        _by("nested_loops_of_tensors"),
    ),
    Bug(
        "a_round_less",
        "A loop in the graph has one round less than it should.",
        LOOPS,
        "index + 1 < rows.count)))",
        "index + 2 < rows.count)))",
        _by("a_loop_over_tf_range"),
    ),
    Bug(
        "ranges_that_count_down",
        "A range that counts down has a round too few.",
        "recgraph/speculate/values/iterators.py",
        "count = tf.maximum((stop - start + step - tf.sign(step)) // step, 0)",
        "count = tf.maximum((stop - start + step - 1) // step, 0)",
        _by("a_range_from_a_tensor_that_counts_down"),
    ),
    Bug(
        "breaks_that_do_not",
        "A break does not end a loop in the graph.",
        LOOPS,
        "return tf.equal(tf.math.floormod(way.tensor, 2), 1) if isinstance(way, Residual) else bool(way % 2)",
        "return tf.equal(way.tensor, 3) if isinstance(way, Residual) else bool(way % 2)",
        _by("a_tensor_breaks_a_range"),
    ),
    Bug(
        "graphs_of_the_dead",
        "The graphs of an object that has died are kept.",
        GRAPHS,
        "                del self._receivers[identity]\n",
        "                pass\n",
        ("speculate/test_instances.py::test_nothing_is_left_of_an_object_that_died",),
    ),
    Bug(
        "attributes_of_keras",
        "The attributes of Keras's objects are not compared.",
        HEAP,
        '            self.script.assume(f"{check}()", SameConstant(what, where))\n',
        "",
        _by("a_layer_changed"),
    ),
    Bug(
        "true_is_one",
        "True and 1 are the same value.",
        PROFILE,
        "    if type(one) is not type(other):\n        return False\n    if isinstance(one, float):",
        "    if isinstance(one, float):",
        _by("equal_numbers_of_another_type"),
    ),
    Bug(
        "zeros_without_sign",
        "0.0 and -0.0 are the same value.",
        PROFILE,
        "return one == other and math.copysign(1, one) == math.copysign(1, other)",
        "return one == other",
        _by("zeros_of_another_sign"),
    ),
    Bug(
        "any_dtype",
        "The dtype of a tensor is not checked.",
        SCRIPT,
        'return f"type({name}) is EagerTensor and {name}._datatype_enum() == {dtype}"',
        'return f"type({name}) is EagerTensor"',
        _by("a_dtype_changes"),
    ),
    Bug(
        "any_shape_of_an_array",
        "The shape of an array is not checked.",
        "recgraph/speculate/values/later.py",
        '            ev.script.assume(f"{value.name}.shape == {array.shape}", same)\n',
        "",
        _by("an_array_of_another_shape"),
    ),
    Bug(
        "deleted_and_there",
        "Deleted attributes are not deleted.",
        RENDERING,
        "if key in self.heap.deleted:",
        "if False:",
        _by("a_branch_deletes_an_attribute"),
    ),
    Bug(
        "appended_in_reverse",
        "What is appended is appended in reverse order.",
        RENDERING,
        "            for member in members:\n",
        "            for member in reversed(members):\n",
        _by("two_things_are_appended"),
    ),
    Bug(
        "one_list_becomes_two",
        "One list that is kept in two places becomes two.",
        RENDERING,
        "        if id(value) not in self._made:\n            self._held.append(value)\n            made = self",
        "        if True:\n            self._held.append(value)\n            made = self",
        _by("one_new_list_in_two_places"),
    ),
    Bug(
        "nothing_is_printed",
        "What a call does to Python beside its state is lost.",
        RENDERING,
        "        for effect in self._effects():\n            self._late(effect)\n",
        "",
        _by("printing"),
    ),
    Bug(
        "the_other_way",
        "An assumed branch is checked the wrong way round.",
        EVALUATOR,
        "condition = truth if expected else tf.logical_not(truth)",
        "condition = tf.logical_not(truth) if expected else truth",
        _by("a_branch_that_never_varied_flips"),
    ),
    Bug(
        "hidden_methods",
        "An attribute of an object that hides one of its class is not seen.",
        "recgraph/speculate/values/attributes.py",
        '        ev.script.assume(f"{name!r} not in {held}.__dict__", shadows)\n',
        "",
        _by("a_global_becomes_an_attribute_of_the_class"),
    ),
    Bug(
        "keys_appear",
        "Whether a key is there is not checked.",
        "recgraph/speculate/values/containers.py",
        "        ev.script.assume(condition, ev.noted(SameKeys, f\"{key!r} {'is' if found else 'is not'} there\"))\n",
        "",
        _by("a_key_appears"),
    ),
    Bug(
        "lists_of_any_length",
        "The length of a list that is gone through is not checked.",
        HEAP,
        '            self.script.assume(f"len({name}) == {len(container)}", SameLength(what, where))\n',
        "",
        _by("a_list_shrinks_and_grows"),
    ),
    Bug(
        "keys_in_any_order",
        "The keys of a dict and their order are not checked.",
        HEAP,
        '            self.script.assume(f"same(tuple({name}), {self.script.constant(keys)})", SameKeys(what, where))\n',
        "",
        _by("a_dict_shrinks_and_changes_its_order"),
    ),
    Bug(
        "unused_failures",
        "What fails may be left out where nobody uses it.",
        ORDERING,
        "    _keep_unused(graph, order.fallible)\n",
        "",
        _by("checks_of_what_nobody_uses"),
    ),
    Bug(
        "index_computed_twice",
        "An augmented assignment evaluates its index twice while it is observed.",
        "recgraph/speculate/observe/instrument.py",
        '            target.slice = self._kept("index", hooked("indexed", place, target.slice), steps)\n',
        '            self._kept("index", hooked("indexed", place, target.slice), steps)\n',
        _by("an_index_that_is_computed_once"),
    ),
    Bug(
        "globals_are_constants",
        "A global that was read once is taken for a constant.",
        EVALUATOR,
        "return self.heap.read(key, expression, names[name], name, seen, site, self.where())",
        "return names[name]",
        _by("a_global_counts"),
    ),
    Bug(
        "shapes_of_one_call",
        "A shape that has varied stays what it was in the call that was converted.",
        PROFILE,
        "return tf.TensorShape([a if a == b else None for a, b in zip(one, other, strict=True)])",
        "return one",
        ("speculate/test_function.py::test_shapes_relax_along_the_lattice",),
    ),
]
