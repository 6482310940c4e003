#include "python/bindings/script/prepare.h"

#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/passes/common_subexpression_elimination.h>
#include <torch/csrc/jit/passes/constant_pooling.h>
#include <torch/csrc/jit/passes/constant_propagation.h>
#include <torch/csrc/jit/passes/dead_code_elimination.h>
#include <torch/csrc/jit/passes/inliner.h>
#include <torch/csrc/jit/passes/lower_tuples.h>
#include <torch/csrc/jit/passes/normalize_ops.h>
#include <torch/csrc/jit/passes/peephole.h>
#include <torch/csrc/jit/passes/remove_dropout.h>
#include <torch/csrc/jit/passes/remove_mutation.h>
#include <torch/csrc/jit/passes/shape_analysis.h>

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>

#include "python/bindings/script/encoder.h"
#include "runtime/base/error.h"

namespace tv::script {
namespace {

using c10::IValue;
using torch::jit::Block;
using torch::jit::Graph;
using torch::jit::Node;
using torch::jit::Value;
namespace prim = c10::prim;

// The attributes that a graph reads: numbers become constants, tensors one value each at its top.
class Attributes {
  struct Known {
    c10::intrusive_ptr<c10::ivalue::Object> object;
    std::string path;
  };

 public:
  Attributes(const torch::jit::Module& module, Graph& graph) : graph_(graph) {
    find_set(graph.block());
    root_ = {module._ivalue(), ""};
    known_[graph.inputs().at(0)] = root_;
    resolve(graph.block());
  }

  /// The tensors that are read at the graph's top now.
  std::vector<Weight> weights() const {
    std::vector<Weight> found;
    std::unordered_map<const Value*, Known> owners{{graph_.inputs().at(0), root_}};
    for (Node* node : graph_.nodes()) {
      if (node->kind() != prim::GetAttr || !owners.contains(node->input())) continue;
      const Known from = owners[node->input()];
      const std::string& name = node->s(c10::attr::name);
      const std::string path = from.path.empty() ? name : from.path + "." + name;
      const IValue held = from.object->getAttr(name);
      if (held.isModule()) owners[node->output()] = {held.toObject(), path};
      if (held.isTensor() && !set_.contains(name)) found.push_back({node->output(), path});
    }
    return found;
  }

 private:
  void find_set(const Block* block) {
    for (const Node* node : block->nodes()) {
      if (node->kind() == prim::SetAttr) set_.insert(node->s(c10::attr::name));
      for (const Block* inner : node->blocks()) find_set(inner);
    }
  }

  void resolve(Block* block) {
    for (auto it = block->nodes().begin(); it != block->nodes().end();) {
      Node* node = *it++;
      for (Block* inner : node->blocks()) resolve(inner);
      if (node->kind() == prim::GetAttr) resolve(node);  // which may end it
    }
  }

  void resolve(Node* node) {
    const auto owner = known_.find(node->input());
    if (owner == known_.end()) return;
    const std::string name = node->s(c10::attr::name);
    const Known from = owner->second;
    const IValue held = from.object->getAttr(name);
    const std::string path = from.path.empty() ? name : from.path + "." + name;
    if (held.isModule()) {
      known_[node->output()] = {held.toObject(), path};
    } else if (!set_.contains(name)) {
      if (held.isTensor()) {
        hoist(node, path);
      } else if (is_number(held) && !(held.isList() && is_mutated(node->output()))) {
        make_constant(node, held);
      }
    }
  }

  static bool is_number(const IValue& value) {
    if (value.isTuple()) {
      const auto& items = value.toTupleRef().elements();
      return std::all_of(items.begin(), items.end(), is_number);
    }
    return value.isNone() || value.isInt() || value.isDouble() || value.isBool() ||
           value.isString() || value.isDevice() || value.isIntList() || value.isDoubleList() ||
           value.isBoolList();
  }

  static bool is_mutated(const Value* value) {
    return std::any_of(value->uses().begin(), value->uses().end(), [](const auto& use) {
      const auto* schema = use.user->maybeSchema();
      return !schema || schema->is_mutable();
    });
  }

  void make_constant(Node* node, const IValue& held) {
    const torch::jit::WithInsertPoint at(node);
    if (const auto constant = torch::jit::tryInsertConstant(graph_, held)) {
      (*constant)->setType(node->output()->type());
      node->output()->replaceAllUsesWith(*constant);
      node->destroy();
    }
  }

  // Every read of a tensor becomes the same value, made before all else.
  void hoist(Node* node, const std::string& path) {
    auto& made = hoisted_[path];
    if (!made) {
      made = chain(path);
      made->setType(node->output()->type());
    }
    node->output()->replaceAllUsesWith(made);
    node->destroy();
  }

  Value* chain(const std::string& path) {
    const torch::jit::WithInsertPoint at(top_ ? top_->next() : *graph_.nodes().begin());
    Value* value = graph_.inputs().at(0);
    for (size_t begin = 0; begin <= path.size();) {
      const size_t end = std::min(path.find('.', begin), path.size());
      value = graph_.insertGetAttr(value, path.substr(begin, end - begin));
      begin = end + 1;
    }
    top_ = value->node();
    return value;
  }

  Graph& graph_;
  Known root_;
  std::set<std::string> set_;
  std::unordered_map<const Value*, Known> known_;
  std::map<std::string, Value*> hoisted_;
  Node* top_ = nullptr;
};

// Dropout that drops nothing, in place too, which torch's own pass leaves.
void remove_idle_dropout(Block* block) {
  static const std::set<c10::Symbol> kinds = {
      c10::Symbol::fromQualString("aten::dropout_"),
      c10::Symbol::fromQualString("aten::feature_dropout_"),
      c10::Symbol::fromQualString("aten::alpha_dropout_"),
      c10::Symbol::fromQualString("aten::feature_alpha_dropout_")};
  for (auto it = block->nodes().begin(); it != block->nodes().end();) {
    Node* node = *it++;
    for (Block* inner : node->blocks()) remove_idle_dropout(inner);
    if (!kinds.contains(node->kind())) continue;
    const auto train = torch::jit::toIValue(node->namedInput("train"));
    if (!train || train->toBool()) continue;
    node->output()->replaceAllUsesWith(node->input(0));
    node->destroy();
  }
}

void simplify(std::shared_ptr<Graph>& graph) {
  torch::jit::EraseShapeInformation(graph);  // a trace's: the sizes of the tracing
  constexpr int kRounds = 2;
  for (int i = 0; i < kRounds; ++i) {
    torch::jit::ConstantPropagation(graph);
    torch::jit::LowerSimpleTuples(graph);
    remove_idle_dropout(graph->block());
    torch::jit::RemoveListMutation(graph);
    torch::jit::RemoveTensorMutation(graph);
    torch::jit::NormalizeOps(graph);
    torch::jit::PeepholeOptimize(graph, /*disable_shape_peepholes=*/true);
    torch::jit::EliminateDeadCode(graph);
  }
  torch::jit::removeDropout(graph);
  torch::jit::EliminateCommonSubexpression(graph);
  torch::jit::ConstantPooling(graph);
  torch::jit::EliminateDeadCode(graph);
}

// Of modules behind an interface, which cannot be inlined.
bool calls_methods(const Block* block) {
  for (const Node* node : block->nodes()) {
    if (node->kind() == prim::CallMethod) return true;
    for (const Block* inner : node->blocks()) {
      if (calls_methods(inner)) return true;
    }
  }
  return false;
}

void remove_methods(const torch::jit::Module& module, bool is_root) {
  std::vector<std::string> names;
  for (const auto& method : module.get_methods()) {
    if (!is_root || method.name() != "forward") names.push_back(method.name());
  }
  for (const std::string& name : names) module.type()->unsafeRemoveMethod(name);
  for (const torch::jit::Module& child : module.children()) remove_methods(child, false);
}

}  // namespace

Prepared prepare(const torch::jit::Module& module) {
  if (!module.find_method("forward")) {
    throw Error(ErrorKind::kUser, "[torchscript] the module has no forward");
  }
  Prepared made{module.clone(/*inplace=*/true), nullptr, {}};
  made.graph = torch::jit::toGraphFunction(made.module.get_method("forward").function()).graph();
  torch::jit::Inline(*made.graph);
  const Attributes attributes(made.module, *made.graph);
  simplify(made.graph);  // branches that make nested tensors are gone then, where they can be
  if (take_encoder_layers_apart(*made.graph)) simplify(made.graph);
  if (!calls_methods(made.graph->block())) remove_methods(made.module, true);
  made.weights = attributes.weights();
  return made;
}

}  // namespace tv::script
