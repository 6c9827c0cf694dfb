// Keeps TensorFlow's graph optimizer from rewriting what then computes something else than its operations do one by one.
//
// Its rewriting rules know operations by their types. So before its parts that rewrite values run, the operations that
// they change by more than rounding become opaque: of a type of ours, with the same signature and shapes, that no rule
// knows. After them, the operations get their own types again. What is left to the optimizer is what is exact: shapes,
// movement of data, identical operations, control flow; and the fusion of a product with its bias and activation.
// docs/graph_optimizer.md has the table of its stages, with the decision on each and its reason.
#include <algorithm>
#include <mutex>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cc/kernels/node_inputs.h"
#include "tensorflow/core/framework/graph.pb.h"
#include "tensorflow/core/framework/node_def.pb.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/types.h"
#include "tensorflow/core/grappler/grappler_item.h"
#include "tensorflow/core/grappler/optimizers/custom_graph_optimizer.h"
#include "tensorflow/core/grappler/optimizers/custom_graph_optimizer_registry.h"

namespace recgraph {
namespace {

using tensorflow::GraphDef;
using tensorflow::NodeDef;
using tensorflow::OpRegistry;
using Types = std::unordered_set<std::string>;

constexpr char kOpaque[] = "Recgraph>Opaque";

// Always opaque: everything that computes values element by element, compares, selects, takes maxima, pools, pads with
// values or normalizes. Rules of TensorFlow's change special values, signed zeros, overflow or integer division of
// these, or merge several of them to one kernel with other ones.
const Types& AlwaysOpaque() {
  static const Types* types = new Types{
      // Sums, products, quotients.
      "Add", "AddN", "AccumulateNV2", "Sub", "Mul", "MulNoNan", "Div", "DivNoNan", "RealDiv", "FloorDiv", "TruncateDiv",
      "Mod", "FloorMod", "TruncateMod", "Xdivy", "Xlogy", "Xlog1py", "Pow", "SquaredDifference", "Atan2", "Igamma", "Igammac",
      "Zeta", "Polygamma", "Betainc", "Complex", "NextAfter",
      // Comparisons and logic.
      "ApproximateEqual", "Equal", "NotEqual", "Greater", "GreaterEqual", "Less", "LessEqual", "LogicalAnd", "LogicalNot",
      "LogicalOr", "Select", "SelectV2", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Invert", "LeftShift", "RightShift",
      "IsNan", "IsInf", "IsFinite",
      // Functions of one argument.
      "Abs", "Acos", "Acosh", "Angle", "Asin", "Asinh", "Atan", "Atanh", "Ceil", "ComplexAbs", "Conj", "Cos", "Cosh",
      "Digamma", "Erf", "Erfc", "Erfinv", "Exp", "Expm1", "Floor", "Imag", "Inv", "Lgamma", "Log", "Log1p", "Ndtri", "Neg",
      "Real", "Reciprocal", "Relu", "Relu6", "Rint", "Round", "Rsqrt", "Selu", "Sign", "Sin", "Sinh", "Softplus", "Softsign", "Sqrt",
      "Square", "Tan",
      // Gradients of these.
      "EluGrad", "InvGrad", "LeakyReluGrad", "ReciprocalGrad", "Relu6Grad", "ReluGrad", "RsqrtGrad", "SeluGrad",
      "SigmoidGrad", "SoftplusGrad", "SoftsignGrad", "SqrtGrad", "TanhGrad",
      // Maxima: an optimizer that takes them before a monotonic function is wrong for no elements and for NaN.
      "Max", "Min", "ArgMax", "ArgMin", "Maximum", "Minimum", "MaxPool", "MaxPoolV2", "MaxPool3D", "EuclideanNorm",
      // Normalization, and padding before convolutions (infinite kernels).
      "Softmax", "LogSoftmax", "FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3", "LRN", "L2Loss", "Pad", "PadV2",
      "MirrorPad", "FakeQuantWithMinMaxVars",
      // Updates: that by zero is more than nothing for a negative zero.
      "AssignAdd", "AssignSub", "AssignAddVariableOp", "AssignSubVariableOp",
  };
  return *types;
}

// Opaque but where they belong to a product that can be fused, see `IsFusable`.
const Types& Products() {
  static const Types* types = new Types{"MatMul",      "BatchMatMul", "BatchMatMulV2", "BatchMatMulV3",
                                        "Conv2D",      "Conv3D",      "SparseMatMul",  "DepthwiseConv2dNative"};
  return *types;
}

const Types& Biases() {
  static const Types* types = new Types{"AddV2", "BiasAdd", "BiasAddV1"};
  return *types;
}

// Without Relu and Relu6, whose fused kernels make 0 of NaN.
const Types& Activations() {
  static const Types* types = new Types{"Elu", "LeakyRelu", "Sigmoid", "Tanh"};
  return *types;
}

// Whose result has the value of its first argument in it, or nothing else.
const Types& Carriers() {
  static const Types* types = new Types{
      "Identity",      "StopGradient", "PreventGradient", "Snapshot", "Reshape",     "ExpandDims",         "Squeeze", "Cast",
      "Bitcast",       "Transpose",    "Tile",            "Slice",    "BroadcastTo", "ConjugateTranspose", "Pack",    "ConcatV2",
      "StridedSlice",  "ReverseV2",    "Switch",          "Enter",    "Exit",        "NextIteration",      "Unpack",  "SplitV",
      "CheckNumerics", "EnsureShape",  "RefIdentity"};
  return *types;
}

// Which operations of a graph may be rewritten, as they were before any is opaque.
class Visibility {
 public:
  explicit Visibility(const GraphDef& graph) {
    for (const NodeDef& node : graph.node()) nodes_.emplace(node.name(), &node);
    FindConstants(graph);
  }

  bool IsVisible(const NodeDef& node) const {
    const std::string& type = node.op();
    if (known_.count(&node) > 0) return true;  // it is folded before anything rewrites it
    if (AlwaysOpaque().count(type) > 0) return false;
    if (Products().count(type) > 0) return IsFusable(node);
    if (Biases().count(type) > 0) return IsBias(node);
    if (Activations().count(type) > 0) return IsActivation(node);
    return true;
  }

 private:
  const NodeDef* Producer(const NodeDef& node, int place) const {
    if (node.input_size() <= place || IsControl(node.input(place))) return nullptr;
    const auto found = nodes_.find(ProducerOf(node.input(place)));
    return found == nodes_.end() ? nullptr : found->second;
  }

  bool IsConstant(const NodeDef& node, int place) const {
    const NodeDef* producer = Producer(node, place);
    return producer == nullptr || constants_.count(producer) > 0;
  }

  // A product with zeros counts as zeros for the optimizer, whatever the other matrix has, and a bias of zeros as none.
  bool IsFusable(const NodeDef& node) const { return !IsConstant(node, 0) && !IsConstant(node, 1); }

  // A sum with one visible product. A sum of such sums would be put in another order.
  bool IsBias(const NodeDef& node) const {
    if (node.op() != "AddV2") return IsVisibleProduct(Producer(node, 0)) && !IsConstant(node, 1);
    for (int place = 0; place < 2; ++place) {
      const NodeDef* other = Producer(node, 1 - place);
      if (!IsVisibleProduct(Producer(node, place)) || IsConstant(node, 1 - place)) continue;
      if (other->op() != "AddV2" && Products().count(other->op()) == 0) return true;
    }
    return false;
  }

  bool IsActivation(const NodeDef& node) const {
    const NodeDef* sum = Producer(node, 0);
    return sum != nullptr && Biases().count(sum->op()) > 0 && IsBias(*sum);
  }

  bool IsVisibleProduct(const NodeDef* node) const {
    return node != nullptr && Products().count(node->op()) > 0 && IsFusable(*node);
  }

  // What is a constant, or may be found to be one by rules for shapes and movement of data; and what is computed of
  // constants alone.
  void FindConstants(const GraphDef& graph) {
    bool has_changed = true;
    while (has_changed) {
      has_changed = false;
      for (const NodeDef& node : graph.node()) {
        if (constants_.count(&node) == 0 && IsMadeOfConstants(node)) has_changed = constants_.insert(&node).second;
        if (known_.count(&node) == 0 && IsComputedOfConstants(node)) has_changed = known_.insert(&node).second;
      }
    }
  }

  // By operations that keep a value small, so that it is folded whatever it is. Shapes are small anyway.
  bool IsComputedOfConstants(const NodeDef& node) const {
    if (node.op() == "Const") return IsOfIntegers(node, "dtype") || IsSmall(node);
    const std::string& type = node.op();
    const bool is_larger = type == "Tile" || type == "BroadcastTo" || type == "Fill";
    const bool stays_small = AlwaysOpaque().count(type) + Biases().count(type) + Carriers().count(type) > 0 && !is_larger;
    if (!stays_small && !IsOfIntegers(node, "T")) return false;
    int place = 0;
    for (; place < node.input_size() && !IsControl(node.input(place)); ++place) {
      const NodeDef* producer = Producer(node, place);
      if (producer == nullptr || known_.count(producer) == 0) return false;
    }
    const tensorflow::OpDef* definition = nullptr;
    return place > 0 && OpRegistry::Global()->LookUpOpDef(node.op(), &definition).ok() && !definition->is_stateful();
  }

  static bool IsOfIntegers(const NodeDef& node, const char* attribute) {
    const auto found = node.attr().find(attribute);
    return found != node.attr().end() && tensorflow::DataTypeIsInteger(found->second.type());
  }

  static bool IsSmall(const NodeDef& constant) {
    constexpr int64_t kMost = 16;
    const auto found = constant.attr().find("value");
    if (found == constant.attr().end()) return false;
    int64_t count = 1;
    for (const auto& dim : found->second.tensor().tensor_shape().dim()) count *= std::min(dim.size(), kMost + 1);
    return count <= kMost;
  }

  bool IsMadeOfConstants(const NodeDef& node) const {
    const std::string& type = node.op();
    if (type == "Const" || type == "ZerosLike" || type == "OnesLike") return true;
    if (AlwaysOpaque().count(type) > 0 || Products().count(type) > 0 || Biases().count(type) > 0) return false;
    const auto is_constant = [&](int place) {
      const NodeDef* producer = Producer(node, place);
      return producer != nullptr && constants_.count(producer) > 0;
    };
    if (Carriers().count(type) > 0) return is_constant(0);
    if (type == "Fill" || type == "Split") return is_constant(1);
    int values = 0, constants = 0;
    for (; values < node.input_size() && !IsControl(node.input(values)); ++values) constants += is_constant(values);
    return type == "IdentityN" || type == "Merge" ? constants > 0 : values > 0 && constants == values;
  }

  std::unordered_map<std::string, const NodeDef*> nodes_;
  std::unordered_set<const NodeDef*> constants_;
  std::unordered_set<const NodeDef*> known_;
};

// The opaque types are registered when they are needed first: while a library is loaded, Python would generate a
// function for each.
void RegisterOpaqueTypes() {
  static std::once_flag once;
  std::call_once(once, [] {
    for (const Types* types : {&AlwaysOpaque(), &Products(), &Biases(), &Activations()}) {
      for (const std::string& type : *types) {
        const tensorflow::OpRegistrationData* data = OpRegistry::Global()->LookUp(type);
        if (data == nullptr) continue;  // of another TensorFlow
        tensorflow::OpRegistrationData opaque = *data;
        opaque.op_def.set_name(absl::StrCat(kOpaque, type));
        // The arguments of commutative operations are sorted by name: of a sum of three that is another order.
        opaque.op_def.set_is_commutative(false);
        opaque.op_def.set_is_aggregate(false);
        OpRegistry::Global()->Register([opaque](tensorflow::OpRegistrationData* registered) {
          *registered = opaque;
          return absl::OkStatus();
        });
      }
    }
  });
}

class HideOperations final : public tensorflow::grappler::CustomGraphOptimizer {
 public:
  absl::Status Init(const tensorflow::RewriterConfig_CustomGraphOptimizer*) override {
    RegisterOpaqueTypes();
    return absl::OkStatus();
  }
  std::string name() const override { return "recgraph_hide_operations"; }
  bool UsesFunctionLibrary() const override { return false; }

  absl::Status Optimize(tensorflow::grappler::Cluster*, const tensorflow::grappler::GrapplerItem& item,
                        GraphDef* optimized) override {
    *optimized = item.graph;
    const Visibility visibility(item.graph);
    for (int i = 0; i < optimized->node_size(); ++i) {
      NodeDef* node = optimized->mutable_node(i);
      if (!visibility.IsVisible(item.graph.node(i))) node->set_op(absl::StrCat(kOpaque, node->op()));
    }
    return absl::OkStatus();
  }
};

class RevealOperations final : public tensorflow::grappler::CustomGraphOptimizer {
 public:
  absl::Status Init(const tensorflow::RewriterConfig_CustomGraphOptimizer*) override { return absl::OkStatus(); }
  std::string name() const override { return "recgraph_reveal_operations"; }
  bool UsesFunctionLibrary() const override { return false; }

  absl::Status Optimize(tensorflow::grappler::Cluster*, const tensorflow::grappler::GrapplerItem& item,
                        GraphDef* optimized) override {
    *optimized = item.graph;
    for (NodeDef& node : *optimized->mutable_node()) {
      if (absl::StartsWith(node.op(), kOpaque)) node.set_op(node.op().substr(sizeof(kOpaque) - 1));
    }
    return absl::OkStatus();
  }
};

REGISTER_GRAPH_OPTIMIZER_AS(HideOperations, "RecgraphHideOperations");
REGISTER_GRAPH_OPTIMIZER_AS(RevealOperations, "RecgraphRevealOperations");

}  // namespace
}  // namespace recgraph
