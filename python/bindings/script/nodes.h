#pragma once
// What kinds of nodes there are, and what they say of themselves.

#include <torch/csrc/jit/ir/ir.h>

#include <string>
#include <unordered_set>

#include "python/bindings/recording/record.h"

namespace tv::script {

/// Nodes that compute numbers (sizes, dtypes, lists of them, arithmetic, and what a trace writes
/// for it: tensors without dimensions made of sizes) from the types of tensors alone: TorchScript
/// runs them, engines are specialised for their results. Constants are among them.
std::unordered_set<const torch::jit::Node*> host_nodes(const torch::jit::Graph& graph,
                                                       const Recording& recording);

/// True for a node that makes no tensor and only hands some on: a list of them, or an operator that
/// returns its argument.
bool is_free(const torch::jit::Node* node, const Recording& recording);

/// True for a node that has to stay where it is: control flow, side effects, writes, random
/// numbers.
bool is_barrier(const torch::jit::Node* node);

/// Whether values of this type are tensors, or lists or optional ones of them.
bool holds_tensors(const torch::jit::Value* value);

/// Whether TorchScript can compare values of this type with a constant.
bool is_comparable(const torch::jit::Value* value);

/// "file.py:12" and "layer1.0.conv1" of a node; "" if it does not say.
std::string source_of(const torch::jit::Node* node);
std::string module_path_of(const torch::jit::Node* node);
/// "aten::conv2d", with the overload where there is one.
std::string op_of(const torch::jit::Node* node);

}  // namespace tv::script
