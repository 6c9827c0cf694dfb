"""Slices, also at places that are computed: then they are lookups."""

from __future__ import annotations

import dataclasses

import tensorflow as tf

from recgraph.batch.vectorize import NoRule, Site, VectorizedRows, rule
from recgraph.core import sums


@rule("Slice")
def _slice(site: Site) -> tf.Tensor:
    value, begin, size = site.inputs
    if begin.has_rows or size.has_rows:
        raise NoRule("Slice at a computed place")
    if begin.static is not None and size.static is not None:
        return tf.slice(value.tensor, [0, *begin.static.tolist()], [-1, *size.static.tolist()])
    zero, all_rows = tf.zeros([1], begin.tensor.dtype), tf.constant([-1], size.tensor.dtype)
    return tf.slice(value.tensor, tf.concat([zero, begin.tensor], 0), tf.concat([all_rows, size.tensor], 0))


@rule("StridedSlice")
def _strided_slice(site: Site) -> list[tf.Tensor]:
    value, *places = site.inputs
    if any(part.has_rows for part in places):
        return [_Elements.of(site, places, value.rank).take(value)]
    return site.same([value.tensor, *_with_a_whole_dimension(places)], **_masks(site))


@rule("StridedSliceGrad")
def _strided_slice_grad(site: Site) -> list[tf.Tensor] | VectorizedRows:
    shape, *places, gradient = site.inputs
    if shape.has_rows:
        raise NoRule("StridedSliceGrad of a computed shape")
    if any(part.has_rows for part in places):
        rank = shape.tensor.shape[0]
        if rank is None:
            raise NoRule("rank unknown")
        return _Elements.of(site, places, rank).put(site.with_rows(gradient), shape.tensor)
    count = tf.cast(site.count, shape.tensor.dtype)
    whole = tf.concat([count, shape.tensor], 0)
    return site.same([whole, *_with_a_whole_dimension(places), gradient.tensor], **_masks(site))


def _with_a_whole_dimension(places: list[VectorizedRows]) -> list[tf.Tensor]:
    """Begin, end and strides with one more dimension in front."""
    return [_with_one_in_front(lead, place) for lead, place in zip((0, 0, 1), places, strict=True)]


def _with_one_in_front(lead: int, place: VectorizedRows) -> tf.Tensor:
    """A vector of whole numbers with one more of them in front."""
    static = place.static
    if static is not None:
        return tf.constant([lead, *static.tolist()], place.tensor.dtype)
    return tf.concat([tf.constant([lead], place.tensor.dtype), place.tensor], 0)


def _masks(site: Site) -> dict[str, tf.compat.v1.AttrValue]:
    """The masks of a StridedSlice with one more dimension in front, which is taken whole."""
    names = ("begin", "end", "ellipsis", "new_axis", "shrink_axis")
    masks = {f"{name}_mask": site.attribute(f"{name}_mask").i << 1 for name in names}
    masks["begin_mask"] |= 1
    masks["end_mask"] |= 1
    return {name: tf.compat.v1.AttrValue(i=mask) for name, mask in masks.items()}


@dataclasses.dataclass
class _Elements:
    """`value[i, :, j, None]` with computed indices.

    Attributes:
        rank: of the value.
        dims: dimensions of the value that an index is for.
        indices: int32 or int64 `[rows, len(dims)]`.
        new: places of new dimensions in the result.
    """

    rank: int
    dims: list[int]
    indices: tf.Tensor
    new: list[int]

    @classmethod
    def of(cls, site: Site, places: list[VectorizedRows], rank: int) -> _Elements:
        """What a StridedSlice says; `NoRule` where it has ends that are computed."""
        begin, _, strides = places
        count = begin.shape[0]
        if count is None or strides.static is None:
            raise NoRule(f"{site.node.op} at a computed place")
        masks = {name: site.attribute(f"{name}_mask").i for name in ("begin", "end", "new_axis", "shrink_axis")}
        ellipsis, new_axes = site.attribute("ellipsis_mask").i, masks["new_axis"]
        skipped = rank - sum(1 for i in range(count) if not (new_axes | ellipsis) >> i & 1)
        dims, columns, new, dim, made = [], [], [], 0, 0
        for i in range(count):
            on = {name for name, mask in masks.items() if mask >> i & 1}
            if ellipsis >> i & 1:
                dim, made = dim + skipped, made + skipped
            elif "new_axis" in on:
                new.append(made)
                made += 1
            elif "shrink_axis" in on:
                dims.append(dim)
                columns.append(i)
                dim += 1
            elif on >= {"begin", "end"} and strides.static[i] == 1:
                dim, made = dim + 1, made + 1
            else:
                raise NoRule(f"{site.node.op} at a computed place")
        return cls(rank, dims, tf.gather(site.with_rows(begin), columns, axis=1), new)

    def take(self, value: VectorizedRows) -> tf.Tensor:
        """The elements of every row."""
        lead = int(value.has_rows)
        shape = tf.shape(value.tensor, self.indices.dtype)[lead:]
        indices = self._from_the_front(shape)
        if len(self.dims) == 1:
            taken = tf.gather(value.tensor, indices[:, 0], axis=self.dims[0] + lead, batch_dims=lead)
            taken = taken if value.has_rows else _to_the_front(taken, self.dims[0])
        else:
            order = [*range(lead), *(dim + lead for dim in self._order())]
            taken = tf.gather_nd(tf.transpose(value.tensor, order), indices, batch_dims=lead)
        for place in self.new:
            taken = tf.expand_dims(taken, place + 1)
        return taken

    def put(self, gradient: tf.Tensor, shape: tf.Tensor) -> VectorizedRows:
        """Zeros of that shape, and the gradient at the elements: for every row, and the sum over all."""
        gradient = tf.squeeze(gradient, [place + 1 for place in self.new]) if self.new else gradient
        indices = self._from_the_front(tf.cast(shape, self.indices.dtype))
        order = self._order()
        turned = tf.gather(tf.cast(shape, indices.dtype), order)
        back = [order.index(dim) for dim in range(self.rank)]
        count = tf.shape(indices, tf.int64)[:1]  # there may be more places in all rows than int32 can count
        numbered = tf.concat([tf.range(count[0])[:, None], tf.cast(indices, tf.int64)], 1)
        rows = tf.scatter_nd(numbered, gradient, tf.concat([count, tf.cast(turned, tf.int64)], 0))
        total = tf.scatter_nd(indices, sums.widened(gradient), turned)
        return VectorizedRows(tf.transpose(rows, [0, *(place + 1 for place in back)]), True, tf.transpose(total, back))

    def _order(self) -> list[int]:
        """The dimensions with indices, then the others."""
        return [*self.dims, *(dim for dim in range(self.rank) if dim not in self.dims)]

    def _from_the_front(self, shape: tf.Tensor) -> tf.Tensor:
        sizes = tf.gather(shape, self.dims)
        return tf.where(self.indices < 0, self.indices + sizes, self.indices)


def _to_the_front(tensor: tf.Tensor, place: int) -> tf.Tensor:
    """The dimension of the rows where it belongs."""
    if place == 0:
        return tensor
    return tf.transpose(tensor, [place, *(i for i in range(tensor.shape.rank) if i != place)])
