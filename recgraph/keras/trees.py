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

    A node may be the child of several: it runs once. (Where `explain()` says that the layer is not scheduled, it runs
    once for each path from the root, of which there may be exponentially many.)

    Args:
        function: called in place of `node`, with the same arguments; see `SubGraphLayer`.
        output_size: the sizes of a node's state; see `SubGraphLayer`.
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

    def node(self, inputs: Nest, child: Callable[[tf.Tensor], Nest]) -> Nest:
        """The state of one node.

        Args:
            inputs: its entry, a nest of tensors `[1, ...]`.
            child: gives the state of the node at a position, an integer scalar or `[1]`; where that is below 0 or
                masked, `initial_state()`.

        Returns:
            The state, a nest of tensors `[1, ...]`, as `output_size` says.
        """
        return self.called(inputs, child=child)

    def initial_state(self) -> Nest:
        """The state of a child that is not there: zeros. To be overridden."""
        return tf.nest.map_structure(lambda spec: tf.zeros(spec.shape, spec.dtype), self._outputs())

    def call(self, inputs: Nest, mask: Nest = None) -> Nest:
        """The states of the roots.

        Args:
            inputs: a nest of tensors `[B, N, ...]`, of one length where ragged.
            mask: bool `[B, N]`: false for what is no node. A tree whose root is masked, and one without nodes, has the
                initial state.

        Returns:
            A nest of tensors `[B, ...]`, as `output_size` says.

        Raises:
            tf.errors.InvalidArgumentError: a position is beyond its tree.
        """
        self.note_inputs(inputs)
        return self.traced(lambda given: self._states(*given), (inputs, mask))

    def told(self, text: str, inputs: Nest) -> str:
        """What an error says, with trees and nodes as the inputs number them."""
        forest = _Forest(*inputs)
        return failures.told(self.name, text, inputs[0], forest.starts, forest.roots()[1])

    def compute_mask(self, inputs: Nest, mask: Nest = None) -> None:
        """The result has no nodes to be masked."""

    def _states(self, inputs: Nest, mask: Nest) -> tuple[Nest, tf.Tensor | None]:
        forest = _Forest(inputs, mask)
        node, initial = converted(self.node), self.initial_state

        def body(place: _Place, recurse: Callable[..., Nest]) -> Nest:
            beyond = forest.beyond(place)

            def child(position: tf.Tensor) -> Nest:
                there, is_absent = forest.at(place, position, beyond)
                return recurse(there, unless=is_absent, otherwise=initial())

            return node(forest.entry(place), child)

        roots, which = forest.roots()
        states, loss = self._recursion(body, roots, NodeSeeds(forest.size), self.node)
        if which is None:
            return states, loss
        states = tf.nest.map_structure(
            lambda state, filled: tf.tensor_scatter_nd_update(
                tf.repeat(filled, forest.count, axis=0), which[:, None], state
            ),
            states,
            initial(),
        )
        return states, loss


# Where an invocation is: the node's number in the table of all nodes, and the start and length of its tree in it.
_Place: TypeAlias = tuple[tf.Tensor, tf.Tensor, tf.Tensor]


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
        if isinstance(first, tf.RaggedTensor):
            self.starts, self._lengths = first.row_starts(), first.row_lengths()
        else:
            count, length = tf.shape(first)[0], tf.shape(first)[1]
            self.starts, self._lengths = tf.range(count) * length, tf.fill([count], length)
        self.starts, self._lengths = tf.cast(self.starts, tf.int32), tf.cast(self._lengths, tf.int32)
        self._entries = tf.nest.map_structure(self._flat, inputs)
        self.count, self.size = tf.size(self.starts), tf.shape(tf.nest.flatten(self._entries)[0])[0]
        masks = [self._flat(one) for one in tf.nest.flatten(mask) if one is not None]
        self._is_node = tf.reduce_all(tf.stack(masks), 0) if masks else None
        self._may_be_empty = bool(masks) or isinstance(first, tf.RaggedTensor)

    def _flat(self, tensor: Any) -> tf.Tensor:
        """The entries of all trees, one after another."""
        if not isinstance(tensor, tf.RaggedTensor):
            tensor = tf.convert_to_tensor(tensor)
            return tf.reshape(tensor, tf.concat([[-1], tf.shape(tensor)[2:]], 0))
        if tensor.ragged_rank != 1:
            raise SignatureError(
                "the nodes of a tree have entries of different lengths",
                found=f"a ragged tensor of ragged rank {tensor.ragged_rank}",
                expected="ragged rank 1: trees of different sizes",
                next_step="fill the entries up to one length, or join them in one tensor for each tree",
            )
        return tensor.values

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

    def entry(self, place: _Place) -> Nest:
        """What the node has, a nest of tensors `[1, ...]`."""
        return tf.nest.map_structure(lambda table: tf.gather(table, place[0], name=failures.LOOKUP), self._entries)

    def beyond(self, place: _Place) -> tf.Tensor:
        """A number beyond the table that tells of which node it is: looking for an entry there fails and names it."""
        return self.size + place[0]

    def at(self, place: _Place, position: tf.Tensor, beyond: tf.Tensor) -> tuple[_Place, tf.Tensor]:
        """The place at a position in the same tree, and whether there is no node; `beyond` for a position beyond it."""
        _, start, length = place
        if position.dtype.size > 4:  # what is beyond int32 is beyond the tree, on either side
            position = tf.clip_by_value(position, -1, tf.int32.max)
        position = tf.reshape(tf.cast(position, tf.int32), [1])
        number = tf.where(position < length, start + position, beyond)
        is_absent = position[0] < 0
        if self._is_node is not None:
            is_absent |= ~tf.gather(self._is_node, tf.where(position < 0, start, number))[0]
        return (number, start, length), is_absent
