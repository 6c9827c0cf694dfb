// What the shape functions of our ops have in common. They run while a graph is made or imported, under its lock: an
// exception there would leave it locked, so that whatever a file says has to end in a status.
#ifndef RECGRAPH_CC_OPS_SHAPES_H_
#define RECGRAPH_CC_OPS_SHAPES_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace recgraph {

// Outputs `first` to `first + count` get the shapes of a list attribute, which has one for each of them; where
// `optional`, it may have none.
inline absl::Status SetShapes(tensorflow::shape_inference::InferenceContext* c, const char* attribute, int first,
                              int count, bool optional = false) {
  std::vector<tensorflow::PartialTensorShape> shapes;
  TF_RETURN_IF_ERROR(c->GetAttr(attribute, &shapes));
  if (optional && shapes.empty()) {
    for (int i = 0; i < count; ++i) c->set_output(first + i, c->UnknownShape());
    return absl::OkStatus();
  }
  if (first < 0 || count < 0 || first + count > c->num_outputs() || static_cast<int>(shapes.size()) != count) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", attribute, "' has ", shapes.size(), " shapes for ", count, " outputs"));
  }
  for (int i = 0; i < count; ++i) {
    tensorflow::shape_inference::ShapeHandle shape;
    TF_RETURN_IF_ERROR(c->MakeShapeFromPartialTensorShape(shapes[i], &shape));
    c->set_output(first + i, shape);
  }
  return absl::OkStatus();
}

// How many entries a list of types has.
inline absl::Status CountTypes(tensorflow::shape_inference::InferenceContext* c, const char* attribute, int* count) {
  tensorflow::DataTypeVector types;
  TF_RETURN_IF_ERROR(c->GetAttr(attribute, &types));
  *count = static_cast<int>(types.size());
  return absl::OkStatus();
}

}  // namespace recgraph

#endif  // RECGRAPH_CC_OPS_SHAPES_H_
