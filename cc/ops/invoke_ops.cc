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

absl::Status LevelTablesShape(InferenceContext* c) {
  int tables, rooms, values;
  TF_RETURN_IF_ERROR(c->GetAttr("N", &tables));
  TF_RETURN_IF_ERROR(c->GetAttr("K", &rooms));
  TF_RETURN_IF_ERROR(CountTypes(c, "Tvalues", &values));
  std::vector<tensorflow::PartialTensorShape> shapes;
  TF_RETURN_IF_ERROR(c->GetAttr("value_shapes", &shapes));
  const int first = tables + 1 + rooms;
  if (static_cast<int>(shapes.size()) != values || first + values + 1 != c->num_outputs()) {
    return absl::InvalidArgumentError("'value_shapes' has not one shape for each value");
  }
  for (int i = 0; i < c->num_outputs(); ++i) c->set_output(i, i == tables ? c->Vector(c->UnknownDim()) : c->UnknownShape());
  for (int i = 0; i < rooms; ++i) c->set_output(tables + 1 + i, c->Vector(c->UnknownDim()));
  for (int i = 0; i < values; ++i) {
    tensorflow::shape_inference::ShapeHandle row, all;
    TF_RETURN_IF_ERROR(c->MakeShapeFromPartialTensorShape(shapes[i], &row));
    TF_RETURN_IF_ERROR(c->Concatenate(c->Vector(c->UnknownDim()), row, &all));
    c->set_output(first + i, all);
  }
  c->set_output(first + values, c->Scalar());
  return absl::OkStatus();
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

// Discovering a call depends on variables, so that it is not done once for all; its gradient's depends on the frame.
#define RECGRAPH_REGISTER_LEVEL_TABLES(name)      \
  REGISTER_OP(name)                               \
    .Input("args: Tin")                           \
    .Input("captures: Tcaptures")                 \
    .Input("least: int64")                        \
    .Output("tables: N * int32")                  \
    .Output("facts: int32")                       \
    .Output("rooms: K * uint8")                   \
    .Output("values: Tvalues")                    \
    .Output("frame: variant")                     \
    .Attr("entry: string")                        \
    .Attr("program: string = ''")                 \
    .Attr("key: string")                          \
    .Attr("site: string = ''")                    \
    .Attr("map: bool = false")                    \
    .Attr("record: bool = false")                 \
    .Attr("max_depth: int = 1000000")             \
    .Attr("reads: list(bool) >= 0 = []")          \
    .Attr("block_classes: list(int) >= 0")        \
    .Attr("argument_classes: list(int) >= 0")     \
    .Attr("width: int >= 0 = 0")                  \
    .Attr("padded: bool = false")                 \
    .Attr("Tin: list(type) >= 0")                 \
    .Attr("Tcaptures: list(type) >= 0 = []")      \
    .Attr("Tvalues: list(type) >= 0")             \
    .Attr("value_shapes: list(shape) >= 0")       \
    .Attr("seed_types: list(type) >= 0 = []")     \
    .Attr("seed_shapes: list(shape) >= 0 = []")   \
    .Attr("N: int >= 0")                          \
    .Attr("K: int >= 0")                          \
    .SetShapeFn(LevelTablesShape)                 

RECGRAPH_REGISTER_LEVEL_TABLES("Recgraph>LevelTables")
    .SetIsStateful()
    .Doc(R"doc(
Discovers a call of a SubGraph whose structure is known before its values, and lays it out for an executor that is made
of other operations (recgraph/levels): in arenas, one for each class of rows of one dtype and shape, whose row 0 is zeros.

args: The arguments.
captures: As of Recgraph>Invoke.
least: Where sizes are padded, the least ones of `tables` (their first dimensions), `rooms` and `values`; or none.
tables: Of each block that runs, of each slot that it reads, the rows; of each group of blocks that lead to rows for each
  other, its steps; of each result, its row of each root.
facts: How many steps each group has; of each block that runs, how many rows; the arenas' sizes.
rooms: Of each class, a tensor as long as its arena.
values: What the blocks that decide the structure have computed, without those that nobody reads.
frame: For the gradient's tables.
record: Whether the forward call is laid out for a gradient.
block_classes: Of each block of the plan, of each slot that it writes, its class; -1 where nobody reads it.
argument_classes: Of each argument of the function that is called; -1 of a frame, and of what only decides the structure.
width: Of the chunks that levels are cut into; 0 where they are run as a whole.
padded: Whether sizes are made up to few different ones.
seed_types: Of the gradients that a gradient is given.
seed_shapes: Of one row of these.
)doc");

RECGRAPH_REGISTER_LEVEL_TABLES("Recgraph>LevelGradientTables")
    .Doc("The same of the gradient of a call. Its only argument is the frame that Recgraph>LevelTables gave for the call, "
         "and it captures nothing.");

#undef RECGRAPH_REGISTER_LEVEL_TABLES

REGISTER_OP("Recgraph>PlanStages")
    .Input("code: int64")
    .Input("strings: string")
    .Input("function: string")
    .Output("stages: int32")
    .Output("reason: string")
    .SetIsStateful()
    .SetShapeFn([](InferenceContext* c) {
      c->set_output(0, c->Vector(c->UnknownDim()));
      c->set_output(1, c->Scalar());
      return absl::OkStatus();
    })
    .Doc(R"doc(
Of each block of a plan, what a call of a function makes of it: -1 nothing, 0 runs it as it decides the structure, 1 runs
it when the structure is known.

code: The plan, as its carrier has it.
strings: The same.
function: The name of the function in the plan.
reason: Why calls of the function have no structure that is known before their values; empty where they have one.
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
