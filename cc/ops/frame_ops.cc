// Registration of the ops on frames and on process-wide state.
#include "cc/ops/shapes.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace recgraph {

using tensorflow::shape_inference::InferenceContext;
using tensorflow::shape_inference::ScalarShape;

REGISTER_OP("Recgraph>PackFrame")
    .Input("values: T")
    .Output("frame: variant")
    .Attr("T: list(type) >= 0")
    .SetIsStateful()  // a frame of constants must not become a constant
    .SetShapeFn(ScalarShape)
    .Doc("Packs values into a frame. A frame without values ends a loop's stack of frames.");

REGISTER_OP("Recgraph>UnpackFrame")
    .Input("frame: variant")
    .Output("values: T")
    .Attr("indices: list(int) >= 1")
    .Attr("T: list(type) >= 1")
    .Attr("shapes: list(shape) >= 1")
    .SetShapeFn([](InferenceContext* c) { return SetShapes(c, "shapes", 0, c->num_outputs()); })
    .Doc("The values of a frame at `indices`.");

REGISTER_OP("Recgraph>FrameIsEmpty")
    .Input("frame: variant")
    .Output("empty: bool")
    .SetShapeFn(ScalarShape)
    .Doc("Whether a frame has no values.");

REGISTER_OP("Recgraph>Region")
    .Input("inputs: Tin")
    .Output("outputs: Tout")
    .Attr("kind: string")
    .Attr("Tin: list(type) >= 0")
    .Attr("Tout: list(type) >= 0")
    .Attr("output_shapes: list(shape) >= 0")
    .SetIsStateful()
    .SetShapeFn([](InferenceContext* c) { return SetShapes(c, "output_shapes", 0, c->num_outputs()); })
    .Doc("A branch, loop or call in a gradient body under construction. Has no kernel: it becomes "
         "TensorFlow's own operation when the body is written out.");

REGISTER_OP("Recgraph>Counters")
    .Output("counters: int64")
    .Attr("reset_peak: bool = false")
    .SetIsStateful()
    .SetShapeFn([](InferenceContext* c) {
      c->set_output(0, c->Vector(5));
      return absl::OkStatus();
    })
    .Doc("Invocations so far, live, at the peak; live frames and their bytes. Of the process.");

REGISTER_OP("Recgraph>SetPolicy")
    .Input("policy: string")
    .Output("previous: string")
    .SetIsStateful()
    .SetShapeFn(ScalarShape)
    .Doc("Sets the scheduling policy of steps to come; returns the one it replaces.");

REGISTER_OP("Recgraph>SetBatchPolicy")
    .Input("policy: string")
    .Output("previous: string")
    .SetIsStateful()
    .SetShapeFn(ScalarShape)
    .Doc("Sets which block the batched engine runs next, in steps to come; returns the policy it replaces.");

REGISTER_OP("Recgraph>SetBatchWay")
    .Input("way: string")
    .Output("previous: string")
    .SetIsStateful()
    .SetShapeFn(ScalarShape)
    .Doc("Sets how the batched engine runs calls, in steps to come; returns the way it replaces.");

REGISTER_OP("Recgraph>EngineReport")
    .Input("key: string")
    .Output("report: string")
    .SetIsStateful()
    .SetShapeFn(ScalarShape)
    .Doc("What the calls of a program have cost by either engine, and which is chosen; for people.");

REGISTER_OP("Recgraph>BlockCounts")
    .Input("key: string")
    .Output("counts: int64")
    .Output("reasons: string")
    .SetIsStateful()
    .SetShapeFn([](InferenceContext* c) {
      c->set_output(0, c->MakeShape({c->UnknownDim(), c->MakeDim(3)}));
      c->set_output(1, c->Vector(c->UnknownDim()));
      return absl::OkStatus();
    })
    .Doc(R"doc(
What the blocks of a program have done so far.

key: the program's.
counts: runs, rows and nanoseconds of each block, `[blocks, 3]`.
reasons: of each block, which operation keeps it from being a row program; "" where none was found to, `[blocks]`.
)doc");

REGISTER_OP("Recgraph>CheckCaptures")
    .Input("frame: variant")
    .Input("variables: N * resource")
    .Attr("N: int >= 1")
    .Attr("slots: list(int)")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::NoOutputs)
    .Doc("Fails where one of the variables has another value than a call, whose frame is given, has read to these slots.");

REGISTER_OP("Recgraph>RegisterProgram")
    .Input("key: string")
    .Input("program: string")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::NoOutputs)
    .Doc("Makes a program known to the process, so that eager calls need not carry it.");

REGISTER_OP("Recgraph>ForgetPrograms")
    .Input("keys: string")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::NoOutputs)
    .Doc("Takes back as many registrations of programs, `[programs]`: the last one frees a program.");

REGISTER_OP("Recgraph>CountPrograms")
    .Output("counts: int64")
    .SetIsStateful()
    .SetShapeFn([](tensorflow::shape_inference::InferenceContext* ctx) {
      ctx->set_output(0, ctx->Vector(2));
      return absl::OkStatus();
    })
    .Doc("How many programs are registered in the process, and how many are known, on any device.");

}  // namespace recgraph
