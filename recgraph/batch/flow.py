"""What depends on what in the functions of a program: which operations can run together, and which results of a
call become known together.

Every value has a *label*: the results of calls (by group), operations in blocks of their own and joins of computed
parts that it waits for. Values with the same label are there at the same time, so operations with the same label make
one block. Groups start coarse, all results of a function in one, and are split until every group has one label in
every function that a call may reach.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any, TypeAlias

from recgraph import tf_private
from recgraph.batch import plan
from recgraph.batch.nodes import attribute, origin
from recgraph.core.writing import LINEAR, OWN_GRADIENT
from recgraph.errors import Unbatchable

# The output of a node: its name ("" for an argument) and the number of the output.
Value: TypeAlias = tuple[str, int]
# ("call", node, group) or ("node", node)
Token: TypeAlias = tuple[Any, ...]
Label: TypeAlias = frozenset[Token]
NOTHING: Label = frozenset()

# The same value and the same gradient: equal calls are one by the rows that they are given, and have one gradient.
_ALIASES = frozenset({"Identity", "Snapshot"})
_CALLS = frozenset(
    {"Recgraph>Invoke", "Recgraph>InvokeGradient", "If", "Case", "Recgraph>While", "Recgraph>CallFunction"}
)
_FRAMES = {
    "Recgraph>PackFrame": plan.PACK,
    "Recgraph>UnpackFrame": plan.UNPACK,
    "Recgraph>FrameIsEmpty": plan.IS_EMPTY,
}
_ROOTS = frozenset({"Const", "Recgraph>Capture"})


@dataclasses.dataclass
class Call:
    """A call node.

    Attributes:
        arguments: without the selector.
        results: how many the callee has.
        made: for a loop or a map, the kind of the function that is made for it, its only target.
        inner: what that function calls.
    """

    node: Any
    targets: list[str]
    arguments: list[Value]
    results: int
    selector: Value | None = None
    kind: int = plan.NO_SELECTOR
    site: str = ""
    made: int = plan.PLAIN
    inner: tuple[str, ...] = ()

    @property
    def inputs(self) -> list[Value]:
        """The selector, if there is one, and the arguments."""
        return self.arguments if self.selector is None else [self.selector, *self.arguments]


class Flow:
    """One function of the library.

    Attributes:
        nodes: its operations by name, in order, aliases left out.
        calls: those of them that are calls.
        shared: names of operations whose values are the same for all invocations.
        by_row: names of operations that run once for every row, with the reason.
        joins: names of concatenations that only note their parts.
        ordered: names of operations and calls that control dependencies wait for.
        results: the values that it returns.
    """

    def __init__(self, definition: Any, by_row: dict[str, str], joins: set[str], ordered: set[str]) -> None:
        self.definition = definition
        self.name = definition.signature.name
        self.by_row, self.joins, self.ordered = by_row, joins, ordered
        self._arguments = {a.name: i for i, a in enumerate(definition.signature.input_arg)}
        self._aliases: dict[Value, Value] = {}
        self._waits: dict[str, list[str]] = {}
        self._raw = {node.name: node for node in definition.node_def}
        self._inputs: dict[str, list[Value]] = {}
        self.nodes: dict[str, Any] = {}
        self.shared: set[str] = set()
        for node in self._in_order():
            self._add(node)
        self.used = {value for name in self.nodes for value in self.inputs(name)}
        self.results = [self.value(definition.ret[a.name]) for a in definition.signature.output_arg]
        self.used.update(self.results)
        self.calls = {name: self._call(node) for name, node in self.nodes.items() if node.op in _CALLS}

    @property
    def arguments(self) -> int:
        """How many there are."""
        return len(self._arguments)

    def value(self, reference: str) -> Value:
        """What a reference in the FunctionDef stands for, aliases followed."""
        parts = reference.split(":")
        if parts[0] in self._arguments:
            return ("", self._arguments[parts[0]])
        value = (parts[0], _output_number(self._raw[parts[0]], parts[1], int(parts[2])))
        return self._aliases.get(value, value)

    def inputs(self, name: str) -> list[Value]:
        """The values that a node reads, control inputs left out."""
        if name not in self._inputs:
            references = [reference for reference in self.nodes[name].input if not reference.startswith("^")]
            self._inputs[name] = [self.value(reference) for reference in references]
        return self._inputs[name]

    def _in_order(self) -> list[Any]:
        """The operations after those that they read from."""
        ordered: dict[str, Any] = {}
        stack = list(reversed(self._raw))
        while stack:
            name = stack[-1]
            sources = [r.split(":")[0] for r in self._raw[name].input if not r.startswith("^")]
            sources += self.waits(self._raw[name])
            before = [s for s in sources if s not in self._arguments and s not in ordered]
            if before:
                stack.extend(before)
            else:
                ordered.setdefault(stack.pop(), self._raw[name])
        return list(ordered.values())

    def waits(self, node: Any) -> list[str]:
        """The ordered operations and calls that `node` has to come after, by its control inputs."""
        if node.name not in self._waits:
            stack = [reference[1:] for reference in node.input if reference.startswith("^")] if self.ordered else []
            seen: dict[str, None] = {}
            while stack:
                name = stack.pop()
                if name in seen or name in self._arguments:
                    continue
                seen[name] = None
                if name not in self.ordered:  # then it has come after those that it reads from
                    stack += [reference.lstrip("^").split(":")[0] for reference in self._raw[name].input]
            self._waits[node.name] = [name for name in seen if name in self.ordered]
        return self._waits[node.name]

    def is_alone(self, name: str) -> bool:
        """Whether an operation is a block of its own."""
        return name in self.by_row or (name in self.ordered and self._raw[name].op not in _CALLS)

    def is_shared(self, value: Value) -> bool:
        """Whether a value is the same for all invocations of a call from outside."""
        return value[0] in self.shared

    def parts(self, name: str) -> list[str]:
        """The nodes that a join is made of; none for other nodes."""
        return [part for part, _ in self.inputs(name)[:-1]] if name in self.joins else []

    def _add(self, node: Any) -> None:
        if node.op in _ALIASES and OWN_GRADIENT not in node.attr and not self.waits(node):
            self._aliases[(node.name, 0)] = self.value(node.input[0])
            return
        if node.op == "NoOp":
            return
        self.nodes[node.name] = node
        if node.op in _CALLS or node.op in _FRAMES or self.is_alone(node.name) or node.op == "Recgraph>Accumulate":
            return
        if self.waits(node):
            return
        if node.op in _ROOTS or (self.inputs(node.name) and all(map(self.is_shared, self.inputs(node.name)))):
            self.shared.add(node.name)

    def _call(self, node: Any) -> Call:
        inputs = self.inputs(node.name)
        site = attribute(node, "site").s.decode()
        if node.op in ("Recgraph>Invoke", "Recgraph>InvokeGradient"):
            if attribute(node, "key").s:
                raise Unbatchable("a call with an environment of its own", origin(node))
            return self._invocation(node, inputs, site)
        results = len(attribute(node, "T" if node.op == "Recgraph>While" else "Tout").list.type)
        if node.op == "If":
            branches = [attribute(node, "then_branch").func.name, attribute(node, "else_branch").func.name]
            return Call(node, branches, inputs[1:], results, inputs[0], plan.BOOL)
        if node.op == "Case":
            branches = [function.name for function in attribute(node, "branches").list.func]
            return Call(node, branches, inputs[1:], results, inputs[0], plan.INDEX)
        if node.op == "Recgraph>While":
            loop = (attribute(node, "cond").func.name, attribute(node, "body").func.name)
            return Call(node, [f"{self.name}/{node.name}#loop"], inputs, results, made=plan.LOOP, inner=loop)
        return Call(node, [attribute(node, "f").func.name], inputs, results)

    def _invocation(self, node: Any, inputs: list[Value], site: str) -> Call:
        entry, results = attribute(node, "entry").s.decode(), len(attribute(node, "Tout").list.type)
        if node.op == "Recgraph>InvokeGradient":
            callee, inputs = f"{entry}.grad", inputs[: 1 + len(attribute(node, "Tgrads").list.type)]
        elif (node.name, results) in self.used:
            callee, results = f"{entry}.rec", results + 1
        else:
            callee = entry
        if not attribute(node, "map").b:
            return Call(node, [callee], inputs, results, site=site)
        name = f"{self.name}/{node.name}#map"
        return Call(node, [name], inputs, results, site=site, made=plan.MAP, inner=(callee,))


def frame_kind(node: Any) -> int | None:
    """The kind of a node that handles frames, or None."""
    return _FRAMES.get(node.op)


def _output_number(node: Any, argument: str, index: int) -> int:
    before = 0
    for output in tf_private.op_definition(node.op).output_arg:
        if output.name == argument:
            return before + index
        if output.number_attr:
            before += attribute(node, output.number_attr).i
        elif output.type_list_attr:
            before += len(attribute(node, output.type_list_attr).list.type)
        else:
            before += 1
    raise KeyError(f"{node.op} has no output {argument}")


class FlowProgram:
    """All functions that can be reached, their labels, and the groups of their results.

    Attributes:
        with_effects: functions that may have effects.
        whole: functions that give all results at once, when they and their effects are done.
        linear: gradients that are linear in what they are given, and so are all that they call.
        dotted: names of the functions without slashes, each its own.
    """

    def __init__(self, flows: dict[str, Flow], with_effects: set[str]) -> None:
        self.flows, self.with_effects = flows, with_effects
        self.made = {call.targets[0]: call for flow in flows.values() for call in flow.calls.values() if call.made}
        self.linear = self._linear()
        self._classes = self._alike()
        self.whole = {name for members in self._classes if with_effects.intersection(members) for name in members}
        self.whole |= set(self.made)
        self.groups = {name: [list(range(self._results(name)))] for name in self._names()}
        while self._refine():
            pass
        self.dotted: dict[str, str] = {}
        for i, name in enumerate(flows):
            dotted = name.replace("/", ".")
            self.dotted[name] = f"{dotted}.{i}" if dotted in self.dotted.values() else dotted

    def _names(self) -> list[str]:
        return [*self.flows, *self.made]

    def _linear(self) -> set[str]:
        gradients = {name: flow for name, flow in self.flows.items() if name.endswith(".grad")}
        callers: dict[str, set[str]] = {}
        for name, flow in self.flows.items():
            for call in flow.calls.values():
                for target in [*call.targets, *call.inner]:
                    callers.setdefault(target, set()).add(name)
        stack = [name for name, flow in gradients.items() if LINEAR not in flow.definition.attr]
        other: set[str] = set()
        while stack:
            name = stack.pop()
            if name not in other:
                other.add(name)
                stack += callers.get(name, ())
        return gradients.keys() - other

    def _results(self, name: str) -> int:
        return self.made[name].results if name in self.made else len(self.flows[name].results)

    def _alike(self) -> list[list[str]]:
        """Functions that one call may reach must have the same groups."""
        parent = {name: name for name in self._names()}

        def find(name: str) -> str:
            while parent[name] != name:
                name = parent[name]
            return name

        for flow in self.flows.values():
            for call in flow.calls.values():
                for target in call.targets[1:]:
                    parent[find(target)] = find(call.targets[0])
        classes: dict[str, list[str]] = {}
        for name in parent:
            classes.setdefault(find(name), []).append(name)
        return list(classes.values())

    def _refine(self) -> bool:
        labels = {name: self.labels(name) for name in self.flows}
        changed = False
        for members in self._classes:
            if members[0] in self.whole:
                continue
            split = [part for group in self.groups[members[0]] for part in self._split(group, members, labels)]
            if split != self.groups[members[0]]:
                changed = True
                for name in members:
                    self.groups[name] = split
        return changed

    def _split(self, group: list[int], members: list[str], labels: dict[str, dict[str, Label]]) -> list[list[int]]:
        """The parts of a group that each become known at once, whichever function runs."""
        parts: dict[Any, list[int]] = {}
        for result in group:
            key = tuple(self._event_key(name, result, labels[name]) for name in members)
            parts.setdefault(key, []).append(result)
        return list(parts.values())

    def group_of(self, call: Call, result: int) -> int:
        """The number of the group that a result of a call belongs to."""
        return next(g for g, group in enumerate(self.groups[call.targets[0]]) if result in group)

    def _event_key(self, name: str, result: int, labels: dict[str, Label]) -> tuple[Any, ...]:
        """What makes a result known."""
        flow = self.flows[name]
        node, output = flow.results[result]
        if node == "":
            return ("start",)
        if node in flow.calls:
            return ("call", node, self.group_of(flow.calls[node], output))
        if frame_kind(flow.nodes[node]) is not None or node in flow.joins or flow.is_alone(node):
            return ("node", node)
        return ("block", labels[node])

    def labels(self, name: str) -> dict[str, Label]:
        """The label of every node but the calls: of what it makes; frames pass on what they are made of."""
        flow = self.flows[name]
        labels: dict[str, Label] = {}
        before: dict[Token, Label] = {}  # what a token has waited for itself
        for node in flow.nodes:
            if node in flow.calls:
                waited = self._union(flow, node, flow.calls[node].inputs, labels, before)
                for group in range(len(self.groups[flow.calls[node].targets[0]])):
                    before["call", node, group] = _closure(waited, before)
                continue
            label = self._union(flow, node, flow.inputs(node), labels, before)
            # A block that computes a part of a join cannot also run what reads the join.
            if flow.is_alone(node) or any(_is_computed(flow, part, before) for part in flow.parts(node)):
                before["node", node] = _closure(label, before)
                label = frozenset({("node", node)})
            labels[node] = label
        return labels

    def _union(
        self, flow: Flow, name: str, values: Iterable[Value], labels: dict[str, Label], before: dict[Token, Label]
    ) -> Label:
        waits = flow.waits(flow.nodes[name])
        tokens: set[Token] = {("call", w, 0) if w in flow.calls else ("node", w) for w in waits}
        for node, output in values:
            if node in flow.calls:
                tokens.add(("call", node, self.group_of(flow.calls[node], output)))
            elif node:
                tokens |= labels[node]
        implied = {earlier for token in tokens for earlier in before[token]}
        return frozenset(tokens - implied)


def _is_computed(flow: Flow, name: str, before: dict[Token, Label]) -> bool:
    """Whether a block of many operations gives a value or a part of it."""
    if name in flow.joins:
        return ("node", name) in before
    single = not name or name in flow.calls or flow.is_alone(name) or frame_kind(flow.nodes[name]) is not None
    return not single


def _closure(label: Label, before: dict[Token, Label]) -> Label:
    return label.union(*(before[token] for token in label))
