"""All graphs of a family up to a number of operators, told apart by fingerprints (TASO, algorithm 1).

A *value* is what a graph with one result computes for random inputs modulo a prime; its fingerprint is a hash of it. Of
all graphs with one value, the first one *represents* it, and larger graphs are made from representatives alone. What is
left out so are graphs in which a part can be replaced by a substitution of fewer operators. A graph that computes a
value that is known is a *member*: it and the representative are candidates for a substitution.

GraphList of the last size are not kept. They are made block by block, which processes share, and a block that is
finished is a file: enumeration that was stopped goes on with the next one.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np

from recgraph.optimize.arithmetic import Field
from recgraph.optimize.families import Family, Shape
from recgraph.optimize.operators import OPERATORS

CHUNK = 16384
_NONE = -1
_SPLIT = 1 << 40  # the nodes of splits are numbered from here: both parts are results of one


@dataclass
class ValueTable:
    """Values with what computes each, in columns.

    Attributes:
        move: the number of the last operator in the family; -1 for inputs.
        left, right: its arguments, as numbers of values; -1 for none. The left one of an input is itself.
        level: number of operators.
        nodes: the operators, as sorted numbers.
        inputs: the set of inputs, a bit each.
        shape: number of the shape.
        row: place among the values of the shape.
    """

    move: np.ndarray
    left: np.ndarray
    right: np.ndarray
    level: np.ndarray
    nodes: np.ndarray
    inputs: np.ndarray
    shape: np.ndarray
    row: np.ndarray

    def __len__(self) -> int:
        return len(self.move)


@dataclass(frozen=True)
class GraphBlock:
    """GraphList with one last operator: every pair of `left` and `right`, or each pair one by one.

    Attributes:
        move: number of the operator.
        left, right: values; `right` is empty for an operator of one tensor.
        is_product: whether each one of `left` meets each one of `right`.
    """

    move: int
    left: np.ndarray
    right: np.ndarray
    is_product: bool

    def __len__(self) -> int:
        return len(self.left) * len(self.right) if self.is_product else len(self.left)

    def chunks(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """The pairs, some at a time."""
        for start in range(0, len(self), CHUNK):
            places = np.arange(start, min(start + CHUNK, len(self)))
            if self.is_product:
                yield self.left[places // len(self.right)], self.right[places % len(self.right)]
            else:
                yield self.left[places], self.right[places] if len(self.right) else np.full(len(places), _NONE)


@dataclass
class GraphList:
    """GraphList of one size: for each the fingerprint, the last operator, and its arguments."""

    fingerprint: np.ndarray
    move: np.ndarray
    left: np.ndarray
    right: np.ndarray

    def __len__(self) -> int:
        return len(self.move)

    def __getitem__(self, chosen: Any) -> GraphList:
        return GraphList(self.fingerprint[chosen], self.move[chosen], self.left[chosen], self.right[chosen])

    @staticmethod
    def joined(parts: list[GraphList]) -> GraphList:
        """All of them."""
        if not parts:
            empty = np.zeros(0, np.int64)
            return GraphList(
                empty.astype(np.uint64), empty.astype(np.int16), empty.astype(np.int32), empty.astype(np.int32)
            )
        columns = zip(*((p.fingerprint, p.move, p.left, p.right) for p in parts), strict=True)
        return GraphList(*map(np.concatenate, columns))


class Enumeration:
    """The values of a family.

    Attributes:
        family: its operators and inputs.
        table: the representatives.
        members: the other graphs, of fewer operators than the last level.
        represented: for each member, the number of its value.
        counts: for each level, the graphs made and the values that were new.
    """

    def __init__(self, family: Family, seed: int = 0) -> None:
        self.family = family
        self.field = Field(seed)
        generator = np.random.default_rng(seed)
        self.shapes: list[Shape] = []
        self.values: list[np.ndarray] = []
        self._multipliers = generator.integers(0, 2**64, 4096, dtype=np.uint64)
        count = len(family.inputs)
        inputs = [self.field.random(generator, (1, *shape)) for shape in family.inputs.values()]
        numbers = np.arange(count)
        none = np.full(count, _NONE)
        shapes = np.array([self._number(shape) for shape in family.inputs.values()])
        self.table = ValueTable(
            none,
            numbers,
            none,
            0 * none,
            np.zeros((count, 0), np.int64),
            1 << numbers,
            shapes,
            self._store(inputs, shapes),
        )
        self.fingerprints = np.array([self._fingerprint(x)[0] for x in inputs], np.uint64)
        self.members = GraphList.joined([])
        self.represented = np.zeros(0, np.int64)
        self.counts: list[tuple[int, int]] = []

    def _number(self, shape: Shape) -> int:
        if shape not in self.shapes:
            self.shapes.append(shape)
            self.values.append(np.zeros((0, *shape), np.int64))
        return self.shapes.index(shape)

    def _store(self, values: list[np.ndarray], shapes: np.ndarray) -> np.ndarray:
        """Keeps values, each an array with its shape's number; gives the places."""
        rows = np.zeros(len(shapes), np.int64)
        for number in np.unique(shapes):
            chosen = np.flatnonzero(shapes == number)
            start = len(self.values[number])
            self.values[number] = np.concatenate([self.values[number], *(values[i] for i in chosen)])
            rows[chosen] = start + np.arange(len(chosen))
        return rows

    def _fingerprint(self, values: np.ndarray) -> np.ndarray:
        flat = values.reshape(len(values), -1).astype(np.uint64)
        hashed = flat @ self._multipliers[: flat.shape[1]]
        return hashed + np.uint64(hash(values.shape[1:]) & (2**64 - 1))

    # Making graphs.

    def extend(self) -> None:
        """Adds the values of one more operator."""
        level = int(self.table.level.max()) + 1
        parts = [self.evaluate(block) for block in self.blocks(level)]
        found = GraphList.joined(parts)
        unique, first = np.unique(found.fingerprint, return_index=True)
        is_new = ~np.isin(unique, self.fingerprints)
        chosen = np.sort(first[is_new])
        self._add(found[chosen], level)
        others = np.ones(len(found), bool)
        others[chosen] = False
        order = np.argsort(self.fingerprints, kind="stable")
        rest = found[others]
        places = order[np.searchsorted(self.fingerprints[order], rest.fingerprint)]
        self.members = GraphList.joined([self.members, rest])
        self.represented = np.concatenate([self.represented, places])
        self.counts.append((len(found), len(chosen)))

    def _add(self, found: GraphList, level: int) -> None:
        table, start = self.table, len(self.table)
        numbers = start + np.arange(len(found))
        is_part = np.array([move.is_part for move in self.family.moves])
        axis = np.array([move.parameters[0] if move.is_part else 0 for move in self.family.moves])
        own = np.where(is_part[found.move], _SPLIT + found.left.astype(np.int64) * 8 + axis[found.move], numbers)
        inputs = table.inputs[found.left] | np.where(found.right >= 0, table.inputs[found.right], 0)
        shapes, rows = self._keep(found)
        nodes = self.nodes_of(found.left, found.right, own, level)
        grown = np.full((start, level), _NONE, np.int64)
        grown[:, : table.nodes.shape[1]] = table.nodes
        columns = [
            (table.move, found.move),
            (table.left, found.left),
            (table.right, found.right),
            (table.level, np.full(len(found), level)),
            (grown, nodes),
            (table.inputs, inputs),
            (table.shape, shapes),
            (table.row, rows),
        ]
        self.table = ValueTable(*(np.concatenate(pair) for pair in columns))
        self.fingerprints = np.concatenate([self.fingerprints, found.fingerprint])

    def _keep(self, found: GraphList) -> tuple[np.ndarray, np.ndarray]:
        """Computes values again, to keep them: most of those that are computed are known."""
        shapes, rows = np.zeros(len(found), np.int64), np.zeros(len(found), np.int64)
        keys = np.stack([found.move, self.table.shape[found.left], self._shape_of(found.right)], 1)
        for key in np.unique(keys, axis=0):
            chosen = np.flatnonzero((keys == key).all(1))
            for part in np.array_split(chosen, -(-len(chosen) // CHUNK)):
                values = self.compute(int(key[0]), found.left[part], found.right[part])
                number = self._number(values.shape[1:])
                shapes[part] = number
                rows[part] = len(self.values[number]) + np.arange(len(part))
                self.values[number] = np.concatenate([self.values[number], values])
        return shapes, rows

    def _shape_of(self, right: np.ndarray) -> np.ndarray:
        return np.where(right >= 0, self.table.shape[right], _NONE)

    def nodes_of(self, left: np.ndarray, right: np.ndarray, own: np.ndarray, level: int) -> np.ndarray:
        """The operators of graphs: those of both arguments, and their own."""
        both = np.concatenate(
            [self.table.nodes[left], np.where(right[:, None] >= 0, self.table.nodes[right], _NONE), own[:, None]], 1
        )
        both = np.sort(both, 1)
        both[:, 1:][both[:, 1:] == both[:, :-1]] = _NONE
        return np.sort(both, 1)[:, -level:]

    def compute(self, move: int, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """The values of graphs with one last operator, whose arguments all have the same shapes."""
        arguments = [left] if self.family.moves[move].arity == 1 else [left, right]
        shapes = [self.shapes[self.table.shape[one[0]]] for one in arguments]
        numbers = self.family.moves[move].numbers(shapes)
        assert numbers is not None
        tensors = [self.values[self.table.shape[one[0]]][self.table.row[one]] for one in arguments]
        return OPERATORS[self.family.moves[move].operator].reference(self.field, numbers, tensors)

    def evaluate(self, block: GraphBlock) -> GraphList:
        """The fingerprints of a block."""
        parts = []
        for left, right in block.chunks():
            values = self.compute(block.move, left, right)
            columns = np.full(len(left), block.move, np.int16), left.astype(np.int32), right.astype(np.int32)
            found = GraphList(self._fingerprint(values), *columns)
            is_zero = ~values.reshape(len(values), -1).any(1)
            parts.append(found if self.family.has_zeros or not is_zero.any() else found[~is_zero])
        return GraphList.joined(parts)

    # Which graphs there are.

    def blocks(self, level: int, is_last: bool = False) -> Iterator[GraphBlock]:
        """All graphs of so many operators, in blocks of one operator and one shape of each argument.

        Args:
            level: number of operators.
            is_last: leaves out graphs whose inputs are not the first ones of their shape.
        """
        groups = self._groups()
        singles = [(key, numbers) for key, numbers in groups.items() if key[0] == level - 1]
        for (move, one), (key, numbers) in itertools.product(enumerate(self.family.moves), singles):
            if one.arity == 1 and self._fits(move, key[1], _NONE) and (not is_last or self.is_first(key[2])):
                yield GraphBlock(move, numbers, np.zeros(0, np.int64), False)
        for i in range(level):
            yield from self._products(groups, i, level - 1 - i, is_last)
        yield from self._sharing(level, is_last)

    def _groups(self) -> dict[tuple[int, int, int], np.ndarray]:
        """The values by level, shape and inputs."""
        table = self.table
        keys = np.stack([table.level, table.shape, table.inputs], 1)
        unique, inverse = np.unique(keys, axis=0, return_inverse=True)
        order = np.argsort(inverse.ravel(), kind="stable")
        parts = np.split(order, np.cumsum(np.bincount(inverse.ravel()))[:-1])
        return {(int(a), int(b), int(c)): part for (a, b, c), part in zip(unique, parts, strict=True)}

    def is_first(self, inputs: int) -> bool:
        """Whether a set of inputs has the first ones of each shape."""
        return self._is_first[inputs]

    @cached_property
    def _is_first(self) -> list[bool]:
        names = list(self.family.inputs)
        sets = range(1 << len(names))
        return [self.family.is_first(name for i, name in enumerate(names) if bits >> i & 1) for bits in sets]

    @cache  # noqa: B019, there are few, and as many enumerations as processes
    def _fits(self, move: int, left: int, right: int) -> bool:
        shapes = [self.shapes[one] for one in (left, right) if one >= 0]
        one = self.family.moves[move]
        return len(shapes) == one.arity and one.numbers(shapes) is not None

    def _products(
        self, groups: dict[tuple[int, int, int], np.ndarray], i: int, j: int, is_last: bool
    ) -> Iterator[GraphBlock]:
        """GraphList whose arguments have i and j operators, none in common."""
        lefts = [(key, numbers) for key, numbers in groups.items() if key[0] == i]
        rights = [(key, numbers) for key, numbers in groups.items() if key[0] == j]
        for (a, left), (b, right) in itertools.product(lefts, rights):
            if is_last and not self.is_first(a[2] | b[2]):
                continue
            for move, one in enumerate(self.family.moves):
                if one.arity != 2 or not self._fits(move, a[1], b[1]):
                    continue
                if not one.is_commutative or (i, a) > (j, b):
                    yield from self._disjoint(GraphBlock(move, left, right, True), i and j)
                elif (i, a) == (j, b):
                    upper = np.triu_indices(len(left))
                    yield from self._disjoint(GraphBlock(move, left[upper[0]], left[upper[1]], False), i and j)

    def _disjoint(self, block: GraphBlock, may_share: int) -> Iterator[GraphBlock]:
        """A block without pairs that have operators in common: these are smaller graphs."""
        if not may_share:
            yield block
            return
        for left, right in block.chunks():
            a, b = self.table.nodes[left], self.table.nodes[right]
            shares = ((a[:, :, None] == b[:, None, :]) & (a[:, :, None] >= 0)).any((1, 2))
            if not shares.all():
                yield GraphBlock(block.move, left[~shares], right[~shares], False)

    def _sharing(self, level: int, is_last: bool) -> Iterator[GraphBlock]:
        """GraphList whose arguments have operators in common."""
        pairs = [self._contained(level - 1)] if level > 1 else []
        pairs += [self._overlapping()] if level == 4 else []
        for left, right in pairs:
            inputs = self.table.inputs[left] | self.table.inputs[right]
            if is_last:
                chosen = np.array(self._is_first)[inputs]
                left, right = left[chosen], right[chosen]
            keys = self.table.shape[left] * len(self.shapes) + self.table.shape[right]
            for key in np.unique(keys):
                a, b = divmod(int(key), len(self.shapes))
                us, vs = left[keys == key], right[keys == key]
                for move, one in enumerate(self.family.moves):
                    if one.arity != 2 or not self._fits(move, a, b):
                        continue
                    ordered = us >= vs if one.is_commutative else np.ones(len(us), bool)
                    yield GraphBlock(move, us[ordered], vs[ordered], False)

    def _contained(self, level: int) -> tuple[np.ndarray, np.ndarray]:
        """Pairs of values of which one has this many operators, and all those of the other; in both orders."""
        table = self.table
        wholes = np.flatnonzero(table.level == level)
        by_node = self._by_node
        lefts, rights = [], []
        for whole in wholes:
            for node in table.nodes[whole]:
                for part in by_node.get(int(node), ()):
                    lefts.append(whole)
                    rights.append(part)
        us, vs = np.array(lefts, np.int64), np.array(rights, np.int64)
        inside = (table.nodes[vs][:, :, None] == table.nodes[us][:, None, :]).any(2) | (table.nodes[vs] < 0)
        us, vs = us[inside.all(1)], vs[inside.all(1)]
        turned = table.level[vs] < level
        return np.concatenate([us, vs[turned]]), np.concatenate([vs, us[turned]])

    @property
    def _by_node(self) -> dict[int, list[int]]:
        """The values whose last operator is this one: two for a split."""
        table = self.table
        found: dict[int, list[int]] = {}
        is_part = np.array([move.is_part for move in self.family.moves])
        axis = np.array([move.parameters[0] if move.is_part else 0 for move in self.family.moves])
        numbers = np.flatnonzero(table.level > 0)
        left = table.left[numbers].astype(np.int64)
        own = np.where(is_part[table.move[numbers]], _SPLIT + left * 8 + axis[table.move[numbers]], numbers)
        for number, node in zip(numbers.tolist(), own.tolist(), strict=True):
            found.setdefault(node, []).append(number)
        return found

    def _overlapping(self) -> tuple[np.ndarray, np.ndarray]:
        """Pairs of values of two operators each, one of which they have in common; in both orders."""
        table = self.table
        numbers = np.flatnonzero(table.level == 2)
        by_node: dict[int, list[int]] = {}
        for number in numbers.tolist():
            for node in table.nodes[number]:
                if node >= 0:
                    by_node.setdefault(int(node), []).append(number)
        lefts, rights = [], []
        for group in by_node.values():
            one = np.array(group)
            lefts.append(np.repeat(one, len(one)))
            rights.append(np.tile(one, len(one)))
        us, vs = (np.concatenate(parts) if parts else np.zeros(0, np.int64) for parts in (lefts, rights))
        same = (table.nodes[us] == table.nodes[vs]).all(1)
        return us[~same], vs[~same]


# The last level.


def tasks(enumeration: Enumeration, size: int = 250_000) -> Iterator[list[GraphBlock]]:
    """The blocks of the last level, in the same order each time, some together."""
    level = int(enumeration.table.level.max()) + 1
    blocks, count = [], 0
    for block in enumeration.blocks(level, is_last=True):
        blocks.append(block)
        count += len(block)
        if count >= size:
            yield blocks
            blocks, count = [], 0
    if blocks:
        yield blocks


def run_task(enumeration: Enumeration, blocks: list[GraphBlock]) -> GraphList:
    """The graphs of some blocks."""
    return GraphList.joined([enumeration.evaluate(block) for block in blocks])


@dataclass
class Candidates:
    """Pairs of graphs with one fingerprint.

    Attributes:
        members: the larger graph of each pair, or the later one.
        others: the smaller graph of each.
        graphs: for each number of operators, how many graphs were made.
        values: for each, how many values were new.
        pairs: how many pairs of graphs have one fingerprint: all pairs of a class count, not only those with its first.
        renamed: numbers of the pairs whose larger graph uses the inputs of each shape in order: of graphs that differ
            in the names of inputs, this is one.
    """

    members: GraphList
    others: GraphList
    graphs: list[int]
    values: list[int]
    pairs: int
    renamed: np.ndarray


def candidates(enumeration: Enumeration, last: GraphList) -> Candidates:
    """Each graph that is not the first one of its value, with the first one."""
    table, prints = enumeration.table, enumeration.fingerprints
    first = GraphList(prints, table.move.astype(np.int16), table.left.astype(np.int32), table.right.astype(np.int32))
    everything = GraphList.joined([first, enumeration.members, last])
    order = np.argsort(everything.fingerprint, kind="stable")
    sorted_prints = everything.fingerprint[order]
    starts = np.flatnonzero(np.concatenate([[True], sorted_prints[1:] != sorted_prints[:-1]]))
    sizes = np.diff(np.concatenate([starts, [len(order)]]))
    representative = np.repeat(order[starts], sizes)
    is_member = order != representative
    new = int((order[starts] >= len(first) + len(enumeration.members)).sum())
    graphs, values = ([count[i] for count in enumeration.counts] for i in (0, 1))
    pairs = int((sizes.astype(np.int64) * (sizes - 1) // 2).sum())
    chosen = np.argsort(order[is_member], kind="stable")
    members, others = (everything[one[is_member][chosen]] for one in (order, representative))
    renamed = np.flatnonzero(_in_order(enumeration, members))
    return Candidates(members, others, [*graphs, len(last)], [*values, new], pairs, renamed)


def _in_order(made: Enumeration, members: GraphList) -> np.ndarray:
    """Whether graphs use the inputs of each shape in order, from left to right."""
    table, count = made.table, len(made.family.inputs)
    orders = np.full((len(table), count), _NONE, np.int8)
    orders[:count, 0] = np.arange(count)
    for level in range(1, int(table.level.max()) + 1):
        chosen = table.level == level
        orders[chosen] = _joined_orders(orders, table.left[chosen], table.right[chosen])
    orders = _joined_orders(orders, members.left, members.right)
    shapes = list(made.family.inputs.values())
    previous = [max((j for j in range(i) if shapes[j] == shapes[i]), default=_NONE) for i in range(count)]
    good = np.ones(len(orders), bool)
    for i, before in enumerate(previous):
        if before >= 0:
            places = [np.where((orders == one).any(1), (orders == one).argmax(1), count) for one in (before, i)]
            good &= (places[0] < places[1]) | (places[1] == count)
    return good


def _joined_orders(orders: np.ndarray, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """The inputs of two arguments in the order in which they come first."""
    result = orders[left].copy()
    length = (result >= 0).sum(1)
    for column in range(orders.shape[1]):
        added = np.where(right >= 0, orders[right, column], _NONE)
        rows = np.flatnonzero((added >= 0) & ~(result == added[:, None]).any(1))
        result[rows, length[rows]] = added[rows]
        length[rows] += 1
    return result
