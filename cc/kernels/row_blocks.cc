// Which blocks are lowered, and what they read of a call.
#include "cc/kernels/row_blocks.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <utility>

#include "cc/core/parts.h"
#include "cc/core/shared_locks.h"
#include "cc/core/stretch.h"
#include "tensorflow/core/common_runtime/function_def_utils.h"
#include "tensorflow/core/platform/threadpool.h"

namespace recgraph {
namespace batch {

using tensorflow::Tensor;
using tensorflow::Var;

namespace {

// Shapes of rows that a block is kept lowered for: the latest.
constexpr size_t kMostForms = 8;

bool Fits(const LoweredBlock& form, const std::vector<RowKind>& inputs, const std::vector<LoweredCapture>& captures) {
  if (form.inputs != inputs || form.captures.size() != captures.size()) return false;
  for (size_t i = 0; i < captures.size(); ++i) {
    if (!form.Fits(i, captures[i])) return false;
  }
  return true;
}

// The variable behind a handle; null where it cannot be had, which TensorFlow's operation will say.
tensorflow::core::RefCountPtr<Var> VariableOf(const Tensor& handle, tensorflow::Device* device) {
  tensorflow::core::RefCountPtr<Var> variable;
  if (handle.NumElements() != 1) return variable;
  const auto& resource = handle.flat<tensorflow::ResourceHandle>()(0);
  if (resource.IsRefCounting()) {
    const auto found = resource.GetResource<Var>();
    if (found.ok()) {
      variable.reset(found.value());
      variable->Ref();
    }
    return variable;
  }
  Var* found = nullptr;
  tensorflow::ResourceMgr* const manager = device->resource_manager();
  const absl::Status status = manager->Lookup<Var, true>(resource.container(), resource.name(), &found);
  if (status.ok()) variable.reset(found);
  return variable;
}

}  // namespace

RowBlocks::RowBlocks(const Plan* plan, const tensorflow::FunctionLibraryDefinition* definitions)
    : plan_(plan), definitions_(definitions), entries_(plan->blocks.size()) {}

std::string RowBlocks::Why(const Block& block) const {
  const Entry& entry = entries_[IndexOf(block)];
  std::lock_guard<std::mutex> lock(entry.mutex);
  return entry.why;
}

std::shared_ptr<const LoweredBlock> RowBlocks::Get(const Block& block, const std::vector<RowKind>& inputs,
                                                   const std::vector<LoweredCapture>& captures) {
  if (block.by_row || block.has_effect) return nullptr;
  Entry& entry = entries_[IndexOf(block)];
  std::lock_guard<std::mutex> lock(entry.mutex);
  for (const auto& form : entry.forms) {
    if (Fits(*form, inputs, captures)) return form;
  }
  if (!entry.why.empty()) return nullptr;
  const tensorflow::FunctionDef* const function = definitions_->Find(block.name);
  std::unique_ptr<tensorflow::FunctionBody> body;
  if (function == nullptr ||
      !tensorflow::FunctionDefToBodyHelper(*function, tensorflow::AttrSlice(), definitions_, &body).ok()) {
    entry.why = "its function";
    return nullptr;
  }
  std::shared_ptr<const LoweredBlock> lowered = Lower(block, *body, inputs, captures, &entry.why);
  if (lowered == nullptr) return nullptr;
  if (entry.forms.size() == kMostForms) entry.forms.erase(entry.forms.begin());
  entry.forms.push_back(lowered);
  return lowered;
}

const LoweredBlock* RowBlockRunner::Prepare(const Block& block, const std::vector<RowKind>& inputs) {
  Ready& ready = ready_[&block - plan_.blocks.data()];
  if (ready.lowered != nullptr && ready.lowered->inputs == inputs) return ready.lowered.get();
  if (ready.is_tried && ready.lowered == nullptr) return nullptr;
  ready = Ready();
  ready.is_tried = true;
  std::vector<LoweredCapture> captures;
  if (!Capture(block, &ready, &captures)) return nullptr;
  ready.lowered = blocks_->Get(block, inputs, captures);
  if (std::find(used_.begin(), used_.end(), ready.lowered) == used_.end()) used_.push_back(ready.lowered);
  return ready.lowered.get();
}

bool RowBlockRunner::Capture(const Block& block, Ready* ready, std::vector<LoweredCapture>* captures) const {
  for (const batch::Capture& wanted : block.captures) {
    LoweredCapture capture;
    const Tensor& slot = environment_->slots()[wanted.slot];
    if (wanted.form != Form::kRaw) {
      const bool transposed = wanted.form == Form::kPackedTransposed;
      if (!environment_->Packed(wanted.slot, transposed, kept_, &capture.tensor).ok()) return false;
      capture.is_packed = true;
    } else if (slot.dtype() == tensorflow::DT_RESOURCE) {
      auto variable = VariableOf(slot, device_);
      if (variable == nullptr) return false;
      {
        tensorflow::tf_shared_lock lock(*variable->mu());
        const Stretch reading(variable.get());
        if (!variable->is_initialized) return false;
        capture.tensor = *variable->tensor();
      }
      capture.is_variable = true;
      ready->locked.push_back(variable.get());
      ready->variables.emplace_back(static_cast<int>(captures->size()), std::move(variable));
    } else {
      capture.tensor = slot;
    }
    if (!tensorflow::DataTypeCanUseMemcpy(capture.tensor.dtype())) return false;
    // A variable's own tensor is not held on to: whoever writes to it would have to copy it.
    ready->tensors.push_back(capture.is_variable ? Tensor() : capture.tensor);
    ready->shared.push_back({static_cast<const char*>(capture.tensor.data()),
                             static_cast<int64_t>(capture.tensor.TotalBytes())});
    captures->push_back(std::move(capture));
  }
  PutInOrder(&ready->locked);
  return true;
}

bool RowBlockRunner::Run(const Block& block, int64_t rows, const char* const* const* inputs, char* const* outputs,
                         int workers) {
  Ready& ready = ready_[&block - plan_.blocks.data()];
  // As TensorFlow's own lookup does: nobody writes to a variable while its rows are read.
  const SharedLocks<Var> reading(ready.locked);
  for (auto& [capture, variable] : ready.variables) {
    const Tensor& value = *variable->tensor();
    if (!ready.lowered->Fits(capture, {value, false, true})) return false;
    ready.shared[capture] = {static_cast<const char*>(value.data()), static_cast<int64_t>(value.TotalBytes())};
  }
  return RunParts(*ready.lowered, ready.shared, rows, inputs, outputs, workers);
}

// How the rows are divided, and in which order sums are added, depends on the numbers of rows and workers alone.
bool RowBlockRunner::RunParts(const LoweredBlock& block, const std::vector<RowProgram::Shared>& shared, int64_t rows,
                              const char* const* const* inputs, char* const* outputs, int workers) const {
  const RowProgram& program = block.program;
  if (workers <= 1) return program.Run(rows, inputs, shared.data(), outputs);
  struct Part {
    std::vector<const char* const*> inputs;
    std::vector<char*> outputs;
    std::vector<std::vector<double>> sums;
  };
  std::vector<Part> parts(workers);
  const auto begin = [rows, workers](int part) { return rows * part / workers; };
  for (int i = 0; i < workers; ++i) {
    for (size_t input = 0; input < block.inputs.size(); ++input) parts[i].inputs.push_back(inputs[input] + begin(i));
    for (size_t output = 0; output < program.outputs().size(); ++output) {
      const auto& [bytes, is_shared] = program.outputs()[output];
      if (is_shared) parts[i].sums.emplace_back(bytes / sizeof(double), 0.0);
      parts[i].outputs.push_back(is_shared ? reinterpret_cast<char*>(parts[i].sums.back().data())
                                           : outputs[output] + begin(i) * bytes);
    }
  }
  auto* const threads = device_->tensorflow_cpu_worker_threads()->workers;
  const auto submit = Sending([threads](std::function<void()> task) { threads->Schedule(std::move(task)); });
  const bool done = DoParts(workers, submit, [&](int i) {
    Part& part = parts[i];
    return program.Run(begin(i + 1) - begin(i), part.inputs.data(), shared.data(), part.outputs.data());
  });
  if (!done) return false;
  for (const Part& part : parts) {
    size_t sum = 0;
    for (size_t output = 0; output < program.outputs().size(); ++output) {
      if (!program.outputs()[output].shared) continue;
      double* const total = reinterpret_cast<double*>(outputs[output]);
      const std::vector<double>& own = part.sums[sum++];
      for (size_t i = 0; i < own.size(); ++i) total[i] += own[i];
    }
  }
  return true;
}

}  // namespace batch
}  // namespace recgraph
