// An interpreter whose instructions are whole rows.
#include "cc/core/expression.h"

#include <algorithm>
#include <new>

namespace recgraph {
namespace {

// What a tile's registers may take of the first-level cache.
constexpr int64_t kTileFloats = 6 * 1024;
constexpr int64_t kMaxWidth = 1 << 24;
constexpr int64_t kMaxCount = 1 << 16;
constexpr int64_t kMaxScratch = 1 << 28;
constexpr int64_t kMaxWork = int64_t{1} << 32;  // floats that all instructions compute for one row

}  // namespace

// The code: inputs (count, then width and shared of each), registers (count, widths), outputs (count, widths),
// instructions (count, then arity, number, width, times, and space, index, offset, scalar, step of each place).
class Expression::Decoder {
 public:
  Decoder(const std::vector<int64_t>& code, Expression* expression)
      : code_(code), expression_(*expression) {}

  bool Decode() {
    const int64_t inputs = Next(0, kMaxCount);
    for (int64_t i = 0; i < inputs && ok_; ++i) {
      const int64_t width = Next(0, kMaxWidth);
      expression_.inputs_.push_back({width, Next(0, 1) == 1});
    }
    Widths(&expression_.registers_);
    Widths(&expression_.outputs_);
    const int64_t instructions = Next(0, kMaxCount);
    for (int64_t i = 0; i < instructions && ok_; ++i) ReadInstruction();
    return ok_ && at_ == code_.size();
  }

 private:
  int64_t Next(int64_t least, int64_t most) {
    if (at_ >= code_.size() || code_[at_] < least || code_[at_] > most) {
      ok_ = false;
      return least;
    }
    return code_[at_++];
  }

  void Widths(std::vector<int64_t>* widths) {
    const int64_t count = Next(0, kMaxCount);
    for (int64_t i = 0; i < count && ok_; ++i) widths->push_back(Next(0, kMaxWidth));
  }

  void ReadInstruction() {
    Instruction instruction;
    instruction.is_unary = Next(1, 2) == 1;
    const auto count = instruction.is_unary ? static_cast<int>(Unary::kCount) : static_cast<int>(Binary::kCount);
    instruction.op = Next(0, count - 1);
    instruction.width = Next(0, kMaxWidth);
    instruction.times = Next(1, kMaxCount);
    instruction.out = ReadPlace(instruction);
    instruction.a = ReadPlace(instruction);
    instruction.b = instruction.is_unary ? instruction.a : ReadPlace(instruction);
    if (!ok_) return;
    if (instruction.out.space == Space::kInput || instruction.out.scalar) ok_ = false;
    work_ += instruction.width * instruction.times;
    if (work_ > kMaxWork || !Moves(instruction)) ok_ = false;
    instruction.flat = instruction.times == 1 && expression_.IsFlat(instruction.out, instruction.width) &&
                       expression_.IsFlat(instruction.a, instruction.width) &&
                       expression_.IsFlat(instruction.b, instruction.width);
    expression_.instructions_.push_back(instruction);
  }

  // Whether what is repeated goes on by its width in some array: else a few numbers are work without end.
  static bool Moves(const Instruction& what) {
    const auto moves = [&](const Place& place) { return !place.scalar && place.step >= what.width; };
    return what.times == 1 || moves(what.out) || moves(what.a) || moves(what.b);
  }

  Place ReadPlace(const Instruction& what) {
    Place place;
    place.space = static_cast<Space>(Next(0, 2));
    const size_t there = place.space == Space::kInput      ? expression_.inputs_.size()
                         : place.space == Space::kRegister ? expression_.registers_.size()
                                                           : expression_.outputs_.size();
    place.index = Next(0, static_cast<int64_t>(there) - 1);
    place.offset = Next(0, kMaxWidth);
    place.scalar = Next(0, 1) == 1;
    place.step = Next(0, kMaxWidth);
    const int64_t end = place.offset + (what.times - 1) * place.step + (place.scalar ? 1 : what.width);
    if (ok_ && end > expression_.RowWidth(place)) ok_ = false;
    return place;
  }

  const std::vector<int64_t>& code_;
  Expression& expression_;
  size_t at_ = 0;
  int64_t work_ = 0;
  bool ok_ = true;
};

std::string Expression::Decode(const std::vector<int64_t>& code, Expression* expression) {
  *expression = Expression();
  if (!Decoder(code, expression).Decode()) return "a damaged expression";
  for (int64_t width : expression->registers_) {
    expression->offsets_.push_back(expression->scratch_);
    expression->scratch_ += width;
  }
  if (expression->scratch_ > kMaxScratch) return "an expression whose steps take too much memory";
  int64_t widest = expression->scratch_;
  for (int64_t width : expression->outputs_) widest = std::max(widest, width);
  expression->tile_ = std::max<int64_t>(kTileFloats / std::max<int64_t>(widest, 1), 1);
  return "";
}

int64_t Expression::RowWidth(const Place& place) const {
  switch (place.space) {
    case Space::kInput: return inputs_[place.index].width;
    case Space::kRegister: return registers_[place.index];
    default: return outputs_[place.index];
  }
}

bool Expression::IsFlat(const Place& place, int64_t width) const {
  const bool shared = place.space == Space::kInput && inputs_[place.index].shared;
  return shared ? place.scalar : !place.scalar && RowWidth(place) == width;
}

// Whether all arrays are as wide as what is used of them, so that their rows lie together.
bool Expression::AreDense(const Source* inputs, const Target* outputs) const {
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (!inputs_[i].shared && inputs[i].stride != inputs_[i].width) return false;
  }
  for (size_t i = 0; i < outputs_.size(); ++i) {
    if (outputs[i].stride != outputs_[i]) return false;
  }
  return true;
}

bool Expression::Run(int64_t begin, int64_t end, const Source* inputs, const Target* outputs) const {
  const RowKernels& kernels = BestRowKernels();
  thread_local std::vector<float> scratch;
  const int64_t tile = std::min(tile_, std::max<int64_t>(end - begin, 0));
  try {
    if (static_cast<int64_t>(scratch.size()) < scratch_ * tile) scratch.resize(scratch_ * tile);
  } catch (const std::bad_alloc&) {
    return false;
  }
  const bool dense = AreDense(inputs, outputs);

  for (int64_t row = begin; row < end; row += tile) {
    const int64_t rows = std::min(tile, end - row);
    // A register's rows lie together, whatever their number.
    const auto read = [&](const Place& place) -> Rows {
      switch (place.space) {
        case Space::kInput: {
          const int64_t stride = inputs_[place.index].shared ? 0 : inputs[place.index].stride;
          return {inputs[place.index].data + row * stride + place.offset, stride, place.scalar};
        }
        case Space::kRegister:
          return {scratch.data() + offsets_[place.index] * tile + place.offset, registers_[place.index], place.scalar};
        default: {
          const int64_t stride = outputs[place.index].stride;
          return {outputs[place.index].data + row * stride + place.offset, stride, place.scalar};
        }
      }
    };
    for (const Instruction& what : instructions_) {
      const Rows out = read(what.out);
      const bool flat = what.flat && dense;
      const int64_t count = flat ? 1 : rows;
      const int64_t width = flat ? rows * what.width : what.width;
      float* to = const_cast<float*>(out.data);
      Rows a = read(what.a), b = read(what.b);
      for (int64_t time = 0; time < what.times; ++time) {
        if (what.is_unary) {
          kernels.unary[what.op](count, width, a, to, out.stride);
        } else {
          kernels.binary[what.op](count, width, a, b, to, out.stride);
        }
        to += what.out.step;
        a.data += what.a.step;
        b.data += what.b.step;
      }
    }
  }
  return true;
}

}  // namespace recgraph
