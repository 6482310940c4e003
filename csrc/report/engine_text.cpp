// An engine's layers as JSON and as lines of text.

#include <nlohmann/json.hpp>

#include "csrc/report/engine_graph.h"

namespace tv {
namespace {

using json = nlohmann::ordered_json;

json dimensions(const Shape& shape, const std::vector<Symbol>& symbols) {
  json out = json::array();
  for (const Expr& dim : shape) {
    const auto known = dim.constant();
    out.push_back(known ? json(*known) : json(named(dim, symbols)));
  }
  return out;
}

json bindings(const std::vector<Binding>& list, const std::vector<Symbol>& symbols) {
  json out = json::array();
  for (const Binding& binding : list) {
    out.push_back({{"Name", binding.name},
                   {"DataType", std::string(name(binding.dtype))},
                   {"Dimensions", dimensions(binding.shape, symbols)}});
  }
  return out;
}

json operands(const EngineSpec& spec, const Dispatch& dispatch, bool written) {
  json out = json::array();
  for (const OperandRange& o : dispatch.operands) {
    if (written ? !o.write : !o.read) continue;
    const Buffer& buffer = spec.buffers[o.buffer];
    const auto bytes = o.size_bytes.constant();
    json entry = {{"Name", buffer.name},
                  {"Bytes", bytes ? json(*bytes) : json(named(o.size_bytes, spec.symbols))}};
    const std::vector<Binding>* list = buffer.kind == BufferKind::kInput    ? &spec.inputs
                                       : buffer.kind == BufferKind::kOutput ? &spec.outputs
                                       : buffer.kind == BufferKind::kWeight ? &spec.weights
                                                                            : nullptr;
    if (list) {
      const Binding& binding = (*list)[buffer.index];
      entry["Name"] = binding.name;
      entry["DataType"] = std::string(name(binding.dtype));
      entry["Dimensions"] = dimensions(binding.shape, spec.symbols);
    }
    const bool constant =
        buffer.kind == BufferKind::kWeight || buffer.kind == BufferKind::kPersistent;
    entry["Constant"] = constant;
    out.push_back(std::move(entry));
  }
  return out;
}

json layer(const EngineSpec& spec, const Dispatch& d) {
  return {{"Name", d.name},
          {"LayerType", d.ops.empty() ? "copy" : d.ops.front()},
          {"Inputs", operands(spec, d, false)},
          {"Outputs", operands(spec, d, true)},
          {"TacticName", d.tactic},
          {"Metadata", d.source},
          {"Ops", d.ops},
          {"ModulePath", d.module_path},
          {"TunedUs", d.time_us}};
}

json layers(const EngineSpec& spec, const std::vector<Dispatch>& dispatches) {
  json out = json::array();
  for (const Dispatch& d : dispatches) out.push_back(layer(spec, d));
  return out;
}

}  // namespace

std::string engine_layers_json(const EngineSpec& spec) {
  json names = json::array(), symbols = json::array();
  for (const auto* list : {&spec.inputs, &spec.outputs}) {
    for (const Binding& binding : *list) names.push_back(binding.name);
  }
  for (const Symbol& s : spec.symbols) {
    symbols.push_back({{"Name", s.name},
                       {"Min", s.min},
                       {"Opt", s.opt},
                       {"Max", s.max == kUnbounded ? json() : json(s.max)}});
  }
  const json info = {{"Name", spec.name},
                     {"BuilderVersion", spec.builder_version},
                     {"RunsOn", spec.runs_on},
                     {"TunedFor", spec.tuned_for},
                     {"Symbols", symbols},
                     {"Inputs", bindings(spec.inputs, spec.symbols)},
                     {"Outputs", bindings(spec.outputs, spec.symbols)},
                     {"Weights", bindings(spec.weights, spec.symbols)},
                     {"Layers", layers(spec, spec.dispatches)},
                     {"WeightProgram", layers(spec, spec.weight_program)},
                     {"Bindings", names}};
  return info.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

std::string engine_layers_text(const EngineSpec& spec) {
  std::string text;
  for (const Dispatch& d : spec.dispatches) {
    text += (text.empty() ? "" : "\n") + d.name + "  [" + d.tactic + "]";
    for (size_t i = 0; i < d.ops.size(); ++i) text += (i == 0 ? "  " : "+") + d.ops[i];
    if (!d.module_path.empty()) text += "  " + d.module_path;
  }
  return text;
}

}  // namespace tv
