// Reshapes, slices, joins and other orders: places to read from where elements lie together, else one step.
#include "cc/kernels/lowering.h"

namespace recgraph {
namespace batch {
namespace lowering {
namespace {

// Entries of a slice whose masks are bits of an int.
constexpr size_t kMostMasked = 31;

bool IsZero(const Tensor& tensor) {
  return tensor.dtype() == tensorflow::DT_FLOAT && tensor.NumElements() == 1 && tensor.flat<float>()(0) == 0.0f;
}

std::vector<Piece> PartOf(const std::vector<Piece>& pieces, int64_t offset, int64_t bytes) {
  std::vector<Piece> part;
  for (const Piece& piece : pieces) {
    const int64_t begin = std::max<int64_t>(offset, 0), end = std::min(offset + bytes, piece.bytes);
    if (begin < end) {
      Place place = piece.place;
      place.offset += begin;
      part.push_back({place, end - begin});
    }
    offset -= piece.bytes;
  }
  return part;
}

// Whether a row like one of `in` may have this shape, and its elements be put in another order one by one.
bool FitsArranged(const Symbol& in, const Dims& dims) {
  Symbol out = in;
  return out.SetShape(1, dims) && out.count() <= kMostArranged;
}

// Whether each number from 0 on is there once.
bool IsPermutation(const Dims& order) {
  std::vector<bool> found(order.size(), false);
  for (const int64_t number : order) {
    if (number < 0 || number >= static_cast<int64_t>(order.size()) || found[number]) return false;
    found[number] = true;
  }
  return true;
}

// Gives `out`, which has no rows, a shape in which one size may be -1: as many as there are of `in`.
bool SetWhole(const Dims& shape, const Symbol& in, Symbol* out) {
  Dims known = shape;
  const auto open = std::find(known.begin(), known.end(), -1);
  if (open != known.end()) *open = 1;
  if (!out->SetShape(1, known)) return false;
  if (open != known.end()) {
    *open = out->count() == 0 ? 0 : in.count() / out->count();
    if (!out->SetShape(1, known)) return false;
  }
  return out->count() == in.count();
}

}  // namespace

// Other shapes of the same elements.

bool Lowering::Same(const Node& node) {
  const Symbol* const in = In(node, 0);
  return in != nullptr && Set(node, 0, *in);
}

bool Lowering::Reshape(const Node& node) {
  const Symbol* const in = In(node, 0);
  const auto shape = Known(node, 1, kAnySize);
  if (in == nullptr || !shape) return false;
  if (!in->has_rows) {
    Symbol out = *in;
    if (!SetWhole(*shape, *in, &out)) return false;
    if (!in->pieces.empty()) Note(*in, LoweredBlock::Need::kShape);  // of another capture it may be another shape
    out.is_reshaped = true;
    if (in->constant != nullptr) {
      TensorShape other;
      for (const int64_t dim : out.dims()) {
        if (!other.AddDimWithStatus(dim).ok()) return false;
      }
      auto copy = std::make_shared<Tensor>();
      if (!copy->CopyFrom(*in->constant, other)) return false;
      out.constant = std::move(copy);
    }
    return Set(node, 0, std::move(out));
  }
  if (shape->empty() || (*shape)[0] != -1) return false;
  // Of as many rows as another value, and not of as many as there have to be: rows are not cut up or put together.
  const bool keeps_rows = In(node, 1)->is_shape_of_rows;
  Symbol out = *in;
  if (!out.SetShape(1, {shape->begin() + 1, shape->end()})) return false;
  const int64_t inner = out.count(), count = in->count();
  if (inner == 0 || count % inner != 0 || (keeps_rows && inner != count)) return false;
  return out.SetShape(count / inner, out.dims()) && Set(node, 0, std::move(out));
}

bool Lowering::ExpandDims(const Node& node) {
  const Symbol* const in = In(node, 0);
  const auto axis = Known(node, 1, 1);
  if (in == nullptr || !axis || !in->has_rows) return false;
  Dims dims = in->dims();
  int64_t at = (*axis)[0];
  if (at < 0) at += static_cast<int64_t>(in->dims().size()) + 2;
  if (at < 1 || at > static_cast<int64_t>(in->dims().size()) + 1) return false;
  dims.insert(dims.begin() + (at - 1), 1);
  Symbol out = *in;
  return out.SetShape(in->lead(), std::move(dims)) && Set(node, 0, std::move(out));
}

bool Lowering::Squeeze(const Node& node) {
  const Symbol* const in = In(node, 0);
  if (in == nullptr || !in->has_rows) return false;
  std::vector<int> axes = Attribute<std::vector<int>>(node, "squeeze_dims", {});
  if (axes.empty()) return false;  // whether the rows are squeezed depends on their number
  Dims dims = in->dims();
  const int rank = static_cast<int>(in->dims().size()) + 1;
  for (int& axis : axes) {
    if (axis < 0) axis += rank;
    if (axis < 1 || axis >= rank || in->dims()[axis - 1] != 1) return false;
  }
  std::sort(axes.rbegin(), axes.rend());
  axes.erase(std::unique(axes.begin(), axes.end()), axes.end());
  for (const int axis : axes) dims.erase(dims.begin() + (axis - 1));
  Symbol out = *in;
  return out.SetShape(in->lead(), std::move(dims)) && Set(node, 0, std::move(out));
}

// Elements in another order.

std::optional<Symbol> Lowering::Arranged(const Symbol& in, const Dims& dims,
                                         const From& from) {
  if (!in.has_rows || in.count() == 0) return std::nullopt;
  auto out = Made(in.dtype, in.lead(), dims);
  if (!out || !Spend(out->count())) return std::nullopt;
  std::vector<int32_t> elements, all;
  ForPositions(dims, [&](const Dims& at) { elements.push_back(from(at)); });
  const auto each = static_cast<int32_t>(Product(in.dims()));
  for (int32_t part = 0; part < in.lead(); ++part) {
    for (const int32_t element : elements) all.push_back(element < 0 ? -1 : part * each + element);
  }
  program_.Add(RowProgram::Arrange{BytesOf(in.element), std::move(all), PlaceOf(in), out->pieces[0].place});
  return out;
}

bool Lowering::SetArranged(const Node& node, int output, const Symbol& in, const Dims& dims,
                           const From& from) {
  auto out = Arranged(in, dims, from);
  return out && Set(node, output, *std::move(out));
}

bool Lowering::Transpose(const Node& node) {
  const Symbol* const in = In(node, 0);
  if (in == nullptr || !in->has_rows) return false;
  const Symbol source = *in;
  const auto order = Known(node, 1, static_cast<int64_t>(source.dims().size()) + 1);
  if (!order || !IsPermutation(*order) || (*order)[0] != 0) return false;
  Dims dims;
  for (size_t i = 1; i < order->size(); ++i) dims.push_back(source.dims()[(*order)[i] - 1]);
  return SetArranged(node, 0, source, dims, [&](const Dims& at) {
    Dims there(at.size());
    for (size_t i = 0; i < at.size(); ++i) there[(*order)[i + 1] - 1] = at[i];
    return NumberOf(there, source.dims());
  });
}

bool Lowering::Tile(const Node& node) {
  const Symbol* const in = In(node, 0);
  if (in == nullptr || !in->has_rows) return false;
  const Symbol source = *in;
  const auto times = Known(node, 1, static_cast<int64_t>(source.dims().size()) + 1);
  if (!times || (*times)[0] != 1) return false;
  Dims dims = source.dims();
  for (size_t i = 0; i < dims.size(); ++i) {
    const int64_t wanted = (*times)[i + 1];
    if (wanted < 0 || wanted > kMostArranged) return false;
    dims[i] *= wanted;
  }
  return FitsArranged(source, dims) &&
         SetArranged(node, 0, source, dims, [&](const Dims& at) { return NumberOf(at, source.dims()); });
}

bool Lowering::IsMainDiagonal(const Node& node) {
  const auto k = Known(node, 1, 1);
  return k && (*k)[0] == 0;
}

bool Lowering::MatrixDiag(const Node& node) {
  const Symbol* const in = In(node, 0);
  const auto rows = Known(node, 2, 1), columns = Known(node, 3, 1);
  const Symbol* const padding = In(node, 4);
  if (in == nullptr || !in->has_rows || in->dims().empty() || !IsMainDiagonal(node) || !rows || !columns) return false;
  if (padding == nullptr || padding->constant == nullptr || !IsZero(*padding->constant)) return false;
  const int64_t size = in->dims().back();
  for (const Dims* side : {&*rows, &*columns}) {
    if ((*side)[0] != -1 && (*side)[0] != size) return false;
  }
  const Symbol source = *in;
  Dims dims = source.dims();
  dims.push_back(size);
  return FitsArranged(source, dims) && SetArranged(node, 0, source, dims, [&](const Dims& at) {
    const Dims there(at.begin(), at.end() - 1);
    return at[at.size() - 1] == at[at.size() - 2] ? NumberOf(there, source.dims()) : -1;
  });
}

bool Lowering::MatrixDiagPart(const Node& node) {
  const Symbol* const in = In(node, 0);
  if (in == nullptr || !in->has_rows || in->dims().size() < 2 || !IsMainDiagonal(node)) return false;
  const Symbol source = *in;
  if (source.dims().back() != source.dims()[source.dims().size() - 2]) return false;
  const Dims dims(source.dims().begin(), source.dims().end() - 1);
  return SetArranged(node, 0, source, dims, [&](const Dims& at) {
    Dims there = at;
    there.push_back(at.back());
    return NumberOf(there, source.dims());
  });
}

// Parts of rows.

bool Lowering::SetPart(const Node& node, int output, const Symbol& in, size_t dim, int64_t begin, int64_t size,
                       bool keeps) {
  if (!in.has_rows || dim >= in.dims().size()) return false;
  if (begin < 0 || size < 1 || begin > in.dims()[dim] - size) return false;
  Dims all = in.dims();
  all[dim] = size;
  Dims dims = all;
  if (!keeps) dims.erase(dims.begin() + dim);
  if (in.lead() != 1 || Product(in.dims(), 0, dim) != 1) {
    auto part = Arranged(in, all, [&](Dims at) {
      at[dim] += begin;
      return NumberOf(at, in.dims());
    });
    return part && part->SetShape(in.lead(), std::move(dims)) && Set(node, output, *std::move(part));
  }
  Symbol out = in;
  const int64_t each = Product(in.dims(), dim + 1) * BytesOf(in.element);
  if (!out.SetShape(1, std::move(dims)) || !Spend(static_cast<int64_t>(in.pieces.size()))) return false;
  out.constant = nullptr;
  out.pieces = PartOf(in.pieces, begin * each, size * each);
  return !out.pieces.empty() && Set(node, output, std::move(out));
}

bool Lowering::StridedSlice(const Node& node) {
  const Symbol* const in = In(node, 0);
  const auto begin = Known(node, 1, kAnySize);
  if (in == nullptr || !begin || begin->empty() || begin->size() > kMostMasked) return false;
  const auto size = static_cast<int64_t>(begin->size());
  const auto end = Known(node, 2, size), strides = Known(node, 3, size);
  if (!end || !strides) return false;
  if (in->capture >= 0 || in->is_shape_of_rows) return SliceOfSizes(node, *in, *begin, *end, *strides);
  if (!in->has_rows) return false;
  const int begin_mask = Attribute<int>(node, "begin_mask", 0), end_mask = Attribute<int>(node, "end_mask", 0);
  const int new_axes = Attribute<int>(node, "new_axis_mask", 0), shrink = Attribute<int>(node, "shrink_axis_mask", 0);
  if (Attribute<int>(node, "ellipsis_mask", 0) != 0) return false;
  if (!(begin_mask & 1) || !(end_mask & 1) || (*strides)[0] != 1 || (new_axes & 1) || (shrink & 1)) return false;
  Symbol current = *in;
  size_t dim = 0;  // of a row
  for (size_t i = 1; i < begin->size(); ++i) {
    const int bit = 1 << i;
    if (new_axes & bit) {
      Dims dims = current.dims();
      dims.insert(dims.begin() + dim++, 1);
      if (!current.SetShape(current.lead(), std::move(dims))) return false;
      continue;
    }
    if (dim >= current.dims().size()) return false;
    const int64_t size = current.dims()[dim];
    const auto clamped = [size](int64_t at) { return std::clamp<int64_t>(at < 0 ? at + size : at, 0, size); };
    if (shrink & bit) {
      const int64_t at = (*begin)[i] < 0 ? (*begin)[i] + size : (*begin)[i];
      if (!SetPart(node, 0, current, dim, at, 1, false)) return false;
      current = symbols_[{node.id(), 0}];
      continue;
    }
    if ((*strides)[i] != 1) return false;
    const int64_t from = begin_mask & bit ? 0 : clamped((*begin)[i]);
    const int64_t to = end_mask & bit ? size : clamped((*end)[i]);
    if (from != 0 || to != size) {
      if (to <= from || !SetPart(node, 0, current, dim, from, to - from, true)) return false;
      current = symbols_[{node.id(), 0}];
    }
    ++dim;
  }
  return Set(node, 0, std::move(current));
}

bool Lowering::SliceOfSizes(const Node& node, const Symbol& in, const Dims& begin, const Dims& end,
                            const Dims& strides) {
  if (begin.size() != 1 || strides[0] != 1) return false;
  for (const char* mask : {"new_axis_mask", "ellipsis_mask"}) {
    if (Attribute<int>(node, mask, 0) != 0) return false;
  }
  if (in.dims().size() != 1) return false;
  const int64_t size = in.dims()[0];
  const bool one = Attribute<int>(node, "shrink_axis_mask", 0) != 0;
  const auto clamped = [size](int64_t at) { return std::clamp<int64_t>(at < 0 ? at + size : at, 0, size); };
  const int64_t from = Attribute<int>(node, "begin_mask", 0) && !one ? 0 : clamped(begin[0]);
  const int64_t to = one ? from + 1 : Attribute<int>(node, "end_mask", 0) ? size : clamped(end[0]);
  if (from >= to || to > size) return false;
  if (in.is_shape_of_rows) {
    const auto known = Known(node, 0, size);
    if (!known) return false;
    return SetNumbers(node, in.dtype, {known->begin() + from, known->begin() + to}, one, from == 0);
  }
  Symbol out = in;
  out.sizes = Dims(in.sizes.begin() + from, in.sizes.begin() + to);
  return out.SetShape(1, one ? Dims() : Dims{to - from}) && Set(node, 0, std::move(out));
}

bool Lowering::SetNumbers(const Node& node, DataType dtype, const Dims& numbers, bool is_scalar,
                          bool is_shape_of_rows) {
  auto out = Numbers(dtype, numbers, is_scalar, is_shape_of_rows);
  return out && Set(node, 0, *std::move(out));
}

std::optional<Symbol> Lowering::Numbers(DataType dtype, const Dims& numbers, bool is_scalar, bool is_shape_of_rows) {
  const auto size = static_cast<int64_t>(numbers.size());
  const bool is_integer = dtype == tensorflow::DT_INT32 || dtype == tensorflow::DT_INT64;
  if (!is_integer || (is_scalar && size != 1) || !Spend(size)) return std::nullopt;
  auto value = std::make_shared<Tensor>(dtype, is_scalar ? TensorShape({}) : TensorShape({size}));
  for (int64_t i = 0; i < size; ++i) {
    if (dtype == tensorflow::DT_INT32) {
      value->flat<int32_t>()(i) = static_cast<int32_t>(numbers[i]);
    } else {
      value->flat<int64_t>()(i) = numbers[i];
    }
  }
  Symbol out;
  out.dtype = dtype;
  out.element = *ElementOf(dtype);
  if (!is_scalar && !out.SetShape(1, {size})) return std::nullopt;
  if (!is_shape_of_rows) {
    const int number = program_.AddConstant(value->data(), value->TotalBytes());
    out.pieces = {{Place{Space::kShared, number}, out.bytes()}};
  }
  out.constant = std::move(value);
  out.is_shape_of_rows = is_shape_of_rows;
  return out;
}

bool Lowering::JoinNumbers(const Node& node, int count) {
  Dims joined;
  bool is_shape_of_rows = false;
  for (int i = 0; i < count; ++i) {
    const auto numbers = Known(node, i, kAnySize);
    if (!numbers || In(node, i)->has_rows || (In(node, i)->is_shape_of_rows && !joined.empty())) return false;
    is_shape_of_rows = is_shape_of_rows || In(node, i)->is_shape_of_rows;
    joined.insert(joined.end(), numbers->begin(), numbers->end());
  }
  return !joined.empty() && SetNumbers(node, In(node, 0)->dtype, joined, false, is_shape_of_rows);
}

std::optional<Symbol> Lowering::Settled(const Symbol& symbol) {
  if (symbol.capture < 0) return symbol;
  if (symbol.sizes.size() != 1) return std::nullopt;
  const TensorShape& shape = captures_[symbol.capture].tensor.shape();
  if (symbol.sizes[0] > 0) {
    needs_[symbol.capture] = std::max(needs_[symbol.capture], LoweredBlock::Need::kRow);
    Symbol known = symbol;
    known.capture = -1;
    const int64_t wide = shape.dim_size(static_cast<int>(symbol.sizes[0]));
    const auto narrow = static_cast<int32_t>(wide);
    const bool is_narrow = symbol.element == Element::kInt32;
    if (is_narrow && wide > INT32_MAX) return std::nullopt;
    const int number = program_.AddConstant(is_narrow ? static_cast<const void*>(&narrow) : &wide, symbol.bytes());
    known.pieces = {{Place{Space::kShared, number}, symbol.bytes()}};
    return known;
  }
  const auto element = ElementOf(captures_[symbol.capture].tensor.dtype());
  int64_t bytes = element ? BytesOf(*element) : 0;
  for (int dim = 1; dim < shape.dims(); ++dim) bytes *= shape.dim_size(dim);
  if (bytes == 0 || captures_[symbol.capture].is_packed) return std::nullopt;
  needs_[symbol.capture] = std::max(needs_[symbol.capture], LoweredBlock::Need::kRow);
  auto made = Made(symbol.dtype, 1, symbol.dims());
  if (made) program_.Add(RowProgram::Size{symbol.capture, bytes, symbol.element, made->pieces[0].place});
  return made;
}

bool Lowering::Slice(const Node& node) {
  const Symbol* const in = In(node, 0);
  if (in == nullptr || !in->has_rows) return false;
  Symbol current = *in;
  const Dims dims = in->dims();
  const auto rank = static_cast<int64_t>(dims.size()) + 1;
  const auto begin = Known(node, 1, rank), size = Known(node, 2, rank);
  if (!begin || !size || (*begin)[0] != 0 || (*size)[0] != -1) return false;
  for (size_t dim = 0; dim < dims.size(); ++dim) {
    const int64_t from = (*begin)[dim + 1];
    if (from < 0 || from > dims[dim]) return false;
    const int64_t wanted = (*size)[dim + 1] < 0 ? dims[dim] - from : (*size)[dim + 1];
    if (from == 0 && wanted == dims[dim]) continue;
    if (wanted <= 0 || !SetPart(node, 0, current, dim, from, wanted, true)) return false;
    current = symbols_[{node.id(), 0}];
  }
  return Set(node, 0, std::move(current));
}

bool Lowering::Unpack(const Node& node) {
  const Symbol* const in = In(node, 0);
  if (in == nullptr || !in->has_rows) return false;
  int axis = Attribute<int>(node, "axis", 0);
  if (axis < 0) axis += static_cast<int>(in->dims().size()) + 1;
  if (axis < 1) return false;
  const Symbol whole = *in;
  const bool is_there = axis <= static_cast<int>(whole.dims().size());
  if (!is_there || whole.dims()[axis - 1] != node.num_outputs()) return false;
  for (int i = 0; i < node.num_outputs(); ++i) {
    if (!SetPart(node, i, whole, axis - 1, i, 1, false)) return false;
  }
  return true;
}

bool Lowering::Split(const Node& node) {
  const Symbol* const in = In(node, 1);
  const auto axis = Known(node, 0, 1);
  if (in == nullptr || !in->has_rows || !axis) return false;
  int64_t at = (*axis)[0];
  if (at < 0) at += static_cast<int64_t>(in->dims().size()) + 1;
  if (at < 1 || at > static_cast<int64_t>(in->dims().size())) return false;
  const Symbol whole = *in;
  if (node.num_outputs() < 1 || whole.dims()[at - 1] % node.num_outputs() != 0) return false;
  const int64_t size = whole.dims()[at - 1] / node.num_outputs();
  for (int i = 0; i < node.num_outputs(); ++i) {
    if (!SetPart(node, i, whole, at - 1, i * size, size, true)) return false;
  }
  return true;
}

bool Lowering::SplitV(const Node& node) {
  const Symbol* const in = In(node, 0);
  const auto sizes = Known(node, 1, node.num_outputs()), axis = Known(node, 2, 1);
  if (in == nullptr || !in->has_rows || !sizes || !axis) return false;
  int64_t at = (*axis)[0];
  if (at < 0) at += static_cast<int64_t>(in->dims().size()) + 1;
  if (at < 1 || at > static_cast<int64_t>(in->dims().size())) return false;
  const Symbol whole = *in;
  int64_t known = 0, first = 0;
  for (const int64_t size : *sizes) {
    if (size > whole.dims()[at - 1]) return false;
    known += std::max<int64_t>(size, 0);
  }
  for (size_t i = 0; i < sizes->size(); ++i) {
    const int64_t size = (*sizes)[i] < 0 ? whole.dims()[at - 1] - known : (*sizes)[i];
    if (size <= 0 || !SetPart(node, static_cast<int>(i), whole, at - 1, first, size, true)) return false;
    first += size;
  }
  return first == whole.dims()[at - 1];
}

std::optional<Symbol> Lowering::Interleaved(const Symbol& parts, int64_t along, const Dims& sizes) {
  const int64_t outer = Product(parts.dims(), 0, along), inner = Product(parts.dims(), along + 1);
  return Arranged(parts, parts.dims(), [&](const Dims& at) {
    int64_t before = 0, within = at[along];
    size_t part = 0;
    while (within >= sizes[part]) {
      before += outer * sizes[part] * inner;
      within -= sizes[part++];
    }
    Dims dims = parts.dims(), there = at;
    dims[along] = sizes[part];
    there[along] = within;
    return static_cast<int32_t>(before) + NumberOf(there, dims);
  });
}

bool Lowering::Join(const Node& node, int count, int64_t axis, bool is_new) {
  Symbol out;
  Dims sizes, dims;
  int64_t along = 0;
  for (int i = 0; i < count; ++i) {
    const Symbol* const part = In(node, i);
    if (part == nullptr || !part->has_rows || part->lead() != 1) return false;
    const int64_t rank = static_cast<int64_t>(part->dims().size()) + 1;
    const int64_t at = (axis < 0 ? axis + rank + (is_new ? 1 : 0) : axis) - 1;
    if (at < 0 || at > static_cast<int64_t>(part->dims().size()) - (is_new ? 0 : 1)) return false;
    Dims own = part->dims();
    if (is_new) own.insert(own.begin() + at, 1);
    if (i == 0) {
      out = *part;
      dims = own;
      out.constant = nullptr;
      sizes = {own[at]};
      along = at;
      continue;
    }
    if (part->dtype != out.dtype || own.size() != dims.size()) return false;
    for (size_t dim = 0; dim < own.size(); ++dim) {
      if (static_cast<int64_t>(dim) != at && own[dim] != dims[dim]) return false;
    }
    if (at != along) return false;
    if (!Spend(static_cast<int64_t>(part->pieces.size())) || own[at] > kMostRowBytes - dims[at]) return false;
    dims[at] += own[at];
    sizes.push_back(own[at]);
    out.pieces.insert(out.pieces.end(), part->pieces.begin(), part->pieces.end());
  }
  if (count < 1 || !out.SetShape(1, std::move(dims))) return false;
  if (Product(out.dims(), 0, along) == 1) return Set(node, 0, std::move(out));
  auto whole = Interleaved(out, along, sizes);
  return whole && Set(node, 0, *std::move(whole));
}

bool Lowering::Concat(const Node& node) {
  const auto axis = Known(node, node.num_inputs() - 1, 1);
  if (!axis) return false;
  const int count = node.num_inputs() - 1;
  return (*axis)[0] == 0 ? JoinNumbers(node, count) : Join(node, count, (*axis)[0], false);
}

bool Lowering::Pack(const Node& node) {
  const int64_t axis = Attribute<int64_t>(node, "axis", 0);
  if (axis != 0) return Join(node, node.num_inputs(), axis, true);
  const Symbol* const first = In(node, 0);
  return first != nullptr && first->dims().empty() && JoinNumbers(node, node.num_inputs());
}

bool Lowering::Shape(const Node& node) {
  const Symbol* const in = In(node, 0);
  if (in == nullptr) return false;
  const auto dtype = Attribute<DataType>(node, "out_type", tensorflow::DT_INT32);
  Symbol out;
  if (!in->has_rows) {
    if (in->pieces.empty()) return false;
    if (in->is_reshaped) return SetNumbers(node, dtype, in->dims(), false, false);
    const Place& place = in->pieces[0].place;
    if (place.space != Space::kShared || static_cast<size_t>(place.index) >= captures_.size()) return false;
    out.dtype = dtype;
    out.element = dtype == tensorflow::DT_INT64 ? Element::kInt64 : Element::kInt32;
    if (!out.SetShape(1, {static_cast<int64_t>(in->dims().size())})) return false;
    out.capture = place.index;
    for (size_t dim = 0; dim < in->dims().size(); ++dim) out.sizes.push_back(dim);
    return Set(node, 0, std::move(out));
  }
  if (in->lead() != 1 || dtype != tensorflow::DT_INT32) return false;
  out.dtype = tensorflow::DT_INT32;
  out.element = Element::kInt32;
  if (!out.SetShape(1, {static_cast<int64_t>(in->dims().size()) + 1})) return false;
  auto value = std::make_shared<Tensor>(tensorflow::DT_INT32, TensorShape({out.dims()[0]}));
  value->flat<int32_t>()(0) = -1;
  for (size_t i = 0; i < in->dims().size(); ++i) value->flat<int32_t>()(i + 1) = static_cast<int32_t>(in->dims()[i]);
  out.constant = std::move(value);
  out.is_shape_of_rows = true;
  return Set(node, 0, std::move(out));
}

bool Lowering::StridedSliceGrad(const Node& node) {
  const auto shape = Known(node, 0, kAnySize), begin = Known(node, 1, kAnySize);
  const Symbol* const in = In(node, 4);
  if (in == nullptr || !in->has_rows || in->lead() != 1 || !shape || !begin) return false;
  if (begin->empty() || begin->size() > kMostMasked) return false;
  const auto masked = static_cast<int64_t>(begin->size());
  const auto end = Known(node, 2, masked), strides = Known(node, 3, masked);
  if (!end || !strides) return false;
  const int begin_mask = Attribute<int>(node, "begin_mask", 0), end_mask = Attribute<int>(node, "end_mask", 0);
  const int new_axes = Attribute<int>(node, "new_axis_mask", 0), shrink = Attribute<int>(node, "shrink_axis_mask", 0);
  if (Attribute<int>(node, "ellipsis_mask", 0) != 0) return false;
  if (shape->empty() || (*shape)[0] != -1) return false;
  if (!(begin_mask & 1) || !(end_mask & 1) || (*strides)[0] != 1 || (new_axes & 1) || (shrink & 1)) return false;
  const Dims dims(shape->begin() + 1, shape->end());
  const Symbol source = *in;
  if (!FitsArranged(source, dims)) return false;
  Dims first(dims.size(), 0), size = dims;
  size_t dim = 0;
  for (size_t i = 1; i < begin->size(); ++i) {
    const int bit = 1 << i;
    if (new_axes & bit) continue;
    if (dim >= dims.size() || (*strides)[i] != 1) return false;
    const auto clamped = [&](int64_t at) { return std::clamp<int64_t>(at < 0 ? at + dims[dim] : at, 0, dims[dim]); };
    first[dim] = (begin_mask & bit) && !(shrink & bit) ? 0 : clamped((*begin)[i]);
    const int64_t last = shrink & bit ? first[dim] + 1 : end_mask & bit ? dims[dim] : clamped((*end)[i]);
    size[dim] = last - first[dim];
    if (size[dim] < 1 || last > dims[dim]) return false;
    ++dim;
  }
  if (Product(size) != source.count()) return false;
  return SetArranged(node, 0, source, dims, [&](const Dims& at) {
    Dims there(at.size());
    bool inside = true;
    for (size_t i = 0; i < at.size(); ++i) {
      there[i] = at[i] - first[i];
      inside = inside && there[i] >= 0 && there[i] < size[i];
    }
    return inside ? NumberOf(there, size) : -1;
  });
}

}  // namespace lowering
}  // namespace batch
}  // namespace recgraph
