// Registration of ops that put matrices together to one, and take it apart.
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace recgraph {

using tensorflow::PartialTensorShape;
using tensorflow::shape_inference::InferenceContext;
using tensorflow::shape_inference::ShapeHandle;

REGISTER_OP("Recgraph>Merge")
    .Input("parts: N * T")
    .Output("whole: T")
    .Attr("N: int >= 1")
    .Attr("T: {half, bfloat16, float, double}")
    .Attr("shape: shape")
    .Attr("begins: list(int)")
    .Attr("keep: bool = false")
    .SetShapeFn([](InferenceContext* c) {
      PartialTensorShape shape;
      TF_RETURN_IF_ERROR(c->GetAttr("shape", &shape));
      ShapeHandle whole;
      TF_RETURN_IF_ERROR(c->MakeShapeFromPartialTensorShape(shape, &whole));
      c->set_output(0, whole);
      return absl::OkStatus();
    })
    .Doc("A matrix, or a vector, of parts: part i begins at row begins[2 i] and column begins[2 i + 1] (of a vector: at "
         "the latter). Parts have to lie beside each other and cover it. With `keep`, parts that did not change since "
         "the last time are not read again.");

REGISTER_OP("Recgraph>Parts")
    .Input("whole: T")
    .Output("parts: N * T")
    .Attr("N: int >= 1")
    .Attr("T: {half, bfloat16, float, double}")
    .Attr("begins: list(int)")
    .Attr("shapes: list(shape)")
    .SetShapeFn([](InferenceContext* c) {
      std::vector<PartialTensorShape> shapes;
      TF_RETURN_IF_ERROR(c->GetAttr("shapes", &shapes));
      for (int i = 0; i < c->num_outputs() && i < static_cast<int>(shapes.size()); ++i) {
        ShapeHandle part;
        TF_RETURN_IF_ERROR(c->MakeShapeFromPartialTensorShape(shapes[i], &part));
        c->set_output(i, part);
      }
      return absl::OkStatus();
    })
    .Doc("The parts of a matrix, or a vector: the inverse of Merge.");

}  // namespace recgraph
