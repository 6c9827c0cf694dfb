// Operations that are a step each: rows that are looked up, products, elementwise operations, sums.
#include "cc/kernels/lowering.h"

#include <unordered_map>

#include "cc/kernels/packed_matrices.h"

namespace recgraph {
namespace batch {
namespace lowering {
namespace {

// An operand of an elementwise operation on rows of `count` floats, by how it repeats; nothing where it does so in
// another way.
struct Operand {
  Symbol symbol;
  int64_t width;    // of its array
  bool shared;
  bool scalar;      // one float for all results of a row
  int64_t repeats;  // so many times in a row, or 0
};

std::optional<Operand> OperandOf(const Symbol& symbol, const Symbol& like) {
  const int64_t count = like.count(), own = symbol.count();
  if (symbol.has_rows) {
    if (symbol.lead() == like.lead() && symbol.dims() == like.dims()) return Operand{symbol, own, false, false, 0};
    const bool fits = like.lead() == 1 && symbol.lead() == 1 && own == 1 && symbol.dims().size() == like.dims().size();
    if (fits) return Operand{symbol, own, false, true, 0};
    return std::nullopt;
  }
  if (own == 1 && symbol.dims().size() <= like.dims().size() + 1) return Operand{symbol, own, true, count > 1, 0};
  // As numpy: the last dimensions are the same.
  Dims last = symbol.dims();
  while (!last.empty() && last.front() == 1) last.erase(last.begin());
  if (symbol.dims().size() > like.dims().size() + 1 || last.size() > like.dims().size() || own == 0) return std::nullopt;
  if (!std::equal(last.rbegin(), last.rend(), like.dims().rbegin())) return std::nullopt;
  return Operand{symbol, own, true, false, count / own};
}

// The shape that values of a binary operation have together; nothing where they have none.
std::optional<Symbol> Broadcast(const Symbol& a, const Symbol& b) {
  Symbol like = a.has_rows ? a : b;
  Dims dims = like.dims();
  const Symbol& other = a.has_rows ? b : a;
  const bool same_rows = !other.has_rows || (other.lead() == like.lead() && other.dims().size() == like.dims().size());
  const size_t rank = other.dims().size();
  if (!same_rows || rank > like.dims().size() + (other.has_rows ? 0 : 1)) return std::nullopt;
  if (rank > like.dims().size()) return other.dims()[0] == 1 ? std::optional(like) : std::nullopt;
  for (size_t i = 0; i < rank; ++i) {
    int64_t& mine = dims[dims.size() - 1 - i];
    const int64_t theirs = other.dims()[rank - 1 - i];
    if (mine != theirs && mine != 1 && theirs != 1) return std::nullopt;
    if (mine == 1) mine = theirs;
  }
  return like.SetShape(like.lead(), std::move(dims)) ? std::optional(like) : std::nullopt;
}

}  // namespace

bool Lowering::Gather(const Node& node, const Symbol* table, const Symbol* numbers) {
  if (table == nullptr || numbers == nullptr || table->has_rows || table->pieces.empty() || !numbers->has_rows ||
      table->dims().empty() || !IsInteger(numbers->element)) {
    return false;
  }
  const Symbol source = *table, wanted = *numbers;
  Note(source, LoweredBlock::Need::kRow);
  Dims dims = wanted.dims();
  dims.insert(dims.end(), source.dims().begin() + 1, source.dims().end());
  const int64_t bytes = Product(source.dims(), 1) * BytesOf(source.element);
  if (bytes == 0) return false;
  auto out = Made(source.dtype, wanted.lead(), std::move(dims));
  if (!out) return false;
  program_.Add(RowProgram::Gather{source.pieces[0].place.index, bytes, PlaceOf(wanted), wanted.element,
                                  wanted.count(), out->pieces[0].place});
  return Set(node, 0, *std::move(out));
}

bool Lowering::GatherV2(const Node& node) {
  const auto axis = Known(node, 2, 1);
  if (!axis || Attribute<int>(node, "batch_dims", 0) != 0) return false;
  const Symbol* const table = In(node, 0);
  if (table == nullptr) return false;
  if (const auto numbers = Known(node, 1, kAnySize)) return GatherKnown(node, *table, *numbers, (*axis)[0]);
  return (*axis)[0] == 0 && Gather(node, table, In(node, 1));
}

bool Lowering::GatherKnown(const Node& node, const Symbol& in, const Dims& numbers, int64_t axis) {
  const bool one = In(node, 1)->dims().empty();
  if (numbers.empty() || In(node, 1)->dims().size() > 1) return false;
  if (in.capture >= 0) {
    if (axis != 0) return false;
    Symbol out = in;
    out.sizes.clear();
    for (const int64_t number : numbers) {
      if (number < 0 || number >= static_cast<int64_t>(in.sizes.size())) return false;
      out.sizes.push_back(in.sizes[number]);
    }
    const Dims dims = one ? Dims() : Dims{static_cast<int64_t>(numbers.size())};
    return out.SetShape(1, dims) && Set(node, 0, std::move(out));
  }
  const int64_t dim = axis < 0 ? axis + static_cast<int64_t>(in.dims().size()) : axis - 1;
  if (!in.has_rows || dim < 0 || dim >= static_cast<int64_t>(in.dims().size())) return false;
  for (const int64_t number : numbers) {
    if (number < 0 || number >= in.dims()[dim]) return false;
  }
  const Symbol source = in;
  if (numbers.size() == 1) return SetPart(node, 0, source, dim, numbers[0], 1, !one);
  Dims dims = source.dims();
  dims[dim] = static_cast<int64_t>(numbers.size());
  Symbol shape = source;
  if (!shape.SetShape(1, dims) || shape.count() > kMostArranged) return false;
  return SetArranged(node, 0, source, dims, [&](Dims at) {
    at[dim] = numbers[at[dim]];
    return NumberOf(at, source.dims());
  });
}

bool Lowering::ResourceGather(const Node& node) {
  if (Attribute<int>(node, "batch_dims", 0) != 0) return false;
  return Gather(node, In(node, 0), In(node, 1));
}

bool Lowering::PackedProduct(const Node& node) {
  const Symbol* const rows = In(node, 0);
  const Symbol* const packed = In(node, 1);
  const PackedShape shape{Attribute<int64_t>(node, "inner", 0), Attribute<int64_t>(node, "width", 0)};
  if (rows == nullptr || packed == nullptr || packed->has_rows || !rows->has_rows) return false;
  if (rows->element != Element::kFloat || rows->dims() != Dims{shape.inner} || packed->element != Element::kFloat ||
      !IsPackable(shape) || packed->count() != shape.floats()) {
    return false;
  }
  const Symbol factor = *rows;
  const int matrix = PlaceOf(*packed).index;
  auto out = Made(tensorflow::DT_FLOAT, factor.lead(), {shape.width});
  if (!out) return false;
  std::vector<RowProgram::Part> parts;
  if (factor.lead() == 1) {
    for (const Piece& piece : factor.pieces) parts.push_back({piece.place, piece.bytes / BytesOf(Element::kFloat)});
  } else {
    parts.push_back({PlaceOf(factor), shape.inner});
  }
  program_.Add(RowProgram::Product{std::move(parts), factor.lead(), shape, matrix, out->pieces[0].place});
  return Set(node, 0, *std::move(out));
}

bool Lowering::MatMul(const Node& node) {
  const Symbol* const rows = In(node, 0);
  const Symbol* const matrix = In(node, 1);
  if (rows == nullptr || matrix == nullptr || !rows->has_rows || matrix->has_rows || rows->dims().size() != 1 ||
      matrix->dims().size() != 2 || Attribute<bool>(node, "transpose_a", false)) {
    return false;
  }
  const bool transposed = Attribute<bool>(node, "transpose_b", false);
  const Symbol a = *rows, b = *matrix;
  const int64_t k = b.dims()[transposed ? 1 : 0], n = b.dims()[transposed ? 0 : 1];
  if (a.element != Element::kFloat || b.element != Element::kFloat || a.dims()[0] != k || k < 1 || n < 1) return false;
  auto out = Made(tensorflow::DT_FLOAT, a.lead(), {n});
  if (!out) return false;
  program_.Add(RowProgram::Matrices{{a.lead(), k, n, false, transposed}, 1, PlaceOf(a), PlaceOf(b), 0, 0,
                                    out->pieces[0].place});
  return Set(node, 0, *std::move(out));
}

bool Lowering::BatchMatMul(const Node& node) {
  const Symbol* const left = In(node, 0);
  const Symbol* const right = In(node, 1);
  if (left == nullptr || right == nullptr || (!left->has_rows && !right->has_rows)) return false;
  const Symbol a = *left, b = *right;
  const auto matrices = [](const Symbol& one) {
    return one.element == Element::kFloat && one.count() > 0 &&
           (one.has_rows ? one.dims().size() == 2 : one.dims().size() == 2 || (one.dims().size() == 3 && one.dims()[0] == 1));
  };
  if (!matrices(a) || !matrices(b) || (a.has_rows && b.has_rows && a.lead() != b.lead())) return false;
  const auto side = [](const Symbol& one, int index) { return one.dims()[one.dims().size() - 2 + index]; };
  const bool flip_a = Attribute<bool>(node, "adj_x", false), flip_b = Attribute<bool>(node, "adj_y", false);
  const int64_t m = side(a, flip_a ? 1 : 0), k = side(a, flip_a ? 0 : 1), n = side(b, flip_b ? 0 : 1);
  if (side(b, flip_b ? 1 : 0) != k) return false;
  const int64_t lead = a.has_rows ? a.lead() : b.lead();
  auto out = Made(tensorflow::DT_FLOAT, lead, {m, n});
  if (!out) return false;
  program_.Add(RowProgram::Matrices{{m, k, n, flip_a, flip_b}, lead, PlaceOf(a), PlaceOf(b),
                                    a.has_rows ? m * k : 0, b.has_rows ? k * n : 0, out->pieces[0].place});
  return Set(node, 0, *std::move(out));
}

bool Lowering::ExpressionNode(const Node& node) {
  RowProgram::Elementwise step;
  const auto code = Attribute<std::vector<int64_t>>(node, "code", {});
  const auto shapes = Attribute<std::vector<tensorflow::PartialTensorShape>>(node, "output_shapes", {});
  if (!Expression::Decode(code, &step.expression).empty()) return false;
  const auto& inputs = step.expression.inputs();
  const auto& widths = step.expression.outputs();
  if (static_cast<int>(inputs.size()) != node.num_inputs() || shapes.size() != widths.size()) return false;
  for (int i = 0; i < node.num_inputs(); ++i) {
    const Symbol* const in = In(node, i);
    if (in == nullptr || in->element != Element::kFloat || in->has_rows == inputs[i].shared ||
        in->count() != inputs[i].width) {
      return false;
    }
    const Symbol whole = *in;
    step.inputs.push_back(PlaceOf(whole));
  }
  for (size_t i = 0; i < shapes.size(); ++i) {
    Dims dims;
    for (int dim = 1; dim < shapes[i].dims(); ++dim) dims.push_back(shapes[i].dim_size(dim));
    Symbol one;
    if (!one.SetShape(1, dims) || one.count() == 0 || widths[i] % one.count() != 0) return false;
    auto out = Made(tensorflow::DT_FLOAT, widths[i] / one.count(), std::move(dims));
    if (!out) return false;
    step.outputs.push_back(out->pieces[0].place);
    if (!Set(node, static_cast<int>(i), *std::move(out))) return false;
  }
  program_.Add(std::move(step));
  return true;
}

bool Lowering::Elementwise(const Node& node) {
  static const auto* const unary = new std::unordered_map<std::string, Unary>{
      {"Neg", Unary::kNeg},     {"Abs", Unary::kAbs},     {"Square", Unary::kSquare},   {"Sqrt", Unary::kSqrt},
      {"Rsqrt", Unary::kRsqrt}, {"Inv", Unary::kReciprocal}, {"Reciprocal", Unary::kReciprocal},
      {"Exp", Unary::kExp},     {"Tanh", Unary::kTanh},   {"Sigmoid", Unary::kSigmoid}, {"Relu", Unary::kRelu}};
  static const auto* const binary = new std::unordered_map<std::string, Binary>{
      {"Add", Binary::kAdd},         {"AddV2", Binary::kAdd},         {"BiasAdd", Binary::kAdd},
      {"Sub", Binary::kSub},         {"Mul", Binary::kMul},           {"Div", Binary::kDiv},
      {"RealDiv", Binary::kDiv},     {"Maximum", Binary::kMax},       {"Minimum", Binary::kMin},
      {"TanhGrad", Binary::kTanhGrad}, {"SigmoidGrad", Binary::kSigmoidGrad},
      {"SquaredDifference", Binary::kSquaredDifference}};
  if (const auto found = unary->find(node.type_string()); found != unary->end()) {
    const Symbol* const in = In(node, 0);
    if (in == nullptr || !in->has_rows) return false;
    return Apply(node, true, static_cast<int>(found->second), *in, {*in});
  }
  const bool relu = node.type_string() == "ReluGrad";
  const auto found = binary->find(node.type_string());
  if (!relu && found == binary->end()) return false;
  if (Attribute<std::string>(node, "data_format", "NHWC") != "NHWC") return false;
  const Symbol* a = In(node, 0);
  const Symbol* b = In(node, 1);
  if (a == nullptr || b == nullptr || (!a->has_rows && !b->has_rows)) return false;
  if (relu) std::swap(a, b);  // its first input is what comes from above, ours is the second
  const auto like = Broadcast(*a, *b);
  if (!like) return false;
  return Apply(node, false, relu ? static_cast<int>(Binary::kReluGrad) : static_cast<int>(found->second), *like,
               {*a, *b});
}

bool Lowering::Apply(const Node& node, bool is_unary, int op, const Symbol& like, const std::vector<Symbol>& operands) {
  if (like.element != Element::kFloat || like.count() == 0) return false;
  std::vector<Operand> given;
  for (const Symbol& symbol : operands) {
    if (symbol.element != Element::kFloat) return false;
    auto operand = OperandOf(symbol, like);
    if (!operand && symbol.has_rows && like.count() <= kMostArranged) {
      const auto all = Arranged(symbol, like.dims(), [&](const Dims& at) { return NumberOf(at, symbol.dims()); });
      if (!all) return false;
      operand = OperandOf(*all, like);
    }
    if (!operand) return false;
    given.push_back(std::move(*operand));
  }
  const Symbol shape = like;
  int64_t times = 1;
  for (const Operand& one : given) {
    if (one.repeats > 0 && times > 1 && one.repeats != times) return false;
    times = std::max(times, one.repeats);
  }
  const int64_t width = shape.count() / times;
  std::vector<int64_t> code{static_cast<int64_t>(given.size())};
  for (const Operand& one : given) code.insert(code.end(), {one.width, one.shared ? 1 : 0});
  code.insert(code.end(), {0, 1, shape.count(), 1, is_unary ? 1 : 2, op, width, times, 2, 0, 0, 0, width});
  RowProgram::Elementwise step;
  for (size_t i = 0; i < given.size(); ++i) {
    const bool stays = given[i].repeats > 0 || given[i].scalar;
    code.insert(code.end(), {0, static_cast<int64_t>(i), 0, given[i].scalar ? 1 : 0, stays ? 0 : width});
    step.inputs.push_back(PlaceOf(given[i].symbol));
  }
  if (!Expression::Decode(code, &step.expression).empty()) return false;
  auto out = Made(tensorflow::DT_FLOAT, shape.lead(), shape.dims());
  if (!out) return false;
  step.outputs.push_back(out->pieces[0].place);
  program_.Add(std::move(step));
  return Set(node, 0, *std::move(out));
}

bool Lowering::AddN(const Node& node) {
  const Symbol* const first = In(node, 0);
  if (first == nullptr || !first->has_rows || first->element != Element::kFloat || first->count() == 0) return false;
  const Symbol shape = *first;
  const int64_t width = shape.count();
  if (node.num_inputs() == 1) return Set(node, 0, shape);
  std::vector<int64_t> code{node.num_inputs()};
  RowProgram::Elementwise step;
  for (int i = 0; i < node.num_inputs(); ++i) {
    const Symbol* const in = In(node, i);
    if (in == nullptr || !in->has_rows || in->element != shape.element) return false;
    if (in->lead() != shape.lead() || in->dims() != shape.dims()) return false;
    const Symbol operand = *in;
    step.inputs.push_back(PlaceOf(operand));
    code.insert(code.end(), {width, 0});
  }
  code.insert(code.end(), {0, 1, width, node.num_inputs() - 1});
  for (int64_t i = 1; i < node.num_inputs(); ++i) {
    code.insert(code.end(), {2, static_cast<int64_t>(Binary::kAdd), width, 1, 2, 0, 0, 0, 0});
    code.insert(code.end(), {i == 1 ? 0 : 2, 0, 0, 0, 0});
    code.insert(code.end(), {0, i, 0, 0, 0});
  }
  if (!Expression::Decode(code, &step.expression).empty()) return false;
  auto out = Made(tensorflow::DT_FLOAT, shape.lead(), shape.dims());
  if (!out) return false;
  step.outputs.push_back(out->pieces[0].place);
  program_.Add(std::move(step));
  return Set(node, 0, *std::move(out));
}

std::optional<Lowering::Pair> Lowering::PairOf(const Node& node, int first) {
  if (In(node, first) == nullptr || In(node, first + 1) == nullptr) return std::nullopt;
  const auto a = Settled(*In(node, first)), b = Settled(*In(node, first + 1));
  if (!a || !b || a->element != b->element || (!a->has_rows && !b->has_rows)) return std::nullopt;
  Pair pair{*a, *b, 1, 1, a->has_rows ? *a : *b};
  for (const auto& [symbol, step] : {std::make_pair(&*a, &pair.step_a), std::make_pair(&*b, &pair.step_b)}) {
    if (symbol->has_rows) {
      if (symbol->lead() != pair.like.lead() || symbol->dims() != pair.like.dims()) return std::nullopt;
    } else {
      if (symbol->count() != 1 || symbol->dims().size() > pair.like.dims().size() + 1) return std::nullopt;
      *step = 0;
    }
  }
  return pair;
}

bool Lowering::Compare(const Node& node) {
  static const auto* const comparisons = new std::unordered_map<std::string, Comparison>{
      {"Equal", Comparison::kEqual},     {"NotEqual", Comparison::kNotEqual},
      {"Less", Comparison::kLess},       {"LessEqual", Comparison::kLessEqual},
      {"Greater", Comparison::kGreater}, {"GreaterEqual", Comparison::kGreaterEqual}};
  const auto found = comparisons->find(node.type_string());
  if (found == comparisons->end()) return false;
  const auto pair = PairOf(node);
  if (!pair) return false;
  auto out = Made(tensorflow::DT_BOOL, pair->like.lead(), pair->like.dims());
  if (!out) return false;
  program_.Add(RowProgram::Compare{found->second, pair->a.element, pair->like.count(), PlaceOf(pair->a),
                                   PlaceOf(pair->b), pair->step_a, pair->step_b, out->pieces[0].place});
  return Set(node, 0, *std::move(out));
}

bool Lowering::Integers(const Node& node) {
  static const auto* const operations = new std::unordered_map<std::string, IntegerOperation>{
      {"Add", IntegerOperation::kAdd},
      {"AddV2", IntegerOperation::kAdd},
      {"Sub", IntegerOperation::kSub},
      {"Mul", IntegerOperation::kMul}};
  const auto found = operations->find(node.type_string());
  if (found == operations->end()) return false;
  const auto pair = PairOf(node);
  if (!pair || !IsInteger(pair->a.element)) return false;
  auto out = Made(pair->like.dtype, pair->like.lead(), pair->like.dims());
  if (!out) return false;
  program_.Add(RowProgram::Integers{found->second, pair->a.element, pair->like.count(), PlaceOf(pair->a),
                                    PlaceOf(pair->b), pair->step_a, pair->step_b, out->pieces[0].place});
  return Set(node, 0, *std::move(out));
}

bool Lowering::SelectV2(const Node& node) {
  const Symbol* const given = In(node, 0);
  if (given == nullptr || given->element != Element::kBool || !given->has_rows) return false;
  const Symbol condition = *given;
  const auto pair = PairOf(node, 1);
  if (!pair || condition.lead() != pair->like.lead() || condition.dims() != pair->like.dims()) return false;
  auto out = Made(pair->like.dtype, pair->like.lead(), pair->like.dims());
  if (!out) return false;
  program_.Add(RowProgram::Select{BytesOf(out->element), out->count(), PlaceOf(condition), PlaceOf(pair->a),
                                  PlaceOf(pair->b), 1, pair->step_a, pair->step_b, out->pieces[0].place});
  return Set(node, 0, *std::move(out));
}

// `a or b` is `a` where that holds and else `b`; `a and b` the other way round.
bool Lowering::Logical(const Node& node) {
  const auto pair = PairOf(node);
  if (!pair || pair->a.element != Element::kBool) return false;
  auto out = Made(tensorflow::DT_BOOL, pair->like.lead(), pair->like.dims());
  if (!out) return false;
  const Place a = PlaceOf(pair->a), b = PlaceOf(pair->b);
  RowProgram::Select step{1, out->count(), a, a, b, pair->step_a, pair->step_a, pair->step_b, out->pieces[0].place};
  if (node.type_string() == "LogicalAnd") {
    std::swap(step.a, step.b);
    std::swap(step.step_a, step.step_b);
  }
  program_.Add(std::move(step));
  return Set(node, 0, *std::move(out));
}

bool Lowering::Cast(const Node& node) {
  const Symbol* const in = In(node, 0);
  const auto to = Attribute<DataType>(node, "DstT", tensorflow::DT_INVALID);
  const auto element = ElementOf(to);
  if (in == nullptr || !in->has_rows || !element || in->element == Element::kFloat) return false;
  const Symbol from = *in;
  auto out = Made(to, from.lead(), from.dims());
  if (!out) return false;
  program_.Add(RowProgram::Cast{from.element, *element, from.count(), PlaceOf(from), out->pieces[0].place});
  return Set(node, 0, *std::move(out));
}

bool Lowering::SoftmaxLoss(const Node& node) {
  const Symbol* const logits = In(node, 0);
  const Symbol* const labels = In(node, 1);
  if (logits == nullptr || labels == nullptr || !logits->has_rows || !labels->has_rows) return false;
  if (logits->element != Element::kFloat || logits->dims().size() != 1 || logits->dims()[0] < 1 ||
      !IsInteger(labels->element) || !labels->dims().empty() || labels->lead() != logits->lead()) {
    return false;
  }
  const Symbol from = *logits, right = *labels;
  auto loss = Made(tensorflow::DT_FLOAT, from.lead(), {});
  auto gradient = Made(tensorflow::DT_FLOAT, from.lead(), from.dims());
  if (!loss || !gradient) return false;
  program_.Add(RowProgram::SoftmaxLoss{from.dims()[0], from.lead(), PlaceOf(from), PlaceOf(right), right.element,
                                       loss->pieces[0].place, gradient->pieces[0].place});
  return Set(node, 0, *std::move(loss)) && Set(node, 1, *std::move(gradient));
}

bool Lowering::Softmax(const Node& node) {
  const Symbol* const in = In(node, 0);
  if (in == nullptr || !in->has_rows || in->element != Element::kFloat || in->dims().empty() || in->count() == 0) {
    return false;
  }
  const Symbol from = *in;
  auto out = Made(from.dtype, from.lead(), from.dims());
  if (!out) return false;
  const int64_t classes = from.dims().back();
  program_.Add(RowProgram::Softmaxes{classes, from.count() / classes, PlaceOf(from), out->pieces[0].place});
  return Set(node, 0, *std::move(out));
}

bool Lowering::SumWithin(const Node& node, const Symbol& in, Dims axes) {
  for (int64_t& axis : axes) axis = (axis < 0 ? axis + static_cast<int64_t>(in.dims().size()) : axis - 1);
  std::sort(axes.begin(), axes.end());
  if (axes.empty() || axes.front() < 0 || axes.back() >= static_cast<int64_t>(in.dims().size())) return false;
  for (size_t i = 1; i < axes.size(); ++i) {
    if (axes[i] != axes[i - 1] + 1) return false;
  }
  const size_t first = axes.front(), last = axes.back() + 1;
  Dims dims = in.dims();
  if (Attribute<bool>(node, "keep_dims", false)) {
    std::fill(dims.begin() + first, dims.begin() + last, 1);
  } else {
    dims.erase(dims.begin() + first, dims.begin() + last);
  }
  auto out = Made(in.dtype, in.lead(), std::move(dims));
  if (!out) return false;
  program_.Add(RowProgram::SumWithin{in.lead() * Product(in.dims(), 0, first), Product(in.dims(), first, last),
                                     Product(in.dims(), last), PlaceOf(in), out->pieces[0].place});
  return Set(node, 0, *std::move(out));
}

bool Lowering::Sum(const Node& node) {
  const Symbol* const in = In(node, 0);
  const auto axes = Known(node, 1, kAnySize);
  if (in == nullptr || !in->has_rows || in->element != Element::kFloat || !axes) return false;
  if (std::find(axes->begin(), axes->end(), 0) == axes->end()) return SumWithin(node, Symbol(*in), *axes);
  if (*axes != Dims{0} || Attribute<bool>(node, "keep_dims", false)) return false;
  for (const tensorflow::Edge* edge : node.out_edges()) {
    if (!edge->IsControlEdge() && !edge->dst()->IsRetval()) return false;
  }
  const Symbol from = *in;
  Symbol out;
  out.dtype = from.dtype;
  out.element = from.element;
  if (!out.SetShape(1, from.dims())) return false;
  const int64_t width = Product(from.dims());
  const Place total = program_.AddOutput(width * static_cast<int64_t>(sizeof(double)), true);  // see LoweredBlock
  out.sum = total.index;
  out.pieces = {{total, width * BytesOf(Element::kFloat)}};
  program_.Add(RowProgram::Sum{width, from.lead(), PlaceOf(from), total.index});
  return Set(node, 0, std::move(out));
}

}  // namespace lowering
}  // namespace batch
}  // namespace recgraph
