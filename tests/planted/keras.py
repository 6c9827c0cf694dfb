"""Bugs in the layers of Keras, and in its `fit` with converted steps."""

from __future__ import annotations

from tests.planted import Bug

TREES, TRACING, SEEDS = "recgraph/keras/trees.py", "recgraph/keras/tracing.py", "recgraph/keras/seeds.py"


def _layer(name: str) -> tuple[str, ...]:
    return (f"keras/test_layer.py::test_{name}",)


def _fit(name: str) -> tuple[str, ...]:
    return (f"keras/test_fit.py::test_{name}",)


BUGS = [
    Bug(
        "children_of_other_trees",
        "A position beyond a tree is a node of the next.",
        TREES,
        "numbers = tf.where(positions < length, start + positions, beyond)",
        "numbers = start + positions",
        _layer("a_child_beyond_its_tree_is_an_error"),
    ),
    Bug(
        "numbers_of_the_table",
        "Errors number trees by their rows among the roots, and nodes by their places in the table of all.",
        "recgraph/keras/failures.py",
        "return tree, number - int(begins[tree])",
        "return tree, number",
        ("keras/test_messages.py::test_a_child_beyond_its_tree",),
    ),
    Bug(
        "masked_children",
        "A masked child has a state.",
        TREES,
        "            is_absent |= ~tf.gather(self._is_node, tf.where(is_absent, start, numbers))\n",
        "            pass\n",
        _layer("a_masked_child_is_absent_and_no_mask_goes_on"),
    ),
    Bug(
        "losses_of_all_paths",
        "Where the states of all nodes are asked for, a loss counts for each node above it, too.",
        "recgraph/keras/layer.py",
        "losses if counted is None else tf.where(counted, losses, 0.0)",
        "losses",
        ("keras/test_any_children.py::test_losses_count_once_for_each_node",),
    ),
    Bug(
        "one_mask_for_all",
        "All nodes draw the numbers of the first.",
        SEEDS,
        "return tf.gather(self._tables[id(state)], arguments[0])[0, number]",
        "return self._tables[id(state)][0, number]",
        _layer("dropout_draws_for_each_node_and_each_call"),
    ),
    Bug(
        "the_same_draws_again",
        "A generator does not count the batches.",
        SEEDS,
        "    state.assign(seed + tf.constant([0, 1], tf.int64))\n",
        "",
        _layer("dropout_draws_for_each_node_and_each_call"),
    ),
    Bug(
        "one_draw_for_a_loop",
        "All iterations of a loop draw the same numbers.",
        TRACING,
        " and not tf_private.is_in_loop(self._graph)",
        "",
        _layer("dropout_in_a_loop_draws_in_each_iteration"),
    ),
    Bug(
        "one_mask_for_all_calls",
        "All call sites of a body lead to the same random numbers.",
        SEEDS,
        "path * _FACTOR + next(sites) * _SITE",
        "path",
        _layer("dropout_draws_along_each_call_path"),
    ),
    Bug(
        "losses_of_the_root",
        "The losses of recursive calls are left out.",
        TRACING,
        "losses = [*scope.losses, *recurse.losses]",
        "losses = [*scope.losses]",
        _layer("losses_of_all_nodes_are_added_up_and_differentiated"),
    ),
    Bug(
        "writes_that_stay",
        "A library may call SubGraphs in a graph whose effects cannot be undone.",
        "recgraph/speculate/passes/ordering.py",
        "    refuse_writing_subgraphs(graph)\n    order",
        "    order",
        _fit("a_metric_in_a_recursion_is_not_counted_twice_where_a_step_fails"),
    ),
    Bug(
        "means_by_batches",
        "The means of several losses are those of a graph for all shapes.",
        "recgraph/speculate/library/frameworks.py",
        "name in _LOSSES and keras_state.weighs_by_shape(owner, arguments, named)",
        "False",
        _fit("means_of_several_losses_for_batches_of_many_sizes"),
    ),
    Bug(
        "a_graph_for_each_epoch",
        "What fit keeps in a model is taken to stay as it is.",
        "recgraph/speculate/observe/keras_state.py",
        '"history", ',
        "",
        _fit("callbacks_do_what_they_do"),
    ),
    Bug(
        "the_first_of_several",
        "Of several batches that are predicted at once only the first counts.",
        "recgraph/keras/compiling.py",
        "return outputs[0] if len(outputs) == 1 else",
        "return outputs[0] if outputs else",
        _fit("evaluate_and_predict"),
    ),
    Bug(
        "decorators_of_bodies",
        "What a body is decorated with is passed over.",
        "recgraph/keras/layer.py",
        "tf.autograph.to_graph(outer, recursive=outer is not inner)",
        "tf.autograph.to_graph(inner, recursive=False)",
        _layer("what_a_body_is_decorated_with_is_done"),
    ),
    Bug(
        "objects_in_attributes",
        "An object that a layer has is the same whatever is in it.",
        "recgraph/keras/state.py",
        "return [value, *((name, self._data(part)) for name, part in vars(value).items())]",
        "return value",
        _layer("a_regularizer_of_a_layer_in_a_body_changes"),
    ),
]
