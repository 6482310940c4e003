#include "csrc/converter.h"

#include <mutex>
#include <shared_mutex>

#include "csrc/user_code.h"
#include "runtime/base/error.h"

namespace tv {
namespace {

/// Users add operators while other threads compile (csrc/user_code.h); entries never move.
std::shared_mutex& registry_mutex() {
  static std::shared_mutex mutex;
  return mutex;
}

}  // namespace

NodeContext::Result NodeContext::output(size_t i) const {
  const Value& value = graph.value(node.outputs.at(i));
  const bool changed = i == 0 && node.epilogue && node.own_result_dtype != DType::kOther;
  return {value.shape, changed ? node.own_result_dtype : value.dtype};
}

int64_t NodeContext::wrap(int64_t dim, int64_t rank) const {
  const int64_t range = std::max<int64_t>(rank, 1);  // torch lets 0 and -1 name a scalar's dim
  if (dim < -range || dim >= range) {
    throw Error(ErrorKind::kUser, "[" + node.op + "] dim " + std::to_string(dim) +
                                      " is out of range for rank " + std::to_string(rank));
  }
  return dim < 0 ? dim + range : dim;
}

Registry& Registry::instance() {
  static Registry registry;
  return registry;
}

void Registry::add(Converter converter) {
  const std::unique_lock lock(registry_mutex());
  std::string op = converter.op;
  const auto [it, added] = entries_.emplace(std::move(op), std::move(converter));
  if (!added && !keep_load_error("[" + it->first + "] has a converter already")) {
    throw Error(ErrorKind::kInternal, "[registry] " + it->first + " has two converters");
  }
}

const Converter* Registry::find(std::string_view op) const {
  const std::shared_lock lock(registry_mutex());
  const auto it = entries_.find(op);
  return it == entries_.end() ? nullptr : &it->second;
}

Moves moves_of(std::string_view op) {
  const Converter* converter = Registry::instance().find(op);
  return converter == nullptr ? Moves::kNothing : converter->moves;
}

bool reads_storage(std::string_view op) {
  const Converter* converter = Registry::instance().find(op);
  return converter != nullptr && converter->reads_storage;
}

bool needs_elements(std::string_view op) {
  const Converter* converter = Registry::instance().find(op);
  return converter != nullptr && converter->needs_elements;
}

bool takes_codes(std::string_view op) {
  const Converter* converter = Registry::instance().find(op);
  if (converter == nullptr) return false;
  switch (converter->moves) {
    case Moves::kCopies:
    case Moves::kReshapes:
    case Moves::kPermutes:
    case Moves::kSpreads:
    case Moves::kCuts:
    case Moves::kPicks:
    case Moves::kJoins:
    case Moves::kStacks:
      return true;
    case Moves::kNothing:
    case Moves::kCasts:
    case Moves::kParts:    // several results
    case Moves::kPads:     // with a number, which is no code
    case Moves::kLargest:  // codes are in another order
    case Moves::kMeans:
      return !converter->code_args.empty();
  }
  return false;
}

std::vector<std::string> Registry::names() const {
  const std::shared_lock lock(registry_mutex());
  std::vector<std::string> names;
  for (const auto& [op, converter] : entries_) names.push_back(op);
  return names;
}

}  // namespace tv
