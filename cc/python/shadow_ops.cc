// The ops by which a step's graph keeps its changes of variables to itself until the step is over.
//
// Graphs of other steps may write the same variables meanwhile. So the commit makes sure that all variables of
// the step still are what they were when it began: it is as if the step had happened in that moment.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cc/core/stretch.h"
#include "cc/kernels/checked.h"
#include "cc/python/catching_kernel.h"
#include "cc/python/pipelines.h"
#include "cc/python/run.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_mgr.h"
#include "tensorflow/core/framework/resource_var.h"
#include "tensorflow/core/framework/shape_inference.h"
#include "tensorflow/core/framework/tensor_util.h"

namespace recgraph {
namespace {

using tensorflow::DataType;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::ResourceHandle;
using tensorflow::Tensor;
using tensorflow::Var;
using tensorflow::shape_inference::InferenceContext;
using VarPtr = tensorflow::core::RefCountPtr<Var>;

absl::Status ShadowShapes(InferenceContext* context) {
  context->set_output(0, context->Scalar());
  context->set_output(1, context->UnknownShape());
  const auto* variable = context->input_handle_shapes_and_types(0);
  if (variable != nullptr) context->set_output_handle_shapes_and_types(0, *variable);
  return absl::OkStatus();
}

REGISTER_OP("Recgraph>Shadow")
    .Input("variable: resource")
    .Output("shadow: resource")
    .Output("original: dtype")
    .Attr("shared_name: string")
    .Attr("dtype: type")
    .SetIsStateful()
    .SetShapeFn(ShadowShapes)
    .Doc("A variable of the step's own, with the value that another one has now; and that value. It is gone with its "
         "handle.");

REGISTER_OP("Recgraph>Watch")
    .Input("variables: count * resource")
    .Output("originals: dtypes")
    .Attr("count: int >= 1")
    .Attr("dtypes: list(type) >= 1")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::UnknownShape)
    .Doc("The values that variables have now, as they are in memory, so that a change can be found out; copies of those that "
         "a pipeline may write in place.");

REGISTER_OP("Recgraph>Commit")
    .Input("run: int64")
    .Input("variables: count * resource")
    .Input("originals: dtypes")
    .Input("shadows: shadowed * resource")
    .Input("used: uses * resource")
    .Attr("count: int >= 0")
    .Attr("shadowed: int >= 0")
    .Attr("uses: int >= 0")
    .Attr("dtypes: list(type) >= 0")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::NoOutputs)
    .Doc("Lets the first variables have the values of their shadows, if all variables are what they were originally; "
         "else it fails. The variables that are `used` afterwards have to have a value.");

REGISTER_OP("Recgraph>CheckRows")
    .Input("variable: resource")
    .Input("rows: dtype")
    .Attr("dtype: {int32, int64}")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::NoOutputs)
    .Doc("Fails if a variable does not have one of these rows.");

absl::Status FindVariable(OpKernelContext* context, const Tensor& handle, VarPtr* variable) {
  const ResourceHandle* resource = nullptr;
  TF_RETURN_IF_ERROR(ScalarOf(handle, &resource));
  return tensorflow::LookupResource(context, *resource, variable);
}

// Whether two tensors have the same elements in the same memory.
bool IsSame(const Tensor& one, const Tensor& other) {
  if (one.dtype() != other.dtype() || one.shape() != other.shape()) return false;
  if (one.NumElements() == 0) return true;
  return one.IsInitialized() && other.IsInitialized() && one.data() == other.data();
}

bool HaveEqualBytes(const Tensor& one, const Tensor& other) {
  if (one.dtype() != other.dtype() || one.shape() != other.shape()) return false;
  if (!one.IsInitialized() || !other.IsInitialized()) return false;
  if (one.dtype() == tensorflow::DT_STRING) {
    const auto texts = one.flat<tensorflow::tstring>(), others = other.flat<tensorflow::tstring>();
    return std::equal(texts.data(), texts.data() + texts.size(), others.data());
  }
  if (!tensorflow::DataTypeCanUseMemcpy(one.dtype())) return false;
  return std::memcmp(one.data(), other.data(), one.TotalBytes()) == 0;
}

// What a variable is now, as it stays. Sparse updates write into a variable's memory in this mode, whoever else has it, so
// that is copied then. Needs the variable's lock.
absl::Status Keep(Var* variable, Tensor* value) {
  const bool is_written_in_place = variable->copy_on_read_mode.load() && variable->is_initialized;
  if (is_written_in_place) return Copy(*variable->tensor(), value);
  *value = *variable->tensor();
  return absl::OkStatus();
}

class ShadowOp : public CatchingKernel {
 public:
  explicit ShadowOp(OpKernelConstruction* context) : CatchingKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("dtype", &dtype_));
    OP_REQUIRES_OK(context, context->GetAttr("shared_name", &name_));
  }

  void Do(OpKernelContext* context) override {
    const Stretch stretch;
    VarPtr variable;
    OP_REQUIRES_OK(context, FindVariable(context, context->input(0), &variable));
    const VarPtr shadow(new Var(dtype_));
    {
      tensorflow::tf_shared_lock lock(*variable->mu());
      const Stretch locked;
      shadow->is_initialized = variable->is_initialized;
      OP_REQUIRES_OK(context, Keep(variable.get(), shadow->tensor()));
    }
    OP_REQUIRES_OK(context, SetOutput(context, 1, *shadow->tensor()));
    const ResourceHandle& handle = context->input(0).scalar<ResourceHandle>()();
    Tensor made(tensorflow::DT_RESOURCE, {});
    auto& own = made.scalar<ResourceHandle>()();
    shadow->Ref();  // the handle's
    own = ResourceHandle::MakeRefCountingHandle(shadow.get(), handle.device(), handle.dtypes_and_shapes());
    own.set_container(kContainer);
    own.set_name(name_);
    context->set_output(0, made);
    // By its name too, by which AssignVariableOp looks. The last step's may still have an entry, of nothing.
    tensorflow::ResourceMgr* manager = context->resource_manager();
    (void)manager->Delete<Var>(kContainer, name_);
    OP_REQUIRES_OK(context, manager->CreateUnowned<Var>(kContainer, name_, shadow.get()));
  }

  bool IsExpensive() override { return false; }

 private:
  static constexpr char kContainer[] = "recgraph";
  DataType dtype_;
  std::string name_;
};

class WatchOp : public CatchingKernel {
 public:
  explicit WatchOp(OpKernelConstruction* context) : CatchingKernel(context) {}

  void Do(OpKernelContext* context) override {
    const Stretch stretch;
    // A read of rows brings a variable into that mode, too, and a table of embeddings takes long to copy. Of those who
    // write in place, threads of pipelines alone do so while a step runs: for all others the step makes way.
    const bool may_be_written = PipelinesWrite();
    for (int i = 0; i < context->num_inputs(); ++i) {
      VarPtr variable;
      OP_REQUIRES_OK(context, FindVariable(context, context->input(i), &variable));
      tensorflow::tf_shared_lock lock(*variable->mu());
      const Stretch locked;
      Tensor original = *variable->tensor();
      if (may_be_written) OP_REQUIRES_OK(context, Keep(variable.get(), &original));
      OP_REQUIRES_OK(context, SetOutput(context, i, std::move(original)));
    }
  }

  bool IsExpensive() override { return false; }
};

// A variable of the step, and what it was when the step began. Methods need the variable's lock.
struct Watched {
  VarPtr variable;
  Tensor original;
  VarPtr shadow;  // or null

  // A write of somebody else takes other memory, because this is in use; but for sparse ones, for which the original is a
  // copy.
  bool IsUntouched() const {
    if (IsSame(*variable->tensor(), original)) return true;
    return variable->copy_on_read_mode.load() && HaveEqualBytes(*variable->tensor(), original);
  }

  // Where memory may be written in place, nobody else has it.
  void TakeOver() {
    if (shadow == nullptr || !shadow->is_initialized) return;
    if (variable->is_initialized && IsSame(*shadow->tensor(), original)) return;
    const bool is_private = !variable->copy_on_read_mode.load() || shadow->tensor()->RefCountIsOne();
    *variable->tensor() = is_private ? *shadow->tensor() : tensorflow::tensor::DeepCopy(*shadow->tensor());
    variable->is_initialized = true;
    shadow->Uninitialize();
  }
};

class CommitOp : public CatchingKernel {
 public:
  explicit CommitOp(OpKernelConstruction* context) : CatchingKernel(context) {}

  void Do(OpKernelContext* context) override {
    const Stretch stretch;
    const int64_t* number = nullptr;
    OP_REQUIRES_OK(context, ScalarOf(context->input(0), &number));
    std::shared_ptr<Run> run = Run::Find(*number);
    OP_REQUIRES(context, run != nullptr, absl::CancelledError("the step of this graph is over"));
    OP_REQUIRES_OK(context, CheckUsed(context));
    std::vector<Watched> all;
    OP_REQUIRES_OK(context, FindAll(context, &all));
    std::vector<std::unique_ptr<tensorflow::mutex_lock>> locks;
    for (const Watched& item : all) locks.push_back(std::make_unique<tensorflow::mutex_lock>(*item.variable->mu()));
    const Stretch locked;
    const bool is_same = std::all_of(all.begin(), all.end(), [](const Watched& item) { return item.IsUntouched(); });
    OP_REQUIRES(context, is_same, absl::AbortedError("another thread has written a variable of the step"));
    OP_REQUIRES(context, run->BeginCommit(), absl::CancelledError("the step was given up"));
    for (Watched& item : all) item.TakeOver();
  }

  bool IsExpensive() override { return false; }

 private:
  // In the order in which all steps take their locks.
  static absl::Status FindAll(OpKernelContext* context, std::vector<Watched>* all) {
    tensorflow::OpInputList variables, originals, shadows;
    TF_RETURN_IF_ERROR(context->input_list("variables", &variables));
    TF_RETURN_IF_ERROR(context->input_list("originals", &originals));
    TF_RETURN_IF_ERROR(context->input_list("shadows", &shadows));
    if (originals.size() != variables.size() || shadows.size() > variables.size()) {
      return errors::InvalidArgument(variables.size(), " variables, ", originals.size(), " originals and ",
                                     shadows.size(), " shadows");
    }
    all->resize(variables.size());
    for (int i = 0; i < variables.size(); ++i) {
      Watched& item = (*all)[i];
      TF_RETURN_IF_ERROR(FindVariable(context, variables[i], &item.variable));
      item.original = originals[i];
      if (i < shadows.size()) TF_RETURN_IF_ERROR(FindVariable(context, shadows[i], &item.shadow));
    }
    std::sort(all->begin(), all->end(),
              [](const Watched& a, const Watched& b) { return a.variable->mu() < b.variable->mu(); });
    const auto is_same = [](const Watched& a, const Watched& b) { return a.variable.get() == b.variable.get(); };
    if (std::adjacent_find(all->begin(), all->end(), is_same) != all->end()) {
      return errors::InvalidArgument("a variable is given twice");  // its lock would be taken twice
    }
    return absl::OkStatus();
  }

  static absl::Status CheckUsed(OpKernelContext* context) {
    tensorflow::OpInputList used;
    TF_RETURN_IF_ERROR(context->input_list("used", &used));
    for (const Tensor& handle : used) {
      VarPtr variable;
      TF_RETURN_IF_ERROR(FindVariable(context, handle, &variable));
      tensorflow::tf_shared_lock lock(*variable->mu());
      const Stretch locked;
      if (!variable->is_initialized) return absl::FailedPreconditionError("a variable has no value");
    }
    return absl::OkStatus();
  }
};

template <typename T>
class CheckRowsOp : public CatchingKernel {
 public:
  explicit CheckRowsOp(OpKernelConstruction* context) : CatchingKernel(context) {}

  void Do(OpKernelContext* context) override {
    const Stretch stretch;
    VarPtr variable;
    OP_REQUIRES_OK(context, FindVariable(context, context->input(0), &variable));
    int64_t count = 0;
    {
      tensorflow::tf_shared_lock lock(*variable->mu());
      if (variable->is_initialized && variable->tensor()->dims() > 0) count = variable->tensor()->dim_size(0);
    }
    const auto rows = context->input(1).flat<T>();
    const bool is_good = std::all_of(rows.data(), rows.data() + rows.size(), [count](T row) {
      return row >= 0 && static_cast<int64_t>(row) < count;
    });
    OP_REQUIRES(context, is_good, absl::InvalidArgumentError("a row that the variable does not have"));
  }

  bool IsExpensive() override { return false; }
};

REGISTER_KERNEL_BUILDER(Name("Recgraph>Shadow").Device(tensorflow::DEVICE_CPU), ShadowOp);
REGISTER_KERNEL_BUILDER(Name("Recgraph>Watch").Device(tensorflow::DEVICE_CPU), WatchOp);
REGISTER_KERNEL_BUILDER(Name("Recgraph>Commit").Device(tensorflow::DEVICE_CPU), CommitOp);
REGISTER_KERNEL_BUILDER(Name("Recgraph>CheckRows").Device(tensorflow::DEVICE_CPU).TypeConstraint<int32_t>("dtype"),
                        CheckRowsOp<int32_t>);
REGISTER_KERNEL_BUILDER(Name("Recgraph>CheckRows").Device(tensorflow::DEVICE_CPU).TypeConstraint<int64_t>("dtype"),
                        CheckRowsOp<int64_t>);

}  // namespace
}  // namespace recgraph
