// The kernels of Recgraph>LevelTables, Recgraph>LevelGradientTables and Recgraph>PlanStages: what an executor made of TensorFlow's own operations must
// know of a call (recgraph/levels).
#include <algorithm>
#include <atomic>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cc/core/structure.h"
#include "cc/kernels/batch_run.h"
#include "cc/kernels/call_op.h"
#include "cc/kernels/checked.h"
#include "cc/kernels/errors.h"

namespace recgraph {

using tensorflow::DataTypeVector;
using tensorflow::OpInputList;
using tensorflow::OpKernel;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::PartialTensorShape;
using tensorflow::Tensor;
using tensorflow::TensorShape;
using tensorflow::tstring;

namespace {

// `kGradient`: of a call's gradient.
template <bool kGradient>
class LevelTablesOp : public CallOp {
 public:
  explicit LevelTablesOp(OpKernelConstruction* ctx) : CallOp(ctx) {
    std::vector<int> of_blocks;
    OP_REQUIRES_OK(ctx, ctx->GetAttr("reads", &reads_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("record", &record_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("max_depth", &max_depth_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("block_classes", &block_classes_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("argument_classes", &layout_.of_arguments));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("width", &layout_.width));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("padded", &layout_.is_padded));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("value_shapes", &value_shapes_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("seed_types", &seed_types_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("seed_shapes", &seed_shapes_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("N", &tables_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("K", &rooms_));
    layout_.classes = rooms_;
    DataTypeVector captures;
    OP_REQUIRES_OK(ctx, ctx->GetAttr("Tcaptures", &captures));
    OP_REQUIRES(ctx, reads_.size() == captures.size() && seed_types_.size() == seed_shapes_.size(),
                errors::InvalidArgument(name(), ": attributes do not tell of as many tensors as there are"));
    const auto is_class = [this](int of) { return of >= -1 && of < rooms_; };
    OP_REQUIRES(ctx,
                std::all_of(block_classes_.begin(), block_classes_.end(), is_class) &&
                    std::all_of(layout_.of_arguments.begin(), layout_.of_arguments.end(), is_class),
                errors::InvalidArgument(name(), ": there are ", rooms_, " classes"));
    OP_REQUIRES(ctx, layout_.width < std::numeric_limits<int32_t>::max() && layout_.is_padded == (layout_.width > 0),
                errors::InvalidArgument(name(), ": chunks have a width where sizes are padded, and only there"));
  }

 protected:
  absl::Status Prepare(Call* call) override {
    OpInputList captures;
    TF_RETURN_IF_ERROR(call->ctx->input_list("captures", &captures));
    if (call->own_root == nullptr) return errors::InvalidArgument(name(), " cannot run inside of a SubGraph");
    if (call->own_root->program()->plan() == nullptr) return errors::InvalidArgument(entry(), " has no plan");
    if (kGradient) {
      OpInputList args;
      FramePtr<Frame> frame;
      TF_RETURN_IF_ERROR(call->ctx->input_list("args", &args));
      if (args.size() != 1) return errors::InvalidArgument(name(), ": a gradient is given the frame alone");
      TF_RETURN_IF_ERROR(FromTensor(args[0], &frame));
      TF_RETURN_IF_ERROR(CheckFrame(*call, *frame));
      call->scope.environment = frame->environment;
      return absl::OkStatus();
    }
    auto environment = std::make_shared<Environment>(CallIdentity{call->scope.root->program()->key(), entry(), map()});
    TF_RETURN_IF_ERROR(Environment::Make(call->ctx, captures, reads_, environment.get()));
    call->scope.environment = std::move(environment);
    return absl::OkStatus();
  }

  void Launch(Call* call) override {
    call->Update(CatchingAll([&] { return Tabulate(call); }));
    call->Finish();
  }

  absl::Status SetOutputs(Call*) const override { return absl::OkStatus(); }

 private:
  absl::Status CheckFrame(const Call& call, const Frame& frame) const {
    if (!frame.is_tabulated || frame.environment == nullptr) {
      return errors::InvalidArgument("the frame is not that of a call in levels");
    }
    const CallIdentity& made_by = frame.environment->call();
    const bool is_ours = made_by.program == call.scope.root->program()->key() && made_by.entry == entry() &&
                         made_by.map == map();
    return is_ours ? absl::OkStatus() : errors::InvalidArgument("the frame is that of another call");
  }

  // A gradient's roots are given frames and gradients, of which nothing is known yet but what they look like.
  absl::Status RootsOf(Call* call, std::vector<std::vector<batch::Value>>* roots) const {
    OpInputList args;
    TF_RETURN_IF_ERROR(call->ctx->input_list("args", &args));
    if (!kGradient) return batch::RootsOf(args, map(), roots);
    FramePtr<Frame> frame;
    TF_RETURN_IF_ERROR(FromTensor(args[0], &frame));
    for (const batch::Value& root : frame->roots) roots->push_back({root});
    for (size_t seed = 0; seed < seed_types_.size(); ++seed) {
      TensorShape shape;
      if (!seed_shapes_[seed].AsTensorShape(&shape)) return errors::InvalidArgument("a gradient of unknown shape");
      if (map()) TF_RETURN_IF_ERROR(shape.InsertDimWithStatus(0, static_cast<int64_t>(roots->size())));
      Tensor unknown;
      TF_RETURN_IF_ERROR(call->ctx->allocate_temp(seed_types_[seed], shape, &unknown));
      const FramePtr<batch::Holder> buffer(new batch::Buffer(unknown, !map()));
      for (size_t row = 0; row < roots->size(); ++row) {
        (*roots)[row].push_back({buffer, map() ? static_cast<int64_t>(row) : -1});
      }
    }
    return absl::OkStatus();
  }

  absl::Status Tabulate(Call* call) const {
    const batch::Plan& plan = *call->scope.root->program()->plan();
    batch::LevelLayout layout = layout_;
    TF_RETURN_IF_ERROR(ReadClasses(plan, &layout));
    TF_RETURN_IF_ERROR(ReadLeast(call->ctx, &layout));
    std::vector<std::vector<batch::Value>> roots;
    TF_RETURN_IF_ERROR(RootsOf(call, &roots));
    const BodyKind kind = kGradient ? BodyKind::kGradient : record_ ? BodyKind::kRecorded : BodyKind::kPlain;
    std::atomic<bool> stop{false};
    batch::Run run(call->scope, kGradient ? std::numeric_limits<int64_t>::max() : max_depth_, &stop, false, record_);
    batch::LevelTables tables;
    FramePtr<batch::StepFrame> step;
    std::vector<batch::Value> frames;
    TF_RETURN_IF_ERROR(run.Tabulate(FunctionName(kind), std::move(roots), record_, layout, &tables, &step, &frames));
    TF_RETURN_IF_ERROR(SetTables(call->ctx, layout, tables));
    TF_RETURN_IF_ERROR(SetValues(call->ctx, layout, tables, *step, plan));
    FramePtr<Frame> frame(new Frame({}));
    frame->is_tabulated = true;
    frame->roots = std::move(frames);
    frame->environment = call->scope.environment;
    call->ctx->set_output(call->ctx->num_outputs() - 1, ToTensor(std::move(frame)));
    return absl::OkStatus();
  }

  absl::Status ReadClasses(const batch::Plan& plan, batch::LevelLayout* layout) const {
    size_t next = 0;
    for (const batch::Block& block : plan.blocks) {
      const size_t writes = block.shared.size();
      if (next + writes > block_classes_.size()) break;
      layout->of_blocks.emplace_back(block_classes_.begin() + next, block_classes_.begin() + next + writes);
      next += writes;
    }
    if (layout->of_blocks.size() == plan.blocks.size() && next == block_classes_.size()) return absl::OkStatus();
    return errors::InvalidArgument(name(), ": 'block_classes' is not of this plan");
  }

  // The sizes of tables, of arenas and of known values.
  absl::Status ReadLeast(OpKernelContext* ctx, batch::LevelLayout* layout) const {
    const Tensor* least = nullptr;
    TF_RETURN_IF_ERROR(ctx->input("least", &least));
    const auto sizes = least->flat<int64_t>();
    if (sizes.size() == 0) return absl::OkStatus();
    const size_t count = tables_ + rooms_ + value_shapes_.size();
    if (static_cast<size_t>(sizes.size()) != count) {
      return errors::InvalidArgument(name(), ": 'least' has ", sizes.size(), " sizes, not ", count);
    }
    const int64_t* next = sizes.data();
    layout->least_tables.assign(next, next + tables_);
    layout->least_arenas.assign(next + tables_, next + tables_ + rooms_);
    layout->least_known.assign(next + tables_ + rooms_, next + count);
    constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
    if (std::any_of(next, next + count, [](int64_t size) { return size < 0 || size > kMost; })) {
      return errors::InvalidArgument(name(), ": a size that no table can have");
    }
    return absl::OkStatus();
  }

  // Sets output `i` to integers, made up by zeros to `room`.
  static absl::Status SetVector(OpKernelContext* ctx, int i, const std::vector<int32_t>& values, int64_t room,
                                int64_t columns = 0) {
    Tensor* out = nullptr;
    const TensorShape shape = columns == 0 ? TensorShape({room}) : TensorShape({room, columns});
    TF_RETURN_IF_ERROR(ctx->allocate_output(i, shape, &out));
    auto flat = out->flat<int32_t>();
    std::fill(std::copy(values.begin(), values.end(), flat.data()), flat.data() + flat.size(), 0);
    return absl::OkStatus();
  }

  absl::Status SetTables(OpKernelContext* ctx, const batch::LevelLayout& layout, const batch::LevelTables& tables) const {
    int output = 0;
    size_t count = tables.components.size() + tables.results.size();
    for (const auto& of_block : tables.reads) count += of_block.size();
    if (count != static_cast<size_t>(tables_)) {
      return errors::InvalidArgument(name(), ": the plan has ", count, " tables, not ", tables_);
    }
    std::vector<int32_t> facts;
    for (const auto& of_block : tables.reads) {
      for (const auto& rows : of_block) {
        const auto all = static_cast<int64_t>(rows.size());
        const int64_t room = layout.Room(all + layout.width, layout.least_tables, output);
        TF_RETURN_IF_ERROR(SetVector(ctx, output++, rows, room));
      }
    }
    for (const auto& component : tables.components) {
      const auto steps = static_cast<int64_t>(component.count());
      facts.push_back(static_cast<int32_t>(steps));
      const int64_t room = layout.Room(steps, layout.least_tables, output);
      TF_RETURN_IF_ERROR(
          SetVector(ctx, output++, component.steps, room, static_cast<int64_t>(component.columns)));
    }
    for (const auto& rows : tables.results) {
      TF_RETURN_IF_ERROR(SetVector(ctx, output++, rows, static_cast<int64_t>(rows.size())));
    }
    facts.insert(facts.end(), tables.rows.begin(), tables.rows.end());
    for (const int64_t size : tables.sizes) {
      if (size > std::numeric_limits<int32_t>::max()) return errors::ResourceExhausted("more rows than fit into an arena");
      facts.push_back(static_cast<int32_t>(size));
    }
    TF_RETURN_IF_ERROR(SetVector(ctx, output++, facts, static_cast<int64_t>(facts.size())));
    for (const int64_t size : tables.sizes) {
      Tensor* room = nullptr;
      TF_RETURN_IF_ERROR(ctx->allocate_output(output++, TensorShape({size}), &room));
      std::fill_n(room->flat<uint8_t>().data(), size, 0);
    }
    return absl::OkStatus();
  }

  // What the blocks that have run have computed, in the plan's order.
  absl::Status SetValues(OpKernelContext* ctx, const batch::LevelLayout& layout, const batch::LevelTables& tables,
                         const batch::StepFrame& step, const batch::Plan& plan) const {
    size_t value = 0;
    for (size_t k = 0; k < tables.known.size(); ++k) {
      const int b = tables.known[k];
      for (size_t w = 0; w < plan.blocks[b].shared.size(); ++w) {
        if (layout.of_blocks[b][w] < 0) continue;
        if (value >= value_shapes_.size()) return errors::InvalidArgument(name(), ": the plan has more values");
        const int64_t room = layout.Room(tables.known_rows[k], layout.least_known, value);
        const int64_t rows = plan.blocks[b].shared[w] ? 1 : room;
        TF_RETURN_IF_ERROR(SetValue(ctx, value++, step.sources[tables.known_sources[k] + w], rows, tables.known_rows[k]));
      }
    }
    return value == value_shapes_.size() ? absl::OkStatus()
                                         : errors::InvalidArgument(name(), ": the plan has ", value, " values");
  }

  absl::Status SetValue(OpKernelContext* ctx, size_t value, const batch::RowsOfStep& rows, int64_t room,
                        int64_t count) const {
    TensorShape shape;
    if (!value_shapes_[value].AsTensorShape(&shape)) return errors::InvalidArgument("a value of unknown shape");
    const int64_t elements = shape.num_elements();
    TF_RETURN_IF_ERROR(shape.InsertDimWithStatus(0, room));
    Tensor* out = nullptr;
    const int output = tables_ + 1 + rooms_ + static_cast<int>(value);
    TF_RETURN_IF_ERROR(ctx->allocate_output(output, shape, &out));
    if (!tensorflow::DataTypeCanUseMemcpy(out->dtype())) return errors::InvalidArgument("a value that is no number");
    std::memset(out->data(), 0, out->TotalBytes());
    if (rows.data == nullptr || count == 0) return absl::OkStatus();
    const auto* const kind = static_cast<const batch::Buffer*>(rows.kind);
    if (kind->tensor().dtype() != out->dtype() || kind->value_elements() != elements) {
      return errors::InvalidArgument("a value is ", kind->shape().DebugString(), ", not ", value_shapes_[value].DebugString());
    }
    if (rows.order != nullptr) return errors::Internal("what decides the structure is not in order");
    const int64_t bytes = rows.bytes == 0 ? static_cast<int64_t>(kind->value_bytes()) : rows.bytes * std::min(room, count);
    std::memcpy(out->data(), rows.data, bytes);
    return absl::OkStatus();
  }

  std::vector<bool> reads_;
  bool record_ = false;
  int64_t max_depth_ = 0;
  std::vector<int> block_classes_;
  batch::LevelLayout layout_;
  std::vector<PartialTensorShape> value_shapes_, seed_shapes_;
  DataTypeVector seed_types_;
  int tables_ = 0, rooms_ = 0;
};

class PlanStagesOp : public OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* ctx) override {
    OP_REQUIRES_OK(ctx, CatchingAll([&] { return FindStages(ctx); }));
  }

 private:
  static absl::Status FindStages(OpKernelContext* ctx) {
    if (ctx->input(0).dims() != 1 || ctx->input(1).dims() != 1 || ctx->input(2).dims() != 0) {
      return errors::InvalidArgument("a plan is a vector of numbers and a vector of strings");
    }
    const auto code = ctx->input(0).vec<int64_t>();
    const auto strings = ctx->input(1).vec<tstring>();
    std::vector<std::string> texts;
    for (int64_t i = 0; i < strings.size(); ++i) texts.emplace_back(strings(i));
    batch::Plan plan;
    const std::string wrong = batch::DecodePlan({code.data(), code.data() + code.size()}, texts, &plan);
    if (!wrong.empty()) return errors::InvalidArgument("not a plan: ", wrong);
    const int function = plan.Find(ctx->input(2).scalar<tstring>()());
    if (function < 0) return errors::InvalidArgument("the plan has no such function");
    const batch::Structures structures(plan);
    const auto structure = structures.Of(function);
    Tensor *stages = nullptr, *reason = nullptr;
    TF_RETURN_IF_ERROR(ctx->allocate_output(0, TensorShape({static_cast<int64_t>(plan.blocks.size())}), &stages));
    TF_RETURN_IF_ERROR(ctx->allocate_output(1, TensorShape({}), &reason));
    reason->scalar<tstring>()() = structures.Why(function);
    for (size_t b = 0; b < plan.blocks.size(); ++b) {
      const batch::Block& block = plan.blocks[b];
      const bool is_reached = structure != nullptr && structure->is_reached[block.function];
      const bool is_known =
          is_reached && structure->functions[block.function].nodes[block.node] == batch::Stage::kStructure;
      stages->vec<int32_t>()(b) = is_known ? 0 : is_reached ? 1 : -1;
    }
    return absl::OkStatus();
  }
};

#define RECGRAPH_REGISTER_LEVEL_TABLES(name, kGradient)                                                    \
  REGISTER_KERNEL_BUILDER(Name(name).Device(tensorflow::DEVICE_CPU), LevelTablesOp<kGradient>);            \
  REGISTER_KERNEL_BUILDER(Name(name)                                                                       \
                              .Device(tensorflow::DEVICE_GPU)                                              \
                              .Priority(kBesideVariables)                                                  \
                              .HostMemory("args")                                                          \
                              .HostMemory("captures")                                                      \
                              .HostMemory("least")                                                         \
                              .HostMemory("tables")                                                        \
                              .HostMemory("facts")                                                         \
                              .HostMemory("rooms")                                                         \
                              .HostMemory("values")                                                        \
                              .HostMemory("frame"),                                                        \
                          LevelTablesOp<kGradient>)

RECGRAPH_REGISTER_LEVEL_TABLES("Recgraph>LevelTables", false);
RECGRAPH_REGISTER_LEVEL_TABLES("Recgraph>LevelGradientTables", true);
#undef RECGRAPH_REGISTER_LEVEL_TABLES
REGISTER_KERNEL_BUILDER(Name("Recgraph>PlanStages").Device(tensorflow::DEVICE_CPU), PlanStagesOp);

}  // namespace
}  // namespace recgraph
