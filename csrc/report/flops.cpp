#include "csrc/report/flops.h"

#include <string>

#include "csrc/converter.h"
#include "csrc/operators/schema.h"

namespace tv {
namespace {

/// Of an overload that has none the converter of the operator itself: aten::conv1d.padding.
const Converter* converter_of(const Node& node) {
  for (const std::string& op : {node.op, node.origin.op, node.op.substr(0, node.op.find('.'))}) {
    if (const Converter* found = Registry::instance().find(op)) return found;
  }
  return nullptr;
}

/// A node that a frontend could not express reads its tensors as one list: by the names that its
/// operator has for them.
Node with_names(const Node& node, const std::string& op) {
  Node named = node;
  const Schema* schema = schema_of(op);
  if (schema == nullptr || node.find("inputs") == nullptr) return named;
  size_t next = 0;
  const std::vector<ValueId>& reads = node.inputs("inputs");
  for (const SchemaArg& arg : schema->args) {
    if (arg.kind != ArgKind::kTensor || next == reads.size()) continue;
    named.args.push_back(tensor_arg(arg.name, reads[next++]));
  }
  return named;
}

}  // namespace

int64_t flops_of(const Graph& graph, const Node& node) {
  const Converter* converter = converter_of(node);
  if (!converter || !converter->flops || node.outputs.empty()) return 0;
  std::vector<int64_t> usual;
  for (const Symbol& symbol : graph.symbols) usual.push_back(symbol.opt);
  const bool whole = node.origin.refusal.empty();
  return converter->flops(graph, whole ? node : with_names(node, converter->op)).eval(usual);
}

}  // namespace tv
