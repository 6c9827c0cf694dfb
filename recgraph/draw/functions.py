"""The scene of a function under `rg.function`: the graphs that its calls became, and those of the parts of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from recgraph.auto import Automatic
from recgraph.auto.ways import Coexecuting
from recgraph.draw import traces
from recgraph.draw.scene import REGION, Scene, SceneNode, of_graph
from recgraph.speculate import Speculated


def of_function(function: Speculated, captured: dict[int, str]) -> Scene:
    """The scene of a function: a box for each graph.

    Args:
        function: a function under `rg.function`, in the modes "auto" and "speculate".
        captured: as of `scene.of_subgraph`.

    Raises:
        TypeError: no call has become a graph.
    """
    nodes = [*_own(function, captured), *(_apart(function, captured) if isinstance(function, Automatic) else ())]
    if not nodes:
        raise TypeError(f"draw: {_why_not(function)}")
    return Scene(nodes, [])


def _why_not(function: Speculated) -> str:
    if function.given_up:
        return f"{function.name} has no graph: {function.given_up}"
    returned = function.profile.returned_calls
    return (
        f"{function.name} has no graph yet: calls are observed first, {function.profiled_calls} of them, and it was "
        f"called {returned} time{'' if returned == 1 else 's'}; call it, then draw it"
    )


def _own(function: Any, captured: dict[int, str]) -> Iterator[SceneNode]:
    """A box for each graph of a function or a part of one."""
    for cached in function.graphs:
        graph = cached.graph
        if graph is not None:
            yield SceneNode(REGION, f"{function.name}: {cached.summary}", parts=(("graph", of_graph(graph, captured)),))


def _apart(function: Automatic, captured: dict[int, str]) -> Iterator[SceneNode]:
    """Boxes for the functions that it calls, where these became graphs, and for what is co-executed."""
    for part in function.converted_parts():
        yield from _own(part, captured)
    for way in function.apart.every if function.apart is not None else ():
        if isinstance(way, Coexecuting):
            steps = traces.of_steps(way.coexecuted.phases.graph)
            yield SceneNode(REGION, f"{function.name}: co-executed", parts=(("steps", steps),))
