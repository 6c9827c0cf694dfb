// Registration of ops on rows, in place of TensorFlow's, in the blocks of the batched engine.
#include <cstdint>

#include "cc/ops/shapes.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace recgraph {

using tensorflow::shape_inference::DimensionHandle;
using tensorflow::shape_inference::InferenceContext;
using tensorflow::shape_inference::ShapeHandle;

REGISTER_OP("Recgraph>Expression")
    .Input("inputs: N * float")
    .Output("outputs: M * float")
    .Attr("N: int >= 1")
    .Attr("M: int >= 1")
    .Attr("code: list(int)")
    .Attr("output_shapes: list(shape)")
    .SetShapeFn([](InferenceContext* c) { return SetShapes(c, "output_shapes", 0, c->num_outputs()); })
    .Doc("A chain of elementwise operations on the rows of its inputs, in one pass.");

REGISTER_OP("Recgraph>PackedProduct")
    .Input("rows: float")
    .Input("packed: float")
    .Output("product: float")
    .Attr("inner: int >= 1")
    .Attr("width: int >= 1")
    .SetShapeFn([](InferenceContext* c) {
      int64_t width;
      TF_RETURN_IF_ERROR(c->GetAttr("width", &width));
      ShapeHandle rows;
      TF_RETURN_IF_ERROR(c->WithRank(c->input(0), 2, &rows));
      c->set_output(0, c->Matrix(c->Dim(rows, 0), width));
      return absl::OkStatus();
    })
    .Doc("Rows times a captured matrix [inner, width] that the engine has packed for it.");

}  // namespace recgraph
