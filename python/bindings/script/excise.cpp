// Where an engine's nodes end: what it is given, what it gives, and what it takes for granted.

#include <algorithm>
#include <map>
#include <set>

#include "python/bindings/script/nodes.h"
#include "python/bindings/script/surgery.h"
#include "runtime/base/error.h"

namespace tv::script {
namespace {

using torch::jit::Node;
using torch::jit::Value;
using Nodes = std::unordered_set<const Node*>;
namespace prim = c10::prim;

template <typename T>
void add_once(std::vector<T*>& list, T* item) {
  if (std::find(list.begin(), list.end(), item) == list.end()) list.push_back(item);
}

bool reads_device(const Node* node) {
  static const std::set<std::string> kinds = {"prim::device", "prim::is_cuda", "prim::is_cpu",
                                              "prim::type"};
  return kinds.contains(node->kind().toQualString());
}

// A device among its arguments, or no tensor that says on which one results are.
bool names_device(const RecordedCalls& recorded) {
  return std::any_of(recorded.calls.begin(), recorded.calls.end(), [](const Call& call) {
    bool takes_tensors = false;
    for (const CallArgument& argument : call.arguments) {
      if (argument.value.isDevice()) return true;
      takes_tensors |= std::any_of(argument.refs.begin(), argument.refs.end(),
                                   [](const auto& ref) { return ref.has_value(); });
    }
    return !takes_tensors;
  });
}

class Excisor {
 public:
  Excisor(const Region& region, const ImportContext& context)
      : region_(region), context_(context), inside_(region.nodes.begin(), region.nodes.end()) {}

  Excision run(const std::vector<Node*>& nodes) {
    made_ = {};
    made_.nodes = nodes;
    members_ = Nodes(nodes.begin(), nodes.end());
    helpers_.clear();
    for (Node* node : nodes) take_tensors(node);
    for (Node* node : nodes) take_numbers(node);
    for (Node* node : region_.nodes) {
      if (helpers_.contains(node)) made_.helpers.push_back(node);
      if (helpers_.contains(node) || members_.contains(node)) made_.both.push_back(node);
    }
    made_.names_device =
        std::any_of(made_.both.begin(), made_.both.end(), [this](const Node* node) {
          return helpers_.contains(node) ? reads_device(node)
                                         : names_device(*context_.recording.recorded(node));
        });
    return std::move(made_);
  }

 private:
  bool is_host(const Value* value) const { return context_.hosts.contains(value->node()); }

  bool is_weight(const Value* value) const {
    return value->node()->kind() == prim::Constant || context_.weights.contains(value);
  }

  bool is_free_inside(const Node* node) const {
    return inside_.contains(node) && !context_.hosts.contains(node) && !members_.contains(node) &&
           is_free(node, context_.recording);
  }

  bool depends_on_members(const Node* node) const {
    if (members_.contains(node)) return true;
    return is_free_inside(node) &&
           std::any_of(node->inputs().begin(), node->inputs().end(),
                       [this](const Value* input) { return depends_on_members(input->node()); });
  }

  void take_tensors(Node* node) {
    for (Value* input : node->inputs()) {
      Node* from = input->node();
      if (!holds_tensors(input) || is_host(input) || is_weight(input) || members_.contains(from) ||
          helpers_.contains(from)) {
        continue;
      }
      const bool is_list = from->kind() == prim::ListConstruct && inside_.contains(from);
      if (is_list || (is_free_inside(from) && depends_on_members(from))) {
        helpers_.insert(from);
        take_tensors(from);
      } else {
        add_once(made_.inputs, input);
      }
    }
  }

  // Helpers that hand on tensors may take numbers, too.
  void take_numbers(Node* node) {
    for (Value* input : node->inputs()) {
      if (!holds_tensors(input) || is_host(input)) {
        take_number(input);
      } else if (helpers_.contains(input->node()) && visited_.insert(input->node()).second) {
        take_numbers(input->node());
      }
    }
  }

  void take_number(Value* value) {
    Node* from = value->node();
    if (from->kind() == prim::Constant || helpers_.contains(from)) return;
    const bool is_own = inside_.contains(from) && is_host(value) && from->kind() != prim::GetAttr &&
                        !is_of_other_sizes(from);
    if (is_own && knows_tensors_of(from)) {
      helpers_.insert(from);
      take_numbers(from);
    } else if (changes_with_sizes(value)) {
      if (value->type()->kind() != c10::TypeKind::IntType) {
        throw Error(ErrorKind::kUnsupported,
                    "it depends on a " + value->type()->str() + " that changes with the sizes");
      }
      add_once(made_.carried, value);
    } else if (is_comparable(value)) {
      add_once(made_.guards, value);
    } else {
      throw Error(ErrorKind::kUnsupported,
                  "it depends on a " + value->type()->str() + " that is made elsewhere");
    }
  }

  // One of the sizes of a tensor that the engine does not know.
  bool is_of_other_sizes(const Node* node) const {
    static const c10::Symbol item = c10::Symbol::fromQualString("aten::__getitem__");
    if (node->kind() != prim::ListUnpack && node->kind() != item) return false;
    return !knows_tensors_of(node->input(0)->node());
  }

  bool changes_with_sizes(const Value* value) const {
    const auto values = context_.runs.plain(value);
    return std::any_of(values.begin(),
                       values.begin() + static_cast<ptrdiff_t>(context_.runs.fitted),
                       [&values](const c10::IValue& other) { return other != values[0]; });
  }

  // Whether the shapes of the engine's own tensors say what the node computes.
  bool knows_tensors_of(const Node* node) const {
    return std::all_of(node->inputs().begin(), node->inputs().end(), [this](const Value* input) {
      if (!holds_tensors(input) || is_host(input) || is_weight(input)) return true;
      if (members_.contains(input->node()) || helpers_.contains(input->node())) return true;
      return std::find(made_.inputs.begin(), made_.inputs.end(), input) != made_.inputs.end();
    });
  }

  const Region& region_;
  const ImportContext& context_;
  const Nodes inside_;
  Excision made_;
  Nodes members_, helpers_, visited_;
};

// Which nodes of a region somebody outside of all engines needs.
class Liveness {
 public:
  Liveness(const Region& region, const std::vector<Excision>& excisions,
           const ImportContext& context)
      : context_(context), inside_(region.nodes.begin(), region.nodes.end()) {
    for (const Excision& excision : excisions) {
      members_.insert(excision.nodes.begin(), excision.nodes.end());
      wanted_.insert(excision.inputs.begin(), excision.inputs.end());
      wanted_.insert(excision.guards.begin(), excision.guards.end());
      wanted_.insert(excision.carried.begin(), excision.carried.end());
    }
  }

  bool is_read(const Value* value) {
    if (wanted_.contains(value)) return true;
    return std::any_of(value->uses().begin(), value->uses().end(),
                       [this](const auto& use) { return is_live(use.user); });
  }

 private:
  // Engines take copies of helpers with them, so only others make the originals live.
  bool is_live(const Node* node) {
    if (!inside_.contains(node)) return true;
    if (members_.contains(node)) return false;
    if (!context_.hosts.contains(node) && !is_free(node, context_.recording)) return true;
    const auto found = known_.find(node);
    if (found != known_.end()) return found->second;
    const bool live = std::any_of(node->outputs().begin(), node->outputs().end(),
                                  [this](const Value* output) { return is_read(output); });
    return known_[node] = live;
  }

  const ImportContext& context_;
  const Nodes inside_;
  Nodes members_;
  std::unordered_set<const Value*> wanted_;
  std::unordered_map<const Node*, bool> known_;
};

}  // namespace

std::vector<Excision> excise(const Region& region, const std::vector<std::vector<Node*>>& engines,
                             const ImportContext& context) {
  std::vector<Excision> made;
  for (const auto& nodes : engines) {
    try {
      made.push_back(Excisor(region, context).run(nodes));
    } catch (const Error& error) {
      made.push_back({});
      made.back().refusal = error.what();
    }
  }
  Liveness liveness(region, made, context);
  for (Excision& excision : made) {
    for (Node* node : excision.nodes) {
      for (Value* value : node->outputs()) {
        if (holds_tensors(value) && liveness.is_read(value)) excision.outputs.push_back(value);
      }
    }
  }
  return made;
}

void gather(const Region& region, const std::vector<Excision>& excisions) {
  struct Unit {
    std::vector<Node*> nodes;
    std::vector<const Value*> reads;
  };
  std::vector<Unit> units;
  std::unordered_map<const Node*, size_t> unit_of;
  for (const Excision& excision : excisions) {
    if (excision.nodes.empty()) continue;
    Unit unit{excision.nodes, {excision.inputs.begin(), excision.inputs.end()}};
    unit.reads.insert(unit.reads.end(), excision.guards.begin(), excision.guards.end());
    unit.reads.insert(unit.reads.end(), excision.carried.begin(), excision.carried.end());
    for (const Node* node : excision.nodes) unit_of[node] = units.size();
    units.push_back(std::move(unit));
  }
  std::unordered_map<const Node*, size_t> place;
  for (Node* node : region.nodes) {
    place[node] = place.size();
    if (unit_of.emplace(node, units.size()).second) {
      units.push_back({{node}, {node->inputs().begin(), node->inputs().end()}});
    }
  }
  std::vector<std::set<size_t>> before(units.size()), after(units.size());
  for (size_t u = 0; u < units.size(); ++u) {
    for (const Value* value : units[u].reads) {
      const auto from = unit_of.find(value->node());
      if (from == unit_of.end() || from->second == u) continue;
      before[u].insert(from->second);
      after[from->second].insert(u);
    }
  }
  std::set<std::pair<size_t, size_t>> ready;  // by place of the first node
  const auto offer = [&](size_t u) { ready.emplace(place.at(units[u].nodes.front()), u); };
  for (size_t u = 0; u < units.size(); ++u) {
    if (before[u].empty()) offer(u);
  }
  size_t done = 0;
  std::vector<Node*> order;
  while (!ready.empty()) {
    const size_t u = ready.begin()->second;
    ready.erase(ready.begin());
    ++done;
    order.insert(order.end(), units[u].nodes.begin(), units[u].nodes.end());
    for (const size_t next : after[u]) {
      before[next].erase(u);
      if (before[next].empty()) offer(next);
    }
  }
  if (done != units.size()) {
    throw Error(ErrorKind::kInternal, "[torchscript] the engines wait for each other");
  }
  for (Node* node : order) node->moveBefore(region.end);
}

}  // namespace tv::script
