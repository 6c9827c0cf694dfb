// The shapes of an operation's outputs.
#include "cc/python/shapes.h"

#include <memory>
#include <utility>

#include "cc/python/function_body.h"
#include "cc/python/tensors.h"
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

// Whether the value of an input is compared, besides its shape.
bool HasPlainValue(const Tensor* tensor) {
  return IsData(tensor) && IsSmall(*tensor) && tensorflow::DataTypeCanUseMemcpy(tensor->dtype());
}

bool IsShape(const Input& input, const Dimensions& shape) {
  if (input.value != nullptr) return input.value->shape == shape;
  if (input.tensor->dims() != static_cast<int>(shape.size())) return false;
  for (int i = 0; i < input.tensor->dims(); ++i) {
    if (input.tensor->dim_size(i) != shape[i]) return false;
  }
  return true;
}

}  // namespace

KnownInputs KnownOf(const Inputs& inputs) {
  KnownInputs known;
  for (const Input& input : inputs) {
    known.push_back({input.value != nullptr ? input.value->shape : ShapeOf(*input.tensor), input.tensor});
  }
  return known;
}

bool TakeShape(InferenceContext* context, ShapeHandle shape, Dimensions* result) {
  if (!context->FullyDefined(shape)) return false;
  for (int i = 0; i < context->Rank(shape); ++i) result->push_back(context->Value(context->Dim(shape, i)));
  return true;
}

bool IsSmall(const Tensor& tensor) { return tensor.NumElements() <= kSmallElements; }

absl::Status InferShapes(const Signature& signature, const KnownInputs& inputs,
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

bool ShapeCache::Fits(const Entry& entry, const Inputs& inputs) {
  if (entry.inputs.size() != inputs.size()) return false;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Part& part = entry.inputs[i];
    if (!IsShape(inputs[i], part.shape) || HasPlainValue(inputs[i].tensor) != part.has_value) return false;
    if (part.has_value && inputs[i].tensor->tensor_data() != part.bytes) return false;
  }
  return true;
}

absl::Status ShapeCache::Infer(const Signature& signature, const Inputs& inputs,
                               const std::vector<Dimensions>** outputs, bool* is_complete) {
  size_t found = last_;
  if (entries_.empty() || !Fits(entries_[last_], inputs)) {
    for (found = 0; found < entries_.size() && !Fits(entries_[found], inputs);) ++found;
  }
  if (found == entries_.size()) {
    Entry made{{}, {}, false};
    const KnownInputs known = KnownOf(inputs);
    for (const KnownInput& input : known) {
      const bool has_value = HasPlainValue(input.tensor);
      made.inputs.push_back({input.shape, has_value, has_value ? std::string(input.tensor->tensor_data()) : ""});
    }
    TF_RETURN_IF_ERROR(InferShapes(signature, known, &made.outputs, &made.is_complete));
    found = next_++ % kRemembered;
    if (found == entries_.size()) entries_.emplace_back();
    entries_[found] = std::move(made);
  }
  last_ = found;
  *outputs = &entries_[found].outputs;
  *is_complete = entries_[found].is_complete;
  return absl::OkStatus();
}

}  // namespace recgraph
