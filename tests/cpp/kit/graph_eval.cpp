#include "tests/cpp/kit/graph_eval.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "csrc/builder.h"
#include "csrc/converter.h"
#include "csrc/graph/strided.h"
#include "runtime/base/error.h"

namespace tv::test {

namespace {

std::vector<int64_t> numbers(const Shape& exprs) {
  std::vector<int64_t> out;
  for (const Expr& e : exprs) out.push_back(e.constant().value());
  return out;
}

int64_t count(const Shape& shape) { return product(shape).constant().value(); }

Tensor gather(const Tensor& storage, const Shape& shape, const View& view) {
  const std::vector<int64_t> dims = numbers(shape), strides = numbers(view.strides);
  Tensor out(static_cast<size_t>(count(shape)));
  for (size_t i = 0; i < out.size(); ++i) {
    int64_t rest = static_cast<int64_t>(i), at = view.offset.constant().value();
    for (size_t k = dims.size(); k-- > 0; rest /= dims[k]) at += rest % dims[k] * strides[k];
    out[i] = storage.at(static_cast<size_t>(at));
  }
  return out;
}

double run_function(const std::string& function, const std::vector<double>& x) {
  if (function == "add") return x.at(0) + x.at(1);
  if (function == "mul") return x.at(0) * x.at(1);
  if (function == "sub") return x.at(0) - x.at(1);
  if (function == "relu") return std::max(x.at(0), 0.0);
  if (function == "neg") return -x.at(0);
  if (function == "rsqrt") return 1 / std::sqrt(x.at(0));
  if (function == "cast" || function == "copy") return x.at(0);
  throw Error(ErrorKind::kInternal, "[test] function " + function);
}

class Evaluator {
 public:
  explicit Evaluator(const Graph& graph) : graph_(graph) {}

  std::vector<Tensor> run(const std::vector<Tensor>& leaves) {
    size_t next = 0;
    for (ValueId id : graph_.inputs) storage_[id] = leaves.at(next++);
    for (ValueId id : graph_.weights) storage_[id] = leaves.at(next++);
    for (const Node& node : graph_.nodes) run_node(node);
    std::vector<Tensor> outputs;
    for (const GraphOutput& output : graph_.outputs) outputs.push_back(read(output.value));
    return outputs;
  }

 private:
  Tensor read(ValueId id) {
    const View layout = layout_of(graph_, id);
    return gather(storage_.at(layout.base), graph_.value(id).shape, layout);
  }

  /// Broadcast to `domain`; equal counts of elements pair up in row-major order.
  Tensor read_broadcast(ValueId id, const Shape& domain) {
    const Tensor own = read(id);
    const Shape& shape = graph_.value(id).shape;
    if (static_cast<int64_t>(own.size()) == count(domain)) return own;
    return gather(own, domain,
                  {id, 0, broadcast_strides(shape, contiguous_strides(shape), domain)});
  }

  static std::vector<Tensor> run_program(const PointwiseProgram& program,
                                         std::vector<Tensor> operands) {
    const size_t length = operands.at(0).size();
    for (const PointwiseInstr& instr : program.instrs) {
      Tensor result(length);
      for (size_t i = 0; i < length; ++i) {
        std::vector<double> x;
        for (int32_t k : instr.operands) x.push_back(operands.at(static_cast<size_t>(k)).at(i));
        x.insert(x.end(), instr.scalars.begin(), instr.scalars.end());
        result[i] = run_function(instr.function, x);
      }
      operands.push_back(std::move(result));
    }
    std::vector<Tensor> results;
    for (int32_t k : program.results) results.push_back(operands.at(static_cast<size_t>(k)));
    return results;
  }

  Tensor read_argument(const Node& node, const char* arg) {
    if (!node.prologue || node.prologue_arg != arg) return read(node.input(arg));
    std::vector<Tensor> operands;
    for (ValueId id : node.prologue_inputs)
      operands.push_back(read_broadcast(id, node.prologue_shape));
    return run_program(*node.prologue, std::move(operands)).at(0);
  }

  void run_node(const Node& node) {
    const Converter* converter = Registry::instance().find(node.op);
    if (node.op == "tv::pointwise") {
      std::vector<Tensor> operands;
      const Shape& domain = graph_.value(node.outputs.at(0)).shape;
      for (ValueId id : node.inputs("inputs")) operands.push_back(read_broadcast(id, domain));
      std::vector<Tensor> results = run_program(*node.program, std::move(operands));
      for (size_t i = 0; i < results.size(); ++i) store(node.outputs[i], std::move(results[i]));
    } else if (node.op == "tv::copy") {
      store(node.outputs[0], read(node.input("self")));
    } else if (node.op.starts_with("test::scale")) {
      Tensor x = read_argument(node, "self");
      for (double& v : x) v = 3 * v + 1;
      finish(node, std::move(x));
    } else if (node.op == "test::row_sum") {
      const Tensor x = read_argument(node, "self");
      Tensor sums(static_cast<size_t>(count(graph_.value(node.outputs[0]).shape)), 0.0);
      for (size_t i = 0; i < x.size(); ++i) sums[i / (x.size() / sums.size())] += x[i];
      finish(node, std::move(sums));
    } else if (node.op == "aten::cat") {
      run_cat(node);
    } else if (converter && converter->view) {
      const ValueId self = node.input("self");
      const View dense{self, 0, contiguous_strides(graph_.value(self).shape)};
      const DeviceProfile device = test_device();
      for (size_t i = 0; i < node.outputs.size(); ++i) {
        const View view = converter->view({graph_, node, device, Settings{}}, dense, i).value();
        store(node.outputs[i], gather(read(self), graph_.value(node.outputs[i]).shape, view));
      }
    } else {
      throw Error(ErrorKind::kInternal, "[test] operator " + node.op);
    }
  }

  void run_cat(const Node& node) {
    const Shape& shape = graph_.value(node.outputs[0]).shape;
    const auto dim = static_cast<size_t>(node.integer("dim"));
    Tensor out(static_cast<size_t>(count(shape)));
    Expr offset = 0;
    for (ValueId id : node.inputs("tensors")) {
      const Shape& own = graph_.value(id).shape;
      Tensor places(out.size());
      std::iota(places.begin(), places.end(), 0.0);
      places = gather(places, own, {id, offset, contiguous_strides(shape)});
      const Tensor data = read(id);
      for (size_t i = 0; i < data.size(); ++i) out.at(static_cast<size_t>(places[i])) = data[i];
      offset += own[dim] * contiguous_strides(shape)[dim];
    }
    finish(node, std::move(out));
  }

  void finish(const Node& node, Tensor result) {
    if (node.epilogue) {
      const Shape& domain = graph_.value(node.outputs[0]).shape;
      std::vector<Tensor> operands = {std::move(result)};
      for (ValueId id : node.epilogue_inputs) operands.push_back(read_broadcast(id, domain));
      result = run_program(*node.epilogue, std::move(operands)).at(0);
    }
    store(node.outputs[0], std::move(result));
  }

  void store(ValueId id, Tensor data) {
    const Value& value = graph_.value(id);
    if (static_cast<int64_t>(data.size()) != count(value.shape)) {
      throw Error(ErrorKind::kInternal, "[test] a node writes another count of elements");
    }
    if (!value.view) {
      storage_[id] = std::move(data);
      return;
    }
    Tensor& base = storage_[value.view->base];
    base.resize(static_cast<size_t>(count(graph_.value(value.view->base).shape)), NAN);
    Tensor places(base.size());
    std::iota(places.begin(), places.end(), 0.0);
    places = gather(places, value.shape, *value.view);
    for (size_t i = 0; i < data.size(); ++i) base.at(static_cast<size_t>(places[i])) = data[i];
  }

  const Graph& graph_;
  std::map<ValueId, Tensor> storage_;
};

/// One launch of the copy kernel's shape; the interpreter does not run it, lowering tests do.
void convert_as_copy(const NodeContext& c, Builder& builder) {
  const ValueId out = c.node.outputs[0];
  Step step{.kernel = "copy", .operands = {src("src", c.node.input("self")), dst("dst", out)}};
  step.grid = Grid::flat_groups(ceil_div(product(c.output().shape), 64));
  builder.emit({{.name = "copy", .refusal = "", .steps = {step}}});
}

}  // namespace

void register_test_operators() {
  static const RegisterConverter converters{
      {.op = "test::scale", .convert = convert_as_copy, .prologue_arg = "self", .epilogue = true},
      {.op = "test::scale_any",
       .convert = convert_as_copy,
       .reads_views = {"*"},
       .prologue_arg = "self",
       .epilogue = true},
      {.op = "test::row_sum", .convert = convert_as_copy, .epilogue = true},
  };
}

std::vector<Tensor> evaluate(const Graph& graph, const std::vector<Tensor>& leaves) {
  return Evaluator(graph).run(leaves);
}

std::vector<Tensor> random_leaves(const Graph& graph, std::mt19937& random) {
  std::vector<Tensor> leaves;
  const auto add = [&](ValueId id) {
    Tensor data(static_cast<size_t>(count(graph.value(id).shape)));
    for (double& v : data) v = static_cast<double>(random() % 19) - 9;
    leaves.push_back(std::move(data));
  };
  for (ValueId id : graph.inputs) add(id);
  for (ValueId id : graph.weights) add(id);
  return leaves;
}

DeviceProfile test_device() { return DeviceProfile::builtin_default(); }

ValueId GraphMaker::input(Shape shape, DType dtype) {
  const ValueId id = graph.add_value({"x" + std::to_string(graph.values.size()), dtype,
                                      std::move(shape), ValueKind::kInput, std::nullopt});
  graph.inputs.push_back(id);
  return id;
}

ValueId GraphMaker::weight(Shape shape, DType dtype) {
  const ValueId id = graph.add_value({"w" + std::to_string(graph.values.size()), dtype,
                                      std::move(shape), ValueKind::kWeight, std::nullopt});
  graph.weights.push_back(id);
  return id;
}

ValueId GraphMaker::op(const std::string& op, std::vector<Arg> args, Shape shape, DType dtype) {
  Node node;
  node.op = op;
  node.name = "n" + std::to_string(graph.nodes.size());
  node.args = std::move(args);
  const ValueId out = graph.add_output(node, dtype, std::move(shape));
  graph.nodes.push_back(std::move(node));
  return out;
}

ValueId GraphMaker::pointwise(const std::string& function, std::vector<ValueId> operands) {
  Shape shape;
  auto program = std::make_shared<PointwiseProgram>();
  PointwiseInstr instr{.function = function, .operands = {}, .scalars = {}, .integers = {}};
  for (ValueId id : operands) {
    const Shape& own = graph.value(id).shape;
    if (own.size() > shape.size()) shape.insert(shape.begin(), own.size() - shape.size(), Expr(1));
    for (size_t k = 0; k < own.size(); ++k) {
      Expr& dim = shape[shape.size() - own.size() + k];
      if (dim == Expr(1)) dim = own[k];
    }
    instr.operands.push_back(static_cast<int32_t>(program->inputs.size()));
    program->inputs.push_back(graph.value(id).dtype);
  }
  program->results = {static_cast<int32_t>(operands.size())};
  program->instrs = {std::move(instr)};
  const ValueId out = op("tv::pointwise", {tensor_list_arg("inputs", std::move(operands))}, shape);
  graph.nodes.back().program = std::move(program);
  graph.nodes.back().fused_ops = {"aten::" + function};
  return out;
}

ValueId GraphMaker::view(ValueId self, Shape shape) {
  return op("aten::view", {tensor_arg("self", self), attr_arg("size", shape)}, shape);
}

ValueId GraphMaker::permute(ValueId self, const std::vector<int64_t>& dims) {
  Shape shape, order;
  for (int64_t d : dims) {
    shape.push_back(graph.value(self).shape.at(static_cast<size_t>(d)));
    order.emplace_back(d);
  }
  return op("aten::permute", {tensor_arg("self", self), attr_arg("dims", order)}, shape);
}

ValueId GraphMaker::expand(ValueId self, Shape shape) {
  return op("aten::expand", {tensor_arg("self", self), attr_arg("size", shape)}, shape);
}

ValueId GraphMaker::slice(ValueId self, int64_t dim, int64_t start, int64_t end) {
  Shape shape = graph.value(self).shape;
  shape.at(static_cast<size_t>(dim)) = end - start;
  return op("aten::slice.Tensor",
            {tensor_arg("self", self), attr_arg("dim", Expr(dim)), attr_arg("start", Expr(start)),
             attr_arg("end", Expr(end)), attr_arg("step", Expr(1))},
            shape);
}

ValueId GraphMaker::scale(ValueId self) {
  return op("test::scale", {tensor_arg("self", self)}, graph.value(self).shape);
}

ValueId GraphMaker::cat(std::vector<ValueId> parts, int64_t dim) {
  Shape shape = graph.value(parts.at(0)).shape;
  Expr& size = shape.at(static_cast<size_t>(dim));
  size = 0;
  for (ValueId part : parts) size += graph.value(part).shape.at(static_cast<size_t>(dim));
  return op("aten::cat", {tensor_list_arg("tensors", std::move(parts)), attr_arg("dim", Expr(dim))},
            shape);
}

void GraphMaker::output(ValueId value, Shape strides) {
  graph.outputs.push_back({value, "y" + std::to_string(graph.outputs.size()), std::move(strides)});
}

}  // namespace tv::test
