"""`rg.keras.TreeLayer`: a recursion over trees, written for one node, as a Keras layer over batches of trees."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import keras
import tensorflow as tf

from recgraph.errors import SignatureError
from recgraph.keras import failures
from recgraph.keras.layer import SubGraphLayer, converted
from recgraph.keras.seeds import Nest, NodeSeeds


@keras.saving.register_keras_serializable("recgraph")
class TreeLayer(SubGraphLayer):
    """A recursion over trees as a layer: what happens at one node, for all nodes of all trees of a batch.

    A batch of trees is a nest of tensors `[B, N, ...]`, ragged or filled up, with an entry for each node. Position 0 is
    the root; somewhere in its entry a node has the positions of its children, -1 for none. Write `node` for one node,
    as a batch of one: each tensor in it has a leading dimension of 1, so Keras layers work as they are. `child` gives
    the state of a child.

    An entry may have any number of values, of positions for instance: `[B, N, values]`, ragged in both. `child.map`
    gives the states of all children at such positions.

    A node may be the child of several: it runs once. (Where `explain()` says that the layer is not scheduled, it runs
    once for each path from the root, of which there may be exponentially many.)

    Args:
        function: called in place of `node`, with the same arguments; see `SubGraphLayer`.
        output_size: the sizes of a node's state; see `SubGraphLayer`.
        return_nodes: whether the result has the states of all nodes in place of those of the roots, as an RNN has
            `return_sequences`. Every node is a root then; where `explain()` says that the layer is not scheduled, nodes
            run as often as they are below others. A subclass may set it as an attribute.
        **options: of `SubGraphLayer`.

    Examples:
        >>> import tensorflow as tf, recgraph as rg
        >>> class Depth(rg.keras.TreeLayer):
        ...     output_size = 1
        ...
        ...     def node(self, inputs, child):
        ...         left, right = tf.unstack(inputs, axis=1)
        ...         return 1.0 + tf.maximum(child(left), child(right))
        >>> trees = tf.ragged.constant([[[1, 2], [-1, -1], [3, -1], [-1, -1]], [[-1, -1]]], ragged_rank=1)
        >>> Depth()(trees).numpy().ravel().tolist()
        [3.0, 1.0]
    """

    open_dimensions = 2
    return_nodes: bool = False

    def __init__(
        self,
        function: Callable[..., Any] | None = None,
        *,
        output_size: Any = None,
        return_nodes: bool | None = None,
        **options: Any,
    ) -> None:
        super().__init__(function, output_size=output_size, **options)
        if return_nodes is not None:
            self.return_nodes = self._given["return_nodes"] = return_nodes

    def node(self, inputs: Nest, child: Any) -> Nest:
        """The state of one node.

        Args:
            inputs: its entry, a nest of tensors `[1, ...]`.
            child: gives the state of the node at a position, an integer scalar or `[1]`; where that is below 0 or
                masked, `initial_state()`. `child.map` takes positions of any shape and gives the states of those that
                are there, K at most, a nest of tensors `[K, ...]` in place of `[1, ...]`; they are computed at once.

        Returns:
            The state, a nest of tensors `[1, ...]`, as `output_size` says.
        """
        return self.called(inputs, child=child)

    def initial_state(self) -> Nest:
        """The state of a child that is not there: zeros. To be overridden."""
        return tf.nest.map_structure(lambda spec: tf.zeros(spec.shape, spec.dtype), self._outputs())

    def call(self, inputs: Nest, mask: Nest = None) -> Nest:
        """The states of the roots, or of all nodes.

        Args:
            inputs: a nest of tensors `[B, N, ...]`, of one length where ragged.
            mask: bool `[B, N]`: false for what is no node. A tree whose root is masked, and one without nodes, has the
                initial state; so has a masked node.

        Returns:
            A nest of tensors `[B, ...]`, as `output_size` says. With `return_nodes`, `[B, N, ...]`, or, where inputs
            are ragged, `[all nodes, ...]`: those of all trees, one after another.

        Raises:
            tf.errors.InvalidArgumentError: a position is beyond its tree.
        """
        self.note_inputs(inputs)
        return self.traced(lambda given: self._states(*given), (inputs, mask))

    def told(self, text: str, inputs: Nest) -> str:
        """What an error says, with trees and nodes as the inputs number them."""
        forest = _Forest(*inputs)
        which = forest.trees_of(forest.nodes()[0]) if self.return_nodes else forest.roots()[1]
        return failures.told(self.name, text, inputs[0], forest.starts, which)

    def compute_mask(self, inputs: Nest, mask: Nest = None) -> None:
        """The result has no nodes to be masked."""

    def _states(self, inputs: Nest, mask: Nest) -> tuple[Nest, tf.Tensor | None]:
        forest = _Forest(inputs, mask)
        node, initial = converted(self.node), self.initial_state

        def body(place: _Place, recurse: Callable[..., Nest]) -> Nest:
            return node(forest.entry(place), _Child(forest, place, recurse, initial))

        places, which, count = forest.nodes() if self.return_nodes else (*forest.roots(), forest.count)
        is_root = tf.equal(places[0], places[1])
        given = (inputs, mask)
        states, loss = self._recursion(body, places, NodeSeeds(forest.size), self.node, given, is_root)
        if which is not None:
            states = tf.nest.map_structure(
                lambda state, filled: tf.tensor_scatter_nd_update(
                    tf.repeat(filled, count, axis=0), which[:, None], state
                ),
                states,
                initial(),
            )
        return (tf.nest.map_structure(forest.by_trees, states) if self.return_nodes else states), loss


# Where an invocation is: the node's number in the table of all nodes, and the start and length of its tree in it.
_Place: TypeAlias = tuple[tf.Tensor, tf.Tensor, tf.Tensor]


class _Child:
    """What gives a node the states of its children.

    Args:
        forest: the batch.
        place: of the node.
        recurse: makes an invocation.
        initial: gives the state of a child that is not there.
    """

    def __init__(self, forest: _Forest, place: _Place, recurse: Any, initial: Callable[[], Nest]) -> None:
        self._forest, self._place, self._recurse, self._initial = forest, place, recurse, initial
        self._beyond = forest.beyond(place)

    def __call__(self, position: tf.Tensor) -> Nest:
        """The state of the node at a position."""
        there, is_absent = self._forest.at(self._place, position, self._beyond)
        return self._recurse(there, unless=is_absent, otherwise=self._initial())

    def map(self, positions: tf.Tensor) -> Nest:
        """The states of all nodes at some positions that are there."""
        return self._recurse.map(self._forest.all_at(self._place, positions, self._beyond))


class _RaggedEntries:
    """The entries of all nodes, with any number of values each: where those of a node start and end among all."""

    def __init__(self, table: tf.RaggedTensor) -> None:
        self.values, self.starts, self.ends = table.values, table.row_starts(), table.row_limits()


class _Forest:
    """A batch of trees as one table of nodes.

    Attributes:
        count: the number of trees, an int32 scalar.
        size: the number of nodes, an int32 scalar.
        starts: where each tree begins, int32 `[B]`.
    """

    def __init__(self, inputs: Nest, mask: Nest) -> None:
        leaves = tf.nest.flatten(inputs)
        first = leaves[0]
        self._is_ragged = isinstance(first, tf.RaggedTensor)
        self._width = None if self._is_ragged else tf.shape(first)[1]
        if self._is_ragged:
            self.starts, self._lengths = first.row_starts(), first.row_lengths()
        else:
            count, length = tf.shape(first)[0], tf.shape(first)[1]
            self.starts, self._lengths = tf.range(count) * length, tf.fill([count], length)
        self.starts, self._lengths = tf.cast(self.starts, tf.int32), tf.cast(self._lengths, tf.int32)
        self._entries = tf.nest.map_structure(self._flat, inputs)
        entries = tf.nest.flatten(self._entries)[0]
        entries = entries.starts if isinstance(entries, _RaggedEntries) else entries
        self.count, self.size = tf.size(self.starts), tf.shape(entries, tf.int32)[0]
        masks = [self._flat(one) for one in tf.nest.flatten(mask) if one is not None]
        self._is_node = tf.reduce_all(tf.stack(masks), 0) if masks else None
        self._may_be_empty = bool(masks) or self._is_ragged

    def _flat(self, tensor: Any) -> Any:
        """The entries of all trees, one after another: a tensor, or `_RaggedEntries`."""
        if not isinstance(tensor, tf.RaggedTensor):
            tensor = tf.convert_to_tensor(tensor)
            return tf.reshape(tensor, tf.concat([[-1], tf.shape(tensor)[2:]], 0))
        if tensor.ragged_rank > 2:
            raise SignatureError(
                "the nodes of a tree have lists of lists",
                found=f"a ragged tensor of ragged rank {tensor.ragged_rank}",
                expected="ragged rank 1, trees of different sizes, or 2, and nodes with different numbers of values",
                next_step="fill what is in a node up to one length",
            )
        table = tensor.values
        return _RaggedEntries(table) if isinstance(table, tf.RaggedTensor) else table

    def roots(self) -> tuple[_Place, tf.Tensor | None]:
        """The places of the roots that there are, and of which trees they are; None for all."""
        if not self._may_be_empty:
            return (self.starts, self.starts, self._lengths), None
        is_there = self._lengths > 0
        if self._is_node is not None:
            # a mask that is short of a node is that of a tree without nodes
            is_there &= tf.gather(tf.concat([self._is_node, [False]], 0), self.starts)
        which = tf.cast(tf.where(is_there)[:, 0], tf.int32)
        starts = tf.gather(self.starts, which)
        return (starts, starts, tf.gather(self._lengths, which)), which

    def nodes(self) -> tuple[_Place, tf.Tensor | None, tf.Tensor]:
        """The places of all nodes, or of those that are not masked, and then which; and how many entries there are."""
        numbers = tf.range(self.size)
        starts, lengths = tf.repeat(self.starts, self._lengths), tf.repeat(self._lengths, self._lengths)
        if self._is_node is None:
            return (numbers, starts, lengths), None, self.size
        which = tf.cast(tf.where(self._is_node)[:, 0], tf.int32)
        return (which, tf.gather(starts, which), tf.gather(lengths, which)), which, self.size

    def trees_of(self, places: _Place) -> tf.Tensor:
        """In which trees some places are."""
        return tf.searchsorted(self.starts, places[0], side="right") - 1

    def by_trees(self, states: tf.Tensor) -> tf.Tensor:
        """States of all entries `[entries, ...]` as the inputs have them."""
        if self._is_ragged:
            return states
        return tf.reshape(states, tf.concat([[self.count, self._width], tf.shape(states)[1:]], 0))

    def entry(self, place: _Place) -> Nest:
        """What the node has, a nest of tensors `[1, ...]`."""

        def of_node(table: Any) -> tf.Tensor:
            if not isinstance(table, _RaggedEntries):
                return tf.gather(table, place[0], name=failures.LOOKUP)
            start = tf.gather(table.starts, place[0], name=failures.LOOKUP)[0]
            end = tf.gather(table.ends, place[0], name=failures.LOOKUP)[0]
            return table.values[start:end][None]

        return tf.nest.map_structure(of_node, self._entries)

    def beyond(self, place: _Place) -> tf.Tensor:
        """A number beyond the table that tells of which node it is: looking for an entry there fails and names it."""
        return self.size + place[0]

    def at(self, place: _Place, position: tf.Tensor, beyond: tf.Tensor) -> tuple[_Place, tf.Tensor]:
        """The place at a position in the same tree, and whether there is no node; `beyond` for a position beyond it."""
        number, is_absent = self._numbers(place, tf.reshape(position, [1]), beyond)
        return (number, *place[1:]), is_absent[0]

    def all_at(self, place: _Place, positions: tf.Tensor, beyond: tf.Tensor) -> _Place:
        """The places at those of some positions at which there is a node."""
        numbers, is_absent = self._numbers(place, tf.reshape(positions, [-1]), beyond)
        numbers = tf.boolean_mask(numbers, ~is_absent)
        return (numbers, *(tf.repeat(each, tf.size(numbers)) for each in place[1:]))

    def _numbers(self, place: _Place, positions: tf.Tensor, beyond: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """The numbers of the nodes at positions `[K]` in the table of all, and where there is none, bool `[K]`."""
        _, start, length = place
        if positions.dtype.size > 4:  # what is beyond int32 is beyond the tree, on either side
            positions = tf.clip_by_value(positions, -1, tf.int32.max)
        positions = tf.cast(positions, tf.int32)
        numbers = tf.where(positions < length, start + positions, beyond)
        is_absent = positions < 0
        if self._is_node is not None:
            is_absent |= ~tf.gather(self._is_node, tf.where(is_absent, start, numbers))
        return numbers, is_absent
