// What the device knows of functions that the program calls.
#include "cc/python/function_body.h"

#include <memory>
#include <set>
#include <utility>

#include "absl/algorithm/container.h"
#include "cc/python/device.h"
#include "tensorflow/core/common_runtime/function_body.h"
#include "tensorflow/core/common_runtime/function_def_utils.h"
#include "tensorflow/core/common_runtime/shape_refiner.h"
#include "tensorflow/core/framework/resource_handle.h"
#include "tensorflow/core/graph/algorithm.h"
#include "tensorflow/core/public/version.h"

namespace recgraph {
namespace {

using tensorflow::AttrValueMap;
using tensorflow::FunctionDef;
using tensorflow::FunctionLibraryDefinition;
using tensorflow::NodeDef;
using tensorflow::OpDef;
using tensorflow::OpRegistrationData;
using tensorflow::ShapeRefiner;
using tensorflow::shape_inference::DimensionHandle;
using tensorflow::shape_inference::InferenceContext;
using tensorflow::shape_inference::ShapeHandle;

// Looks through bodies, each once.
class Search {
 public:
  Search(const FunctionLibraryDefinition& library, const KindTable& kinds) : library_(library), kinds_(kinds) {}

  void Look(const std::string& function) {
    if (!seen_.insert(function).second) return;
    const FunctionDef* body = library_.Find(function);
    may_be_in_graph_ &= body != nullptr;
    if (body == nullptr) return;
    for (const NodeDef& node : body->node_def()) Look(node);
  }

  void Look(const AttrValueMap& attributes) {
    for (const auto& [name, value] : attributes) {
      if (value.has_func()) Look(value.func().name());
      for (const auto& function : value.list().func()) Look(function.name());
    }
  }

  // Of what has been looked through.
  bool may_be_in_graph() const { return may_be_in_graph_; }
  bool may_write() const { return may_write_; }

 private:
  void Look(const NodeDef& node) {
    if (library_.Find(node.op()) != nullptr) return Look(node.op());
    auto kind = kinds_.find(node.op());
    if (kind != kinds_.end()) {
      may_be_in_graph_ &= kind->second != Kind::kHost && kind->second != Kind::kOpaque;
      may_write_ |= kind->second == Kind::kWrite;
    } else {
      const OpRegistrationData* registration = tensorflow::OpRegistry::Global()->LookUp(node.op());
      const bool is_stateful = registration == nullptr || registration->op_def.is_stateful();
      may_be_in_graph_ &= !is_stateful;
      may_write_ |= is_stateful && (registration == nullptr || HasResources(registration->op_def));
    }
    Look(node.attr());
  }

  static bool HasResources(const OpDef& definition) {
    return absl::c_any_of(definition.input_arg(), [](const OpDef::ArgDef& argument) {
      return argument.type() == tensorflow::DT_RESOURCE;
    });
  }

  const FunctionLibraryDefinition& library_;
  const KindTable& kinds_;
  std::set<std::string> seen_;
  bool may_be_in_graph_ = true;
  bool may_write_ = false;
};

// Tells shape inference what a call gives an argument.
absl::Status SetArgument(const tensorflow::Node* node, const KnownInput& input, ShapeRefiner* refiner) {
  InferenceContext* context = refiner->GetContext(node);
  std::vector<DimensionHandle> dimensions;
  for (int64_t size : input.shape) dimensions.push_back(context->MakeDim(size));
  TF_RETURN_IF_ERROR(refiner->SetShape(node, 0, context->MakeShape(dimensions)));
  if (input.tensor == nullptr || input.tensor->dtype() != tensorflow::DT_RESOURCE) return absl::OkStatus();
  std::vector<tensorflow::shape_inference::ShapeAndType> variables;
  for (const auto& part : input.tensor->flat<tensorflow::ResourceHandle>()(0).dtypes_and_shapes()) {
    ShapeHandle shape;
    TF_RETURN_IF_ERROR(context->MakeShapeFromPartialTensorShape(part.shape, &shape));
    variables.emplace_back(shape, part.dtype);
  }
  context->set_output_handle_shapes_and_types(0, variables);
  return absl::OkStatus();
}

}  // namespace

bool MayBeInGraph(const std::string& function, const FunctionLibraryDefinition& library, const KindTable& kinds,
                  bool* may_write) {
  Search search(library, kinds);
  search.Look(function);
  *may_write = search.may_write();
  return search.may_be_in_graph();
}

bool MayWrite(const AttrValueMap& attributes, const FunctionLibraryDefinition& library, const KindTable& kinds) {
  Search search(library, kinds);
  search.Look(attributes);
  return search.may_write();
}

tensorflow::DataTypeVector ResultTypes(const FunctionDef& function) {
  tensorflow::DataTypeVector types;
  for (const auto& result : function.signature().output_arg()) types.push_back(result.type());
  return types;
}

absl::Status InferCall(const std::string& function, const KnownInputs& inputs,
                       std::vector<Dimensions>* outputs, bool* is_complete) {
  const FunctionLibraryDefinition& library = *CoexecutionDevice::Registered()->context()->FuncLibDef();
  std::unique_ptr<tensorflow::FunctionBody> body;
  TF_RETURN_IF_ERROR(tensorflow::FunctionDefToBodyHelper(library.FindRecord(function), {}, &library, &body));
  ShapeRefiner refiner(TF_GRAPH_DEF_VERSION, body->graph->op_registry());
  refiner.set_require_shape_inference_fns(false);
  refiner.set_function_library_for_shape_inference(&library);
  outputs->assign(body->ret_nodes.size(), {});
  std::vector<tensorflow::Node*> order;
  tensorflow::GetReversePostOrder(*body->graph, &order);
  for (const tensorflow::Node* node : order) {
    if (!node->IsOp()) continue;
    TF_RETURN_IF_ERROR(refiner.AddNode(node));
    if (node->IsArg()) {
      TF_RETURN_IF_ERROR(SetArgument(node, inputs[node->attrs().Find("index")->i()], &refiner));
    } else if (node->IsRetval()) {
      InferenceContext* context = refiner.GetContext(node);
      *is_complete &= TakeShape(context, context->input(0), &(*outputs)[node->attrs().Find("index")->i()]);
    }
  }
  return absl::OkStatus();
}

}  // namespace recgraph
