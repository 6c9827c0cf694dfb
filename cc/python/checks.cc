// Operations whose errors depend on values, where Python's thread knows the values that decide.
#include "cc/python/checks.h"

#include <cstdint>
#include <limits>
#include <string>
#include <unordered_map>

#include "tensorflow/core/framework/resource_handle.h"
#include "tensorflow/core/framework/tensor.h"

namespace recgraph {
namespace {

using tensorflow::Tensor;

constexpr int64_t kUnknown = -1;

// The values of input `decisive` have to be at least 0 and less than a bound, which is ...
enum class Bound {
  kFirst,     // the first dimension of input `bounding`
  kLast,      // its last dimension
  kAxis,      // the dimension of it that input 2 names
  kVariable,  // the first dimension of the variable that it is
  kNonZero,   // there is none: they must not be zero
};

struct Rule {
  int decisive;
  int bounding;
  Bound bound;
};

const std::unordered_map<std::string, Rule>& Rules() {
  static const auto* rules = new std::unordered_map<std::string, Rule>{
      {"Gather", {1, 0, Bound::kFirst}},
      {"GatherV2", {1, 0, Bound::kAxis}},
      {"ResourceGather", {1, 0, Bound::kVariable}},
      {"ResourceScatterAdd", {1, 0, Bound::kVariable}},
      {"ResourceScatterSub", {1, 0, Bound::kVariable}},
      {"ResourceScatterUpdate", {1, 0, Bound::kVariable}},
      {"ResourceSparseApplyAdagradV2", {5, 0, Bound::kVariable}},
      {"ResourceSparseApplyKerasMomentum", {4, 0, Bound::kVariable}},
      {"ResourceSparseApplyMomentum", {4, 0, Bound::kVariable}},
      {"SparseSoftmaxCrossEntropyWithLogits", {1, 0, Bound::kLast}},
      {"Div", {1, 0, Bound::kNonZero}},
      {"FloorDiv", {1, 0, Bound::kNonZero}},
      {"FloorMod", {1, 0, Bound::kNonZero}},
      {"Mod", {1, 0, Bound::kNonZero}},
      {"TruncateDiv", {1, 0, Bound::kNonZero}},
      {"TruncateMod", {1, 0, Bound::kNonZero}},
  };
  return *rules;
}

template <typename T>
bool AreAllIn(const Tensor& tensor, Bound bound, int64_t limit) {
  const auto values = tensor.flat<T>();
  for (int64_t i = 0; i < values.size(); ++i) {
    const T value = values(i);
    const bool is_good = bound == Bound::kNonZero ? value != 0 : value >= 0 && static_cast<int64_t>(value) < limit;
    if (!is_good) return false;
  }
  return true;
}

// Whether the places of a sparse matrix, `[n, 2]`, lie in its shape.
template <typename T>
bool AreAllPlacesIn(const Tensor& places, const Tensor& shape) {
  const auto limits = shape.vec<int64_t>();
  const auto all = places.matrix<T>();
  for (int64_t i = 0; i < places.dim_size(0); ++i) {
    for (int axis = 0; axis < 2; ++axis) {
      const auto place = static_cast<int64_t>(all(i, axis));
      if (place < 0 || place >= limits(axis)) return false;
    }
  }
  return true;
}

bool Flag(const Signature& signature, const char* name) {
  auto found = signature.definition.attr().find(name);
  return found != signature.definition.attr().end() && found->second.b();
}

// Whether `SparseTensorDenseMatMul` (places, values, shape, matrix) is given two matrices that fit.
bool IsSparseProductSafe(const Signature& signature, const KnownInputs& inputs, const ValueOfInput& value) {
  const HandlePtr handles[] = {value(0), value(2)};
  const Tensor *places, *shape;
  if (handles[0] == nullptr || handles[1] == nullptr || !TensorOf(handles[0].get(), &places).ok() ||
      !TensorOf(handles[1].get(), &shape).ok()) {
    return false;
  }
  const Dimensions &values = inputs[1].shape, &matrix = inputs[3].shape;
  const bool is_sparse = places->dims() == 2 && places->dim_size(1) == 2 && values.size() == 1 &&
                         values[0] == places->dim_size(0) && shape->dtype() == tensorflow::DT_INT64 &&
                         shape->dims() == 1 && shape->NumElements() == 2;
  if (!is_sparse || matrix.size() != 2) return false;
  const int64_t inner = shape->vec<int64_t>()(Flag(signature, "adjoint_a") ? 0 : 1);
  if (inner != matrix[Flag(signature, "adjoint_b") ? 1 : 0]) return false;
  if (places->dtype() == tensorflow::DT_INT64) return AreAllPlacesIn<int64_t>(*places, *shape);
  return places->dtype() == tensorflow::DT_INT32 && AreAllPlacesIn<int32_t>(*places, *shape);
}

// The number in a scalar, or kUnknown.
int64_t Scalar(const ValueOfInput& value, int input) {
  HandlePtr handle = value(input);
  const Tensor* tensor;
  if (handle == nullptr || !TensorOf(handle.get(), &tensor).ok() || tensor->NumElements() != 1) return kUnknown;
  if (tensor->dtype() == tensorflow::DT_INT32) return tensor->flat<int32_t>()(0);
  return tensor->dtype() == tensorflow::DT_INT64 ? tensor->flat<int64_t>()(0) : kUnknown;
}

int64_t Limit(const Rule& rule, const Signature& signature, const KnownInputs& inputs, const ValueOfInput& value) {
  const KnownInput& input = inputs[rule.bounding];
  if (rule.bound == Bound::kNonZero) return 0;
  if (rule.bound == Bound::kVariable) {
    auto batch = signature.definition.attr().find("batch_dims");
    if (batch != signature.definition.attr().end() && batch->second.i() != 0) return kUnknown;
    const auto& parts = input.tensor->flat<tensorflow::ResourceHandle>()(0).dtypes_and_shapes();
    return parts.size() == 1 && parts[0].shape.dims() > 0 ? parts[0].shape.dim_size(0) : kUnknown;
  }
  if (input.shape.empty()) return kUnknown;
  if (rule.bound == Bound::kFirst) return input.shape[0];
  if (rule.bound == Bound::kLast) return input.shape.back();
  int64_t axis = Scalar(value, 2);
  const int64_t rank = static_cast<int64_t>(input.shape.size());
  return axis >= 0 && axis < rank ? input.shape[axis] : kUnknown;
}

}  // namespace

bool CannotFail(const Signature& signature, const KnownInputs& inputs, const ValueOfInput& value) {
  if (signature.name == "SparseTensorDenseMatMul") return IsSparseProductSafe(signature, inputs, value);
  auto found = Rules().find(signature.name);
  if (found == Rules().end()) return false;
  const Rule& rule = found->second;
  const int64_t limit = Limit(rule, signature, inputs, value);
  if (limit == kUnknown) return false;
  HandlePtr handle = value(rule.decisive);
  const Tensor* tensor;
  if (handle == nullptr || !TensorOf(handle.get(), &tensor).ok()) return false;
  switch (tensor->dtype()) {
    case tensorflow::DT_INT32:
      return AreAllIn<int32_t>(*tensor, rule.bound, limit);
    case tensorflow::DT_INT64:
      return AreAllIn<int64_t>(*tensor, rule.bound, limit);
    case tensorflow::DT_UINT8:
      return AreAllIn<uint8_t>(*tensor, rule.bound, limit);
    default:
      return false;
  }
}

}  // namespace recgraph
