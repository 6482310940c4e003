#include "csrc/passes/simplify/truncate.h"

#include "csrc/precision.h"

namespace tv {
namespace {

std::shared_ptr<const PointwiseProgram> narrow(std::shared_ptr<const PointwiseProgram> program) {
  if (!program) return nullptr;
  auto out = std::make_shared<PointwiseProgram>(*program);
  for (DType& d : out->inputs) d = truncated(d);
  for (PointwiseInstr& instr : out->instrs) {
    instr.compute = truncated(instr.compute);
    instr.result = truncated(instr.result);
  }
  return out;
}

/// Attributes and programs.
void narrow(Node& node) {
  for (Arg& a : node.args) {
    if (auto* dtype = std::get_if<DType>(&a.attr)) *dtype = truncated(*dtype);
  }
  node.program = narrow(node.program);
  node.epilogue = narrow(node.epilogue);
  node.prologue = narrow(node.prologue);
  node.own_result_dtype = truncated(node.own_result_dtype);
}

}  // namespace

Graph truncate_long_and_double(Graph graph) {
  for (Value& value : graph.values) value.dtype = truncated(value.dtype);
  for (Node& node : graph.nodes) narrow(node);
  return graph;
}

void truncate_long_and_double(Graph& graph, Node& node) {
  for (const ValueId output : node.outputs) {
    if (output == kNoValue) continue;
    graph.value(output).dtype = truncated(graph.value(output).dtype);
  }
  narrow(node);
}

bool reads_bytes(const Node& node) { return node.op == "aten::view.dtype"; }

}  // namespace tv
