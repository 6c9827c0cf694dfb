// Frames as variant tensors, and the ops that pack and unpack them.
#include "cc/kernels/frame.h"

#include <utility>

#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/variant.h"
#include "tensorflow/core/framework/variant_op_registry.h"
#include "cc/kernels/checked.h"
#include "cc/kernels/errors.h"
#include "cc/kernels/invocation.h"

namespace recgraph {

using tensorflow::DT_BOOL;
using tensorflow::DT_RESOURCE;
using tensorflow::DT_VARIANT;
using tensorflow::OpKernel;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::TensorShape;
using tensorflow::Variant;
// Named by the registration macros below.
using tensorflow::TypeIndex;
namespace variant_op_registry_fn_registration = tensorflow::variant_op_registry_fn_registration;

constexpr char FrameValue::kTypeName[];

Frame::Frame(std::vector<Tensor> values) : values_(std::move(values)) {
  int64_t bytes = sizeof(Frame) + values_.size() * sizeof(Tensor);
  for (const Tensor& value : values_) {
    if (value.dtype() != DT_VARIANT && value.dtype() != DT_RESOURCE) bytes += value.TotalBytes();
  }
  AccountFor(bytes);
}

std::string FrameValue::DebugString() const {
  if (!frame) return "Frame(none)";
  return "Frame(" + std::to_string(frame->values().size()) + " values)";
}

Tensor ToTensor(FramePtr<Frame> frame) {
  Tensor tensor(DT_VARIANT, TensorShape({}));
  tensor.scalar<Variant>()() = FrameValue{std::move(frame)};
  return tensor;
}

bool IsLastReader(const Tensor& tensor) {
  if (tensor.dtype() != DT_VARIANT || tensor.NumElements() != 1 || !tensor.RefCountIsOne()) return false;
  const auto* value = tensor.scalar<Variant>()().get<FrameValue>();
  return value != nullptr && value->frame && value->frame->IsUnique();
}

absl::Status FromTensor(const Tensor& tensor, FramePtr<Frame>* frame) {
  if (tensor.dtype() == DT_VARIANT && tensor.NumElements() == 1) {
    const auto* value = tensor.scalar<Variant>()().get<FrameValue>();
    if (value != nullptr && value->frame) {
      *frame = value->frame;
      return absl::OkStatus();
    }
  }
  return errors::InvalidArgument(
      "expected the frame of an invocation, found ", tensor.DebugString(),
      ": the forward invocation was run without recording");
}

namespace {

// Values of one invocation (or branch, or loop iteration) -> frame.
class PackFrameOp : public OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* ctx) override {
    const Stretch stretch(CallOf(ctx));
    std::vector<Tensor> values;
    values.reserve(ctx->num_inputs());
    for (int i = 0; i < ctx->num_inputs(); ++i) values.push_back(ctx->input(i));
    ctx->set_output(0, ToTensor(FramePtr<Frame>(new Frame(std::move(values)))));
  }
  bool IsExpensive() override { return false; }
};

// Frame -> the values at `indices`.
class UnpackFrameOp : public OpKernel {
 public:
  explicit UnpackFrameOp(OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("indices", &indices_));
    OP_REQUIRES(ctx, static_cast<int>(indices_.size()) == ctx->num_outputs(),
                errors::InvalidArgument(name(), ": ", indices_.size(), " indices for ", ctx->num_outputs(), " values"));
  }

  void Compute(OpKernelContext* ctx) override {
    const Stretch stretch(CallOf(ctx));
    FramePtr<Frame> frame;
    OP_REQUIRES_OK(ctx, FromTensor(ctx->input(0), &frame));
    for (size_t i = 0; i < indices_.size(); ++i) {
      OP_REQUIRES(ctx, static_cast<size_t>(indices_[i]) < frame->values().size(),
                  errors::InvalidArgument("a frame of another invocation: it has ", frame->values().size(),
                                          " values, wanted number ", indices_[i]));
      OP_REQUIRES_OK(ctx, SetOutput(ctx, i, frame->values()[indices_[i]]));
    }
  }
  bool IsExpensive() override { return false; }

 private:
  std::vector<int> indices_;
};

// True for a frame without values: the end of a loop's stack of frames.
class FrameIsEmptyOp : public OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* ctx) override {
    const Stretch stretch(CallOf(ctx));
    FramePtr<Frame> frame;
    OP_REQUIRES_OK(ctx, FromTensor(ctx->input(0), &frame));
    Tensor* empty = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, TensorShape({}), &empty));
    empty->scalar<bool>()() = frame->values().empty();
  }
  bool IsExpensive() override { return false; }
};

absl::Status ZerosLikeFrame(OpKernelContext*, const FrameValue&, FrameValue* zeros) {
  zeros->frame = FramePtr<Frame>(new Frame({}));
  return absl::OkStatus();
}

REGISTER_KERNEL_BUILDER(Name("Recgraph>PackFrame").Device(tensorflow::DEVICE_CPU), PackFrameOp);
REGISTER_KERNEL_BUILDER(Name("Recgraph>UnpackFrame").Device(tensorflow::DEVICE_CPU), UnpackFrameOp);
REGISTER_KERNEL_BUILDER(Name("Recgraph>FrameIsEmpty").Device(tensorflow::DEVICE_CPU),
                        FrameIsEmptyOp);
REGISTER_UNARY_VARIANT_UNARY_OP_FUNCTION(tensorflow::ZEROS_LIKE_VARIANT_UNARY_OP,
                                         tensorflow::DEVICE_CPU, FrameValue, ZerosLikeFrame);
REGISTER_UNARY_VARIANT_UNARY_OP_FUNCTION(tensorflow::ZEROS_LIKE_VARIANT_UNARY_OP,
                                         tensorflow::DEVICE_GPU, FrameValue, ZerosLikeFrame);

// What a frame holds is in host memory, whichever device has the frame: in a list of TensorFlow's loops, say.
absl::Status CopyFrame(const FrameValue& from, FrameValue* to,
                       const tensorflow::UnaryVariantOpRegistry::AsyncTensorDeviceCopyFn&) {
  *to = from;
  return absl::OkStatus();
}

INTERNAL_REGISTER_UNARY_VARIANT_DEVICE_COPY_FUNCTION(FrameValue, tensorflow::VariantDeviceCopyDirection::HOST_TO_DEVICE,
                                                     CopyFrame);
INTERNAL_REGISTER_UNARY_VARIANT_DEVICE_COPY_FUNCTION(FrameValue, tensorflow::VariantDeviceCopyDirection::DEVICE_TO_HOST,
                                                     CopyFrame);
INTERNAL_REGISTER_UNARY_VARIANT_DEVICE_COPY_FUNCTION(FrameValue,
                                                     tensorflow::VariantDeviceCopyDirection::DEVICE_TO_DEVICE,
                                                     CopyFrame);

}  // namespace
}  // namespace recgraph
