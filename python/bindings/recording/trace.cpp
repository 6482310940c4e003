#include "python/bindings/recording/trace.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <algorithm>
#include <sstream>

namespace tv::script {
namespace {

using c10::IValue;

void add(int64_t number, Trace& trace) {
  trace.text += '#';
  trace.numbers.push_back(number);
}

void add(const IValue& value, Trace& trace) {
  if (value.isInt()) {
    add(value.toInt(), trace);
  } else if (value.isList()) {
    trace.text += '[';
    for (const IValue& item : value.toListRef()) add(item, trace);
    trace.text += ']';
  } else if (value.isDevice()) {
    trace.text += "device";
  } else {
    std::ostringstream text;
    text.precision(17);
    text << value;
    trace.text += text.str() + ',';
  }
}

// Whether there is anything to do depends on strides, which are not the same without data.
bool only_lays_out(const Call& call) {
  return call.name.name == "aten::contiguous" || call.name.name == "aten::clone";
}

void add(const Ref& ref, const torch::jit::Node* node, const Recording& recording,
         const IsNumber& is_number, Trace& trace) {
  trace.text += '%' + std::to_string(ref.call) + '.' + std::to_string(ref.index) + '.' +
                std::to_string(ref.element);
  if (ref.call >= 0 || ref.element >= 0 || !is_number(node->input(ref.index))) return;
  const ObservedValue* observed = recording.observed(node->input(ref.index));
  if (observed) add(observed->number, trace);
}

}  // namespace

const ObservedValue* Recording::observed(const torch::jit::Value* value) const {
  const auto found = values.find(value);
  return found == values.end() ? nullptr : &found->second;
}

const RecordedCalls* Recording::recorded(const torch::jit::Node* node) const {
  const auto found = calls.find(node);
  return found == calls.end() ? nullptr : &found->second;
}

bool names_device(const c10::Type& type) {
  if (type.kind() == c10::TypeKind::OptionalType) return names_device(*type.containedType(0));
  return type.kind() == c10::TypeKind::DeviceObjType;
}

std::string registered_name(const c10::OperatorName& name) {
  return name.overload_name.empty() ? name.name : name.name + "." + name.overload_name;
}

std::string text_of(const ObservedTensor& observed) {
  std::ostringstream text;
  text << observed.dtype << at::IntArrayRef(observed.sizes) << at::IntArrayRef(observed.strides)
       << observed.device << observed.plain;
  return text.str();
}

void trace(const torch::jit::Node* node, const Recording& recording, const IsNumber& is_number,
           Trace& trace) {
  const auto& calls = recording.recorded(node)->calls;
  if (calls.size() == 1 && only_lays_out(calls[0])) return;
  for (const Call& call : calls) {
    const auto op = c10::Dispatcher::singleton().findSchema(call.name);
    trace.text += registered_name(call.name) + '(';
    for (size_t i = 0; i < call.arguments.size(); ++i) {
      const CallArgument& argument = call.arguments[i];
      // The recorder names a device for the run without data where this is left out.
      if (op && names_device(*op->schema().arguments().at(i).type())) {
        trace.text += "device;";
        continue;
      }
      for (const auto& ref : argument.refs) {
        if (ref) add(*ref, node, recording, is_number, trace);
        trace.text += ',';
      }
      if (argument.refs.empty() || !argument.value.isNone()) add(argument.value, trace);
      trace.text += ';';
    }
    for (const auto& output : call.outputs) {
      trace.text += output ? c10::toString(output->dtype) : "None";
      trace.text += '[';
      if (output) {
        for (const int64_t size : output->sizes) add(size, trace);
      }
      trace.text += ']';
    }
    trace.text += ")\n";
  }
}

void trace(const ObservedTensor& observed, Trace& trace) {
  trace.text += "result[";
  for (const int64_t size : observed.sizes) add(size, trace);
  trace.text += "][";
  const std::vector<int64_t> strides = promised_strides(observed);
  for (size_t d = 0; d < strides.size(); ++d) {
    add(observed.sizes[d] == 1 ? kAnyNumber : strides[d], trace);
  }
  trace.text += "]\n";
}

std::vector<int64_t> promised_strides(const ObservedTensor& observed) {
  const size_t rank = observed.sizes.size();
  if (std::find(observed.sizes.begin(), observed.sizes.end(), 0) != observed.sizes.end())
    return observed.strides;
  std::vector<size_t> order;  // outermost first
  for (size_t d = 0; d < rank; ++d) {
    if (observed.sizes[d] != 1) order.push_back(d);
  }
  std::stable_sort(order.begin(), order.end(), [&observed](size_t a, size_t b) {
    return observed.strides[a] > observed.strides[b];
  });
  bool is_dense = true, overlaps = false;
  int64_t expected = 1;
  std::vector<int64_t> strides(rank, 1);
  for (auto d = order.rbegin(); d != order.rend(); ++d) {
    is_dense = is_dense && observed.strides[*d] == expected;
    overlaps = overlaps || observed.strides[*d] == 0;
    strides[*d] = expected;
    expected *= observed.sizes[*d];
  }
  if (is_dense) return observed.strides;
  return overlaps ? std::vector<int64_t>{} : strides;
}

}  // namespace tv::script
