"""Which blocks can lead to rows for which others: the order of the agenda."""

from __future__ import annotations

from recgraph.batch import plan

_Place = tuple[str, int]  # function, event


def assign(whole: plan.Plan) -> None:
    """Numbers the blocks: along the ways that rows can take, and alike where they can go round in a circle."""
    edges = _edges(whole)
    components = _components(edges)
    number = {place: i for i, component in enumerate(components) for place in component}
    blocks = [(number[f.name, n.event], n.block) for f in whole.functions for n in f.nodes if n.block is not None]
    ranks = {value: i for i, value in enumerate(sorted({value for value, _ in blocks}))}
    for value, block in blocks:
        block.priority = ranks[value]
        first = components[value][0]
        block.repeats = len(components[value]) > 1 or first in edges[first]


def _edges(whole: plan.Plan) -> dict[_Place, set[_Place]]:
    """Event -> the events that it can lead to, by nodes of its function, by calls and by their results."""
    functions = {function.name: function for function in whole.functions}
    edges: dict[_Place, set[_Place]] = {(f.name, e): set() for f in whole.functions for e in range(len(f.events))}
    edges.update(((f.name, 1), set()) for f in whole.functions if f.kind != plan.PLAIN)  # the end of a loop or map
    for function in whole.functions:
        if function.kind != plan.PLAIN:
            _made_edges(function, functions, edges)
            continue
        for event, (consumers, _) in enumerate(function.events):
            for i in consumers:
                node = function.nodes[i]
                if node.kind == plan.CALL:
                    edges[function.name, event].update((target, 0) for target in node.targets)
                else:
                    edges[function.name, event].add((function.name, node.event))
        for node in function.nodes:
            if node.kind == plan.CALL:
                for target in node.targets:
                    for source, group in _deliveries(functions[target]):
                        edges[target, source].add((function.name, node.event + group))
    return edges


def _deliveries(function: plan.PlannedFunction) -> list[tuple[int, int]]:
    if function.kind != plan.PLAIN:
        return [(1, group) for group in range(len(function.groups))]
    return [(event, group) for event, (_, groups) in enumerate(function.events) for group in groups]


def _made_edges(
    made: plan.PlannedFunction, functions: dict[str, plan.PlannedFunction], edges: dict[_Place, set[_Place]]
) -> None:
    """A loop's condition can lead to its body and to its end, its body to the condition; a map's callee to the end."""
    starts = [(node.targets[0], 0) for node in made.nodes]
    after = [{starts[-1], (made.name, 1)}, {starts[0]}] if made.kind == plan.LOOP else [{(made.name, 1)}]
    edges[made.name, 0].add(starts[0])
    for node, following in zip(made.nodes, after, strict=True):
        for source, _ in _deliveries(functions[node.targets[0]]):
            edges[node.targets[0], source].update(following)


def _components(edges: dict[_Place, set[_Place]]) -> list[list[_Place]]:
    """Strongly connected components, each before those that it leads to (Tarjan, without recursion)."""
    index: dict[_Place, int] = {}
    low: dict[_Place, int] = {}
    on_stack: set[_Place] = set()
    stack: list[_Place] = []
    found: list[list[_Place]] = []
    for root in edges:
        if root in index:
            continue
        work = [(root, iter(sorted(edges[root])))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        while work:
            place, following = work[-1]
            for after in following:
                if after not in index:
                    index[after] = low[after] = len(index)
                    stack.append(after)
                    on_stack.add(after)
                    work.append((after, iter(sorted(edges[after]))))
                    break
                if after in on_stack:
                    low[place] = min(low[place], index[after])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[place])
                if low[place] == index[place]:
                    component: list[_Place] = []
                    while not component or component[-1] != place:
                        component.append(stack.pop())
                        on_stack.discard(component[-1])
                    found.append(component)
    return found[::-1]
