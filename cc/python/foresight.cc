// What Python's thread can know of a step's values without asking the graph.
//
// Much that decides whether an operation fails, and which shape its outputs have, comes from Python: the indices of a
// batch, lengths, masks. The graph computes with them as well, but Python need not wait for that: what was computed of
// few whole numbers is computed here once more.
#include <algorithm>
#include <utility>

#include "cc/python/checks.h"
#include "cc/python/device.h"
#include "cc/python/step.h"
#include "cc/python/tensors.h"

namespace recgraph {
namespace {

using tensorflow::Tensor;

constexpr int64_t kFewNumbers = 65536;  // whole ones that an operation is given; it takes some 20 us to go through them
constexpr int64_t kFewOthers = 64;
constexpr int kFewOperations = 32;  // one after another

int64_t SizeOf(const Input& input) {
  if (input.value == nullptr) return input.tensor->NumElements();
  int64_t size = 1;
  for (int64_t dimension : input.value->shape) size *= dimension;
  return size;
}

bool IsSmallEnough(const Inputs& inputs) {
  for (const Input& input : inputs) {
    if (input.resource >= 0) return false;
    if (SizeOf(input) > (IsCountable(input.dtype) ? kFewNumbers : kFewOthers)) return false;
  }
  return true;
}

}  // namespace

Step::Outcome Step::Foresee(const Signature& signature, const Inputs& inputs, bool has_shapes) {
  const auto known = [&](int i) { return Known(inputs[i], 0); };
  if (has_shapes && CannotFail(signature, KnownOf(inputs), known)) return {false, {}};
  std::vector<Tensor> values;
  for (const HandlePtr& handle : Compute(signature, inputs, 0)) {
    const Tensor* tensor;
    if (!TensorOf(handle.get(), &tensor).ok()) return {true, {}};
    values.push_back(*tensor);
  }
  return {values.empty(), std::move(values)};
}

// The same for a step that is traced, where all values are there: whether it would be known in one that has a graph.
bool Step::IsForeseen(const Signature& signature, const Inputs& inputs, bool has_shapes) {
  for (; counted_ < records_.size(); ++counted_) {  // those of the graph that the step has left, and the last one
    Record& record = records_[counted_];
    if (record.chain < 0) record.chain = ChainOf(*record.signature, record.inputs);
  }
  const auto known = [&](int i) {
    const Input& input = inputs[i];
    if (input.resource >= 0) return HandlePtr();
    if (input.value == nullptr) return Share(input.external.get());
    return records_[input.value->record].chain < kFewOperations ? input.value->Peek() : HandlePtr();
  };
  if (has_shapes && CannotFail(signature, KnownOf(inputs), known)) return true;
  return ChainOf(signature, inputs) <= kFewOperations;
}

// How many operations, one after another, have to be done before one with these inputs can be; more than
// kFewOperations if that does not help. Those before are counted.
int Step::ChainOf(const Signature& signature, const Inputs& inputs) const {
  if (signature.kind != Kind::kPure || !IsSmallEnough(inputs)) return kFewOperations + 1;
  int longest = 0;
  for (const Input& input : inputs) {
    if (input.value != nullptr) longest = std::max(longest, 1 + records_[input.value->record].chain);
  }
  return std::min(longest, kFewOperations + 1);
}

// The value of an input, or null if only the graph knows it. `depth` counts what has been computed for it.
HandlePtr Step::Known(const Input& input, int depth) {
  if (input.resource >= 0) return nullptr;
  if (input.value == nullptr) return Share(input.external.get());
  if (HandlePtr value = input.value->Peek()) return value;
  Record& record = records_[input.value->record];
  if (record.known.empty()) {
    record.known = Compute(*record.signature, record.inputs, depth + 1);
    for (size_t i = 0; i < record.known.size(); ++i) {
      if (record.outputs[i]->is_alive()) record.outputs[i]->Set(record.known[i].get());
    }
  }
  return record.known.empty() ? nullptr : Share(record.known[input.value->output].get());
}

// The outputs of a pure operation if its inputs are known, else nothing.
std::vector<HandlePtr> Step::Compute(const Signature& signature, const Inputs& inputs, int depth) {
  if (signature.kind != Kind::kPure || depth > kFewOperations || !IsSmallEnough(inputs)) return {};
  std::vector<HandlePtr> known;
  std::vector<Handle*> handles;
  for (const Input& input : inputs) {
    known.push_back(Known(input, depth));
    if (known.back() == nullptr) return {};
    handles.push_back(known.back().get());
  }
  std::vector<Handle*> made(signature.outputs.size());
  int count = static_cast<int>(made.size());
  if (!RunWith(signature.name, signature.attributes, handles, made.data(), &count).ok()) return {};
  return std::vector<HandlePtr>(made.begin(), made.end());
}

}  // namespace recgraph
