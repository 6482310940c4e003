#include "python/bindings/torch_trace.h"

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
  const Fact* fact = recording.fact(node->input(ref.index));
  if (fact) add(fact->number, trace);
}

}  // namespace

const Fact* Recording::fact(const torch::jit::Value* value) const {
  const auto found = facts.find(value);
  return found == facts.end() ? nullptr : &found->second;
}

const Recipe* Recording::recipe(const torch::jit::Node* node) const {
  const auto found = recipes.find(node);
  return found == recipes.end() ? nullptr : &found->second;
}

bool names_device(const c10::Type& type) {
  if (type.kind() == c10::TypeKind::OptionalType) return names_device(*type.containedType(0));
  return type.kind() == c10::TypeKind::DeviceObjType;
}

std::string registered_name(const c10::OperatorName& name) {
  return name.overload_name.empty() ? name.name : name.name + "." + name.overload_name;
}

std::string text_of(const TensorFact& fact) {
  std::ostringstream text;
  text << fact.dtype << at::IntArrayRef(fact.sizes) << at::IntArrayRef(fact.strides) << fact.device
       << fact.plain;
  return text.str();
}

void trace(const torch::jit::Node* node, const Recording& recording, const IsNumber& is_number,
           Trace& trace) {
  const auto& calls = recording.recipe(node)->calls;
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

void trace(const TensorFact& fact, Trace& trace) {
  trace.text += "result[";
  for (const int64_t size : fact.sizes) add(size, trace);
  trace.text += "][";
  const std::vector<int64_t> strides = promised_strides(fact);
  for (size_t d = 0; d < strides.size(); ++d) {
    add(fact.sizes[d] == 1 ? kAnyNumber : strides[d], trace);
  }
  trace.text += "]\n";
}

std::vector<int64_t> promised_strides(const TensorFact& fact) {
  const size_t rank = fact.sizes.size();
  if (std::find(fact.sizes.begin(), fact.sizes.end(), 0) != fact.sizes.end()) return fact.strides;
  std::vector<size_t> order;  // outermost first
  for (size_t d = 0; d < rank; ++d) {
    if (fact.sizes[d] != 1) order.push_back(d);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&fact](size_t a, size_t b) { return fact.strides[a] > fact.strides[b]; });
  bool is_dense = true, overlaps = false;
  int64_t expected = 1;
  std::vector<int64_t> strides(rank, 1);
  for (auto d = order.rbegin(); d != order.rend(); ++d) {
    is_dense = is_dense && fact.strides[*d] == expected;
    overlaps = overlaps || fact.strides[*d] == 0;
    strides[*d] = expected;
    expected *= fact.sizes[*d];
  }
  if (is_dense) return fact.strides;
  return overlaps ? std::vector<int64_t>{} : strides;
}

}  // namespace tv::script
