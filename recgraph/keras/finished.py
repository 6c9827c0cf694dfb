"""A finished SubGraph in a layer: the variables that it reads are the layer's."""

from __future__ import annotations

import gc
from typing import Any

import keras
import tensorflow as tf

from recgraph import tf_private
from recgraph.core import program
from recgraph.core.subgraph import SubGraph
from recgraph.errors import DefinitionError


class AdoptedVariable(keras.Variable):
    """A `tf.Variable` that Keras trains and saves; made by the user, for a SubGraph.

    Args:
        variable: the variable; its value stays where it is.
    """

    def __init__(self, variable: tf.Variable) -> None:
        self._adopted = variable
        name = variable.name.split(":")[0].replace("/", "_")
        super().__init__(lambda shape, dtype: variable, variable.shape, variable.dtype, variable.trainable, name=name)

    def _initialize_with_initializer(self, initializer: Any) -> None:
        self._initialize(self._adopted)


def variables_of(subgraph: SubGraph) -> list[keras.Variable]:
    """The variables that a SubGraph and those that it calls read, in the order of their first use.

    Those of Keras layers stay what they are, so that a model that has such a layer elsewhere, too, trains them once.

    Raises:
        DefinitionError: a body is not complete, or a variable is gone.
    """
    found: dict[int, tf.Variable] = {}
    for each in program.reachable(subgraph):
        body = each.finished_body()
        variables = tf_private.variables_by_handle(body)
        for handle in body.captured:
            if id(handle) in variables:
                found[id(handle)] = variables[id(handle)]
            elif handle.dtype == tf.resource and tf_private.handle_data(handle) is not None:
                raise DefinitionError(
                    f"SubGraph '{each.name}' reads a variable that nobody holds any more",
                    next_step="keep the variable, or the layer that has it, as long as the SubGraph",
                )
    return [_of_keras(variable) for variable in found.values()]


def _of_keras(variable: tf.Variable) -> keras.Variable:
    """The variable of Keras that holds this one, or a new one; only the garbage collector knows who holds what."""
    holders = gc.get_referrers(variable)
    holders += [outer for holder in holders if isinstance(holder, dict) for outer in gc.get_referrers(holder)]
    owner = next((h for h in holders if isinstance(h, keras.Variable) and h._value is variable), None)
    return AdoptedVariable(variable) if owner is None else owner


def arguments(subgraph: SubGraph, inputs: Any) -> Any:
    """The inputs of a layer as those of its SubGraph: a tuple or list is several of them.

    Under mixed precision, what comes from other layers has fewer digits than the SubGraph declares.
    """
    are_several = isinstance(subgraph.inputs, tuple | list) and isinstance(inputs, tuple | list)
    given = tf.nest.flatten(inputs)
    specs = tf.nest.flatten(subgraph.inputs)
    if len(given) == len(specs):
        inputs = tf.nest.pack_sequence_as(inputs, [_fitting(*pair) for pair in zip(given, specs, strict=True)])
    return inputs if are_several else (inputs,)


def _fitting(tensor: tf.Tensor, spec: tf.TensorSpec) -> tf.Tensor:
    return tf.cast(tensor, spec.dtype) if tensor.dtype.is_floating and spec.dtype.is_floating else tensor


def described(subgraph: SubGraph) -> dict[str, str]:
    """What a configuration has of a SubGraph: its name."""
    return {"subgraph": subgraph.name}


def is_described(config: Any) -> bool:
    """Whether a configuration is that of a SubGraph."""
    return isinstance(config, dict) and config.keys() == {"subgraph"}


def found(config: dict[str, str]) -> SubGraph:
    """The SubGraph of this name.

    Raises:
        DefinitionError: nobody has told Keras of one.
    """
    name = config["subgraph"]
    subgraph = keras.saving.get_registered_object(name)
    if not isinstance(subgraph, SubGraph):
        raise DefinitionError(
            f"the file of the model has the weights of SubGraph '{name}', but not its body",
            next_step=f"define it, and load with custom_objects={{{name!r}: ...}}",
        )
    return subgraph
