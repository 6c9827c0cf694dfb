"""The scene of a model of Keras: its layers and what flows between them, and the bodies of those with a recursion."""

from __future__ import annotations

from typing import Any

import keras

from recgraph.core.subgraph import SubGraph
from recgraph.draw.scene import INPUT, OPERATION, OUTPUT, REGION, Scene, SceneNode, of_subgraph


def subgraph_of(layer: keras.Layer) -> SubGraph:
    """The SubGraph of a layer with a recursion.

    Raises:
        DefinitionError: it has not been called.
        TypeError: it is another layer.
    """
    if not _is_recursive(layer):
        raise TypeError(
            f"draw: layer '{layer.name}' is a {type(layer).__name__}, which has no recursion; a model, TreeLayers and "
            "SubGraphLayers can be drawn"
        )
    made: SubGraph = layer.recgraph_subgraph()
    return made


def of_model(model: keras.Model, captured: dict[int, str]) -> Scene:
    """The scene of a model.

    Args:
        model: of whichever kind. One that is a subclass does not say what flows between its layers: it has no edges.
        captured: as of `scene.of_subgraph`.
    """
    operations = list(getattr(model, "operations", None) or model.layers)
    place = {id(operation): i for i, operation in enumerate(operations)}
    nodes = [_node(operation, captured) for operation in operations]
    edges = [(place[source], place[target]) for source, target in _links(model, operations) if source in place]
    outputs = [id(tensor._keras_history.operation) for tensor in _outputs_of(model)]
    if outputs:
        nodes.append(SceneNode(OUTPUT, "output"))
        edges += [(place[each], len(nodes) - 1) for each in dict.fromkeys(outputs) if each in place]
    return Scene(nodes, list(dict.fromkeys(edges)))


def _outputs_of(model: keras.Model) -> list[Any]:
    """Its symbolic outputs; none for one that is a subclass, or not built."""
    functional = getattr(model, "_functional", None) or model
    return keras.tree.flatten(getattr(functional, "_outputs", None) or [])


def _links(model: keras.Model, operations: list[Any]) -> list[tuple[int, int]]:
    """Pairs of operations, by their ids, of which the first one gives the second one something."""
    if not _outputs_of(model):
        return []
    return [
        (id(tensor._keras_history.operation), id(operation))
        for operation in operations
        for node in operation._inbound_nodes
        for tensor in node.input_tensors
    ]


def _is_recursive(layer: Any) -> bool:
    return hasattr(layer, "recgraph_subgraph")


def _node(operation: Any, captured: dict[int, str]) -> SceneNode:
    kind = type(operation).__name__
    if kind == "InputLayer":
        return SceneNode(INPUT, operation.name, str(tuple(operation.output.shape)))
    count = operation.count_params() if getattr(operation, "built", False) else 0
    detail = f"{kind}, {count} parameters" if count else kind
    if isinstance(operation, keras.Model):
        return SceneNode(REGION, f"{operation.name}: {detail}", parts=(("model", of_model(operation, captured)),))
    if _is_recursive(operation):
        subgraph = operation.recgraph_subgraph()
        part = ("each example", of_subgraph(subgraph, captured))
        return SceneNode(REGION, f"{operation.name}: {detail}", parts=(part,))
    return SceneNode(OPERATION, operation.name, detail)
