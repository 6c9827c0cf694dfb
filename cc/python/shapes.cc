// The shapes of an operation's outputs.
#include "cc/python/shapes.h"

#include <memory>
#include <utility>

#include "cc/python/function_body.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/framework/resource_handle.h"
#include "tensorflow/core/framework/shape_inference.h"
#include "tensorflow/core/public/version.h"

namespace recgraph {
namespace {

using tensorflow::DataType;
using tensorflow::PartialTensorShape;
using tensorflow::Tensor;
using tensorflow::shape_inference::InferenceContext;
using tensorflow::shape_inference::ShapeHandle;
using HandleData = std::vector<std::pair<PartialTensorShape, DataType>>;

constexpr int kSmallElements = 64;
constexpr size_t kRemembered = 8;  // inputs that a cache keeps

std::unique_ptr<HandleData> HandleDataOf(const Tensor* tensor) {
  if (tensor == nullptr || tensor->dtype() != tensorflow::DT_RESOURCE || tensor->NumElements() != 1) return nullptr;
  auto data = std::make_unique<HandleData>();
  for (const auto& part : tensor->flat<tensorflow::ResourceHandle>()(0).dtypes_and_shapes()) {
    data->emplace_back(part.shape, part.dtype);
  }
  return data;
}

bool IsData(const Tensor* tensor) { return tensor != nullptr && tensor->dtype() != tensorflow::DT_RESOURCE; }

void AppendTo(std::string* key, const void* data, size_t size) { key->append(static_cast<const char*>(data), size); }

void AppendInput(const KnownInput& input, std::string* key) {
  const int rank = static_cast<int>(input.shape.size());
  AppendTo(key, &rank, sizeof(rank));
  AppendTo(key, input.shape.data(), rank * sizeof(int64_t));
  const bool has_value =
      IsData(input.tensor) && IsSmall(*input.tensor) && tensorflow::DataTypeCanUseMemcpy(input.tensor->dtype());
  key->push_back(has_value ? 1 : 0);
  if (has_value) key->append(input.tensor->tensor_data());
}

}  // namespace

bool TakeShape(InferenceContext* context, ShapeHandle shape, Dimensions* result) {
  if (!context->FullyDefined(shape)) return false;
  for (int i = 0; i < context->Rank(shape); ++i) result->push_back(context->Value(context->Dim(shape, i)));
  return true;
}

bool IsSmall(const Tensor& tensor) { return tensor.NumElements() <= kSmallElements; }

absl::Status InferShapes(const Signature& signature, const std::vector<KnownInput>& inputs,
                         std::vector<Dimensions>* outputs, bool* is_complete) {
  if (signature.kind == Kind::kCall) {
    *is_complete = true;
    return InferCall(signature.name, inputs, outputs, is_complete);
  }
  std::vector<PartialTensorShape> shapes;
  std::vector<const Tensor*> tensors;
  std::vector<std::unique_ptr<HandleData>> handles;
  for (const KnownInput& input : inputs) {
    shapes.emplace_back(absl::Span<const int64_t>(input.shape.data(), input.shape.size()));
    tensors.push_back(IsData(input.tensor) && IsSmall(*input.tensor) ? input.tensor : nullptr);
    handles.push_back(HandleDataOf(input.tensor));
  }
  InferenceContext context(TF_GRAPH_DEF_VERSION, tensorflow::AttrSlice(signature.definition),
                           signature.registration->op_def, shapes, tensors, {}, handles);
  TF_RETURN_IF_ERROR(context.construction_status());
  *is_complete = signature.registration->shape_inference_fn != nullptr;
  outputs->assign(signature.outputs.size(), {});
  if (!*is_complete) return absl::OkStatus();
  TF_RETURN_IF_ERROR(context.Run(signature.registration->shape_inference_fn));
  for (int i = 0; i < context.num_outputs(); ++i) {
    if (!TakeShape(&context, context.output(i), &(*outputs)[i])) *is_complete = false;
  }
  return absl::OkStatus();
}

absl::Status ShapeCache::Infer(const Signature& signature, const std::vector<KnownInput>& inputs,
                               const std::vector<Dimensions>** outputs, bool* is_complete) {
  key_.clear();
  for (const KnownInput& input : inputs) AppendInput(input, &key_);
  for (const Entry& entry : entries_) {
    if (entry.key == key_) {
      *outputs = &entry.outputs;
      *is_complete = entry.is_complete;
      return absl::OkStatus();
    }
  }
  Entry made{key_, {}, false};
  TF_RETURN_IF_ERROR(InferShapes(signature, inputs, &made.outputs, &made.is_complete));
  if (entries_.size() < kRemembered) entries_.emplace_back();
  Entry& place = entries_[next_++ % kRemembered];
  place = std::move(made);
  *outputs = &place.outputs;
  *is_complete = place.is_complete;
  return absl::OkStatus();
}

}  // namespace recgraph
