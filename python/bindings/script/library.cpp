// torch.ops.torch_vulkan_script.compile: what tv.compile calls for a ScriptModule.

#include <torch/library.h>

#include <nlohmann/json.hpp>

#include "python/bindings/script.h"
#include "python/bindings/torch/border.h"
#include "runtime/base/error.h"

namespace {

using nlohmann::json;
using tv::script::Options;

Options to_options(const std::string& text) {
  const json given = json::parse(text);
  Options options;
  options.settings = given.at("settings").get<std::string>();
  options.cache = given.at("cache").get<std::string>();
  options.device = given.at("device").get<std::string>();
  options.immutable_weights = given.at("immutable_weights").get<bool>();
  options.pass_through_build_failures = given.at("pass_through_build_failures").get<bool>();
  options.fitted = given.at("fitted").get<size_t>();
  options.usual = given.at("usual").get<size_t>();
  options.dry_run_for = given.at("dry_run_for").get<std::string>();
  return options;
}

std::string to_json(const tv::script::Result& result) {
  json text = {{"engines", json::array()}, {"native", json::array()}, {"reports", json::array()}};
  for (const auto& engine : result.engines) {
    text["engines"].push_back({{"name", engine.name},
                               {"compute_nodes", engine.compute_nodes},
                               {"build_s", engine.build_s}});
  }
  for (const auto& native : result.native) {
    text["native"].push_back({{"op", native.op},
                              {"reason", native.reason},
                              {"source", native.source},
                              {"module_path", native.module_path}});
  }
  for (const std::string& report : result.reports) text["reports"].push_back(json::parse(report));
  text["failures"] = result.failures;
  text["compute_nodes"] = result.compute_nodes;
  text["covered_nodes"] = result.covered_nodes;
  text["is_whole"] = result.is_whole();
  return text.dump();
}

// `examples`: a list of tuples of arguments.
std::tuple<c10::IValue, std::string> compile(const c10::IValue& module, const c10::IValue& examples,
                                             const std::string& options) {
  std::vector<std::vector<c10::IValue>> sets;
  for (const c10::IValue& set : examples.toTupleRef().elements()) {
    sets.push_back(set.toTupleRef().elements().vec());
  }
  try {
    auto result =
        tv::script::compile(torch::jit::Module(module.toObject()), sets, to_options(options));
    return {result.module._ivalue(), to_json(result)};
  } catch (const tv::Error& error) {
    tv::torch_bindings::rethrow(error);
  }
}

void compile_boxed(const c10::OperatorHandle&, torch::jit::Stack* stack) {
  const std::string options = torch::jit::pop(*stack).toStringRef();
  const c10::IValue examples = torch::jit::pop(*stack);
  const c10::IValue module = torch::jit::pop(*stack);
  auto [compiled, report] = compile(module, examples, options);
  torch::jit::push(*stack, compiled, report);
}

}  // namespace

TORCH_LIBRARY(torch_vulkan_script, m) {
  m.def("compile(Any module, Any examples, str options) -> (Any, str)",
        torch::CppFunction::makeFromBoxedFunction<&compile_boxed>());
}
