// Variables that functions of tf.data pipelines use.
#include "cc/python/pipelines.h"

#include <atomic>
#include <map>
#include <mutex>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "cc/python/function_body.h"
#include "cc/python/signature.h"
#include "cc/python/value.h"
#include "tensorflow/core/framework/resource_handle.h"

namespace recgraph {
namespace {

using tensorflow::EagerOperation;

// So many variables are remembered before it is asked which are gone.
constexpr size_t kFew = 64;

struct Pipelines {
  std::mutex mutex;
  std::map<int, bool> variables;  // whether they are written
  size_t most = kFew;
  std::atomic<bool> has_any{false};
};

Pipelines& AllPipelines() {
  static auto* pipelines = new Pipelines;
  return *pipelines;
}

bool IsVariable(Handle* handle) {
  const tensorflow::Tensor* tensor;
  if (handle->DataType() != tensorflow::DT_RESOURCE || ValueOf(handle) != nullptr) return false;
  if (!TensorOf(handle, &tensor).ok() || tensor->NumElements() != 1) return false;
  return !tensor->flat<tensorflow::ResourceHandle>()(0).dtypes_and_shapes().empty();
}

void ForgetThoseGone(Pipelines* pipelines) {
  for (auto at = pipelines->variables.begin(); at != pipelines->variables.end();) {
    at = FindResource(at->first) == nullptr ? pipelines->variables.erase(at) : std::next(at);
  }
  pipelines->most = 2 * pipelines->variables.size() + kFew;
}

bool MayAsk(const EagerOperation& operation) {
  const std::string& name = operation.Name();
  if (!operation.is_function() && !absl::StrContains(name, "Iterator") && !absl::StrContains(name, "Dataset")) return false;
  return absl::c_any_of(operation.Inputs(), [](Handle* input) {
    if (input->DataType() == tensorflow::DT_VARIANT) return true;
    return input->DataType() == tensorflow::DT_RESOURCE && !IsVariable(input);
  });
}

}  // namespace

void NotePipeline(const EagerOperation& operation) {
  if (absl::c_none_of(operation.Inputs(), IsVariable) || !absl::StrContains(operation.Name(), "Dataset")) return;
  tensorflow::AttrValueMap attributes;
  operation.Attrs().FillAttrValueMap(&attributes);
  const bool has_writes = MayWrite(attributes, *operation.EagerContext().FuncLibDef(), Kinds());
  Pipelines& pipelines = AllPipelines();
  std::lock_guard<std::mutex> lock(pipelines.mutex);
  if (pipelines.variables.size() >= pipelines.most) ForgetThoseGone(&pipelines);
  for (Handle* input : operation.Inputs()) {
    if (IsVariable(input)) pipelines.variables[ResourceNumber(input, true)] |= has_writes;
  }
  pipelines.has_any = true;
}

void AddPipelineUses(const EagerOperation& operation, Uses* uses) {
  Pipelines& pipelines = AllPipelines();
  if (!pipelines.has_any || !MayAsk(operation)) return;
  std::lock_guard<std::mutex> lock(pipelines.mutex);
  for (const auto& [number, is_write] : pipelines.variables) uses->push_back({number, is_write});
}

bool PipelinesWrite() {
  Pipelines& pipelines = AllPipelines();
  if (!pipelines.has_any) return false;
  std::lock_guard<std::mutex> lock(pipelines.mutex);
  return absl::c_any_of(pipelines.variables, [](const auto& variable) { return variable.second; });
}

}  // namespace recgraph
