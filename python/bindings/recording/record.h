#pragma once
// What a graph does on example inputs: the types of its values and the operators behind its nodes.

#include <torch/csrc/jit/ir/ir.h>

#include <functional>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace tv::script {

struct ObservedTensor {
  at::ScalarType dtype;
  std::vector<int64_t> sizes, strides;
  c10::Device device;
  bool plain;     ///< strided: sparse, quantised or opaque one
  bool is_whole;  ///< its row-major elements are all that its storage holds
};

/// What a value was in every execution.
struct ObservedValue {
  bool varies = false;  ///< another type, size or number from one execution to the next
  bool is_tensor = false, is_list = false;
  std::vector<ObservedTensor> tensors;  ///< one for a tensor, one each for a list of tensors
  c10::IValue value;                    ///< of what is no tensor
  c10::IValue number;  ///< what a CPU tensor without dimensions held; None of others
  bool number_varies = false;
};

/// A tensor inside a node: input `index` of the node where `call` is -1, else output `index` of
/// that call; `element` of a list where it is not -1.
struct Ref {
  int call = -1, index = 0, element = -1;
};

struct CallArgument {
  bool is_tensor = false, is_list = false;
  std::vector<std::optional<Ref>> refs;  ///< nothing for None, and for a number
  c10::IValue value;  ///< of what is no tensor; for a tensor the number that stands in its place
};

/// One operator of the dispatcher, as it was called.
struct Call {
  c10::OperatorName name;
  std::vector<CallArgument> arguments;
  std::vector<std::optional<ObservedTensor>> outputs;  ///< those of a list one by one
};

/// A node as the operators that it calls.
struct RecordedCalls {
  std::string refusal;  ///< why there is none
  std::vector<Call> calls;
  std::vector<std::vector<Ref>> outputs;  ///< by output of the node; empty: not made of tensors
  std::string text;                       ///< equal text: equal calls
};

struct Recording {
  std::unordered_map<const torch::jit::Value*, ObservedValue> values;
  std::unordered_map<const torch::jit::Node*, RecordedCalls> calls;

  const ObservedValue* observed(const torch::jit::Value* value) const;
  const RecordedCalls* recorded(const torch::jit::Node* node) const;  ///< null: it was never run
};

struct RecordOptions {
  /// Of the name of a composite operator: whether it is recorded, rather than those that it calls.
  std::function<bool(const std::string&)> keeps_whole;
  /// Tensors have sizes and no data: what the graph makes is put on the meta device, too.
  bool on_meta = false;
};

/// Runs the graph on `inputs` (the module first) and records it; adds to `recording`, so that what
/// varies between calls is seen, too.
void record(const std::shared_ptr<torch::jit::Graph>& graph, std::vector<c10::IValue> inputs,
            const RecordOptions& options, Recording& recording);

/// "aten::add.Tensor", as converters are registered.
std::string registered_name(const c10::OperatorName& name);

/// Whether an argument of this type names a device, or may.
bool names_device(const c10::Type& type);

/// Sizes, strides and dtype as one text, for comparison.
std::string text_of(const ObservedTensor& observed);

}  // namespace tv::script
