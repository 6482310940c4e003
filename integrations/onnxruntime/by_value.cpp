#include "integrations/onnxruntime/by_value.h"

#include <algorithm>
#include <cstring>
#include <sstream>

#include "csrc/division/trials.h"
#include "csrc/frontends/onnx/file/tensor.h"
#include "integrations/onnxruntime/sizes.h"

namespace tv::ort {
namespace {

using onnx::ConstantInput;

constexpr size_t kMostSized = 64;  ///< values that are known to need an engine for each size

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
  if (!onnx::can_set_shapes(made.dtype) || count > onnx::kMostShapeElements) {
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

[[noreturn]] void refuse(const std::map<std::string, ConstantInput>& values, const Error& error) {
  if (error.kind() == ErrorKind::kDevice) throw Error(error);
  throw Error(error.kind(), "no engine takes " + text_of(values) + ": " + error.what() +
                                " (max_shape_values=0 leaves models with inputs that set shapes to "
                                "the CPU provider)");
}

}  // namespace

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
    if (source_.request.import.constants.contains(name)) {
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
  onnx::DivisionRequest request = source_.request;
  request.import.constants = call.values;
  for (const auto& [name, sizes] : call.sizes) {
    std::vector<onnx::DimRange> ranges;
    for (const int64_t size : sizes) ranges.push_back({size, size, size});
    request.import.inputs.insert_or_assign(name, std::move(ranges));
  }
  const DeviceProfile device = profile(*source_.device);
  const onnx::GroupedDivision division = onnx::divide_by_value(request, source_.settings, device);
  Wiring wiring = wire(division, division.groups.front(), source_.inputs, source_.outputs);
  check_types(wiring, source_.types);
  BuiltEngine built;
  if (!wiring.block.graph.outputs.empty()) {
    CompiledBlock compiled =
        compile_block(wiring.block, device, source_.settings, source_.cache, division.model);
    compiled.weights_stay = true;  // in source_.request.model, for all engines
    built = load_engine(source_.device, std::move(compiled), source_.settings.weight_budget);
  }
  return std::make_shared<FusedNode>(std::move(wiring), std::move(built), source_.layers);
}

}  // namespace tv::ort
