"""How the body of a layer becomes a SubGraph: its layers make variables, losses are added up, draws are given seeds."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from recgraph import tf_private
from recgraph.core.subgraph import SubGraph
from recgraph.errors import DefinitionError
from recgraph.keras.seeds import Body, Nest, Seeds

# The name of the variable of a `keras.random.SeedGenerator`.
_STATE = "seed_generator_state"
_LOSS = tf.TensorSpec([], tf.float32)


class BodyScope(keras.StatelessScope):
    """Collects losses, and gives random numbers their seeds; all other variables are as ever.

    A SeedGenerator counts in a variable. If bodies did that, their invocations would have to run one after another.

    Args:
        graph: of the body.
        seed: gives the seed of a draw; None to let generators count.
        is_trial: whether nothing comes of the graph, so that variables stay as they are. Layers may make new ones.

    Attributes:
        losses: what layers have added.
        draws: how often each generator was asked, by the id of its state.
        states: these states.
    """

    def __init__(self, graph: Any, seed: Callable[[keras.Variable, int], tf.Tensor] | None, is_trial: bool) -> None:
        super().__init__(collect_losses=True, initialize_variables=is_trial)
        self.draws: dict[int, int] = {}
        self.states: dict[int, keras.Variable] = {}
        self._graph, self._seed, self._is_trial = graph, seed, is_trial

    def get_current_value(self, variable: keras.Variable) -> tf.Tensor | None:
        """What reading a variable gives; None for its value."""
        if self._seed is None or not self._is_given_seeds(variable):
            return None
        return self._seed(variable, self.draws.get(id(variable), 0))

    def add_update(self, update: tuple[keras.Variable, tf.Tensor]) -> None:
        """A variable is assigned to."""
        variable, value = update
        if self._is_given_seeds(variable):
            self.draws[id(variable)] = self.draws.get(id(variable), 0) + 1
            self.states[id(variable)] = variable
        elif not self._is_trial:
            variable._direct_assign(value)  # what `assign` does where there is no scope

    def _is_given_seeds(self, variable: keras.Variable) -> bool:
        """Whether it is a generator's, and not asked in a loop: there each iteration draws other numbers."""
        return self._seed is not None and variable.name == _STATE and not tf_private.is_in_loop(self._graph)


@dataclasses.dataclass(frozen=True)
class Trial:
    """What a body did when it was tried out.

    Attributes:
        has_losses: whether it adds losses: then an invocation returns its results and the sum of its losses and those
            below it.
        draws: how often each generator is asked, by its state; those that are asked in loops are left out.
        calls_in_loop: whether a loop makes recursive calls.
    """

    has_losses: bool
    draws: tuple[tuple[keras.Variable, int], ...]
    calls_in_loop: bool


class BodyTrace:
    """A body that is going to be a SubGraph.

    Args:
        name: the layer's.
        body: what an invocation computes.
        rows: the arguments of all invocations from outside, a nest of tensors `[B, ...]`.
        outputs: specs of what an invocation returns, a nest of `[1, ...]`.
    """

    def __init__(self, name: str, body: Body, rows: Nest, outputs: Nest) -> None:
        self._name, self._body, self._outputs = name, body, outputs
        self._inputs = tf.nest.map_structure(lambda row: tf.TensorSpec([1, *row.shape[1:]], row.dtype), rows)

    def tried(self, check: Callable[[Nest], None]) -> Trial:
        """Tries the body out, so that layers in it make their variables; `check` is given what it returns."""
        graph = tf_private.FuncGraph("trial")
        with (
            BodyScope(graph, lambda state, number: tf.zeros([2], tf.int64), is_trial=True) as scope,
            graph.as_default(),
        ):
            rows_of_some = tf.nest.map_structure(
                lambda spec: tf.TensorSpec([None, *spec.shape], spec.dtype), self._outputs
            )
            recurse = _Recursion(False, graph, lambda nest: _some(self._outputs), lambda nest: _some(rows_of_some))
            results = self._body(_some(self._inputs), recurse)
        check(results)
        draws = tuple((state, scope.draws[identity]) for identity, state in scope.states.items())
        return Trial(bool(scope.losses), draws, recurse.is_in_loop)

    def subgraph(self, trial: Trial, seeds: Seeds | None, **options: Any) -> SubGraph:
        """The SubGraph.

        Args:
            trial: what the body did when it was tried out.
            seeds: where random numbers come from; None to let generators count.
            **options: of `SubGraph`.

        Raises:
            DefinitionError: a loss is added in a branch or loop.
        """
        if seeds is not None:
            seeds.prepare(trial.draws)
        outputs = (self._outputs, _LOSS) if trial.has_losses else self._outputs
        made = SubGraph(self._name, tuple(tf.nest.flatten(self._inputs)), outputs, **options)
        with made:
            arguments = tf.nest.pack_sequence_as(self._inputs, tf.nest.flatten(made.declared_arguments()))
            made.output(self._traced(arguments, trial.has_losses, seeds, made))
        return made

    def _traced(self, arguments: Nest, has_losses: bool, seeds: Seeds | None, made: SubGraph) -> Nest:
        graph = tf.compat.v1.get_default_graph()
        seed = None if seeds is None else (lambda state, number: seeds.seed(arguments, state, number))
        recurse = _Recursion(
            has_losses,
            graph,
            lambda nest: made(*tf.nest.flatten(nest)),
            lambda nest: made.map(*tf.nest.flatten(nest)),
        )
        with BodyScope(graph, seed, is_trial=False) as scope:
            results = self._body(arguments, recurse)
        if not has_losses:
            return results
        losses = [*scope.losses, *recurse.losses]
        if any(loss.graph is not graph for loss in losses):
            raise DefinitionError(
                f"the recursion of layer '{self._name}' adds a loss, or calls itself and adds a loss elsewhere, in a "
                "branch or loop: its losses cannot be added up",
                next_step="call add_loss and make recursive calls outside of branches and loops, or return the loss "
                "as a part of the result",
            )
        return results, tf.add_n([tf.cast(tf.reduce_sum(loss), tf.float32) for loss in losses])


def _some(specs: Nest) -> Nest:
    """Tensors of these specs."""
    return tf.nest.map_structure(tf_private.placeholder, specs)


class _Recursion:
    """What makes recursive calls in a body.

    Args:
        has_losses: whether a call gives its losses beside its results.
        graph: of the body.
        invoke: makes a call.
        invoke_rows: makes a call for each row of its arguments.

    Attributes:
        losses: those of the calls.
        is_in_loop: whether a loop has made one.
    """

    def __init__(
        self, has_losses: bool, graph: Any, invoke: Callable[[Nest], Nest], invoke_rows: Callable[[Nest], Nest]
    ) -> None:
        self._has_losses, self._graph, self._invoke, self._invoke_rows = has_losses, graph, invoke, invoke_rows
        self.losses: list[tf.Tensor] = []
        self.is_in_loop = False

    def __call__(self, nest: Nest, unless: tf.Tensor | None = None, otherwise: Nest = None) -> Nest:
        """Makes a call.

        Args:
            nest: the arguments, a nest of tensors `[1, ...]`.
            unless: a scalar; where it is true, there is no call, and the result is `otherwise`.
        """
        self.is_in_loop |= tf_private.is_in_loop(self._graph)
        if unless is None:
            found = self._invoke(nest)
        else:
            nothing = (otherwise, tf.zeros([])) if self._has_losses else otherwise
            found = tf.cond(unless, lambda: nothing, lambda: self._invoke(nest))
        if self._has_losses:
            found, loss = found
            self.losses.append(loss)
        return found

    def map(self, nest: Nest) -> Nest:
        """Makes a call for each row of a nest of tensors `[K, ...]`.

        Returns:
            The results, a nest of tensors `[K, ...]`.
        """
        self.is_in_loop = True  # as in a loop, calls share a site
        found = self._invoke_rows(tf.nest.map_structure(lambda rows: rows[:, None], nest))
        if self._has_losses:
            found, losses = found
            self.losses.append(tf.reduce_sum(losses))
        return tf.nest.map_structure(lambda rows: rows[:, 0], found)
