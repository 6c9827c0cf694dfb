// The steps of a row program, a tile of rows at a time.
#include "cc/core/row_program.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

#include "cc/core/memory_pool.h"

namespace recgraph {
namespace {

// Rows that go through all steps together, at most: enough for a product to read its matrix seldom, few enough for the
// caches. Of rows so wide that they are in no cache anyway, there are as many as this memory holds.
constexpr int64_t kTileRows = 256;
constexpr int64_t kTileBytes = 16 << 20;
constexpr int64_t kAlignment = 64;
// Numbers that are added up one after another in floats; what they give is added up in doubles.
constexpr int64_t kSummedAtOnce = 64;

int64_t Aligned(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

// A piece of memory that a thread keeps from one run to the next, as what was used last is in its caches.
class KeptMemory {
 public:
  static constexpr int64_t kMost = 4 << 20;

  ~KeptMemory() { std::free(memory_); }

  // At least so much, not initialized; null where there is none.
  char* AtLeast(int64_t bytes) {
    if (bytes <= size_) return memory_;
    std::free(memory_);
    memory_ = static_cast<char*>(std::aligned_alloc(kAlignment, Aligned(bytes)));
    size_ = memory_ == nullptr ? 0 : Aligned(bytes);
    return memory_;
  }

 private:
  char* memory_ = nullptr;
  int64_t size_ = 0;
};

// Memory for one run, not initialized: the thread's own, or, where it is much, the pool's, to which it goes back.
class Scratch {
 public:
  explicit Scratch(int64_t bytes) {
    thread_local KeptMemory kept;
    if (bytes < 0) return;
    if (bytes <= KeptMemory::kMost) {
      memory_ = kept.AtLeast(std::max<int64_t>(bytes, kAlignment));
    } else {
      memory_ = pooled_ = static_cast<char*>(MemoryPool::Allocate(bytes));
    }
  }
  ~Scratch() { MemoryPool::Free(pooled_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  char* get() const { return memory_; }

 private:
  char* memory_ = nullptr;
  char* pooled_ = nullptr;
};
static_assert(MemoryPool::kAlignment >= kAlignment, "rows are aligned");

template <typename T>
bool Compared(Comparison comparison, T a, T b) {
  switch (comparison) {
    case Comparison::kEqual: return a == b;
    case Comparison::kNotEqual: return a != b;
    case Comparison::kLess: return a < b;
    case Comparison::kLessEqual: return a <= b;
    case Comparison::kGreater: return a > b;
    default: return a >= b;
  }
}

// Calls `work` with a value of the element's type.
template <typename Work>
void ForElement(Element element, const Work& work) {
  switch (element) {
    case Element::kFloat: return work(float{});
    case Element::kInt32: return work(int32_t{});
    case Element::kInt64: return work(int64_t{});
    case Element::kBool: return work(bool{});
  }
}

template <typename T>
const T* As(const char* data) {
  return reinterpret_cast<const T*>(data);
}

int64_t IntegerAt(const char* data, Element element, int64_t index) {
  return element == Element::kInt32 ? As<int32_t>(data)[index] : As<int64_t>(data)[index];
}

// Unsigned numbers wrap around; signed ones must not.
template <typename T>
T Combined(IntegerOperation operation, T a, T b) {
  using Unsigned = std::make_unsigned_t<T>;
  const auto x = static_cast<Unsigned>(a), y = static_cast<Unsigned>(b);
  switch (operation) {
    case IntegerOperation::kAdd: return static_cast<T>(x + y);
    case IntegerOperation::kSub: return static_cast<T>(x - y);
    default: return static_cast<T>(x * y);
  }
}

}  // namespace

RowProgram::Place RowProgram::AddScratch(int64_t bytes) {
  const int64_t before = scratch_.empty() ? 0 : scratch_.back().before + scratch_.back().bytes;
  scratch_.push_back({bytes, Aligned(bytes), before});
  return {Space::kScratch, static_cast<int>(scratch_.size()) - 1};
}

int RowProgram::AddConstant(const void* data, int64_t bytes) {
  const char* const first = static_cast<const char*>(data);
  constants_.emplace_back(first, first + bytes);
  return captures_ + static_cast<int>(constants_.size()) - 1;
}

RowProgram::Place RowProgram::AddOutput(int64_t bytes, bool shared) {
  outputs_.push_back({bytes, shared});
  return {Space::kOutput, static_cast<int>(outputs_.size()) - 1};
}

namespace {

// Calls `visit` with every place that a step reads or writes.
template <typename Visit>
void ForPlaces(RowProgram::Step* step, const Visit& visit) {
  struct {
    const Visit& visit;
    void operator()(RowProgram::Gather& what) const { visit(&what.numbers), visit(&what.out); }
    void operator()(RowProgram::Product& what) const {
      for (RowProgram::Part& part : what.parts) visit(&part.place);
      visit(&what.out);
    }
    void operator()(RowProgram::Matrices& what) const { visit(&what.a), visit(&what.b), visit(&what.out); }
    void operator()(RowProgram::Elementwise& what) const {
      for (RowProgram::Place& place : what.inputs) visit(&place);
      for (RowProgram::Place& place : what.outputs) visit(&place);
    }
    void operator()(RowProgram::Compare& what) const { visit(&what.a), visit(&what.b), visit(&what.out); }
    void operator()(RowProgram::Integers& what) const { visit(&what.a), visit(&what.b), visit(&what.out); }
    void operator()(RowProgram::Select& what) const {
      visit(&what.condition), visit(&what.a), visit(&what.b), visit(&what.out);
    }
    void operator()(RowProgram::Size& what) const { visit(&what.out); }
    void operator()(RowProgram::Cast& what) const { visit(&what.in), visit(&what.out); }
    void operator()(RowProgram::Copy& what) const { visit(&what.in), visit(&what.out); }
    void operator()(RowProgram::Arrange& what) const { visit(&what.in), visit(&what.out); }
    void operator()(RowProgram::Softmaxes& what) const { visit(&what.in), visit(&what.out); }
    void operator()(RowProgram::SumWithin& what) const { visit(&what.in), visit(&what.out); }
    void operator()(RowProgram::SoftmaxLoss& what) const {
      visit(&what.logits), visit(&what.labels), visit(&what.loss), visit(&what.gradient);
    }
    void operator()(RowProgram::Sum& what) const { visit(&what.in); }
  } places{visit};
  std::visit(places, *step);
}

}  // namespace

void RowProgram::WriteOutputsDirectly() {
  std::vector<int> moved(scratch_.size(), -1);
  std::vector<bool> is_taken(outputs_.size(), false);
  std::vector<Step> kept;
  for (Step& step : steps_) {
    const auto* const copy = std::get_if<Copy>(&step);
    const bool is_all = copy != nullptr && copy->in.space == Space::kScratch && copy->in.offset == 0 &&
                        copy->out.space == Space::kOutput && copy->out.offset == 0 &&
                        copy->bytes == scratch_[copy->in.index].used && copy->bytes == outputs_[copy->out.index].bytes;
    if (is_all && moved[copy->in.index] < 0 && !is_taken[copy->out.index]) {
      moved[copy->in.index] = copy->out.index;
      is_taken[copy->out.index] = true;
    } else {
      kept.push_back(std::move(step));
    }
  }
  steps_ = std::move(kept);
  for (Step& step : steps_) {
    ForPlaces(&step, [&](Place* place) {
      if (place->space != Space::kScratch || moved[place->index] < 0) return;
      *place = {Space::kOutput, moved[place->index], place->offset};
    });
  }
}

// One run over rows `first` to `first + rows`.
class RowProgram::Tile {
 public:
  // There is scratch memory for `room` rows and, behind that, for what steps have of their own.
  Tile(const RowProgram& program, int64_t first, int64_t rows, int64_t room, const char* const* const* inputs,
       const Shared* captures, char* const* outputs, char* scratch, std::vector<const float*>* pointers)
      : program_(program), first_(first), rows_(rows), room_(room), inputs_(inputs), captures_(captures),
        outputs_(outputs), scratch_(scratch), scratch_end_(program.ScratchBytes() * room), pointers_(*pointers) {}

  bool operator()(const Gather& what) const {
    const Shared table = At(what.table);
    const int64_t there = what.bytes > 0 ? table.bytes / what.bytes : 0;
    for (int64_t row = 0; row < rows_; ++row) {
      const char* const numbers = Read(what.numbers, row);
      char* const out = Write(what.out, row);
      for (int64_t i = 0; i < what.count; ++i) {
        const int64_t number = IntegerAt(numbers, what.element, i);
        if (static_cast<uint64_t>(number) >= static_cast<uint64_t>(there)) return false;
        std::memcpy(out + i * what.bytes, table.data + number * what.bytes, what.bytes);
      }
    }
    return true;
  }

  bool operator()(const Product& what) const {
    const Shared packed = At(what.packed);
    if (packed.bytes < what.shape.floats() * static_cast<int64_t>(sizeof(float))) return false;
    const int64_t rows = rows_ * what.count;
    pointers_.resize(rows * what.parts.size());
    std::vector<ScatteredRows> parts;
    for (size_t part = 0; part < what.parts.size(); ++part) {
      const float** const to = pointers_.data() + part * rows;
      const auto& [place, width] = what.parts[part];
      for (int64_t row = 0; row < rows_; ++row) {
        const float* const from = As<float>(Read(place, row));
        for (int64_t i = 0; i < what.count; ++i) to[row * what.count + i] = from + i * width;
      }
      parts.push_back({to, width});
    }
    float* const out = reinterpret_cast<float*>(Write(what.out, 0));
    const int64_t stride = Stride(what.out) / static_cast<int64_t>(sizeof(float));
    if (what.count == 1 || stride == what.count * what.shape.width) {
      BestRowKernels().product_of_rows(rows, what.shape, parts.data(), static_cast<int>(parts.size()),
                                       As<float>(packed.data), out, what.count == 1 ? stride : what.shape.width);
      return true;
    }
    for (int64_t row = 0; row < rows_; ++row) {  // the results of a row lie apart from those of the next
      BestRowKernels().product_of_rows(what.count, what.shape, parts.data(), static_cast<int>(parts.size()),
                                       As<float>(packed.data), out + row * stride, what.shape.width);
      for (ScatteredRows& part : parts) part.rows += what.count;
    }
    return true;
  }

  bool operator()(const Matrices& what) const {
    for (int64_t row = 0; row < rows_; ++row) {
      const float* const a = As<float>(Read(what.a, row));
      const float* const b = As<float>(Read(what.b, row));
      float* const out = reinterpret_cast<float*>(Write(what.out, row));
      for (int64_t i = 0; i < what.count; ++i) {
        BestRowKernels().matrix_product(what.product, a + i * what.step_a, b + i * what.step_b,
                                        out + i * what.product.m * what.product.n);
      }
    }
    return true;
  }

  bool operator()(const Elementwise& what) const {
    Expression::Source from[kMostArrays];
    Expression::Target to[kMostArrays];
    char* gathered = scratch_ + scratch_end_;
    const auto& inputs = what.expression.inputs();
    for (size_t i = 0; i < inputs.size(); ++i) {
      from[i] = Dense(what.inputs[i], inputs[i].width * sizeof(float), &gathered);
    }
    for (size_t i = 0; i < what.outputs.size(); ++i) {
      to[i] = {reinterpret_cast<float*>(Write(what.outputs[i], 0)),
               Stride(what.outputs[i]) / static_cast<int64_t>(sizeof(float))};
    }
    return what.expression.Run(0, rows_, from, to);
  }

  bool operator()(const Compare& what) const {
    ForElement(what.element, [&](auto like) {
      using T = decltype(like);
      for (int64_t row = 0; row < rows_; ++row) {
        const T* const a = As<T>(Read(what.a, row));
        const T* const b = As<T>(Read(what.b, row));
        bool* const out = reinterpret_cast<bool*>(Write(what.out, row));
        for (int64_t i = 0; i < what.count; ++i) {
          out[i] = Compared(what.comparison, a[i * what.step_a], b[i * what.step_b]);
        }
      }
    });
    return true;
  }

  bool operator()(const Integers& what) const {
    const auto run = [&](auto like) {
      using T = decltype(like);
      for (int64_t row = 0; row < rows_; ++row) {
        const T* const a = As<T>(Read(what.a, row));
        const T* const b = As<T>(Read(what.b, row));
        T* const out = reinterpret_cast<T*>(Write(what.out, row));
        for (int64_t i = 0; i < what.count; ++i) {
          out[i] = Combined(what.operation, a[i * what.step_a], b[i * what.step_b]);
        }
      }
    };
    what.element == Element::kInt32 ? run(int32_t{}) : run(int64_t{});
    return true;
  }

  bool operator()(const Select& what) const {
    for (int64_t row = 0; row < rows_; ++row) {
      const bool* const condition = As<bool>(Read(what.condition, row));
      const char* const a = Read(what.a, row);
      const char* const b = Read(what.b, row);
      char* const out = Write(what.out, row);
      for (int64_t i = 0; i < what.count; ++i) {
        const char* const from = condition[i * what.step_condition] ? a + i * what.step_a * what.bytes
                                                                    : b + i * what.step_b * what.bytes;
        std::memcpy(out + i * what.bytes, from, what.bytes);
      }
    }
    return true;
  }

  bool operator()(const Size& what) const {
    const int64_t size = At(what.shared).bytes / what.bytes;
    for (int64_t row = 0; row < rows_; ++row) {
      char* const out = Write(what.out, row);
      if (what.element == Element::kInt32) {
        *reinterpret_cast<int32_t*>(out) = static_cast<int32_t>(size);
      } else {
        *reinterpret_cast<int64_t*>(out) = size;
      }
    }
    return true;
  }

  bool operator()(const Cast& what) const {
    ForElement(what.from, [&](auto source) {
      ForElement(what.to, [&](auto target) {
        using From = decltype(source);
        using To = decltype(target);
        for (int64_t row = 0; row < rows_; ++row) {
          const From* const in = As<From>(Read(what.in, row));
          To* const out = reinterpret_cast<To*>(Write(what.out, row));
          for (int64_t i = 0; i < what.count; ++i) out[i] = static_cast<To>(in[i]);
        }
      });
    });
    return true;
  }

  bool operator()(const Copy& what) const {
    for (int64_t row = 0; row < rows_; ++row) std::memcpy(Write(what.out, row), Read(what.in, row), what.bytes);
    return true;
  }

  bool operator()(const Arrange& what) const {
    switch (what.bytes) {
      case 1: return Rearrange<uint8_t>(what);
      case 4: return Rearrange<uint32_t>(what);
      default: return Rearrange<uint64_t>(what);
    }
  }

  bool operator()(const Softmaxes& what) const {
    for (int64_t row = 0; row < rows_; ++row) {
      const float* const in = As<float>(Read(what.in, row));
      float* const out = reinterpret_cast<float*>(Write(what.out, row));
      for (int64_t i = 0; i < what.count; ++i) {
        BestRowKernels().softmax(what.classes, in + i * what.classes, out + i * what.classes);
      }
    }
    return true;
  }

  bool operator()(const SumWithin& what) const {
    std::vector<double> wide(what.inner > 1 && what.summed > kSummedAtOnce ? what.inner : 0);
    for (int64_t row = 0; row < rows_; ++row) {
      const float* from = As<float>(Read(what.in, row));
      float* out = reinterpret_cast<float*>(Write(what.out, row));
      for (int64_t i = 0; i < what.outer; ++i, out += what.inner, from += what.summed * what.inner) {
        if (what.inner == 1) {
          *out = static_cast<float>(BestRowKernels().sum(what.summed, from));
        } else {
          SumRows(what.summed, what.inner, from, &wide, out);
        }
      }
    }
    return true;
  }

  bool operator()(const SoftmaxLoss& what) const {
    for (int64_t row = 0; row < rows_; ++row) {
      const char* const labels = Read(what.labels, row);
      for (int64_t i = 0; i < what.count; ++i) {
        const int64_t label = IntegerAt(labels, what.element, i);
        if (static_cast<uint64_t>(label) >= static_cast<uint64_t>(what.classes)) return false;
        const float* const logits = As<float>(Read(what.logits, row)) + i * what.classes;
        float* const gradient = reinterpret_cast<float*>(Write(what.gradient, row)) + i * what.classes;
        reinterpret_cast<float*>(Write(what.loss, row))[i] = CrossEntropy(what.classes, logits, label, gradient);
      }
    }
    return true;
  }

  bool operator()(const Sum& what) const {
    double* const total = reinterpret_cast<double*>(outputs_[what.output]);
    float* const block = reinterpret_cast<float*>(scratch_ + scratch_end_);
    const auto add = BestRowKernels().binary[static_cast<int>(Binary::kAdd)];
    int64_t added = 0;
    for (int64_t row = 0; row < rows_; ++row) {
      const float* from = As<float>(Read(what.in, row));
      for (int64_t i = 0; i < what.count; ++i, from += what.width) {
        if (added == 0) {
          std::copy_n(from, what.width, block);
        } else {
          add(1, what.width, {block, 0}, {from, 0}, block, 0);
        }
        if (++added < kSummedAtOnce) continue;
        BestRowKernels().add_wide(what.width, block, total);
        added = 0;
      }
    }
    if (added > 0) BestRowKernels().add_wide(what.width, block, total);
    return true;
  }

  // The arrays that one expression may have here.
  static constexpr size_t kMostArrays = 64;

 private:
  // The sum of `count` rows of `width` floats, by way of `wide` where they are many.
  static void SumRows(int64_t count, int64_t width, const float* from, std::vector<double>* wide, float* out) {
    const auto add = BestRowKernels().binary[static_cast<int>(Binary::kAdd)];
    std::fill(wide->begin(), wide->end(), 0.0);
    std::fill_n(out, width, 0.0f);
    for (int64_t i = 0; i < count; ++i, from += width) {
      add(1, width, {out, 0}, {from, 0}, out, 0);
      if (wide->empty() || ((i + 1) % kSummedAtOnce > 0 && i + 1 < count)) continue;
      BestRowKernels().add_wide(width, out, wide->data());
      std::fill_n(out, width, 0.0f);
    }
    if (!wide->empty()) std::copy(wide->begin(), wide->end(), out);
  }

  Shared At(int index) const {
    if (index < program_.captures_) return captures_[index];
    const auto& constant = program_.constants_[index - program_.captures_];
    return {constant.data(), static_cast<int64_t>(constant.size())};
  }

  template <typename T>
  bool Rearrange(const Arrange& what) const {
    for (int64_t row = 0; row < rows_; ++row) {
      const T* const in = As<T>(Read(what.in, row));
      T* const out = reinterpret_cast<T*>(Write(what.out, row));
      for (size_t i = 0; i < what.from.size(); ++i) out[i] = what.from[i] < 0 ? T{} : in[what.from[i]];
    }
    return true;
  }

  const char* Read(const Place& place, int64_t row) const {
    switch (place.space) {
      case Space::kInput: return inputs_[place.index][first_ + row] + place.offset;
      case Space::kShared: return At(place.index).data + place.offset;
      default: return Write(place, row);
    }
  }

  char* Write(const Place& place, int64_t row) const {
    if (place.space == Space::kOutput) {
      return outputs_[place.index] + (first_ + row) * program_.outputs_[place.index].bytes + place.offset;
    }
    const ScratchRows& scratch = program_.scratch_[place.index];
    return scratch_ + scratch.before * room_ + row * scratch.bytes + place.offset;
  }

  int64_t Stride(const Place& place) const {
    return place.space == Space::kOutput ? program_.outputs_[place.index].bytes : program_.scratch_[place.index].bytes;
  }

  // Rows as far apart from each other: those of an input are copied where they are not.
  Expression::Source Dense(const Place& place, int64_t bytes, char** gathered) const {
    constexpr int64_t kFloat = sizeof(float);
    if (place.space == Space::kShared) return {As<float>(Read(place, 0)), 0};
    if (place.space != Space::kInput) return {As<float>(Read(place, 0)), Stride(place) / kFloat};
    const char* const* const rows = inputs_[place.index] + first_;
    const int64_t step = rows_ > 1 ? rows[1] - rows[0] : bytes;
    bool even = step >= 0 && step % kFloat == 0;
    for (int64_t row = 2; even && row < rows_; ++row) even = rows[row] - rows[row - 1] == step;
    if (even) return {As<float>(rows[0] + place.offset), step / kFloat};
    char* const copy = *gathered;
    for (int64_t row = 0; row < rows_; ++row) std::memcpy(copy + row * bytes, rows[row] + place.offset, bytes);
    *gathered += Aligned(bytes * rows_);
    return {As<float>(copy), bytes / kFloat};
  }

  const RowProgram& program_;
  const int64_t first_, rows_, room_;
  const char* const* const* const inputs_;
  const Shared* const captures_;
  char* const* const outputs_;
  char* const scratch_;
  const int64_t scratch_end_;  // from there on steps have memory of their own
  std::vector<const float*>& pointers_;
};

int64_t RowProgram::ScratchBytes() const {
  return scratch_.empty() ? 0 : scratch_.back().before + scratch_.back().bytes;
}

bool RowProgram::OwnBytes(int64_t* a_row, int64_t* once) const {
  constexpr int64_t kFloat = sizeof(float);
  for (const Step& step : steps_) {
    if (const auto* what = std::get_if<Elementwise>(&step)) {
      if (std::max(what->inputs.size(), what->outputs.size()) > Tile::kMostArrays) return false;
      int64_t own = 0;
      for (size_t i = 0; i < what->inputs.size(); ++i) {
        if (what->inputs[i].space == Space::kInput) own += Aligned(what->expression.inputs()[i].width * kFloat);
      }
      *a_row = std::max(*a_row, own);
    } else if (const auto* sum = std::get_if<Sum>(&step)) {
      *once = std::max(*once, Aligned(sum->width * kFloat));
    }
  }
  return true;
}

bool RowProgram::Run(int64_t rows, const char* const* const* inputs, const Shared* captures,
                     char* const* outputs) const {
  thread_local std::vector<const float*> pointers;
  int64_t own = 0, once = 0;
  if (!OwnBytes(&own, &once)) return false;
  const int64_t bytes = ScratchBytes() + own;
  const int64_t fits = bytes > 0 ? std::max<int64_t>(kTileBytes / bytes, 1) : kTileRows;
  const int64_t tile = std::min({rows, kTileRows, fits});
  try {
    const Scratch scratch(bytes * tile + once);
    if (scratch.get() == nullptr) return false;
    for (int64_t first = 0; first < rows; first += tile) {
      const Tile run(*this, first, std::min(tile, rows - first), tile, inputs, captures, outputs, scratch.get(),
                     &pointers);
      for (const Step& step : steps_) {
        if (!std::visit(run, step)) return false;
      }
    }
  } catch (const std::bad_alloc&) {
    return false;
  }
  return true;
}

}  // namespace recgraph
