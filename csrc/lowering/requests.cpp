#include "csrc/lowering/requests.h"

#include <algorithm>

#include "csrc/graph/strided.h"
#include "runtime/base/error.h"

namespace tv {

namespace {

class RequestMaker {
 public:
  RequestMaker(const Node& node, const Step& step, const ValueTable& table)
      : node_(node), table_(table) {
    request_.kernel.step = step;
    if (node.op == "tv::pointwise") request_.kernel.program = node.program;
  }

  StepRequest make() {
    for (const Operand& operand : request_.kernel.step.operands) add_operand(operand);
    for (size_t i = 0; i < request_.kernel.step.operands.size(); ++i) {
      const Operand& operand = request_.kernel.step.operands[i];
      if (has_prologue(operand)) {
        attach(i, node_.prologue, node_.prologue_inputs, node_.prologue_shape, false);
      } else if (has_epilogue(operand)) {
        attach(i, node_.epilogue, node_.epilogue_inputs, table_.value(operand.value).shape,
               operand.by_pixels);
      }
    }
    return std::move(request_);
  }

 private:
  bool has_prologue(const Operand& operand) const {
    return node_.prologue && !operand.write && !operand.plain &&
           operand.value == node_.input(node_.prologue_arg);
  }
  bool has_epilogue(const Operand& operand) const {
    return node_.epilogue && operand.write && !operand.plain && operand.value == node_.outputs[0];
  }

  void add_operand(const Operand& operand) {
    const Value& value = table_.value(operand.value);
    KernelOperand result =
        accessor(operand.name, operand.value, domain_of(operand), operand.by_pixels);
    result.read = !operand.write || operand.read_write;
    result.write = operand.write || operand.read_write;
    result.vec4 = operand.vec4;
    if (has_epilogue(operand) && node_.own_result_dtype != DType::kOther) {
      result.value_dtype = node_.own_result_dtype;
    }
    if (has_prologue(operand)) {
      result.value_dtype = value.dtype;
      result.stored = false;
    }
    request_.kernel.operands.push_back(std::move(result));
    request_.values.push_back(has_prologue(operand) ? kNoValue : operand.value);
  }

  /// The shape over which an operand's elements are counted: pointwise inputs broadcast.
  const Shape& domain_of(const Operand& operand) const {
    const bool broadcasts = node_.op == "tv::pointwise" && !operand.write;
    return table_.value(broadcasts ? node_.outputs.at(0) : operand.value).shape;
  }

  KernelOperand accessor(const std::string& name, ValueId id, const Shape& domain,
                         bool by_pixels) const {
    const Value& value = table_.value(id);
    const View layout = table_.layout(id);
    KernelOperand result;
    result.name = name;
    result.dtype = result.value_dtype = value.dtype;
    result.storage_elements = span_elements(value.shape, layout.strides, table_.graph().symbols);
    // Equal counts of elements pair up in row-major order whatever the shapes.
    const bool broadcasts = !(product(value.shape) == product(domain));
    result.shape = broadcasts ? domain : value.shape;
    result.strides =
        broadcasts ? broadcast_strides(value.shape, layout.strides, domain) : layout.strides;
    if (by_pixels) {
      for (Shape* sizes : {&result.shape, &result.strides}) {
        if (sizes->size() > 2) std::rotate(sizes->begin() + 1, sizes->begin() + 2, sizes->end());
      }
    }
    collapse(result.shape, result.strides);
    result.fours = in_fours(result, layout.offset);
    return result;
  }

  static bool in_fours(const KernelOperand& x, const Expr& offset) {
    const auto divides = [](const Expr& e) { return mod(e, 4) == Expr(0); };
    if (x.shape.empty() || !(x.strides.back() == Expr(1)) || !divides(offset)) return false;
    if (x.shape.size() > 1 && !divides(x.shape.back())) return false;
    return std::all_of(x.strides.begin(), std::prev(x.strides.end()), divides);
  }

  void attach(size_t operand, const std::shared_ptr<const PointwiseProgram>& program,
              const std::vector<ValueId>& inputs, const Shape& domain, bool by_pixels) {
    auto& operands = request_.kernel.operands;
    operands[operand].program = program;
    for (size_t k = 0; k < inputs.size(); ++k) {
      operands[operand].program_inputs.push_back(static_cast<uint32_t>(operands.size()));
      KernelOperand fused = accessor(operands[operand].name + "_in" + std::to_string(k), inputs[k],
                                     domain, by_pixels);
      fused.read = true;
      operands.push_back(std::move(fused));
      request_.values.push_back(inputs[k]);
    }
  }

  const Node& node_;
  const ValueTable& table_;
  StepRequest request_;
};

}  // namespace

StepRequest make_request(const Node& node, const Step& step, const ValueTable& table) {
  return RequestMaker(node, step, table).make();
}

}  // namespace tv
