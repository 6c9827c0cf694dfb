"""The scene of a trace graph: operations in the order of the program, branches side by side, loops as boxes."""

from __future__ import annotations

from recgraph.coexec import device
from recgraph.coexec.trace import From
from recgraph.coexec.trace_graph import END, START, Loop, TraceGraph
from recgraph.coexec.trace_graph import TraceNode as Operation
from recgraph.draw.scene import INPUT, OPERATION, OUTPUT, REGION, Scene, SceneNode


def of_steps(graph: TraceGraph, scope: int = START) -> Scene:
    """The scene of all that steps did, or of the trips of one of their loops."""
    order = graph.sorted(scope)
    nodes = [SceneNode(INPUT, "start"), *(_node(graph, item) for item in order), SceneNode(OUTPUT, "end")]
    place = {START: 0, END: len(order) + 1, **{item: i + 1 for i, item in enumerate(order)}}
    edges = [(place[item], place[after]) for item in (START, *order) for after in graph.successors(item, scope)]
    return Scene(nodes, edges)


def _node(graph: TraceGraph, number: int) -> SceneNode:
    item = graph.items[number]
    if isinstance(item, Loop):
        return SceneNode(REGION, "loop", parts=(("each trip", of_steps(graph, number)),))
    details = [device.place(item.location).rpartition("/")[2]]
    if fed := _fed(item):
        details.append("fed " + " and ".join(f"input {i}" for i in fed))
    details += ["fetched"] if item.fetched else []
    return SceneNode(OPERATION, device.signature(item.signature).name, ", ".join(details))


def _fed(operation: Operation) -> list[int]:
    """The inputs that come from Python, by number."""
    return [i for i, origins in enumerate(operation.inputs) if any(origin.origin is From.FEED for origin in origins)]
