// The results of each block lie in one tensor, whose rows are in the order of the schedule.
#include "cc/kernels/batch_schedule.h"

#include <algorithm>
#include <chrono>
#include <complex>
#include <cstring>
#include <utility>

#include "cc/kernels/errors.h"
#include "cc/kernels/pool_allocator.h"
#include "tsl/profiler/lib/traceme.h"

namespace recgraph {
namespace batch {

using tensorflow::Tensor;

namespace {

const Buffer& BufferOfKind(const void* kind) { return *static_cast<const Buffer*>(kind); }

// Rows of a tensor, or one value as a whole.
void SetRows(const Tensor& tensor, bool shared, RowsOfStep* rows) {
  auto* const buffer = new Buffer(tensor, shared);
  rows->holder = FramePtr<Holder>(buffer);
  rows->kind = buffer;
  rows->data = buffer->data(0);
  rows->bytes = shared ? 0 : buffer->value_bytes();
}

// Makes room in a tensor for more rows than it has.
absl::Status Enlarge(int64_t kept, int64_t capacity, Tensor* tensor) {
  tensorflow::TensorShape shape = tensor->shape();
  const int64_t parts = shape.dim_size(0) == 0 ? 1 : shape.dim_size(0);
  Tensor larger;
  const int64_t each = shape.dim_size(0) == 0 ? 0 : tensor->TotalBytes() / parts;
  TF_RETURN_IF_ERROR(shape.SetDimWithStatus(0, capacity));
  TF_RETURN_IF_ERROR(Allocate(tensor->dtype(), shape, &larger));
  if (kept * each > 0) std::memcpy(larger.data(), tensor->data(), kept * each);
  *tensor = std::move(larger);
  return absl::OkStatus();
}

// Element by element: the sum of the rows in `Total`, rounded once.
template <typename Element, typename Total>
void AddElements(const std::vector<const char*>& rows, int64_t elements, char* sum) {
  auto* const to = reinterpret_cast<Element*>(sum);
  for (int64_t i = 0; i < elements; ++i) {
    Total total = static_cast<Total>(reinterpret_cast<const Element*>(rows[0])[i]);
    for (size_t row = 1; row < rows.size(); ++row) {
      total += static_cast<Total>(reinterpret_cast<const Element*>(rows[row])[i]);
    }
    to[i] = static_cast<Element>(total);
  }
}

}  // namespace

bool TensorSchedule::Import(const Value& value, RowsOfStep* rows, uint32_t* row) {
  const auto* const buffer = static_cast<const Buffer*>(value.holder.get());
  if (!tensorflow::DataTypeCanUseMemcpy(buffer->tensor().dtype())) return false;
  const bool whole = value.row < 0;
  rows->data = buffer->data(0);
  if (rows->data == nullptr) return false;  // no elements
  rows->bytes = whole ? 0 : buffer->value_bytes();
  rows->kind = buffer;
  rows->holder = value.holder;
  *row = whole ? 0 : static_cast<uint32_t>(value.row);
  return true;
}

bool TensorSchedule::IsSameKind(const void* one, const void* other) {
  const Buffer &mine = BufferOfKind(one), &theirs = BufferOfKind(other);
  return mine.tensor().dtype() == theirs.tensor().dtype() && mine.shape() == theirs.shape();
}

bool TensorSchedule::RunScheduled(int number, int64_t count, int64_t first, int64_t total,
                                  const char* const* const* inputs, const std::vector<const void*>& kinds,
                                  RowsOfStep* results) {
  const auto start = std::chrono::steady_clock::now();
  const Block& block = plan_.blocks[number];
  const tsl::profiler::TraceMe trace(
      [&] { return tsl::profiler::TraceMeEncode("recgraph: " + block.name, {{"rows", count}}); },
      tsl::profiler::kInfo);
  Arena& arena = arenas_[number];
  std::vector<RowKind> shapes;
  for (const void* kind : kinds) shapes.push_back({BufferOfKind(kind).tensor().dtype(), BufferOfKind(kind).shape()});
  const LoweredBlock* const lowered = blocks_->Prepare(block, shapes);
  if (arena.rows > 0 && arena.lowered != lowered) return false;
  arena.lowered = lowered;
  if (lowered != nullptr ? !RunProgram(block, count, first, total, inputs, &arena, results)
                         : !RunByOperations(block, count, first, total, inputs, shapes, &arena, results)) {
    return false;
  }
  arena.rows = std::max(arena.rows, first + count);
  BlockCounts* const counts = program_->counts(block);
  const std::chrono::nanoseconds elapsed = std::chrono::steady_clock::now() - start;
  counts->runs.fetch_add(1, std::memory_order_relaxed);
  counts->rows.fetch_add(count, std::memory_order_relaxed);
  counts->nanoseconds.fetch_add(elapsed.count(), std::memory_order_relaxed);
  return true;
}

bool TensorSchedule::RunProgram(const Block& block, int64_t count, int64_t first, int64_t total,
                                const char* const* const* inputs, Arena* arena, RowsOfStep* results) {
  const LoweredBlock& lowered = *arena->lowered;
  if (arena->capacity < total && !Grow(block, total, arena, results)) return false;
  const auto& sizes = lowered.program.outputs();
  std::vector<char*> outputs(sizes.size());
  for (size_t i = 0; i < sizes.size(); ++i) {
    outputs[i] = static_cast<char*>(arena->outputs[i].data()) + (sizes[i].shared ? 0 : first * sizes[i].bytes);
  }
  if (!blocks_->Run(block, count, inputs, outputs.data(), IsLarge(block, count) ? workers_ : 1)) return false;
  for (size_t i = 0; i < arena->copies.size(); ++i) {
    const int input = lowered.results[i].input;
    if (input < 0) continue;
    const int64_t bytes = results[i].bytes;
    char* const to = static_cast<char*>(arena->copies[i].data()) + first * bytes;
    for (int64_t row = 0; row < count; ++row) std::memcpy(to + row * bytes, inputs[input][row], bytes);
  }
  arena->factors.resize(lowered.results.size());
  for (size_t i = arena->copies.size(); i < lowered.results.size(); ++i) {
    const LoweredBlock::Result& result = lowered.results[i];
    arena->factors[i].resize(result.factor.size());
    for (size_t k = 0; k < result.factor.size(); ++k) {
      const auto& [input, offset, width] = result.factor[k];
      for (int64_t row = 0; row < count; ++row) {
        const float* const from = reinterpret_cast<const float*>(inputs[input][row]) + offset;
        for (int64_t part = 0; part < result.parts; ++part) arena->factors[i][k].push_back(from + part * width);
      }
    }
  }
  return true;
}

bool TensorSchedule::RunByOperations(const Block& block, int64_t count, int64_t first, int64_t total,
                                     const char* const* const* inputs, const std::vector<RowKind>& kinds, Arena* arena,
                                     RowsOfStep* results) {
  std::vector<Tensor> stacked, outputs;
  if (!Stack(count, inputs, kinds, &stacked).ok()) return false;
  const auto mode = IsLarge(block, count) ? Program::BlockMode::kLarge : Program::BlockMode::kSmall;
  if (!run_operations_(block, mode, std::move(stacked), &outputs).ok()) return false;
  arena->outputs.resize(block.shared.size());
  for (size_t i = 0; i < block.shared.size(); ++i) {
    if (!tensorflow::DataTypeCanUseMemcpy(outputs[i].dtype())) return false;
    if (!block.shared[i]) {
      if (!KeepRows(outputs[i], count, first, total, *arena, &arena->outputs[i], &results[i])) return false;
    } else if (arena->rows == 0) {
      arena->outputs[i] = outputs[i];
      SetRows(outputs[i], true, &results[i]);
    }
    if (results[i].data == nullptr) return false;  // no elements
  }
  arena->capacity = std::max(arena->capacity, total);
  if (!block.sums.empty()) arena->to_sum.push_back(std::move(outputs));
  return true;
}

absl::Status TensorSchedule::Stack(int64_t count, const char* const* const* inputs, const std::vector<RowKind>& kinds,
                                   std::vector<Tensor>* stacked) {
  stacked->resize(kinds.size());
  for (size_t i = 0; i < kinds.size(); ++i) {
    Tensor* const rows = &(*stacked)[i];
    tensorflow::TensorShape shape = kinds[i].shape;
    TF_RETURN_IF_ERROR(shape.InsertDimWithStatus(0, count));
    TF_RETURN_IF_ERROR(Allocate(kinds[i].dtype, shape, rows));
    const int64_t bytes = rows->TotalBytes() / count;
    char* const to = static_cast<char*>(rows->data());
    for (int64_t row = 0; row < count; ++row) std::memcpy(to + row * bytes, inputs[i][row], bytes);
  }
  return absl::OkStatus();
}

bool TensorSchedule::IsError(int number, const std::vector<const char*>& row, const std::vector<const void*>& kinds) {
  std::vector<const char* const*> inputs;
  for (const char* const& input : row) inputs.push_back(&input);
  std::vector<RowKind> shapes;
  for (const void* kind : kinds) shapes.push_back({BufferOfKind(kind).tensor().dtype(), BufferOfKind(kind).shape()});
  std::vector<Tensor> stacked, outputs;
  error_ = Stack(1, inputs.data(), shapes, &stacked);
  if (error_.ok()) {
    error_ = run_operations_(plan_.blocks[number], Program::BlockMode::kDiagnosis, std::move(stacked), &outputs);
  }
  return !error_.ok();
}

bool TensorSchedule::KeepRows(const Tensor& output, int64_t count, int64_t first, int64_t total, const Arena& arena,
                              Tensor* all, RowsOfStep* result) {
  if (output.dims() == 0 || output.dim_size(0) != count) return false;
  tensorflow::TensorShape shape = output.shape();
  shape.set_dim(0, total);
  if (arena.rows == 0 && count == total) {
    *all = output;
  } else if (arena.rows == 0) {
    if (!Allocate(output.dtype(), shape, all).ok()) return false;
  } else {
    tensorflow::TensorShape known = all->shape();
    known.set_dim(0, total);
    if (all->dtype() != output.dtype() || known != shape) return false;
    if (arena.capacity < total && !Replace(arena.rows, std::max(total, 2 * arena.capacity), all)) return false;
  }
  if (!result->holder || arena.capacity < total) SetRows(*all, false, result);
  if (all->data() != output.data() && result->data != nullptr) {
    std::memcpy(static_cast<char*>(all->data()) + first * result->bytes, output.data(), count * result->bytes);
  }
  return true;
}

bool TensorSchedule::Replace(int64_t kept, int64_t capacity, Tensor* tensor) {
  replaced_.push_back(*tensor);
  return Enlarge(kept, capacity, tensor).ok();
}

bool TensorSchedule::Grow(const Block& block, int64_t total, Arena* arena, RowsOfStep* results) {
  const LoweredBlock& lowered = *arena->lowered;
  const bool is_first = arena->capacity == 0;
  const int64_t capacity = is_first ? total : std::max(total, 2 * arena->capacity);
  const auto& sizes = lowered.program.outputs();
  if (is_first) {
    if (!lowered.Allocate(capacity, &arena->outputs).ok()) return false;
    arena->copies.resize(block.shared.size());
  }
  for (size_t i = 0; i < lowered.results.size(); ++i) {
    const LoweredBlock::Result& result = lowered.results[i];
    if (!is_first && result.output >= 0 && !sizes[result.output].shared &&
        !Replace(arena->rows * result.parts, capacity * result.parts, &arena->outputs[result.output])) {
      return false;
    }
    if (i >= block.shared.size()) continue;
    if (result.input >= 0) {
      Tensor* const copy = &arena->copies[i];
      tensorflow::TensorShape shape = result.kind.shape;
      if (!shape.InsertDimWithStatus(0, is_first ? capacity : arena->capacity).ok()) return false;
      if (is_first ? !Allocate(result.kind.dtype, shape, copy).ok() : !Replace(arena->rows, capacity, copy)) {
        return false;
      }
      SetRows(*copy, false, &results[i]);
    } else if (result.output >= 0) {
      if (result.shared) return false;  // it is another one in each run
      SetRows(arena->outputs[result.output], false, &results[i]);
    } else if (is_first) {
      SetRows(result.constant, true, &results[i]);
    }
    if (results[i].data == nullptr) return false;  // no elements
  }
  arena->capacity = capacity;
  return true;
}

bool TensorSchedule::SelectRow(Selector selector, const void* kind, const char* data, int* branch) {
  const Buffer& buffer = BufferOfKind(kind);
  if (buffer.shape().dims() != 0) return false;
  const bool by_bool = selector == Selector::kBool;
  if (buffer.tensor().dtype() != (by_bool ? tensorflow::DT_BOOL : tensorflow::DT_INT32)) return false;
  if (by_bool) {
    *branch = *data != 0 ? 0 : 1;
  } else {
    int32_t index;
    std::memcpy(&index, data, sizeof(index));
    *branch = index;
  }
  return true;
}

bool TensorSchedule::IsDiscrete(const void* kind) {
  const tensorflow::DataType dtype = BufferOfKind(kind).tensor().dtype();
  return tensorflow::DataTypeIsInteger(dtype) || dtype == tensorflow::DT_BOOL;
}

bool TensorSchedule::MakeRows(const void* kind, int64_t count, RowsOfStep* rows) {
  const Buffer& like = BufferOfKind(kind);
  tensorflow::TensorShape shape = like.shape();
  Tensor made;
  if (!shape.InsertDimWithStatus(0, count).ok() || !Allocate(like.tensor().dtype(), shape, &made).ok()) return false;
  std::memset(made.data(), 0, made.TotalBytes());
  SetRows(made, false, rows);
  return rows->data != nullptr;
}

bool TensorSchedule::AddRows(const void* kind, const std::vector<const char*>& rows, char* sum) {
  const Buffer& like = BufferOfKind(kind);
  const int64_t elements = like.shape().num_elements();
  switch (like.tensor().dtype()) {
    case tensorflow::DT_FLOAT: AddElements<float, float>(rows, elements, sum); return true;
    case tensorflow::DT_DOUBLE: AddElements<double, double>(rows, elements, sum); return true;
    case tensorflow::DT_HALF: AddElements<Eigen::half, float>(rows, elements, sum); return true;
    case tensorflow::DT_BFLOAT16: AddElements<tensorflow::bfloat16, float>(rows, elements, sum); return true;
    case tensorflow::DT_COMPLEX64: AddElements<std::complex<float>, std::complex<float>>(rows, elements, sum); return true;
    case tensorflow::DT_COMPLEX128:
      AddElements<std::complex<double>, std::complex<double>>(rows, elements, sum);
      return true;
    default: return false;
  }
}

int64_t TensorSchedule::SizeOf(const void* kind) { return BufferOfKind(kind).value_bytes(); }

std::string TensorSchedule::TextOf(const void* kind, const char* data) {
  const Buffer& buffer = BufferOfKind(kind);
  constexpr int64_t kMost = 8;
  Tensor copy(buffer.tensor().dtype(), buffer.shape());
  std::memcpy(copy.data(), data, buffer.value_bytes());
  return copy.SummarizeValue(kMost);
}

bool TensorSchedule::JoinRows(const std::vector<std::pair<const RowsOfStep*, uint32_t>>& parts, Value* whole) {
  std::vector<JoinPart> found;
  for (const auto& [rows, row] : parts) {
    found.push_back({&BufferOfKind(rows->kind), rows->bytes == 0 ? -1 : static_cast<int64_t>(row)});
  }
  Tensor joined;
  if (found.empty() || !Join(found, &joined).ok()) return false;
  *whole = Whole(std::move(joined));
  return true;
}

absl::Status TensorSchedule::AddSums(const FramePtr<StepFrame>& step) {
  for (size_t b = 0; b < arenas_.size(); ++b) {
    const Block& block = plan_.blocks[b];
    if (arenas_[b].rows == 0) continue;
    for (size_t i = 0; i < block.sums.size(); i += 3) {
      const auto kind = static_cast<SumKind>(block.sums[i]);
      const int slot = block.sums[i + 1], first = block.sums[i + 2];
      for (const auto& outputs : arenas_[b].to_sum) TF_RETURN_IF_ERROR(AddOwnSum(outputs, kind, slot, first));
      if (arenas_[b].lowered != nullptr) TF_RETURN_IF_ERROR(AddSum(step, arenas_[b], kind, slot, first));
    }
  }
  return absl::OkStatus();
}

absl::Status TensorSchedule::AddOwnSum(const std::vector<Tensor>& outputs, SumKind kind, int slot, int first) {
  if (sums_ == nullptr) return errors::InvalidArgument("a block adds to sums in a forward call");
  if (kind == SumKind::kDense) return sums_->AddDense(slot, outputs[first]);
  return sums_->AddPair(kind, slot, outputs[first], outputs[first + 1]);
}

absl::Status TensorSchedule::AddSum(const FramePtr<StepFrame>& step, const Arena& arena, SumKind kind, int slot,
                                    int first) {
  if (sums_ == nullptr) return errors::InvalidArgument("a block adds to sums in a forward call");
  const auto rows_of = [&arena](int result) {
    const LoweredBlock::Result& what = arena.lowered->results[result];
    const Tensor& all = arena.outputs[what.output];
    return arena.rows == arena.capacity ? all : all.Slice(0, arena.rows * what.parts);
  };
  if (kind == SumKind::kDense) return sums_->AddDense(slot, arena.outputs[arena.lowered->results[first].output]);
  const auto& results = arena.lowered->results;
  if (results[first].factor.empty() && results[first + 1].factor.empty()) {
    return sums_->AddPair(kind, slot, rows_of(first), rows_of(first + 1));
  }
  const auto parts_of = [&](int result) {
    if (!results[result].factor.empty()) return arena.factors[result];
    std::vector<std::vector<const float*>> parts(1);
    const Tensor all = rows_of(result);
    const int64_t width = results[result].kind.shape.num_elements();
    for (int64_t row = 0; row < all.dim_size(0); ++row) parts[0].push_back(all.flat<float>().data() + row * width);
    return parts;
  };
  const auto parts = parts_of(first);
  const std::vector<const float*> rows = parts_of(first + 1)[0];
  int64_t done = 0;
  for (size_t k = 0; k < parts.size(); ++k) {
    ScatteredFactors factors;
    factors.a = parts[k];
    factors.b = rows;
    factors.height = results[first].kind.shape.num_elements();
    factors.first = done;
    factors.width_a = parts.size() == 1 ? factors.height : results[first].factor[k].width;
    factors.width_b = results[first + 1].kind.shape.num_elements();
    done += factors.width_a;
    step->Ref();
    factors.keeps = FramePtr<FrameBase>(step.get());
    factors.tensors = arena.outputs;
    factors.tensors.insert(factors.tensors.end(), replaced_.begin(), replaced_.end());
    TF_RETURN_IF_ERROR(sums_->AddFactors(slot, std::move(factors)));
  }
  return absl::OkStatus();
}

}  // namespace batch
}  // namespace recgraph
