// The types of operations, numbered.
#include "cc/python/signature.h"

#include <deque>
#include <mutex>
#include <utility>

#include "cc/python/device.h"
#include "cc/python/function_body.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/framework/op_def.pb.h"

namespace recgraph {
namespace {

using tensorflow::EagerOperation;
using tensorflow::Fprint128;
using tensorflow::OpDef;

struct Hash {
  size_t operator()(const Fprint128& key) const { return key.low64 ^ key.high64; }
};

struct Signatures {
  std::mutex mutex;
  KindTable kinds;
  std::unordered_map<Fprint128, const Signature*, Hash> by_key;
  std::unordered_map<std::string, const Signature*> by_name;  // where the attributes do not matter
  std::deque<Signature> all;
};

Signatures& AllSignatures() {
  static auto* signatures = new Signatures;
  return *signatures;
}

bool IsSpecial(const OpDef::ArgDef& argument) {
  return argument.is_ref() || argument.type() == tensorflow::DT_RESOURCE || argument.type() == tensorflow::DT_VARIANT;
}

bool IsPure(const OpDef& definition, const Signature& signature) {
  if (definition.is_stateful()) return false;
  for (const OpDef::ArgDef& argument : definition.input_arg()) {
    if (IsSpecial(argument)) return false;
  }
  for (const auto& [name, value] : signature.definition.attr()) {
    if (value.has_func() || value.list().func_size() > 0) return false;
    if (value.type() == tensorflow::DT_RESOURCE || value.type() == tensorflow::DT_VARIANT) return false;
    for (int type : value.list().type()) {
      if (type == tensorflow::DT_RESOURCE || type == tensorflow::DT_VARIANT) return false;
    }
  }
  for (const OpDef::ArgDef& argument : definition.output_arg()) {
    if (IsSpecial(argument)) return false;
  }
  return true;
}

void ClassifyCall(const KindTable& kinds, Signature* signature) {
  const auto& library = *CoexecutionDevice::Registered()->context()->FuncLibDef();
  const tensorflow::FunctionDef* function = library.Find(signature->name);
  bool may_write = true;
  if (function == nullptr || !MayBeInGraph(signature->name, library, kinds, &may_write)) return;
  signature->may_write = may_write;
  signature->outputs = ResultTypes(*function);
  for (tensorflow::DataType dtype : signature->outputs) {
    if (dtype == tensorflow::DT_RESOURCE) return;  // what is done with a variable by another name cannot be ordered
  }
  signature->kind = Kind::kCall;
}

void Classify(const KindTable& kinds, Signature* signature) {
  signature->kind = Kind::kHost;
  signature->may_write = true;
  if (signature->registration == nullptr) return ClassifyCall(kinds, signature);
  const OpDef& definition = signature->registration->op_def;
  if (!tensorflow::OutputTypesForNode(signature->definition, definition, &signature->outputs).ok()) return;
  auto found = kinds.find(signature->name);
  if (found != kinds.end()) {
    signature->kind = found->second;
  } else if (IsPure(definition, *signature)) {
    signature->kind = Kind::kPure;
  }
  signature->may_write = signature->kind != Kind::kRead && signature->kind != Kind::kHarmless;
}

}  // namespace

void SetKinds(KindTable kinds) {
  std::lock_guard<std::mutex> lock(AllSignatures().mutex);
  AllSignatures().kinds = std::move(kinds);
}

const KindTable& Kinds() { return AllSignatures().kinds; }

// Whether all operations of a type run outside of the graph. They have one signature: attributes of random operations
// differ from call to call, and would fill the memory.
bool IsHostByName(const Signature& signature, const KindTable& kinds) {
  return signature.kind == Kind::kHost && signature.registration != nullptr &&
         (signature.registration->op_def.is_stateful() || kinds.count(signature.name) > 0);
}

const Signature& SignatureOf(const EagerOperation& operation) {
  // The key is kept by the operation, which is why it wants to be changed; its attributes stay as they are.
  const Fprint128 key = const_cast<EagerOperation&>(operation).MutableAttrs()->CacheKey("");
  Signatures& all = AllSignatures();
  std::lock_guard<std::mutex> lock(all.mutex);
  auto found = all.by_key.find(key);
  if (found != all.by_key.end()) return *found->second;
  auto named = all.by_name.find(operation.Name());
  if (named != all.by_name.end()) return *named->second;
  Signature& made = all.all.emplace_back();
  made.number = static_cast<int>(all.all.size()) - 1;
  made.name = operation.Name();
  made.attributes.Reset(made.name.c_str());
  made.attributes.CopyAttributes(operation.Attrs());
  made.definition.set_name("node");
  made.definition.set_op(made.name);
  made.attributes.FillAttrValueMap(made.definition.mutable_attr());
  made.registration = operation.is_function() ? nullptr : tensorflow::OpRegistry::Global()->LookUp(made.name);
  Classify(all.kinds, &made);
  if (IsHostByName(made, all.kinds)) {
    all.by_name[made.name] = &made;
  } else {
    all.by_key[key] = &made;
  }
  return made;
}

const Signature* FindSignature(int number) {
  Signatures& all = AllSignatures();
  std::lock_guard<std::mutex> lock(all.mutex);
  return number < 0 || number >= static_cast<int>(all.all.size()) ? nullptr : &all.all[number];
}

}  // namespace recgraph
