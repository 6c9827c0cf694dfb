// Reads a plan from Python's tuples.
//
// A reader that meets something else leaves a Python exception and goes on with zeros; ReadPlan looks at the end.
#include "cc/python/plan_reader.h"

#include <string>
#include <utility>

#include "cc/python/resources.h"

namespace recgraph {
namespace {

// The items of a tuple, one after another.
class Fields {
 public:
  explicit Fields(PyObject* tuple) : tuple_(tuple), size_(PyTuple_Check(tuple) ? PyTuple_GET_SIZE(tuple) : -1) {
    if (size_ < 0) PyErr_SetString(PyExc_TypeError, "a plan is made of tuples");
  }

  bool HasNext() const { return position_ < size_; }

  PyObject* Next() {
    if (HasNext()) return PyTuple_GET_ITEM(tuple_, position_++);
    PyErr_SetString(PyExc_ValueError, "a part of the plan is missing");
    return Py_None;
  }

  int Number() { return static_cast<int>(PyLong_AsLong(Next())); }

  std::string Bytes() {
    char* data = nullptr;
    Py_ssize_t size = 0;
    if (PyBytes_AsStringAndSize(Next(), &data, &size) < 0) return "";
    return std::string(data, size);
  }

  std::vector<int> Numbers() {
    std::vector<int> numbers;
    Fields fields(Next());
    while (fields.HasNext() && !PyErr_Occurred()) numbers.push_back(fields.Number());
    return numbers;
  }

  // Reads every item of the next tuple with `read`.
  template <typename T, typename Function>
  std::vector<T> Each(Function read) {
    std::vector<T> items;
    Fields fields(Next());
    while (fields.HasNext() && !PyErr_Occurred()) {
      Fields item(fields.Next());
      items.push_back(read(item));
    }
    return items;
  }

 private:
  PyObject* const tuple_;
  const Py_ssize_t size_;
  Py_ssize_t position_ = 0;
};

Source ReadSource(Fields& fields) {
  Source source{static_cast<Source::From>(fields.Number()), fields.Number(), fields.Number()};
  source.output = fields.Number();
  source.dtype = static_cast<tensorflow::DataType>(fields.Number());
  PyObject* shape = fields.Next();
  if (shape != Py_None) {
    source.has_rank = true;
    Fields sizes(shape);
    while (sizes.HasNext() && !PyErr_Occurred()) source.shape.push_back(sizes.Number());
  }
  source.bytes = fields.Bytes();
  return source;
}

PlannedInput ReadInput(Fields& fields) {
  PlannedInput input;
  input.select = fields.Number();
  input.sources = fields.Each<Source>(ReadSource);
  return input;
}

Message ReadMessage(Fields& fields) {
  Message message;
  message.slot = fields.Number();
  message.value = fields.Number();
  return message;
}

Way ReadWay(Fields& fields) {
  Way way;
  way.node = fields.Number();
  way.messages = fields.Each<Message>(ReadMessage);
  return way;
}

Node ReadNode(Fields& fields) {
  Node node;
  node.signature = FindSignature(fields.Number());
  if (node.signature == nullptr) PyErr_SetString(PyExc_ValueError, "a plan with an unknown signature");
  node.location = fields.Number();
  node.is_sync = fields.Number() != 0;
  node.inputs = fields.Each<PlannedInput>(ReadInput);
  node.fetches = fields.Numbers();
  node.next = fields.Each<Way>(ReadWay);
  return node;
}

}  // namespace

std::shared_ptr<Plan> ReadPlan(PyObject* described) {
  auto plan = std::make_shared<Plan>();
  Fields fields(described);
  plan->function = fields.Bytes();
  plan->config = fields.Bytes();
  if (fields.Number() != 0) plan->delivery = Delivery::kOnRequest;
  const int threads = fields.Number();
  if (threads > 0) plan->threads = Contest(threads == 1 ? 1 : 0);
  auto variables = std::make_shared<Variables>();
  for (int number : fields.Numbers()) {
    plan->resources.push_back(FindResource(number));
    variables->all.insert(number);
    if (plan->resources.back() == nullptr) PyErr_SetString(PyExc_ReferenceError, "a variable of the plan is gone");
  }
  for (int number : fields.Numbers()) variables->written.insert(number);
  plan->variables = std::move(variables);
  plan->slots = fields.Number();
  plan->cells = fields.Number();
  plan->commit = fields.Number();
  plan->nodes = fields.Each<Node>(ReadNode);
  plan->first = fields.Each<Way>(ReadWay);
  if (PyErr_Occurred()) return nullptr;
  return plan;
}

}  // namespace recgraph
