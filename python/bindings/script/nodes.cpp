#include "python/bindings/script/nodes.h"

#include <torch/csrc/jit/ir/constants.h>

#include <algorithm>
#include <set>

namespace tv::script {
namespace {

using torch::jit::Block;
using torch::jit::Node;
using torch::jit::Value;
namespace prim = c10::prim;

// Operators that read the type of a tensor and none of its elements.
bool reads_type_only(const Node* node) {
  static const std::set<std::string> kinds = {"aten::size",
                                              "aten::dim",
                                              "aten::ndimension",
                                              "aten::numel",
                                              "aten::stride",
                                              "aten::len",
                                              "aten::is_floating_point",
                                              "aten::is_complex",
                                              "aten::is_contiguous",
                                              "aten::__is__",
                                              "aten::__isnot__",
                                              "prim::dtype",
                                              "prim::device",
                                              "prim::layout",
                                              "prim::shape",
                                              "prim::is_cuda",
                                              "prim::is_cpu",
                                              "prim::type",
                                              "prim::requires_grad",
                                              "prim::ndim",
                                              "prim::itemsize",
                                              "aten::sym_size",
                                              "aten::result_type",
                                              "aten::element_size"};
  return kinds.contains(node->kind().toQualString());
}

bool is_pure(const Node* node) {
  return node->blocks().empty() && !is_barrier(node) && !node->outputs().empty();
}

// Attention without dropout draws none, whatever torch::jit says.
bool draws_random_numbers(const Node* node) {
  if (node->kind() != c10::Symbol::fromQualString("aten::scaled_dot_product_attention")) {
    return node->isNondeterministic();
  }
  const auto dropout = torch::jit::toIValue(node->namedInput("dropout_p"));
  return !dropout || dropout->toDouble() != 0;
}

class Hosts {
 public:
  explicit Hosts(const Recording& recording) : recording_(recording) {}

  void visit(const Block* block) {
    for (const Node* node : block->nodes()) {
      if (is_host(node)) found.insert(node);
      for (const Block* inner : node->blocks()) visit(inner);
    }
  }

  std::unordered_set<const Node*> found;

 private:
  // A tensor that stands for a number: made of sizes, without dimensions.
  bool is_number(const Value* value) const {
    if (!found.contains(value->node())) return false;
    const auto constant = torch::jit::toIValue(value);
    return !constant || !constant->isTensor() || constant->toTensor().dim() == 0;
  }

  bool is_host(const Node* node) const {
    if (node->kind() == prim::Constant) return true;
    if (!is_pure(node)) return false;
    const auto inputs = node->inputs();
    const bool of_numbers = std::all_of(inputs.begin(), inputs.end(), [this](const Value* input) {
      return !holds_tensors(input) || is_number(input);
    });
    const auto outputs = node->outputs();
    const bool makes_tensors = std::any_of(outputs.begin(), outputs.end(), holds_tensors);
    if (!makes_tensors) return of_numbers || reads_type_only(node);
    return of_numbers && makes_number(node);
  }

  // prim::NumToTensor of a size, and arithmetic on such.
  bool makes_number(const Node* node) const {
    if (node->outputs().size() != 1) return false;
    const ObservedValue* observed = recording_.observed(node->output());
    if (!observed || observed->number.isNone()) return false;
    if (node->kind() == prim::NumToTensor) return true;
    const auto inputs = node->inputs();
    return std::any_of(inputs.begin(), inputs.end(), [](const Value* input) {
      return holds_tensors(input) && input->node()->kind() != prim::Constant;
    });
  }

  const Recording& recording_;
};

}  // namespace

std::unordered_set<const Node*> host_nodes(const torch::jit::Graph& graph,
                                           const Recording& recording) {
  Hosts hosts(recording);
  hosts.visit(graph.block());
  return std::move(hosts.found);
}

bool is_free(const Node* node, const Recording& recording) {
  if (is_barrier(node) || !node->blocks().empty()) return false;
  const auto outputs = node->outputs();
  if (!std::any_of(outputs.begin(), outputs.end(), holds_tensors)) return false;
  if (node->kind() == prim::ListConstruct) return true;
  const RecordedCalls* recorded = recording.recorded(node);
  return recorded && recorded->refusal.empty() && recorded->calls.empty();
}

bool is_barrier(const Node* node) {
  static const std::set<c10::Symbol> structural = {prim::Constant,
                                                   prim::ListConstruct,
                                                   prim::ListUnpack,
                                                   prim::TupleConstruct,
                                                   prim::TupleUnpack,
                                                   prim::TupleIndex,
                                                   prim::TupleSlice,
                                                   prim::NumToTensor,
                                                   prim::GetAttr,
                                                   prim::unchecked_cast,
                                                   prim::unchecked_unwrap_optional,
                                                   prim::Uninitialized};
  if (!node->blocks().empty()) return true;
  if (node->kind() == prim::GetAttr) return holds_tensors(node->output());
  if (structural.contains(node->kind())) return false;
  const auto* schema = node->maybeSchema();
  return !schema || schema->is_mutable() || node->hasSideEffects() || draws_random_numbers(node);
}

bool holds_tensors(const Value* value) {
  const c10::TypePtr& type = value->type();
  switch (type->kind()) {
    case c10::TypeKind::TensorType:
      return true;
    case c10::TypeKind::ListType:
    case c10::TypeKind::OptionalType:
    case c10::TypeKind::TupleType:
    case c10::TypeKind::DictType:
    case c10::TypeKind::UnionType:
      return std::any_of(type->containedTypes().begin(), type->containedTypes().end(),
                         [](const c10::TypePtr& inner) {
                           return inner->isSubtypeOf(*c10::TensorType::get()) ||
                                  inner->str().find("Tensor") != std::string::npos;
                         });
    default:
      return false;
  }
}

bool is_comparable(const Value* value) {
  static const std::set<std::string> types = {"int",   "float",   "bool",   "str",
                                              "int[]", "float[]", "bool[]", "Device"};
  return types.contains(value->type()->str());
}

std::string source_of(const Node* node) {
  const auto place = node->sourceRange().file_line_col();
  if (!place) return "";
  const std::string& file = std::get<0>(*place);
  return file.substr(file.rfind('/') + 1) + ":" + std::to_string(std::get<1>(*place));
}

std::string module_path_of(const Node* node) {
  std::string path;
  const auto append = [&path](const std::string& name) {
    if (name.empty() || name == "self" || name == "SELF") return;
    path += (path.empty() ? "" : ".") + name;
  };
  if (const auto stack = node->callstack()) {
    for (const auto& entry : (*stack)->vec()) {
      if (const auto& module = std::get<2>(entry)) append(module->instance_name());
    }
  }
  return path;
}

std::string op_of(const Node* node) {
  const auto* schema = node->maybeSchema();
  std::string name = node->kind().toQualString();
  if (schema && !schema->overload_name().empty()) name += "." + schema->overload_name();
  return name;
}

}  // namespace tv::script
