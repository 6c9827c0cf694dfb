// Numbers for variables.
#include "cc/python/resources.h"

#include <deque>
#include <mutex>
#include <unordered_map>

namespace recgraph {
namespace {

struct Resources {
  std::mutex mutex;
  std::unordered_map<Handle*, int> numbers;
  std::deque<HandlePtr> all;
};

Resources& AllResources() {
  static auto* resources = new Resources;
  return *resources;
}

}  // namespace

int ResourceNumber(Handle* handle, bool may_be_new) {
  Resources& resources = AllResources();
  std::lock_guard<std::mutex> lock(resources.mutex);
  if (!may_be_new) {
    auto found = resources.numbers.find(handle);
    return found == resources.numbers.end() ? kUnknownResource : found->second;
  }
  auto [place, is_new] = resources.numbers.try_emplace(handle, static_cast<int>(resources.all.size()));
  if (is_new) resources.all.push_back(Share(handle));
  return place->second;
}

Handle* FindResource(int number) {
  Resources& resources = AllResources();
  std::lock_guard<std::mutex> lock(resources.mutex);
  const bool exists = number >= 0 && number < static_cast<int>(resources.all.size());
  return exists ? resources.all[number].get() : nullptr;
}

}  // namespace recgraph
