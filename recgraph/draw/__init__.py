"""Pictures: of the body of a SubGraph, of what co-executed steps did, and of a tree with a value at every node."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import FrameType
from typing import TYPE_CHECKING, Any

import keras
import tensorflow as tf

from recgraph.coexec import Coexecuted, Steps
from recgraph.core.decorator import RecursiveFunction
from recgraph.core.subgraph import SubGraph
from recgraph.draw import bodies, fonts, functions, layers, scene, traces, trees
from recgraph.draw.trees import TreeLike
from recgraph.speculate import Speculated

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from recgraph.function import Function

__all__ = ["draw"]


def draw(
    what: SubGraph
    | RecursiveFunction
    | keras.Layer
    | Coexecuted
    | Steps
    | Function[..., Any]
    | TreeLike
    | tuple[Sequence[Any], Sequence[int], Sequence[int]],
    values: Sequence[float] | None = None,
    true: Sequence[float] | None = None,
    *,
    classes: int = 5,
    names: Sequence[str] | None = None,
    title: str | None = None,
) -> Figure:
    """Draws a SubGraph, a layer or a model, a function or a tree with matplotlib.

    Args:
        what: one of
            a SubGraph;
            a function under `@rg.subgraph` that has been called;
            a `rg.keras.TreeLayer` or `SubGraphLayer` that has been called;
            a model of Keras: its layers, and in those two the bodies;
            a function under `@rg.function` that has been called often enough to have become graphs: all of them, those
                of parts of it that were converted alone, and what is co-executed;
            a function under `@rg.function(mode="coexec")`, or `rg.steps`, whose trace graph is drawn;
            a `recgraph.data.Tree`;
            a tree of N nodes as arrays `(word, left, right)` in post-order, with -1 in `left` and `right` at leaves.
        values: for a tree, one number per node. Integers are classes from 0 to `classes - 1`, -1 for none; floats are
            coloured continuously.
        true: for a tree, a second number per node, drawn as a ring around the first, for instance the true label.
        classes: how many classes integers stand for.
        names: names of the classes for the legend.
        title: title of the picture.

    Returns:
        A matplotlib Figure that is not registered with pyplot, so it need not be closed; a notebook shows it, and
        `.savefig("tree.png")` writes it. Captured tensors have the names of the variables that hold them where `draw`
        is called.

    Raises:
        DefinitionError: the SubGraph has no body yet, or the layer has not been called.
        TypeError: `what` is none of these, a function has no graph (the message says why), or values were given for
            something else than a tree.
        ValueError: the arrays are not a tree in post-order, or the number of values is not N.

    Examples:
        >>> figure = draw((["not", "bad", ""], [-1, -1, 0], [-1, -1, 1]), values=[1, 0, 3])
        >>> figure.savefig("/dev/null", format="png")
    """
    if not isinstance(what, SubGraph | RecursiveFunction | keras.Layer | Coexecuted | Steps | Speculated):
        tree = trees.as_arrays(what)
        colours = trees.Colours.of(values, true, len(tree.words), classes, names)
        with fonts.having([*tree.words, title or "", *(names or ())]):
            return trees.figure(tree, colours, title or "")
    if values is not None or true is not None:
        raise TypeError("draw: values belong to the nodes of a tree; a SubGraph is drawn without any")
    drawn, name = _scene_of(what, _names_from(sys._getframe(1)))
    with fonts.having([title or "", *scene.texts(drawn)]):
        return bodies.figure(drawn, name if title is None else title)


def _scene_of(what: Any, captured: dict[int, str]) -> tuple[scene.Scene, str]:
    """What there is to draw, and its name."""
    if isinstance(what, Coexecuted | Steps):
        return traces.of_steps(what.phases.graph), ""
    if isinstance(what, Speculated):
        return functions.of_function(what, captured), what.name
    if isinstance(what, keras.Model):
        return layers.of_model(what, captured), what.name
    if isinstance(what, keras.Layer):
        what = layers.subgraph_of(what)
    if isinstance(what, RecursiveFunction):
        what = _only_subgraph(what)
    return scene.of_subgraph(what, captured), what.name


draw.autograph_info__ = None  # type: ignore[attr-defined]  # AutoGraph calls what has this mark as it is


def _names_from(frame: FrameType | None) -> dict[int, str]:
    """The names of tensors in a frame, its module and its callers, by their ids; the nearest name counts."""
    scopes = []
    while frame is not None:
        scopes += [frame.f_locals, frame.f_globals]
        frame = frame.f_back
    return {
        id(value): name
        for scope in reversed(scopes)
        for name, value in list(scope.items())
        if isinstance(name, str) and not name.startswith("_") and issubclass(type(value), tf.Tensor)
    }


def _only_subgraph(function: RecursiveFunction) -> SubGraph:
    made = function.subgraphs
    if len(made) != 1:
        raise TypeError(
            f"draw: the function stands for {len(made)} SubGraphs, one for each kind of arguments it was called with; "
            "call it first, or draw one of its `.subgraphs`"
        )
    return made[0]
