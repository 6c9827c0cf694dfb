// The readable form of a call path.
#include "cc/core/call_path.h"

#include <cstddef>

namespace recgraph {
namespace {

constexpr size_t kHead = 8;
constexpr size_t kTail = 8;

void Append(const std::string& label, std::string* text) {
  if (!text->empty()) *text += " > ";
  *text += label;
}

}  // namespace

std::string WithRow(const std::string& label, int64_t row) {
  return row < 0 ? label : label + "[" + std::to_string(row) + "]";
}

std::string JoinLabels(const std::vector<std::string>& labels) {
  std::string text;
  const size_t count = labels.size();
  const bool abbreviate = count > kHead + kTail + 1;
  for (size_t i = 0; i < count; ++i) {
    if (abbreviate && i == kHead) {
      const size_t left_out = count - kHead - kTail;
      Append("... " + std::to_string(left_out) + " more ...", &text);
      i += left_out - 1;
      continue;
    }
    Append(labels[i], &text);
  }
  return text;
}

std::string FormatCallPath(const std::vector<std::string>& labels) {
  const size_t count = labels.size();
  return JoinLabels(labels) + ", " + std::to_string(count) + (count == 1 ? " level" : " levels");
}

}  // namespace recgraph
