"""Linear algebra: TensorFlow's own operations work on any number of matrices."""

from __future__ import annotations

import tensorflow as tf

from recgraph.batch.vectorize import NoRule, Site, VectorizedRows, aligned, rule

# How many inputs, from the first, are matrices or vectors; what follows is the same for all.
_MATRICES = {
    "Cholesky": 1,
    "CholeskyGrad": 2,
    "LogMatrixDeterminant": 1,
    "MatrixBandPart": 1,
    "MatrixDeterminant": 1,
    "MatrixDiag": 1,
    "MatrixDiagPart": 1,
    "MatrixDiagPartV3": 1,
    "MatrixDiagV3": 1,
    "MatrixExponential": 1,
    "MatrixInverse": 1,
    "MatrixLogarithm": 1,
    "MatrixSetDiag": 2,
    "MatrixSetDiagV3": 2,
    "MatrixSolve": 2,
    "MatrixSquareRoot": 1,
    "MatrixTriangularSolve": 2,
    "Qr": 1,
    "SelfAdjointEigV2": 1,
    "Svd": 1,
}


@rule(*_MATRICES)
def _matrices(site: Site) -> list[tf.Tensor]:
    many = _MATRICES[site.node.op]
    if any(value.has_rows for value in site.inputs[many:]):
        raise NoRule(f"{site.node.op} with computed parameters")
    values = [VectorizedRows(site.with_rows(value), True) for value in site.inputs[:many]]
    tensors = aligned(values) if site.node.op == "MatrixTriangularSolve" else [value.tensor for value in values]
    return site.same([*tensors, *(value.tensor for value in site.inputs[many:])])


@rule("Diag", "DiagPart")
def _diag(site: Site) -> tf.Tensor:
    (value,) = site.inputs
    if value.rank != (1 if site.node.op == "Diag" else 2):
        raise NoRule(f"{site.node.op} of a higher rank")
    return (tf.linalg.diag if site.node.op == "Diag" else tf.linalg.diag_part)(value.tensor)
