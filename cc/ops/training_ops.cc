// Registration of ops that update variables.
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace recgraph {

using tensorflow::shape_inference::InferenceContext;

REGISTER_OP("Recgraph>ApplyAdagrad")
    .Input("variable: resource")
    .Input("accumulator: resource")
    .Input("gradient: float")
    .Attr("rate: float")
    .Attr("epsilon: float")
    .Attr("decay: float")
    .SetShapeFn([](InferenceContext*) { return absl::OkStatus(); })
    .Doc("Adagrad for a float variable whose loss has a term decay / 2 * variable^2, in one pass over memory.");

}  // namespace recgraph
