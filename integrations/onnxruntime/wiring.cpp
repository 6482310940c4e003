#include "integrations/onnxruntime/wiring.h"

#include <algorithm>
#include <set>

#include "csrc/frontends/onnx/file/tensor.h"
#include "integrations/onnxruntime/sizes.h"
#include "runtime/base/error.h"

namespace tv::ort {
namespace {

[[noreturn]] void unsupported_here(const std::string& message) {
  throw Error(ErrorKind::kUnsupported, message);
}

class Wirer {
 public:
  Wirer(const onnx::Division& division, const onnx::Group& group)
      : division_(division), group_(group) {
    const Plan& plan = division.plan;
    wiring_.symbols = plan.graph.symbols;
    if (group.by_value && plan.parts.blocks.empty()) return;
    for (const int32_t n : plan.parts.blocks.at(group.block)) {
      for (const ValueId v : plan.graph.nodes[static_cast<size_t>(n)].outputs) {
        if (v != kNoValue) made_.insert(v);
      }
    }
  }

  Wiring run(const std::vector<std::string>& inputs, const std::vector<std::string>& outputs) {
    for (const std::string& name : inputs) add_input(name);
    for (const std::string& name : outputs) add_output(name);
    if (results_.empty() && !group_.by_value) {
      unsupported_here("nothing that it computes is read");
    }
    if (!results_.empty()) {
      wiring_.block = cut(division_.plan, group_.block, {.outputs = results_});
      add_engine_inputs();
    }
    check_sizes();
    return std::move(wiring_);
  }

 private:
  onnx::Named named(const std::string& name) const {
    const auto found = division_.model.names.find(name);
    return found == division_.model.names.end() ? onnx::Named{} : found->second;
  }

  const Value& value(ValueId v) const { return division_.plan.graph.value(v); }

  void add_input(const std::string& name) {
    const onnx::Named as = named(name);
    FusedInput input{.name = name, .value = as.id, .widened = as.widened};
    if (as.id != kNoValue) {
      input.dtype = value(as.id).dtype;
      input.shape = value(as.id).shape;
    } else if (as.host && !as.widened &&
               (as.host->dtype == DType::kI64 || as.host->dtype == DType::kI32)) {
      input.dtype = as.host->dtype;
      input.elements = as.host->ints;
    }
    wiring_.inputs.push_back(std::move(input));
  }

  void add_output(const std::string& name) {
    const onnx::Named as = named(name);
    FusedOutput output{.name = name, .widened = as.widened};
    const auto input = std::find_if(
        wiring_.inputs.begin(), wiring_.inputs.end(),
        [&](const FusedInput& given) { return as.id != kNoValue && given.value == as.id; });
    if (as.id != kNoValue && made_.contains(as.id)) {
      output.index = result(as.id);
    } else if (input != wiring_.inputs.end()) {
      output.from = FusedOutput::From::kInput;
      output.index = static_cast<size_t>(input - wiring_.inputs.begin());
    } else if (as.host && !as.widened) {
      output.from = FusedOutput::From::kSizes;
      output.numbers = as.host;
      output.dtype = as.host->dtype;
      output.shape.assign(as.host->dims.begin(), as.host->dims.end());
    } else {
      unsupported_here("its output \"" + name + "\" is a constant of the file");
    }
    if (output.from != FusedOutput::From::kSizes) {
      output.dtype = value(as.id).dtype;
      output.shape = value(as.id).shape;
    }
    wiring_.outputs.push_back(std::move(output));
  }

  size_t result(ValueId v) {
    const auto found = std::find_if(results_.begin(), results_.end(),
                                    [&](const GraphOutput& known) { return known.value == v; });
    const auto index = static_cast<size_t>(found - results_.begin());
    if (found == results_.end()) {
      results_.push_back({.value = v, .name = value(v).name, .strides = {}});
    }
    return index;
  }

  void add_engine_inputs() {
    const std::vector<std::vector<int32_t>> read_by = consumers(wiring_.block.graph);
    for (size_t i = 0; i < wiring_.block.inputs.size(); ++i) {
      const ValueId v = wiring_.block.inputs[i];
      const auto given = std::find_if(wiring_.inputs.begin(), wiring_.inputs.end(),
                                      [&](const FusedInput& input) { return input.value == v; });
      const bool there = given != wiring_.inputs.end();
      const ValueId own = wiring_.block.graph.inputs[i];
      if (!there && !read_by[static_cast<size_t>(own)].empty()) {
        unsupported_here("it reads \"" + value(v).name + "\", which goes by no name of the model");
      }
      wiring_.engine_inputs.push_back({.value = v,
                                       .shape = value(v).shape,
                                       .from = there ? given - wiring_.inputs.begin() : -1});
    }
  }

  /// All sizes follow from what the node reads: tried with the usual ones.
  void check_sizes() const {
    std::vector<int64_t> usual;
    for (const Symbol& symbol : wiring_.symbols) usual.push_back(std::max<int64_t>(symbol.opt, 1));
    std::vector<Equation> equations;
    for (const FusedInput& input : wiring_.inputs) {
      for (const Expr& expr : input.shape) equations.push_back({&expr, expr.eval(usual), ""});
      for (const Expr& expr : input.elements) equations.push_back({&expr, expr.eval(usual), ""});
    }
    const Known known = solve(equations, wiring_.symbols.size());
    for (const EngineInput& input : wiring_.engine_inputs) {
      for (const Expr& size : input.shape) evaluate(size, known, wiring_.symbols);
    }
    for (const FusedOutput& output : wiring_.outputs) {
      for (const Expr& size : output.shape) evaluate(size, known, wiring_.symbols);
      if (!output.numbers) continue;
      for (const Expr& number : output.numbers->ints) evaluate(number, known, wiring_.symbols);
    }
  }

  const onnx::Division& division_;
  const onnx::Group& group_;
  std::set<ValueId> made_;
  std::vector<GraphOutput> results_;
  Wiring wiring_;
};

/// Of each name in `order` where it is in `items`.
template <typename T>
std::vector<size_t> places(const std::vector<T>& items, const std::vector<std::string>& order) {
  std::vector<size_t> found;
  for (const std::string& name : order) {
    const auto item = std::find_if(items.begin(), items.end(),
                                   [&](const T& known) { return known.name == name; });
    if (item != items.end()) found.push_back(static_cast<size_t>(item - items.begin()));
  }
  const std::set<size_t> each(found.begin(), found.end());
  if (found.size() != order.size() || each.size() != items.size()) {
    throw Error(ErrorKind::kUser,
                "the EPContext node's data is of a node with other inputs or "
                "outputs");
  }
  return found;
}

template <typename T>
std::vector<T> in_order(const std::vector<T>& items, const std::vector<size_t>& from) {
  std::vector<T> out;
  for (const size_t i : from) out.push_back(items[i]);
  return out;
}

}  // namespace

bool is_of_type(int32_t type, DType dtype, int32_t widened) {
  return widened ? type == widened : onnx::dtype_of(type) == dtype;
}

void check_types(const Wiring& wiring, const std::vector<int32_t>& types) {
  for (size_t k = 0; k < types.size(); ++k) {
    const FusedOutput& output = wiring.outputs[k];
    if (is_of_type(types[k], output.dtype, output.widened)) continue;
    throw Error(ErrorKind::kUser, "output \"" + output.name + "\" is of type " +
                                      onnx::type_name(types[k]) + " in the model, and not " +
                                      std::string(name(output.dtype)));
  }
}

void arrange(Wiring& wiring, const std::vector<std::string>& inputs,
             const std::vector<std::string>& outputs) {
  const std::vector<size_t> from = places(wiring.inputs, inputs);
  std::vector<size_t> moved(from.size());
  for (size_t i = 0; i < from.size(); ++i) moved[from[i]] = i;
  wiring.inputs = in_order(wiring.inputs, from);
  wiring.outputs = in_order(wiring.outputs, places(wiring.outputs, outputs));
  for (EngineInput& input : wiring.engine_inputs) {
    if (input.from >= 0) {
      input.from = static_cast<int64_t>(moved[static_cast<size_t>(input.from)]);
    }
  }
  for (FusedOutput& output : wiring.outputs) {
    if (output.from == FusedOutput::From::kInput) output.index = moved[output.index];
  }
}

Wiring wire(const onnx::Division& division, const onnx::Group& group,
            const std::vector<std::string>& inputs, const std::vector<std::string>& outputs) {
  return Wirer(division, group).run(inputs, outputs);
}

}  // namespace tv::ort
