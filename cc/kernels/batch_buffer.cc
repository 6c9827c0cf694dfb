// Stacking and taking apart.
#include "cc/kernels/batch_buffer.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "cc/kernels/errors.h"
#include "cc/kernels/pool_allocator.h"
#include "tensorflow/core/framework/resource_handle.h"
#include "tensorflow/core/framework/types.h"
#include "tensorflow/core/framework/variant.h"

namespace recgraph {
namespace batch {

using tensorflow::DataType;
using tensorflow::DataTypeCanUseMemcpy;
using tensorflow::Tensor;
using tensorflow::TensorShape;
using tensorflow::tstring;

namespace {

TensorShape ShapeOfValue(const Tensor& tensor, bool shared) {
  TensorShape shape = tensor.shape();
  if (!shared) shape.RemoveDim(0);
  return shape;
}

// Elements that are objects, copied as such.
template <typename Object>
void CopyObjects(const Buffer& from, int64_t row, int64_t offset, Tensor* to) {
  const int64_t count = from.value_elements();
  const auto* first = static_cast<const Object*>(from.tensor().data()) + (row < 0 ? 0 : row * count);
  std::copy_n(first, count, static_cast<Object*>(to->data()) + offset);
}

// Copies the elements of one value to those of `to` from `offset` on; both have one dtype.
void CopyElements(const Buffer& from, int64_t row, int64_t offset, Tensor* to) {
  const int64_t count = from.value_elements();
  if (count == 0) return;
  if (DataTypeCanUseMemcpy(to->dtype())) {
    const size_t size = from.value_bytes() / count;
    std::memcpy(static_cast<char*>(to->data()) + offset * size, from.data(row), from.value_bytes());
    return;
  }
  switch (to->dtype()) {
    case tensorflow::DT_STRING: return CopyObjects<tstring>(from, row, offset, to);
    case tensorflow::DT_RESOURCE: return CopyObjects<tensorflow::ResourceHandle>(from, row, offset, to);
    default: return CopyObjects<tensorflow::Variant>(from, row, offset, to);  // the only other dtype of objects
  }
}

// More leaves than a join of any program has: a join of joins of itself has exponentially many.
constexpr size_t kMostParts = 1 << 26;

// The leaves of a join, in order.
absl::Status Parts(const Value& join, std::vector<const Value*>* parts) {
  std::vector<const Value*> stack = {&join};
  while (!stack.empty()) {
    const Value* const value = stack.back();
    stack.pop_back();
    if (value->holder->kind == Holder::Kind::kRecord || value->holder->kind == Holder::Kind::kStep) {
      return errors::InvalidArgument("concat: a part is a frame");
    }
    if (parts->size() + stack.size() > kMostParts) return errors::ResourceExhausted("concat: too many parts");
    if (value->holder->kind == Holder::Kind::kBuffer) {
      parts->push_back(value);
      continue;
    }
    const auto* record = static_cast<const Record*>(value->holder.get());
    if (record->joined()) {
      parts->push_back(record->joined());
      continue;
    }
    const Values& inner = record->values();
    for (size_t i = inner.size(); i-- > 0;) stack.push_back(&inner[i]);
  }
  return absl::OkStatus();
}

absl::Status DtypesDiffer(const char* what, DataType one, DataType other) {
  return errors::InvalidArgument(what, " of one tensor differ in dtype: ", tensorflow::DataTypeString(one), " and ",
                                 tensorflow::DataTypeString(other));
}

absl::Status JoinOf(const Value& join, Tensor* whole) {
  std::vector<const Value*> values;
  TF_RETURN_IF_ERROR(Parts(join, &values));
  std::vector<JoinPart> parts;
  for (const Value* value : values) parts.push_back({static_cast<const Buffer*>(value->holder.get()), value->row});
  return Join(parts, whole);
}

// Whether the values are neighbouring rows of one buffer, and where that may be used in place.
bool LieTogether(const std::vector<const Value*>& values, const Buffer& first) {
  if (values[0]->row < 0) return false;
  for (size_t i = 1; i < values.size(); ++i) {
    if (values[i]->holder.get() != values[0]->holder.get()) return false;
    if (values[i]->row != values[0]->row + static_cast<int64_t>(i)) return false;
  }
  const bool everything =
      values[0]->row == 0 && first.tensor().dim_size(0) == static_cast<int64_t>(values.size());
  return everything || (values[0]->row * first.value_bytes()) % EIGEN_MAX_ALIGN_BYTES == 0;
}

}  // namespace

Buffer::Buffer(Tensor tensor, bool shared)
    : Holder(Kind::kBuffer), tensor_(std::move(tensor)), shape_(ShapeOfValue(tensor_, shared)),
      data_(static_cast<const char*>(tensor_.data())), value_elements_(shape_.num_elements()) {
  value_bytes_ = value_elements_ * tensorflow::DataTypeSize(tensor_.dtype());
  AccountFor(sizeof(Buffer) + tensor_.TotalBytes());
}

absl::Status Join(const std::vector<JoinPart>& parts, Tensor* whole) {
  const DataType dtype = parts[0].buffer->tensor().dtype();
  TensorShape shape;
  int64_t rows = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    const Buffer* const buffer = parts[i].buffer;
    TensorShape own = buffer->shape();
    if (own.dims() == 0) return errors::InvalidArgument("concat: a part is a scalar");
    if (buffer->tensor().dtype() != dtype) return DtypesDiffer("parts", dtype, buffer->tensor().dtype());
    rows += own.dim_size(0);
    own.set_dim(0, 0);
    if (i == 0) shape = own;
    if (own != shape) {
      return errors::InvalidArgument("concat: parts differ in more than their first dimension: ",
                                     shape.DebugString(), " and ", own.DebugString());
    }
  }
  TF_RETURN_IF_ERROR(shape.SetDimWithStatus(0, rows));
  TF_RETURN_IF_ERROR(Allocate(dtype, shape, whole));
  int64_t offset = 0;
  for (const JoinPart& part : parts) {
    CopyElements(*part.buffer, part.row, offset, whole);
    offset += part.buffer->value_elements();
  }
  return absl::OkStatus();
}

Value Whole(Tensor tensor) { return {FramePtr<Holder>(new Buffer(std::move(tensor), true)), -1}; }

absl::Status BufferOf(const Value** value, const Buffer** buffer) {
  if ((*value)->holder->kind == Holder::Kind::kJoin) {
    const auto* record = static_cast<const Record*>((*value)->holder.get());
    if (record->joined() == nullptr) {
      Tensor whole;
      TF_RETURN_IF_ERROR(JoinOf(**value, &whole));
      record->SetJoined(Whole(std::move(whole)));
    }
    *value = record->joined();
  }
  if ((*value)->holder->kind != Holder::Kind::kBuffer) {
    return errors::InvalidArgument("a frame where a tensor was expected");
  }
  *buffer = static_cast<const Buffer*>((*value)->holder.get());
  return absl::OkStatus();
}

absl::Status Gather(std::vector<const Value*> values, Tensor* stacked, bool* fresh) {
  const Buffer* first = nullptr;
  for (const Value*& value : values) TF_RETURN_IF_ERROR(BufferOf(&value, &first));
  first = static_cast<const Buffer*>(values[0]->holder.get());
  const int64_t count = values.size();
  *fresh = false;
  if (LieTogether(values, *first)) {
    const int64_t row = values[0]->row;
    *stacked = first->tensor().dim_size(0) == count ? first->tensor()
                                                    : first->tensor().Slice(row, row + count);
    return absl::OkStatus();
  }
  TensorShape shape = first->shape();
  TF_RETURN_IF_ERROR(shape.InsertDimWithStatus(0, count));
  if (count == 1 && values[0]->row < 0) {
    if (stacked->CopyFrom(first->tensor(), shape)) return absl::OkStatus();
  }
  TF_RETURN_IF_ERROR(Allocate(first->tensor().dtype(), shape, stacked));
  *fresh = true;
  const size_t bytes = first->value_bytes();
  const bool plain = DataTypeCanUseMemcpy(stacked->dtype());
  char* to = static_cast<char*>(stacked->data());
  for (int64_t i = 0; i < count; ++i, to += bytes) {
    const auto* buffer = static_cast<const Buffer*>(values[i]->holder.get());
    if (buffer != first && buffer->shape() != first->shape()) {
      return errors::InvalidArgument("rows of one batch differ in shape: ", first->shape().DebugString(),
                                     " and ", buffer->shape().DebugString());
    }
    if (buffer->tensor().dtype() != stacked->dtype()) {
      return DtypesDiffer("rows", stacked->dtype(), buffer->tensor().dtype());
    }
    if (first->value_elements() == 0) continue;
    if (plain) {
      std::memcpy(to, buffer->data(values[i]->row), bytes);
    } else {
      CopyElements(*buffer, values[i]->row, i * first->value_elements(), stacked);
    }
  }
  return absl::OkStatus();
}

absl::Status TensorOf(const Value& value, Tensor* tensor) {
  const Buffer* buffer = nullptr;
  const Value* settled = &value;
  TF_RETURN_IF_ERROR(BufferOf(&settled, &buffer));
  if (buffer->tensor().dims() == buffer->shape().dims()) {  // shared: the whole
    *tensor = buffer->tensor();
    return absl::OkStatus();
  }
  if (buffer->tensor().dim_size(0) == 1) {
    if (!tensor->CopyFrom(buffer->tensor(), buffer->shape())) {
      return errors::Internal("a row that is not one");
    }
    return absl::OkStatus();
  }
  TF_RETURN_IF_ERROR(Allocate(buffer->tensor().dtype(), buffer->shape(), tensor));
  CopyElements(*buffer, settled->row, 0, tensor);
  return absl::OkStatus();
}

}  // namespace batch
}  // namespace recgraph
