// Registration, shapes and documentation of the ops that call SubGraphs.
#include "cc/ops/shapes.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace recgraph {

using tensorflow::shape_inference::InferenceContext;

namespace {

absl::Status InvokeShape(InferenceContext* c) {
  const int results = c->num_outputs() - 1;
  TF_RETURN_IF_ERROR(SetShapes(c, "output_shapes", 0, results));
  c->set_output(results, c->Scalar());
  return absl::OkStatus();
}

absl::Status InvokeGradientShape(InferenceContext* c) {
  int results, sums;
  TF_RETURN_IF_ERROR(CountTypes(c, "Tout", &results));
  TF_RETURN_IF_ERROR(CountTypes(c, "Tsums", &sums));
  TF_RETURN_IF_ERROR(SetShapes(c, "results_shapes", 0, results));
  return SetShapes(c, "sums_shapes", results, sums);
}

}  // namespace

REGISTER_OP("Recgraph>Invoke")
    .Input("args: Tin")
    .Input("captures: Tcaptures")
    .Output("results: Tout")
    .Output("frame: variant")
    .Attr("entry: string")
    .Attr("program: string = ''")
    .Attr("key: string = ''")
    .Attr("site: string = ''")
    .Attr("map: bool = false")
    .Attr("record: bool = true")
    .Attr("engine: {'parallel', 'batched', 'auto'} = 'parallel'")
    .Attr("max_depth: int = 1000000")
    .Attr("reads: list(bool) >= 0 = []")
    .Attr("Tin: list(type) >= 0")
    .Attr("Tcaptures: list(type) >= 0 = []")
    .Attr("Tout: list(type) >= 0")
    .Attr("output_shapes: list(shape) >= 0")
    .SetIsStateful()
    .SetShapeFn(InvokeShape)
    .Doc(R"doc(
Runs the body of a SubGraph, which may contain further calls, also of itself.

The kernel is asynchronous, it starts the body's operations on the executor's threads.

args: The arguments. Mapped: each with one more leading dimension, the same for all.
captures: The outer tensors that the program's environment holds; none for a call inside of a body,
  which inherits its caller's environment.
results: The results. Mapped: stacked along a new leading dimension.
frame: What the gradient needs of the invocation; empty unless some operation reads it.
entry: The SubGraph's name in its program.
program: The program, a serialised FunctionDefLibrary; may be empty where `key` is registered.
key: A hash of the program. Empty for a call inside of a body.
site: The label of the call site in call paths.
map: One invocation per row of the arguments, all started at once.
record: Whether a frame may be made at all.
engine: Whether invocations run one by one, beside each other, or as the rows of batches; "auto": whichever has cost less.
max_depth: The depth of invocations at which the step fails.
reads: For each capture, whether the slot is the value of the variable that the capture refers to.
)doc");

REGISTER_OP("Recgraph>InvokeGradient")
    .Input("frame: variant")
    .Input("grads: Tgrads")
    .Input("primals: Tprimals")
    .Output("results: Tout")
    .Output("sums: Tsums")
    .Attr("entry: string")
    .Attr("program: string = ''")
    .Attr("key: string = ''")
    .Attr("site: string = ''")
    .Attr("map: bool = false")
    .Attr("slots: list(int) >= 0 = []")
    .Attr("kinds: list(string) >= 0 = []")
    .Attr("Tgrads: list(type) >= 0")
    .Attr("Tprimals: list(type) >= 0 = []")
    .Attr("Tout: list(type) >= 0")
    .Attr("Tsums: list(type) >= 0 = []")
    .Attr("results_shapes: list(shape) >= 0")
    .Attr("sums_shapes: list(shape) >= 0 = []")
    .SetIsStateful()
    .SetShapeFn(InvokeGradientShape)
    .Doc(R"doc(
The gradient of Recgraph>Invoke: runs the gradient SubGraph of `entry`.

frame: The frame of the forward call.
grads: The gradients of the forward call's differentiable results.
primals: The forward call's arguments and captures; read by second derivatives only.
results: The gradients of the forward call's differentiable arguments.
sums: The gradients of the environment's slots, summed over all invocations: one tensor for kind
  "dense" and for "outer", the pair (indices, rows) for "rows".
slots: The slots that `sums` are for.
kinds: The kind of each of them.
)doc");

REGISTER_OP("Recgraph>While")
    .Input("input: T")
    .Output("output: T")
    .Attr("T: list(type) >= 0")
    .Attr("cond: func")
    .Attr("body: func")
    .Attr("output_shapes: list(shape) >= 0 = []")
    .SetIsStateful()
    .SetShapeFn([](InferenceContext* c) { return SetShapes(c, "output_shapes", 0, c->num_outputs(), true); })
    .Doc("TensorFlow's While, for bodies: gives its thread back while an iteration runs.");

REGISTER_OP("Recgraph>CallFunction")
    .Input("args: Tin")
    .Output("output: Tout")
    .Attr("Tin: list(type) >= 0")
    .Attr("Tout: list(type) >= 0")
    .Attr("f: func")
    .Attr("output_shapes: list(shape) >= 0 = []")
    .SetIsStateful()
    .SetShapeFn([](InferenceContext* c) { return SetShapes(c, "output_shapes", 0, c->num_outputs(), true); })
    .Doc("TensorFlow's PartitionedCall, for bodies: a program runs on one device.");

REGISTER_OP("Recgraph>Capture")
    .Output("value: dtype")
    .Attr("slot: int")
    .Attr("dtype: type")
    .Attr("shape: shape = {unknown_rank: true}")
    .SetIsStateful()
    .SetShapeFn([](InferenceContext* c) { return tensorflow::shape_inference::ExplicitShape(c); })
    .Doc("The value of a slot of the environment. Runs inside of an invocation only.");

REGISTER_OP("Recgraph>Accumulate")
    .Input("values: T")
    .Attr("slot: int")
    .Attr("kind: {'dense', 'outer', 'rows'}")
    .Attr("T: list(type) >= 1")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::NoOutputs)
    .Doc("Adds a contribution to the gradient of a slot. Runs inside of an invocation only.");

REGISTER_OP("Recgraph>Refuse")
    .Input("value: T")
    .Output("same: T")
    .Attr("T: type")
    .Attr("message: string")
    .SetShapeFn(tensorflow::shape_inference::UnchangedShape)
    .Doc("Fails with the message where its result is used; without state, so it does not run where it is not.");

}  // namespace recgraph
