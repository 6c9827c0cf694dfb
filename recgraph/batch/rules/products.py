"""Products of matrices, einsums, convolutions: what many rows multiply by one weight is one product."""

from __future__ import annotations

import tensorflow as tf

from recgraph.batch.vectorize import NoRule, Site, VectorizedRows, aligned, merged, parted, reshape_rows, rule

AttrValue = tf.compat.v1.AttrValue


@rule("MatMul")
def _matmul(site: Site) -> tf.Tensor:
    a, b = site.inputs
    return _product(a, b, site.attribute("transpose_a").b, site.attribute("transpose_b").b)


def _product(a: VectorizedRows, b: VectorizedRows, adjoint_a: bool, adjoint_b: bool) -> tf.Tensor:
    inner = a.shape[0 if adjoint_a else 1]
    if inner == 1 and a.has_rows and b.has_rows:
        return _as_matrix(a, adjoint_a, column=True) * _as_matrix(b, adjoint_b, column=False)
    if a.has_rows and not b.has_rows and (not adjoint_a or 1 in (a.shape[0], a.shape[1])):
        return _by_a_weight(a, b, adjoint_a, adjoint_b)
    if b.has_rows and not a.has_rows and b.shape[0 if adjoint_b else 1] == 1:
        # A matrix by a column is, turned round, a row by a matrix: one product for all.
        columns = _by_a_weight(b, a, not adjoint_b, not adjoint_a)
        height = tf.shape(columns)[2] if columns.shape[2] is None else columns.shape[2]
        return tf.reshape(columns, [-1, height, 1])
    return tf.matmul(a.tensor, b.tensor, transpose_a=adjoint_a, transpose_b=adjoint_b)


def _by_a_weight(a: VectorizedRows, b: VectorizedRows, adjoint_a: bool, adjoint_b: bool) -> tf.Tensor:
    """Rows by one matrix that they share. Where `adjoint_a`, a has one row or one column: turned, it is what it was."""
    inner, height = a.shape[0 if adjoint_a else 1], a.shape[1 if adjoint_a else 0]
    shape = tf.shape(a.tensor)
    # A side that is not known may be another one: rows are not to be cut up otherwise.
    lead = -1 if inner is not None else shape[0] * shape[2 if adjoint_a else 1]
    rows = tf.reshape(a.tensor, [lead, _depth(inner, b, adjoint_b)])
    product = tf.matmul(rows, b.tensor, transpose_b=adjoint_b)
    width = b.shape[0 if adjoint_b else 1]
    if height == 1 and width is not None:
        return tf.reshape(product, [-1, 1, width])
    tall = tf.shape(a.tensor)[2 if adjoint_a else 1] if height is None else height
    return tf.reshape(product, [tf.shape(a.tensor)[0], tall, tf.shape(product)[1] if width is None else width])


def _depth(inner: int | None, b: VectorizedRows, adjoint_b: bool) -> int | tf.Tensor:
    if inner is None:
        inner = b.shape[1 if adjoint_b else 0]
    return tf.shape(b.tensor)[1 if adjoint_b else 0] if inner is None else inner


def _as_matrix(value: VectorizedRows, adjoint: bool, column: bool) -> tf.Tensor:
    """A single column or row of every matrix, as it stands in an outer product."""
    if not adjoint:
        return value.tensor
    size = value.shape.num_elements() or -1
    return reshape_rows(value.tensor, [size, 1] if column else [1, size])


@rule("BatchMatMul", "BatchMatMulV2", "BatchMatMulV3")
def _batch_matmul(site: Site) -> tf.Tensor:
    a, b = site.inputs
    if site.attribute("Tout").type not in (0, a.tensor.dtype.as_datatype_enum):
        raise NoRule("BatchMatMulV3 into another type")
    adjoint_a, adjoint_b = site.attribute("adj_x").b, site.attribute("adj_y").b
    if a.rank == b.rank == 2 and not a.tensor.dtype.is_complex:
        return _product(a, b, adjoint_a, adjoint_b)
    return tf.matmul(*aligned(site.inputs), adjoint_a=adjoint_a, adjoint_b=adjoint_b)


@rule("Einsum")
def _einsum(site: Site) -> list[tf.Tensor]:
    sources, result = site.attribute("equation").s.decode().split("->")
    letter = next(c for c in "zyxwvutsrqponmlkjihgfedcbaZYXWVUTSRQPONMLKJIHGFEDCBA" if c not in sources + result)
    terms = [
        letter + term if value.has_rows else term for term, value in zip(sources.split(","), site.inputs, strict=True)
    ]
    equation = f"{','.join(terms)}->{letter}{result}"
    return site.same(site.tensors(), equation=AttrValue(s=equation.encode()))


# Which inputs are images, `[N, ...]`: their rows become more images. The others are the same for all.
_IMAGES = {
    "AvgPool": [0],
    "Conv2D": [0],
    "Conv3D": [0],
    "DepthwiseConv2dNative": [0],
    "Dilation2D": [0],
    "MaxPool": [0],
    "MaxPoolGrad": [0, 1, 2],
}
# Inputs: the shape of the images, weights where there are some, the gradients of the results.
_IMAGES_OF_SHAPE = ("AvgPoolGrad", "Conv2DBackpropInput", "DepthwiseConv2dNativeBackpropInput")


@rule(*_IMAGES)
def _images(site: Site) -> list[tf.Tensor]:
    places = _IMAGES[site.node.op]
    if any(value.has_rows != (i in places) for i, value in enumerate(site.inputs)):
        raise NoRule(f"{site.node.op} by computed weights")
    tensors = [merged(value.tensor) if value.has_rows else value.tensor for value in site.inputs]
    return [parted(made, site.inputs[0].tensor) for made in site.same(tensors)]


@rule(*_IMAGES_OF_SHAPE)
def _gradient_of_images(site: Site) -> list[tf.Tensor]:
    shape, *weights, gradient = site.inputs
    if shape.has_rows or any(weight.has_rows for weight in weights):
        raise NoRule(f"{site.node.op} by computed weights")
    all_rows = tf.concat([shape.tensor[:1] * site.count, shape.tensor[1:]], 0)
    made = site.same([all_rows, *(weight.tensor for weight in weights), merged(gradient.tensor)])
    return [parted(tensor, gradient.tensor) for tensor in made]
