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

REGISTER_OP("Recgraph>DescendRows")
    .Input("variable: resource")
    .Input("indices: index")
    .Input("gradient: float")
    .Attr("index: {int32, int64}")
    .Attr("rate: float")
    .SetShapeFn([](InferenceContext*) { return absl::OkStatus(); })
    .Doc("variable[indices[i]] -= rate * gradient[i], one after the other, for a float variable; nothing is written where "
         "an index is out of range.");

}  // namespace recgraph
