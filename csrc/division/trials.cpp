#include "csrc/division/trials.h"

#include <algorithm>
#include <functional>

#include "csrc/frontends/onnx/file/model.h"
#include "csrc/frontends/onnx/file/tensor.h"
#include "runtime/base/error.h"

namespace tv::onnx {
namespace {

constexpr int64_t kTrialNodes = 4096;  ///< imported in all trials of a model

/// Elements that shapes, axes, pads, sizes, counts and bounds often take: of element i of n.
using Pattern = int64_t (*)(int64_t i, int64_t n);
constexpr Pattern kPatterns[] = {
    [](int64_t, int64_t) -> int64_t { return 1; },
    [](int64_t, int64_t) -> int64_t { return 0; },
    [](int64_t i, int64_t) { return i; },
    [](int64_t, int64_t) -> int64_t { return 2; },
    [](int64_t i, int64_t) -> int64_t { return i == 0 ? -1 : 1; },
    [](int64_t i, int64_t) -> int64_t { return i == 0 ? 2 : 1; },
    [](int64_t i, int64_t n) -> int64_t { return i == n - 1 ? 2 : 1; },
    [](int64_t, int64_t) -> int64_t { return -1; },
};
constexpr size_t kPatternCount = std::size(kPatterns);

/// Type and sizes, where the file says them.
std::optional<ConstantInput> header_of(const onnx_proto::GraphProto& graph,
                                       const std::string& name) {
  for (const auto& input : graph.input()) {
    if (input.name() != name || !input.type().has_tensor_type()) continue;
    const auto& type = input.type().tensor_type();
    ConstantInput made{.dtype = dtype_of(type.elem_type())};
    if (!type.has_shape() || !can_set_shapes(made.dtype)) return std::nullopt;
    int64_t count = 1;
    for (const auto& dim : type.shape().dim()) {
      if (!dim.has_dim_value() || dim.dim_value() > kMostShapeElements) return std::nullopt;
      made.dims.push_back(dim.dim_value());
      count *= dim.dim_value();
      if (count > kMostShapeElements) return std::nullopt;
    }
    return made;
  }
  return std::nullopt;
}

void fill(ConstantInput& input, Pattern pattern) {
  int64_t count = 1;
  for (const int64_t size : input.dims) count *= size;
  input.ints.clear();
  input.floats.clear();
  for (int64_t i = 0; i < count; ++i) {
    const int64_t element = pattern(i, count);
    if (input.dtype == DType::kF32) {
      input.floats.push_back(static_cast<double>(element));
    } else {
      input.ints.push_back(input.dtype == DType::kBool ? element != 0 : element);
    }
  }
}

/// The choices of a pattern for each of `count` inputs, those of the first patterns first.
void each_choice(size_t count, const std::function<bool(const std::vector<size_t>&)>& stop) {
  for (size_t greatest = 0; greatest < kPatternCount; ++greatest) {
    std::vector<size_t> choice(count);
    for (;;) {
      if (*std::max_element(choice.begin(), choice.end()) == greatest && stop(choice)) return;
      size_t i = 0;
      while (i < count && choice[i] == greatest) choice[i++] = 0;
      if (i == count) break;
      ++choice[i];
    }
  }
}

class Trials {
 public:
  Trials(const DivisionRequest& request, const Settings& settings, const DeviceProfile& device)
      : request_(request),
        settings_(settings),
        device_(device),
        nodes_(std::max(request.model->proto.graph().node_size(), 1)),
        left_(std::max<int64_t>(kTrialNodes, 16 * nodes_)) {}

  std::optional<Trial> run(const std::set<std::string>& names) {
    if (!add(names) || !add_others()) return std::nullopt;
    std::optional<Trial> found;
    each_choice(inputs_.size(), [&](const std::vector<size_t>& choice) {
      if (!one_more()) return true;
      found = with(choice);
      return found.has_value();
    });
    return found;
  }

 private:
  bool one_more() {
    left_ -= nodes_;
    return left_ >= 0;
  }

  /// False where one of them cannot be tried.
  bool add(const std::set<std::string>& names) {
    for (const std::string& name : names) {
      const auto header = header_of(request_.model->proto.graph(), name);
      if (!header) return false;
      inputs_.insert_or_assign(name, *header);
    }
    return true;
  }

  /// A node names the first operand that it misses: others are seen when that one has a value.
  bool add_others() {
    for (size_t p = 0; p < kPatternCount;) {
      const size_t before = inputs_.size();
      if (!one_more()) return false;
      try {
        DivisionRequest tried = request_;
        tried.import.constants = values(std::vector<size_t>(before, p));
        if (!add(import_of(tried).shape_inputs)) return false;
      } catch (const Error&) {  // a value that the file does not allow
      }
      if (inputs_.size() == before) ++p;
    }
    return true;
  }

  std::map<std::string, ConstantInput> values(const std::vector<size_t>& choice) const {
    std::map<std::string, ConstantInput> made = inputs_;
    size_t i = 0;
    for (auto& [name, value] : made) fill(value, kPatterns[choice[i++]]);
    return made;
  }

  std::optional<Trial> with(const std::vector<size_t>& choice) const {
    DivisionRequest tried = request_;
    tried.import.constants = values(choice);
    try {
      GroupedDivision division = divide_by_value(tried, settings_, device_);
      // A value with which nothing is left to compute shows nothing.
      if (!is_large_enough(division.plan)) return std::nullopt;
      return Trial{std::move(tried), std::move(division)};
    } catch (const Error&) {
      return std::nullopt;
    }
  }

  const DivisionRequest& request_;
  const Settings& settings_;
  const DeviceProfile& device_;
  const int64_t nodes_;
  int64_t left_;  ///< nodes to import
  std::map<std::string, ConstantInput> inputs_;
};

}  // namespace

bool can_set_shapes(DType dtype) {
  return dtype == DType::kI64 || dtype == DType::kI32 || dtype == DType::kBool ||
         dtype == DType::kF32;
}

std::optional<Trial> trial_of(const DivisionRequest& request, const std::set<std::string>& names,
                              const Settings& settings, const DeviceProfile& device) {
  return Trials(request, settings, device).run(names);
}

}  // namespace tv::onnx
