#include "python/bindings/recording/sizes.h"

#include <ATen/Functions.h>
#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/api/module.h>

#include <sstream>

#include "runtime/base/error.h"
#include "runtime/base/sha256.h"

namespace tv::script {
namespace {

constexpr const char* kVersion = "1";

std::string text_of(const Shape& shape) {
  std::string text;
  for (const Expr& expr : shape) text += (text.empty() ? "" : ";") + expr.str();
  return text;
}

Shape shape_of(const std::string& text) {
  Shape shape;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ';');) shape.push_back(Expr::parse(part));
  return shape;
}

std::vector<at::Tensor> without_data(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> made;
  for (const at::Tensor& tensor : tensors) {
    made.push_back(at::empty_strided(tensor.sizes(), tensor.strides(),
                                     tensor.options().device(at::kMeta).requires_grad(false)));
  }
  return made;
}

}  // namespace

std::string SizeRule::str() const {
  std::string text = std::string(kVersion) + "\n" + digest + "\n";
  for (const std::string& name : whole) text += name + " ";
  text += "\n" + std::to_string(strides.size()) + "\n";
  for (const Shape& shape : strides) text += text_of(shape) + "\n";
  for (const Expr& number : numbers) text += number.str() + "\n";
  return text;
}

SizeRule SizeRule::parse(const std::string& text) {
  std::istringstream lines(text);
  const auto next = [&lines] {
    std::string line;
    if (!std::getline(lines, line)) throw Error(ErrorKind::kUser, "[torchscript] a rule is cut");
    return line;
  };
  if (next() != kVersion) throw Error(ErrorKind::kUser, "[torchscript] a rule of another version");
  SizeRule rule;
  rule.digest = next();
  std::istringstream names(next());
  for (std::string name; names >> name;) rule.whole.insert(name);
  const std::string count = next();
  for (int i = 0; i < std::atoi(count.c_str()); ++i) rule.strides.push_back(shape_of(next()));
  for (std::string line; std::getline(lines, line);) rule.numbers.push_back(Expr::parse(line));
  return rule;
}

std::string digest_of(const std::string& text) {
  Sha256 sum;
  sum.update({reinterpret_cast<const uint8_t*>(text.data()), text.size()});
  std::string digest;
  for (const uint8_t byte : sum.finish()) {
    constexpr const char* kDigits = "0123456789abcdef";
    digest += {kDigits[byte >> 4], kDigits[byte & 15]};
  }
  return digest;
}

Trace trace_without_data(const std::shared_ptr<torch::jit::Graph>& graph, const c10::IValue& self,
                         const std::vector<at::Tensor>& inputs,
                         const std::vector<at::Tensor>& weights,
                         const std::set<std::string>& whole) {
  const auto copy = graph->copy();  // recording writes to it
  Recording recording;
  RecordOptions options;
  options.keeps_whole = [&whole](const std::string& name) { return whole.contains(name); };
  options.on_meta = true;
  record(copy, {self, without_data(inputs), without_data(weights)}, options, recording);
  const auto on_meta = [&recording](const torch::jit::Value* value) {
    const ObservedValue* observed = recording.observed(value);
    return observed && !observed->tensors.empty() && observed->tensors.front().device.is_meta();
  };
  Trace made;
  for (const torch::jit::Node* node : copy->nodes()) {
    const RecordedCalls* recorded = recording.recorded(node);
    if (!recorded || recorded->calls.empty()) continue;
    bool computes = false;
    for (const torch::jit::Value* output : node->outputs()) computes |= on_meta(output);
    if (!computes) continue;  // a number of the host
    if (!recorded->refusal.empty()) throw Error(ErrorKind::kUnsupported, recorded->refusal);
    trace(node, recording, [&](const torch::jit::Value* value) { return !on_meta(value); }, made);
  }
  const ObservedValue* results = recording.observed(copy->outputs().at(0));
  for (const ObservedTensor& tensor : results->tensors) trace(tensor, made);
  return made;
}

SizeCheck::SizeCheck(const c10::IValue& self, const std::string& method, const std::string& rule)
    : rule_(SizeRule::parse(rule)) {
  const torch::jit::Module module(self.toObject());
  const auto found = module.find_method(method);
  if (!found) throw Error(ErrorKind::kUser, "[torchscript] the program has lost " + method);
  graph_ = torch::jit::toGraphFunction(found->function()).graph();
}

void SizeCheck::require(const c10::IValue& self, const std::vector<at::Tensor>& inputs,
                        const std::vector<at::Tensor>& weights, const std::vector<int64_t>& symbols,
                        const std::function<bool()>& runs) {
  for (size_t i = 0; i < inputs.size() && i < rule_.strides.size(); ++i) {
    const Shape& wanted = rule_.strides[i];
    for (size_t d = 0; d < wanted.size(); ++d) {
      if (inputs[i].size(static_cast<int64_t>(d)) == 1) continue;
      if (inputs[i].stride(static_cast<int64_t>(d)) == wanted[d].eval(symbols)) continue;
      throw Error(ErrorKind::kUser, "[torch_vulkan::execute] strides of an input");
    }
  }
  const std::lock_guard lock(mutex_);
  auto found = known_.find(symbols);
  if (found == known_.end()) {
    const std::optional<bool> fits = runs() ? holds(self, inputs, weights, symbols) : false;
    // What fails may do so because another thread captures a module just now.
    constexpr int kMostLooks = 3;
    if (fits || ++failed_[symbols] == kMostLooks) {
      found = known_.emplace(symbols, fits.value_or(false)).first;
    }
  }
  if (found != known_.end() && found->second) return;
  throw Error(ErrorKind::kUser,
              "[torch_vulkan::execute] at these sizes the program has other "
              "operators, or sizes that follow another rule");
}

std::optional<bool> SizeCheck::holds(const c10::IValue& self, const std::vector<at::Tensor>& inputs,
                                     const std::vector<at::Tensor>& weights,
                                     const std::vector<int64_t>& symbols) const {
  try {
    std::vector<at::Tensor> given = without_data(inputs);
    for (size_t i = 0; i < given.size(); ++i) {
      // An engine does not ask how its inputs lie in memory, where it does not say so.
      if (rule_.strides.at(i).empty()) given[i] = at::empty(given[i].sizes(), given[i].options());
    }
    const Trace found = trace_without_data(graph_, self, given, weights, rule_.whole);
    if (digest_of(found.text) != rule_.digest) return false;
    if (found.numbers.size() != rule_.numbers.size()) return false;
    for (size_t i = 0; i < found.numbers.size(); ++i) {
      const int64_t number = found.numbers[i];
      if (number != kAnyNumber && number != rule_.numbers[i].eval(symbols)) return false;
    }
    return true;
  } catch (const std::exception&) {
    return std::nullopt;  // PyTorch itself says what is wrong, where something is
  }
}

}  // namespace tv::script
