// Keeps TensorFlow's graph optimizer from rewriting what then computes something else than its operations do one by one.
#include <string>
#include <utility>
#include <vector>

#include "tensorflow/core/common_runtime/optimization_registry.h"
#include "tensorflow/core/graph/algorithm.h"
#include "tensorflow/core/graph/graph.h"
#include "tensorflow/core/protobuf/config.pb.h"
#include "tensorflow/core/public/session_options.h"

namespace recgraph {
namespace {

using tensorflow::Edge;
using tensorflow::Graph;
using tensorflow::Node;

// Whether a graph is to compute what eager execution does: who asks for that asks for `dependency_optimizer.cc`, too.
bool IsToBeFaithful(const tensorflow::GraphOptimizationPassOptions& options) {
  if (options.session_options == nullptr || options.graph == nullptr) return false;
  const auto& rewrites = options.session_options->config.graph_options().rewrite_options();
  for (const auto& optimizer : rewrites.custom_optimizers()) {
    if (optimizer.name() == "RecgraphDependencyOptimizer") return true;
  }
  return false;
}

// `LeakyRelu(x, alpha)` is made of `Maximum(x * alpha, x)` whenever alpha is a positive constant. For alpha above 1 that
// is the minimum; a constant of shape [1] loses its dimension, and infinity times 0 becomes infinity. What waits for
// another operation is never fused, and who takes values may as well wait for them. It does so behind another node, as
// it is dropped where it is said of a node that it waits for one whose value it takes.
absl::Status LetWait(Node* maximum, Graph* graph) {
  tensorflow::NodeDef definition;
  definition.set_name(graph->NewName(maximum->name() + "/operands"));
  definition.set_op("NoOp");
  absl::Status status;
  Node* operands = graph->AddNode(std::move(definition), &status);
  TF_RETURN_IF_ERROR(status);
  operands->set_assigned_device_name_index(maximum->assigned_device_name_index());
  for (int place = 0; place < 2; ++place) {
    Node* operand;
    TF_RETURN_IF_ERROR(maximum->input_node(place, &operand));
    graph->AddControlEdge(operand, operands);
  }
  graph->AddControlEdge(operands, maximum);
  return absl::OkStatus();
}

bool IsSum(const Node& node) {
  const std::string& type = node.type_string();
  if (type != "AddV2" && type != "Sub" && type != "Add") return false;
  return tensorflow::DataTypeIsFloating(node.output_type(0));
}

// By number of the node, whether a value is computed of constants alone, so that it will be one.
std::vector<bool> Constants(const Graph& graph) {
  std::vector<Node*> order;
  tensorflow::GetReversePostOrder(graph, &order);
  std::vector<bool> is_constant(graph.num_node_ids(), false);
  for (const Node* node : order) {
    bool has_inputs = false, has_others = node->op_def().is_stateful() || node->IsMerge();
    for (const Edge* edge : node->in_edges()) {
      if (edge->IsControlEdge()) continue;
      has_inputs = true;
      has_others = has_others || !is_constant[edge->src()->id()];
    }
    is_constant[node->id()] = node->IsConstant() || (has_inputs && !has_others);
  }
  return is_constant;
}

// Of sums and differences of three, `(x + c) - y` is made of `(x - y) + c` where c is constant, and the other way round.
// That is not a matter of rounding: a small c that keeps a logarithm or a root from zero is lost. What is
// not to be removed stays an operand of its own.
void KeepSums(const Graph& graph) {
  const std::vector<bool> is_constant = Constants(graph);
  const auto has_constant = [&](const Node& sum) {
    for (const Edge* edge : sum.in_edges()) {
      if (!edge->IsControlEdge() && is_constant[edge->src()->id()]) return true;
    }
    return false;
  };
  for (const Node* outer : graph.op_nodes()) {
    if (!IsSum(*outer)) continue;
    for (const Edge* edge : outer->in_edges()) {
      Node* inner = edge->src();
      if (edge->IsControlEdge() || !IsSum(*inner)) continue;
      if (has_constant(*outer) || has_constant(*inner)) inner->AddAttr("_grappler_do_not_remove", true);
    }
  }
}

class Faithfulness final : public tensorflow::GraphOptimizationPass {
 public:
  absl::Status Run(const tensorflow::GraphOptimizationPassOptions& options) override {
    if (!IsToBeFaithful(options)) return absl::OkStatus();
    Graph* graph = options.graph->get();
    KeepSums(*graph);
    std::vector<Node*> maxima;
    for (Node* node : graph->op_nodes()) {
      if (node->type_string() == "Maximum") maxima.push_back(node);
    }
    for (Node* maximum : maxima) TF_RETURN_IF_ERROR(LetWait(maximum, graph));
    return absl::OkStatus();
  }
};

REGISTER_OPTIMIZATION(tensorflow::OptimizationPassRegistry::POST_PLACEMENT, 50, Faithfulness);

}  // namespace
}  // namespace recgraph
