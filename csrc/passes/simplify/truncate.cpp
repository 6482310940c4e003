#include "csrc/passes/simplify/truncate.h"

namespace tv {
namespace {

DType narrow(DType dtype) {
  if (dtype == DType::kI64) return DType::kI32;
  return dtype == DType::kF64 ? DType::kF32 : dtype;
}

std::shared_ptr<const PointwiseProgram> narrow(std::shared_ptr<const PointwiseProgram> program) {
  if (!program) return nullptr;
  auto out = std::make_shared<PointwiseProgram>(*program);
  for (DType& d : out->inputs) d = narrow(d);
  for (PointwiseInstr& instr : out->instrs) {
    instr.compute = narrow(instr.compute);
    instr.result = narrow(instr.result);
  }
  return out;
}

/// Attributes and programs.
void narrow(Node& node) {
  for (Arg& a : node.args) {
    if (auto* dtype = std::get_if<DType>(&a.attr)) *dtype = narrow(*dtype);
  }
  node.program = narrow(node.program);
  node.epilogue = narrow(node.epilogue);
  node.prologue = narrow(node.prologue);
  node.anchor_dtype = narrow(node.anchor_dtype);
}

}  // namespace

Graph truncate_long_and_double(Graph graph) {
  for (Value& value : graph.values) value.dtype = narrow(value.dtype);
  for (Node& node : graph.nodes) narrow(node);
  return graph;
}

void truncate_long_and_double(Graph& graph, Node& node) {
  for (const ValueId output : node.outputs) {
    if (output == kNoValue) continue;
    graph.value(output).dtype = narrow(graph.value(output).dtype);
  }
  narrow(node);
}

bool reads_bytes(const Node& node) { return node.op == "aten::view.dtype"; }

}  // namespace tv
