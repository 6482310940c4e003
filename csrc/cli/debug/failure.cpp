#include "csrc/cli/debug/failure.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <sstream>

#include "csrc/cli/bench/exports.h"
#include "csrc/cli/bench/references.h"
#include "csrc/cli/compare/layers.h"
#include "csrc/cli/models/build.h"
#include "csrc/cli/tensors/difference.h"
#include "csrc/cli/tensors/npy.h"
#include "csrc/cli/text/lines.h"

namespace tv::cli {
namespace {

/// A line of a message without what is quoted, what stands in parentheses (the operators of a
/// kernel) and numbers, which parts change.
std::string general(const std::string& line) {
  std::string text;
  char quote = 0;
  int depth = 0;
  for (const char c : line) {
    if (quote == 0 && depth > 0) {
      depth += c == '(' ? 1 : c == ')' ? -1 : 0;
    } else if (quote == 0 && c == '(') {
      depth = 1;
    } else if (quote != 0) {
      if (c == quote) quote = 0;
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c < '0' || c > '9') {
      text += c;
    }
  }
  return text;
}

/// The lines that tell what is wrong; the first of several says only that something is.
std::set<std::string> lines_of(const std::string& message) {
  std::vector<std::string> lines;
  std::istringstream text(message);
  for (std::string line; std::getline(text, line);) lines.push_back(general(line));
  if (lines.size() > 1) lines.erase(lines.begin());
  return {lines.begin(), lines.end()};
}

Tensor copy_of(const Tensor& tensor) {
  Tensor made(tensor.dtype, tensor.shape);
  const auto size = static_cast<size_t>(tensor.bytes.size_bytes());
  if (size > 0) std::memcpy(made.bytes.data(), tensor.bytes.data(), size);
  return made;
}

}  // namespace

Failure Failure::of_status(int status) {
  Failure made;
  if (status == 0) return made;
  made.kind_ = Kind::kStatus;
  made.status_ = status;
  made.text_ = "exit status " + std::to_string(status);
  return made;
}

Failure Failure::of_error(const Error& error) {
  Failure made;
  made.kind_ = Kind::kError;
  made.error_ = error.kind();
  made.lines_ = lines_of(error.what());
  made.text_ = error.what();
  return made;
}

Failure Failure::of_result(std::string text) {
  Failure made;
  made.kind_ = Kind::kResult;
  made.text_ = std::move(text);
  return made;
}

bool Failure::is_like(const Failure& other) const {
  if (kind_ != other.kind_ || status_ != other.status_ || error_ != other.error_) return false;
  return kind_ != Kind::kError || std::ranges::any_of(lines_, [&](const std::string& line) {
           return other.lines_.contains(line);
         });
}

void PartRunner::compute_exactly(onnx::ImportedModel model) {
  Graph& graph = model.graph;
  graph.outputs.clear();
  std::map<ValueId, std::string> shown;
  for (const ValueId input : graph.inputs) shown.emplace(input, graph.value(input).name);
  for (const auto& [name, value] : model.names) {
    if (value.id == kNoValue || graph.value(value.id).kind == ValueKind::kWeight) continue;
    const auto [found, added] = shown.emplace(value.id, name);
    if (added) graph.outputs.push_back({.value = value.id, .name = name, .strides = {}});
    names_.emplace(name, found->second);
  }
  try {
    const Network network = build_network(device_, model, tv::cli::exact(options_));
    Tensors inputs = input_tensors(network, options_);
    tensors_ = run_on(network, inputs);
    tensors_.merge(inputs);
  } catch (const Error& error) {
    tensors_.clear();
    names_.clear();
    warn("The model has no exact engine, so parts run on random tensors, and only errors count: " +
         std::string(error.what()));
    return;
  }
  for (const auto& [name, own] : names_) {
    if (!has_reference(options_, name)) continue;
    Tensor& tensor = tensors_.at(own);
    Tensor read = read_npy(path_of(options_, name), tensor.dtype);
    if (read.shape == tensor.shape && read.dtype == tensor.dtype) tensor = std::move(read);
  }
}

const Tensor* PartRunner::exact(const std::string& name) const {
  const auto own = names_.find(name);
  if (own == names_.end()) return nullptr;
  const auto found = tensors_.find(own->second);
  return found == tensors_.end() ? nullptr : &found->second;
}

Tensors PartRunner::inputs_of(const onnx::ImportedModel& model) const {
  Tensors inputs;
  for (size_t i = 0; i < model.inputs.size(); ++i) {
    const onnx::Binding& input = model.inputs[i];
    if (const Tensor* known = exact(input.name)) {
      inputs.emplace(input.name, copy_of(*known));
      continue;
    }
    const auto file = options_.load_inputs.find(input.name);
    if (file != options_.load_inputs.end() && file->second.ends_with(".npy")) {
      inputs.emplace(input.name, read_npy(file->second, input.dtype));
      continue;
    }
    std::vector<int64_t> shape;
    for (const Expr& dim : input.shape) shape.push_back(dim.eval({}));
    Tensor tensor(input.dtype, shape);
    if (options_.fill == Fill::kRandom) fill_random(tensor, options_.seed + i);
    inputs.emplace(input.name, std::move(tensor));
  }
  return inputs;
}

Failure PartRunner::failure_of(const ModelPart& part) {
  try {
    const onnx::ImportedModel model = part.import();
    const Network network = build_network(device_, model, options_);
    const Tensors results = run_on(network, inputs_of(model));
    for (const auto& [name, got] : results) {
      const Tensor* want = exact(name);
      if (!want) continue;
      const Difference d =
          difference(got, *want, {.absolute = options_.atol, .relative = options_.rtol});
      if (d.good()) continue;
      return Failure::of_result(
          format("output %s is wrong: %lld of %lld elements are outside of %g + %g * |reference|",
                 name.c_str(), static_cast<long long>(d.outside), static_cast<long long>(d.numel),
                 options_.atol, options_.rtol));
    }
  } catch (const Error& error) {
    return Failure::of_error(error);
  }
  return {};
}

void PartRunner::write_tensors(const ModelPart& part, const std::string& directory) const {
  onnx::ImportedModel model;
  try {
    model = part.import();
  } catch (const Error&) {
    return;  // it is what fails
  }
  std::error_code fault;
  std::filesystem::create_directories(directory, fault);
  const auto write = [&](const std::string& name, const Tensor& tensor) {
    write_npy((std::filesystem::path(directory) / (file_name_of(name) + ".npy")).string(), tensor);
  };
  for (const auto& [name, tensor] : inputs_of(model)) write(name, tensor);
  for (const onnx::Binding& output : model.outputs) {
    if (const Tensor* tensor = exact(output.name)) write(output.name, *tensor);
  }
  say("Its tensors are in " + directory + ", for vkexec compare --ref");
}

}  // namespace tv::cli
