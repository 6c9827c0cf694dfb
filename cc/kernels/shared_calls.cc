// Memoized calls: the table of those of one call from outside, and their gradients.
#include "cc/kernels/shared_calls.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <unordered_set>
#include <utility>

#include "cc/core/call_path.h"
#include "cc/core/row_hash.h"
#include "cc/kernels/checked.h"
#include "cc/kernels/environment.h"
#include "cc/kernels/errors.h"
#include "tensorflow/core/framework/variant.h"

namespace recgraph {

using tensorflow::Tensor;
using tensorflow::tstring;

namespace {

// Whether arguments of a dtype are the same where they are equal.
bool IsComparedByValue(tensorflow::DataType dtype) {
  return tensorflow::DataTypeIsInteger(dtype) || dtype == tensorflow::DT_BOOL || dtype == tensorflow::DT_STRING;
}

// All of them, by pieces of which no byte is left out: what is handed down may differ in the middle alone, as boards of
// a game do.
void MixAll(const char* data, int64_t bytes, batch::RowHash* hash) {
  constexpr int64_t kPiece = 128;
  hash->Mix(bytes);
  for (int64_t i = 0; i < bytes; i += kPiece) hash->MixBytes(data + i, std::min(kPiece, bytes - i));
}

void MixValue(const Tensor& tensor, batch::RowHash* hash) {
  if (tensor.dtype() != tensorflow::DT_STRING) {
    return MixAll(static_cast<const char*>(tensor.data()), tensor.TotalBytes(), hash);
  }
  const auto strings = tensor.unaligned_flat<tstring>();
  for (int64_t i = 0; i < strings.size(); ++i) MixAll(strings(i).data(), strings(i).size(), hash);
}

// Whether arguments of a dtype have a gradient, in a program that adds gradients up.
bool IsNumber(tensorflow::DataType dtype) {
  return tensorflow::DataTypeIsFloating(dtype) || tensorflow::DataTypeIsComplex(dtype);
}

// The frame in a tensor; null where there is none.
const Frame* FrameIn(const Tensor& tensor) {
  if (tensor.dtype() != tensorflow::DT_VARIANT || tensor.NumElements() != 1) return nullptr;
  const auto* value = tensor.flat<tensorflow::Variant>()(0).get<FrameValue>();
  return value == nullptr ? nullptr : value->frame.get();
}

absl::Status GiveZeros(const Frame& frame, Tensors* results) {
  if (results->size() != frame.targets.size()) {
    return errors::InvalidArgument("a gradient by ", results->size(), " arguments of a call that has ",
                                   frame.targets.size(), " numbers");
  }
  for (size_t i = 0; i < results->size(); ++i) {
    Tensor zeros(frame.targets[i].first, frame.targets[i].second);
    if (!zeros.IsInitialized()) return errors::ResourceExhausted("no memory for a gradient");
    if (zeros.TotalBytes() > 0) std::memset(zeros.data(), 0, zeros.TotalBytes());
    (*results)[i] = std::move(zeros);
  }
  return absl::OkStatus();
}

bool IsSame(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || a.shape() != b.shape()) return false;
  if (a.NumElements() == 0 || a.data() == b.data()) return true;
  if (!IsComparedByValue(a.dtype())) return false;
  if (a.dtype() != tensorflow::DT_STRING) return std::memcmp(a.data(), b.data(), a.TotalBytes()) == 0;
  const auto left = a.unaligned_flat<tstring>(), right = b.unaligned_flat<tstring>();
  for (int64_t i = 0; i < left.size(); ++i) {
    if (left(i) != right(i)) return false;
  }
  return true;
}

}  // namespace

bool SharedCalls::Key::operator==(const Key& other) const {
  return hash == other.hash && body == other.body && environment == other.environment &&
         std::equal(arguments.begin(), arguments.end(), other.arguments.begin(), other.arguments.end(), IsSame);
}

SharedCalls::Key SharedCalls::KeyOf(Program::Handle body, const Invocation& invocation) {
  batch::RowHash hash(body);
  for (const Tensor& argument : invocation.arguments()) {
    hash.Mix(argument.NumElements());
    if (argument.NumElements() == 0) continue;
    if (IsComparedByValue(argument.dtype())) {
      MixValue(argument, &hash);
    } else {
      hash.Mix(reinterpret_cast<uintptr_t>(argument.data()));
    }
  }
  return {body, invocation.environment(), invocation.arguments(), hash.value()};
}

// Waits with `done` where the same call runs. The caller does not hold the lock.
SharedCalls::Found SharedCalls::Find(Invocation* invocation, Program::Handle body, const Invocation::Done& done,
                                     Table::value_type** entry) {
  Key key = KeyOf(body, *invocation);
  std::lock_guard<std::mutex> lock(mutex_);
  const auto [place, is_new] = table_.try_emplace(std::move(key));
  *entry = &*place;
  Entry& found = place->second;
  Counts& counts = counts_[body];
  ++counts.asked;
  if (is_new) {
    ++counts.computed;
    found.runs = invocation;
    return Found::kNew;
  }
  if (found.runs != nullptr) {
    found.waiting.push_back({invocation, done});
    ++waiting_;
    return Found::kRuns;
  }
  GiveResults(found, invocation);
  return Found::kEnded;
}

void SharedCalls::Start(Invocation* invocation, Program::Handle body, bool adds_up, Invocation::Done done) {
  Table::value_type* place = nullptr;
  Found found = Found::kNew;
  const absl::Status status = CatchingAll([&] {
    found = Find(invocation, body, done, &place);
    return absl::OkStatus();
  });
  if (!status.ok()) return done(status);
  switch (found) {  // the place stays where it is
    case Found::kNew:
      invocation->Start(body, [this, place, invocation, adds_up, done = std::move(done)](const absl::Status& status) {
        done(End(place->first, &place->second, invocation, adds_up, status));
      });
      break;
    case Found::kRuns:
      // Whoever is at work looks at what waits when he ends; it may be that nobody is.
      if (tasks_.load(std::memory_order_acquire) == 0) root_->Schedule([] {});
      break;
    case Found::kEnded:
      done(absl::Status(place->second.status));  // the table may be gone before it is
      break;
  }
}

absl::Status SharedCalls::End(const Key& key, Entry* entry, Invocation* invocation, bool adds_up,
                              absl::Status status) {
  if (status.ok() && adds_up) status = CatchingAll([&] { return MarkFrame(key, invocation); });
  std::vector<Waiting> waiting;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    entry->runs = nullptr;
    entry->status = status;
    waiting = std::move(entry->waiting);
    waiting_ -= waiting.size();
    if (status.ok()) entry->results = invocation->results();
  }
  for (const Waiting& one : waiting) GiveResults(*entry, one.invocation);
  Release(std::move(waiting), status);
  return status;
}

absl::Status SharedCalls::MarkFrame(const Key& key, Invocation* invocation) {
  FramePtr<Frame> frame;
  Tensor last = std::move(invocation->results().back());
  TF_RETURN_IF_ERROR(FromTensor(last, &frame));
  last = Tensor();
  // A body gives a frame of its own; one that somebody else has too must not be changed.
  if (!frame->IsUnique()) frame = FramePtr<Frame>(new Frame(frame->values()));
  frame->is_shared = true;
  for (const Tensor& argument : key.arguments) {
    if (IsNumber(argument.dtype())) frame->targets.emplace_back(argument.dtype(), argument.shape());
  }
  invocation->results().back() = ToTensor(std::move(frame));
  return absl::OkStatus();
}

// Each on its own: not on the stack of what it has waited for. The one that calls this has not ended, so that the call
// from outside is there until this returns.
void SharedCalls::Release(std::vector<Waiting> waiting, const absl::Status& status) {
  for (Waiting& one : waiting) {
    root_->Schedule([done = std::move(one.done), status] { done(status); });
  }
}

// A frame holds those of the calls that its gradient takes the gradients of, each once.
void SharedCalls::ExpectGradients(const Frame& root) {
  std::unordered_set<const Frame*> seen{&root};
  std::vector<const Frame*> open{&root};
  std::lock_guard<std::mutex> lock(mutex_);
  while (!open.empty()) {
    const Frame* const frame = open.back();
    open.pop_back();
    for (const Tensor& value : frame->values()) {
      const Frame* const below = FrameIn(value);
      if (below == nullptr) continue;
      if (below->is_shared) ++gradients_[below].expected;
      if (seen.insert(below).second) open.push_back(below);
    }
  }
}

void SharedCalls::StartGradient(Invocation* invocation, Program::Handle body, Invocation::Done done) {
  const Tensors& given = invocation->arguments();
  const Frame* const frame = given.empty() ? nullptr : FrameIn(given[0]);
  if (frame == nullptr || !frame->is_shared) return invocation->Start(body, std::move(done));
  bool runs = false;
  const absl::Status status = CatchingAll([&] { return AddGradients(*frame, body, invocation, &runs); });
  if (status.ok() && runs) return invocation->Start(body, std::move(done));
  done(status);
}

absl::Status SharedCalls::AddGradients(const Frame& frame, Program::Handle body, Invocation* invocation,
                                       bool* runs) {
  Tensors& given = invocation->arguments();
  Sums* sums = nullptr;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto known = gradients_.find(&frame);
    *runs = known == gradients_.end();
    if (*runs) return absl::OkStatus();  // it is nobody else's
    if (known->second.sums == nullptr) known->second.sums = std::make_unique<Sums>(static_cast<int>(given.size()));
    sums = known->second.sums.get();
  }
  if (sums->slots() != static_cast<int>(given.size())) return errors::InvalidArgument("gradients of different calls");
  for (size_t i = 1; i < given.size(); ++i) TF_RETURN_IF_ERROR(sums->AddDense(static_cast<int>(i), given[i]));
  std::unique_ptr<Sums> whole;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    Gradients& known = gradients_[&frame];
    Counts& counts = counts_[body];
    ++counts.asked;
    if (++known.added == known.expected) {
      whole = std::move(known.sums);
      gradients_.erase(&frame);
      ++counts.computed;
    }
  }
  *runs = whole != nullptr;
  return *runs ? TakeSums(whole.get(), &given) : GiveZeros(frame, &invocation->results());
}

absl::Status SharedCalls::TakeSums(Sums* sums, Tensors* arguments) {
  for (size_t i = 1; i < arguments->size(); ++i) {
    Tensor& argument = (*arguments)[i];
    Tensor sum;
    TF_RETURN_IF_ERROR(sums->TakeDense(static_cast<int>(i), argument.dtype(), argument.shape(), &sum));
    argument = std::move(sum);
  }
  return absl::OkStatus();
}

absl::Status SharedCalls::CheckGradients() {
  std::lock_guard<std::mutex> lock(mutex_);
  return gradients_.empty() ? absl::OkStatus()
                            : errors::Internal("a gradient of a memoized call was expected, and nobody asked for it");
}

Task SharedCalls::Counted(Task task) {
  BeginWork();
  return [self = shared_from_this(), task = std::move(task)]() mutable {
    task();
    task = nullptr;
    self->EndWork();
  };
}

void SharedCalls::EndWork() {
  if (tasks_.fetch_sub(1, std::memory_order_acq_rel) == 1) LookAtWaiting();
}

// The call from outside is there only where something waits; what is taken to go on keeps it there.
void SharedCalls::LookAtWaiting() {
  Circle circle;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (waiting_ == 0 || !TakeCircle(&circle)) return;
  }
  const absl::Status status = errors::InvalidArgument("the recursion never ends, since it goes round in a circle: ",
                                                      circle.text, ". No node of a tree or graph may be below itself");
  root_->Schedule([done = std::move(circle.call.done), status] { done(status); });
}

bool SharedCalls::TakeCircle(Circle* circle) {
  struct Edge {
    Table::value_type* below = nullptr;
    const Invocation* call = nullptr;
    size_t waits = 0;  // 1 + the place among those that wait; 0 for the call that runs
  };
  std::unordered_map<const Invocation*, Table::value_type*> running;
  for (auto& place : table_) {
    if (place.second.runs != nullptr) running.emplace(place.second.runs, &place);
  }
  // One of what each waits for, by the last shared call above it.
  std::unordered_map<const Table::value_type*, Edge> below;
  const auto note = [&](const Edge& edge) {
    const Invocation* above = edge.call->parent();
    while (above != nullptr && running.count(above) == 0) above = above->parent();
    if (above != nullptr) below[running[above]] = edge;
  };
  for (const auto& [invocation, place] : running) {
    note({place, invocation, 0});
    const std::vector<Waiting>& waiting = place->second.waiting;
    for (size_t i = 0; i < waiting.size(); ++i) note({place, waiting[i].invocation, i + 1});
  }
  if (below.empty()) return false;
  // Where nobody is at work each waits for another one, or for what is at work elsewhere: then there is no circle yet.
  std::unordered_map<const Table::value_type*, size_t> seen;
  std::vector<Edge> way{{running.begin()->second, running.begin()->first, 0}};
  while (seen.emplace(way.back().below, way.size() - 1).second) {
    const auto next = below.find(way.back().below);
    if (next == below.end()) return false;
    way.push_back(next->second);
  }
  std::vector<Edge> around(way.begin() + seen[way.back().below] + 1, way.end());  // each edge leads to its call
  const auto waits = std::find_if(around.begin(), around.end(), [](const Edge& edge) { return edge.waits > 0; });
  if (waits == around.end()) return false;
  std::rotate(around.begin(), waits + 1, around.end());  // the call that waits comes last
  const Edge last = around.back();
  std::vector<Waiting>& waiting = last.below->second.waiting;
  circle->call = std::move(waiting[last.waits - 1]);
  waiting.erase(waiting.begin() + (last.waits - 1));
  --waiting_;
  std::vector<std::string> calls{Describe(*last.below->second.runs, last.below->first)};
  for (const Edge& edge : around) calls.push_back(Describe(*edge.call, edge.below->first));
  circle->text = JoinLabels(calls);
  return true;
}

std::string SharedCalls::Describe(const Invocation& call, const Key& key) {
  std::string text;
  for (const Tensor& argument : key.arguments) {
    if (!IsComparedByValue(argument.dtype())) continue;
    absl::StrAppend(&text, text.empty() ? "" : ", ", argument.SummarizeValue(4));
  }
  return absl::StrCat(call.label(), "(", text, ")");
}

void SharedCalls::Clear() {
  Table table;
  std::unordered_map<Program::Handle, Counts> counts;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    table.swap(table_);
    counts.swap(counts_);
  }
  for (const auto& [body, count] : counts) root_->program()->NoteMemoized(body, count.asked, count.computed);
}

}  // namespace recgraph
