// Well-formedness of a Graph, checked after every pass.

#include <unordered_set>

#include "csrc/graph/graph.h"
#include "runtime/base/error.h"

namespace tv {
namespace {

class Checker {
 public:
  Checker(const Graph& graph, const char* after_pass)
      : graph_(graph), after_(after_pass), defined_(graph.values.size(), false) {}

  void run() {
    for (const ValueId v : graph_.inputs) define(v, ValueKind::kInput, "graph input");
    for (const ValueId v : graph_.weights) define(v, ValueKind::kWeight, "weight");
    for (const Node& node : graph_.nodes) check_node(node);
    for (const GraphOutput& out : graph_.outputs) {
      read(out.value, "graph output '" + out.name + "'");
      check_over(out);
    }
    for (const Value& value : graph_.values) check_value(value);
    for (const Condition& c : graph_.conditions) {
      for (const int32_t id : c.symbols()) {
        if (static_cast<size_t>(id) >= graph_.symbols.size())
          fail("the condition " + condition_text(c) + " has an unknown symbol");
      }
    }
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ErrorKind::kInternal, std::string("[graph] after ") + after_ + ": " + what);
  }

  void check_id(ValueId v, const std::string& where) const {
    if (v < 0 || static_cast<size_t>(v) >= graph_.values.size()) {
      fail(where + " names value " + std::to_string(v) + " of " +
           std::to_string(graph_.values.size()));
    }
  }

  void define(ValueId v, ValueKind kind, const std::string& where) {
    check_id(v, where);
    if (graph_.value(v).kind != kind)
      fail(where + " '" + graph_.value(v).name + "' has another kind");
    if (defined_[v]) fail("value '" + graph_.value(v).name + "' is made twice");
    defined_[v] = true;
  }

  void read(ValueId v, const std::string& where) const {
    check_id(v, where);
    const Value& value = graph_.value(v);
    if (value.view) check_id(value.view->base, where);
    if (!defined_[value.view ? value.view->base : v]) {
      fail(where + " reads '" + value.name + "' before it is made");
    }
  }

  void check_over(const GraphOutput& out) {
    const std::string where = "graph output '" + out.name + "'";
    if (out.over == kNoValue) {
      if (any_over_) fail(where + " comes behind one that is written over an input");
      return;
    }
    any_over_ = true;
    check_id(out.over, where);
    const Value &value = graph_.value(out.value), &over = graph_.value(out.over);
    if (over.kind != ValueKind::kInput) fail(where + " is written over what is no input");
    if (!over_.insert(out.over).second) fail(where + " is written over an input like another");
    if (value.dtype != over.dtype || value.shape != over.shape)
      fail(where + " is written over an input of another type");
  }

  void check_node(const Node& node) {
    const std::string where = "node '" + node.name + "' (" + node.op + ")";
    if (!names_.insert(node.name).second) fail(where + ": the name is used twice");
    for (const ValueId v : node.all_inputs()) read(v, where);
    for (const ValueId v : node.outputs) {
      if (v == kNoValue) continue;
      define(v, ValueKind::kNode, where);
      // place_outputs: several nodes write their parts of one storage.
      if (graph_.value(v).view) defined_[graph_.value(v).view->base] = true;
    }
    if (node.op == "tv::pointwise") {
      if (!node.program) fail(where + " has no program");
      check_program(*node.program, node.inputs("inputs").size(), where);
      if (node.program->results.size() != node.outputs.size()) {
        fail(where + ": as many results as outputs are wanted");
      }
    }
    if (node.epilogue) check_program(*node.epilogue, node.epilogue_inputs.size() + 1, where);
    if (node.prologue) check_program(*node.prologue, node.prologue_inputs.size(), where);
  }

  void check_program(const PointwiseProgram& program, size_t inputs,
                     const std::string& where) const {
    if (program.inputs.size() != inputs) fail(where + ": the program has another number of inputs");
    const auto below = [&](const std::vector<int32_t>& operands, size_t limit) {
      for (const int32_t o : operands) {
        if (o < 0 || static_cast<size_t>(o) >= limit) fail(where + ": operand out of range");
      }
    };
    for (size_t i = 0; i < program.instrs.size(); ++i) {
      below(program.instrs[i].operands, inputs + i);
    }
    below(program.results, inputs + program.instrs.size());
  }

  void check_value(const Value& value) const {
    const auto known = [&](const Expr& e) {
      const std::vector<int32_t> ids = e.symbols();
      if (!ids.empty() && static_cast<size_t>(ids.back()) >= graph_.symbols.size()) {
        fail("value '" + value.name + "' has the unknown symbol in " + e.str());
      }
    };
    for (const Expr& dim : value.shape) known(dim);
    if (!value.view) return;
    check_id(value.view->base, "view '" + value.name + "'");
    if (graph_.value(value.view->base).view) fail("view '" + value.name + "' has a view as base");
    known(value.view->offset);
    for (const Expr& stride : value.view->strides) known(stride);
  }

  const Graph& graph_;
  const char* after_;
  std::vector<bool> defined_;
  std::unordered_set<std::string> names_;
  std::unordered_set<ValueId> over_;
  bool any_over_ = false;
};

}  // namespace

void check(const Graph& graph, const char* after_pass) { Checker(graph, after_pass).run(); }

}  // namespace tv
