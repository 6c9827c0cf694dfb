// What a block spends its time on, for floats in rows: elementwise functions, and products with a matrix that
// all rows share. Written once, compiled for each instruction set that it pays for, chosen at run time.
#ifndef RECGRAPH_CC_CORE_ROW_KERNELS_H_
#define RECGRAPH_CC_CORE_ROW_KERNELS_H_

#include <cstdint>

namespace recgraph {

// In the order of their numbers in an expression (recgraph/batch/expressions.py).
enum class Unary { kCopy, kNeg, kAbs, kSquare, kSqrt, kRsqrt, kReciprocal, kExp, kTanh, kSigmoid, kRelu, kCount };
// The last three are gradients, their second operand what comes from above: of tanh and sigmoid by their
// results, of relu by its argument or result.
enum class Binary { kAdd, kSub, kMul, kDiv, kMax, kMin, kSquaredDifference, kTanhGrad, kSigmoidGrad, kReluGrad, kCount };

// Some floats of every row: `stride` from a row to the next. A scalar is one float a row, the same for all
// of the row's results.
struct Rows {
  const float* data;
  int64_t stride;
  bool scalar = false;
};

using UnaryKernel = void (*)(int64_t rows, int64_t width, Rows a, float* out, int64_t out_stride);
using BinaryKernel = void (*)(int64_t rows, int64_t width, Rows a, Rows b, float* out,
                              int64_t out_stride);

// A matrix [inner, width] rearranged so that a product reads it from front to back.
struct PackedShape {
  int64_t inner;
  int64_t width;
  int64_t floats() const;
};

// Some floats of every row, wherever each row lies.
struct ScatteredRows {
  const float* const* rows;
  int64_t width;
};

// A product [m, k] * [k, n] of two matrices, either of which may lie transposed.
struct MatrixProduct {
  int64_t m, k, n;
  bool transposed_a, transposed_b;
};

// The constants of an update of weights.
struct Adagrad {
  float rate;
  float epsilon;
  float decay;
};

// What a row of probabilities was made of. The sum of its powers is 1, of the largest, and `others`.
struct Softmax {
  float largest;  // of the row
  double others;  // the sum of e to the power of what each other number is above it
};

struct RowKernels {
  const char* name;
  UnaryKernel unary[static_cast<int>(Unary::kCount)];
  BinaryKernel binary[static_cast<int>(Binary::kCount)];
  // `matrix` is [inner, width] or, transposed, [width, inner].
  void (*pack)(PackedShape shape, const float* matrix, bool transposed, float* packed);
  // out[rows, width] = a[rows, inner] * matrix. Each row's result is the same whatever rows it is computed with.
  void (*product)(int64_t rows, PackedShape shape, const float* a, const float* packed, float* out);
  // The same of rows that lie anywhere, each in `count` parts whose widths add up to `inner`; from one row of `out` to
  // the next are `stride` floats. The results are those of `product` to the last bit.
  void (*product_of_rows)(int64_t rows, PackedShape shape, const ScatteredRows* parts, int count, const float* packed,
                          float* out, int64_t stride);
  // One product of two matrices that are not packed, for small ones.
  void (*matrix_product)(const MatrixProduct& what, const float* a, const float* b, float* out);
  // out[last - first, width] = transpose(floats `first` to `last` of a) * b[rows, width], of rows that lie anywhere;
  // `rows` is not 0. `scratch` has room for `outer_scratch` doubles, which says how many for so many rows and
  // `last - first` = `height`. The results do not depend on how they are divided; their error does not grow with `rows`.
  int64_t (*outer_scratch)(int64_t rows, int64_t width, int64_t height);
  void (*outer_product)(int64_t rows, int64_t width, const float* const* a, const float* const* b, int64_t first,
                        int64_t last, double* scratch, float* out);
  // to += from, for sums that are rounded once.
  void (*add_wide)(int64_t count, const float* from, double* to);
  // The sum of some floats.
  double (*sum)(int64_t count, const float* from);
  // to += factor * from.
  void (*add_scaled)(int64_t count, float factor, const float* from, float* to);
  // Adagrad with decay, in one pass: g = gradient + decay * variable; accumulator += g^2;
  // variable -= rate * g / (sqrt(accumulator) + epsilon).
  void (*adagrad)(int64_t count, Adagrad how, const float* gradient, float* accumulator, float* variable);
  // The probabilities of classes by their logits, of one row; `probabilities` may be where the logits are.
  Softmax (*softmax)(int64_t width, const float* logits, float* probabilities);
};

// The cross entropy of one row of logits with the class `label`, and its gradient by them, which may take their place.
float CrossEntropy(int64_t classes, const float* logits, int64_t label, float* gradient);

// The fastest of this machine.
const RowKernels& BestRowKernels();

// Every form that this machine can run, for tests: `null` after the last.
const RowKernels* RowKernelsAt(int index);

}  // namespace recgraph

#endif  // RECGRAPH_CC_CORE_ROW_KERNELS_H_
