#include "integrations/onnxruntime/by_value.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <sstream>

#include "csrc/frontends/onnx/tensor.h"
#include "integrations/onnxruntime/sizes.h"

namespace tv::ort {
namespace {

using onnx::ConstantInput;

constexpr int64_t kMostElements = 64;  ///< of an input that sets shapes
constexpr size_t kMostSized = 64;      ///< values that are known to need an engine for each size
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

bool can_set_shapes(DType dtype) {
  return dtype == DType::kI64 || dtype == DType::kI32 || dtype == DType::kBool ||
         dtype == DType::kF32;
}

/// Type and sizes, where the file says them.
std::optional<ConstantInput> header_of(const onnx_proto::GraphProto& graph,
                                       const std::string& name) {
  for (const auto& input : graph.input()) {
    if (input.name() != name || !input.type().has_tensor_type()) continue;
    const auto& type = input.type().tensor_type();
    ConstantInput made{.dtype = onnx::dtype_of(type.elem_type())};
    if (!type.has_shape() || !can_set_shapes(made.dtype)) return std::nullopt;
    int64_t count = 1;
    for (const auto& dim : type.shape().dim()) {
      if (!dim.has_dim_value() || dim.dim_value() > kMostElements) return std::nullopt;
      made.dims.push_back(dim.dim_value());
      count *= dim.dim_value();
      if (count > kMostElements) return std::nullopt;
    }
    return made;
  }
  return std::nullopt;
}

void fill(ConstantInput& input, Pattern pattern) {
  const int64_t count = count_of(input.dims);
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

std::string text_of(const std::map<std::string, ConstantInput>& values) {
  std::ostringstream text;
  for (const auto& [name, value] : values) {
    text << (text.tellp() > 0 ? ", \"" : "\"") << name << "\" = [";
    for (size_t i = 0; i < value.ints.size(); ++i) text << (i ? ", " : "") << value.ints[i];
    for (size_t i = 0; i < value.floats.size(); ++i) text << (i ? ", " : "") << value.floats[i];
    text << "]";
  }
  return text.str();
}

template <typename T, typename Into>
void copy_elements(const void* from, int64_t count, std::vector<Into>& into) {
  for (int64_t i = 0; i < count; ++i) {
    T element{};
    std::memcpy(&element, static_cast<const uint8_t*>(from) + i * int64_t{sizeof element},
                sizeof element);
    into.push_back(static_cast<Into>(element));
  }
}

ConstantInput read_value(const std::string& name, const Ort::ConstValue& value) {
  const auto info = value.GetTensorTypeAndShapeInfo();
  ConstantInput made{.dtype = onnx::dtype_of(onnx_type(info.GetElementType())),
                     .dims = info.GetShape()};
  const int64_t count = count_of(made.dims);
  if (!can_set_shapes(made.dtype) || count > kMostElements) {
    throw Error(ErrorKind::kUser, "input \"" + name +
                                      "\", which sets shapes, has another type or " +
                                      "size than the model says");
  }
  const void* data = value.GetTensorRawData();
  switch (made.dtype) {
    case DType::kI64:
      copy_elements<int64_t>(data, count, made.ints);
      break;
    case DType::kI32:
      copy_elements<int32_t>(data, count, made.ints);
      break;
    case DType::kBool:
      copy_elements<uint8_t>(data, count, made.ints);
      break;
    default:
      copy_elements<float>(data, count, made.floats);
  }
  return made;
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
        onnx::ImportOptions import{
            .inputs = request_.shapes, .partial = true, .broadcasts = true, .widened = true};
        import.constants = values(std::vector<size_t>(before, p));
        for (const auto& [name, value] : import.constants) import.inputs.erase(name);
        if (!add(onnx::import_model(request_.model, import).shape_inputs)) return false;
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
    tried.constants = values(choice);
    try {
      Division division = divide_by_value(tried, settings_, device_);
      const Partition& parts = division.plan.parts;
      const auto work = static_cast<double>(std::max<int64_t>(parts.compute_nodes, 1));
      // A value with which nothing is left to compute shows nothing.
      if (parts.blocks.empty() || work < settings_.min_block_size) return std::nullopt;
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

[[noreturn]] void refuse(const std::map<std::string, ConstantInput>& values, const Error& error) {
  if (error.kind() == ErrorKind::kDevice) throw Error(error);
  throw Error(error.kind(), "no engine takes " + text_of(values) + ": " + error.what() +
                                " (max_shape_values=0 leaves models with inputs that set shapes to "
                                "the CPU provider)");
}

}  // namespace

std::optional<Trial> trial_of(const DivisionRequest& request, const std::set<std::string>& names,
                              const Settings& settings, const DeviceProfile& device) {
  return Trials(request, settings, device).run(names);
}

bool ValueNode::Call::operator==(const Call& other) const {
  const auto same = [](const auto& x, const auto& y) {
    return x.first == y.first && x.second.dims == y.second.dims && x.second.ints == y.second.ints &&
           x.second.floats == y.second.floats;
  };
  return sizes == other.sizes &&
         std::equal(values.begin(), values.end(), other.values.begin(), other.values.end(), same);
}

void ValueNode::run(OrtKernelContext* context) { node_of(read_call(context))->run(context); }

ValueNode::Call ValueNode::read_call(OrtKernelContext* context) const {
  const Ort::KernelContext given(context);
  Call call;
  for (size_t i = 0; i < source_.inputs.size(); ++i) {
    const std::string& name = source_.inputs[i];
    const Ort::ConstValue value = given.GetInput(i);
    if (static_cast<const OrtValue*>(value) == nullptr) {
      throw Error(ErrorKind::kUser, "input \"" + name + "\" is missing");
    }
    if (source_.request.constants.contains(name)) {
      call.values.emplace(name, read_value(name, value));
    } else {
      call.sizes.emplace(name, value.GetTensorTypeAndShapeInfo().GetShape());
    }
  }
  return call;
}

std::shared_ptr<ValueNode::Entry> ValueNode::entry_of(const Call& call) {
  std::list<std::shared_ptr<Entry>> replaced;  // given back after the lock
  const std::lock_guard lock(mutex_);
  const auto found = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const auto& entry) { return entry->call == call; });
  if (found != entries_.end()) {
    entries_.splice(entries_.begin(), entries_, found);
    return entries_.front();
  }
  while (entries_.size() >= source_.most) {
    replaced.splice(replaced.begin(), entries_, std::prev(entries_.end()));
  }
  entries_.push_front(std::make_shared<Entry>());
  entries_.front()->call = call;
  return entries_.front();
}

void ValueNode::forget(const std::shared_ptr<Entry>& entry) {
  const std::lock_guard lock(mutex_);
  entries_.remove(entry);
}

bool ValueNode::is_sized(const Call& any_size) {
  const std::lock_guard lock(mutex_);
  return std::find(sized_.begin(), sized_.end(), any_size) != sized_.end();
}

void ValueNode::note_sized(const Call& any_size) {
  const std::lock_guard lock(mutex_);
  sized_.push_front(any_size);
  if (sized_.size() > kMostSized) sized_.pop_back();
}

std::shared_ptr<FusedNode> ValueNode::node_of(const Call& call) {
  const Call any_size{.values = call.values, .sizes = {}};
  const bool sized = is_sized(any_size);
  try {
    return node_for(sized ? call : any_size);
  } catch (const Error& error) {
    if (sized || error.kind() == ErrorKind::kDevice) refuse(call.values, error);
  }
  try {  // `shape` may fit this call's sizes and not others
    std::shared_ptr<FusedNode> node = node_for(call);
    note_sized(any_size);
    return node;
  } catch (const Error& error) {
    refuse(call.values, error);
  }
}

std::shared_ptr<FusedNode> ValueNode::node_for(const Call& call) {
  const std::shared_ptr<Entry> entry = entry_of(call);
  const std::lock_guard lock(entry->building);
  if (entry->node) return entry->node;
  try {
    return entry->node = build(call);
  } catch (const Error&) {
    forget(entry);
    throw;
  }
}

std::shared_ptr<FusedNode> ValueNode::build(const Call& call) const {
  DivisionRequest request = source_.request;
  request.constants = call.values;
  for (const auto& [name, sizes] : call.sizes) {
    std::vector<onnx::DimRange> ranges;
    for (const int64_t size : sizes) ranges.push_back({size, size, size});
    request.shapes.insert_or_assign(name, std::move(ranges));
  }
  const DeviceProfile device = profile(*source_.device);
  const Division division = divide_by_value(request, source_.settings, device);
  Wiring wiring = wire(division, division.groups.front(), source_.inputs, source_.outputs);
  check_types(wiring, source_.types);
  BuiltEngine built;
  if (!wiring.block.graph.outputs.empty()) {
    CompiledBlock compiled =
        compile_block(wiring.block, device, source_.settings, source_.cache, division.model);
    compiled.weights_stay = true;  // in source_.request.model, for all engines
    built = load_engine(source_.device, std::move(compiled));
  }
  return std::make_shared<FusedNode>(std::move(wiring), std::move(built));
}

}  // namespace tv::ort
