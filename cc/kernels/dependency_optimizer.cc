// A part of TensorFlow's graph optimizer for graphs whose order of reads and writes has to stay as it is.
#include <string>
#include <unordered_set>
#include <vector>

#include "cc/kernels/node_inputs.h"
#include "tensorflow/core/framework/graph.pb.h"
#include "tensorflow/core/framework/node_def.pb.h"
#include "tensorflow/core/grappler/grappler_item.h"
#include "tensorflow/core/grappler/optimizers/custom_graph_optimizer.h"
#include "tensorflow/core/grappler/optimizers/custom_graph_optimizer_registry.h"

namespace recgraph {
namespace {

using tensorflow::GraphDef;
using tensorflow::NodeDef;

// What has no inputs and no effect is there from the beginning: to come after it says nothing.
bool IsThereAtOnce(const NodeDef& node) { return node.input_size() == 0 && (node.op() == "Const" || node.op() == "_Arg"); }

// Takes away control edges that order nothing: from constants and arguments, those said twice, and those from a node
// whose values the other one takes anyway. TensorFlow leaves such edges where it has folded something, and no
// operation that has one is fused. Its own optimization of dependencies takes away more than that: it counts an edge
// from a read to a write for nothing if another way leads from one to the other, and then folds that way.
class DependencyOptimizer final : public tensorflow::grappler::CustomGraphOptimizer {
 public:
  absl::Status Init(const tensorflow::RewriterConfig_CustomGraphOptimizer*) override { return absl::OkStatus(); }
  std::string name() const override { return "recgraph_dependency_optimizer"; }
  bool UsesFunctionLibrary() const override { return false; }

  absl::Status Optimize(tensorflow::grappler::Cluster*, const tensorflow::grappler::GrapplerItem& item,
                        GraphDef* optimized) override {
    *optimized = item.graph;
    std::unordered_set<std::string> at_once;
    for (const NodeDef& node : optimized->node()) {
      if (IsThereAtOnce(node)) at_once.insert(node.name());
    }
    for (NodeDef& node : *optimized->mutable_node()) Clean(at_once, &node);
    return absl::OkStatus();
  }

 private:
  static void Clean(const std::unordered_set<std::string>& at_once, NodeDef* node) {
    std::unordered_set<std::string> known;
    std::vector<std::string> kept;
    for (const std::string& input : node->input()) {
      if (IsControl(input)) {
        const std::string producer = input.substr(1);
        if (at_once.count(producer) > 0 || !known.insert(producer).second) continue;
      } else {
        known.insert(ProducerOf(input));
      }
      kept.push_back(input);
    }
    if (kept.size() == static_cast<size_t>(node->input_size())) return;
    node->mutable_input()->Clear();
    for (std::string& input : kept) node->add_input(std::move(input));
  }
};

REGISTER_GRAPH_OPTIMIZER_AS(DependencyOptimizer, "RecgraphDependencyOptimizer");

}  // namespace
}  // namespace recgraph
