// Importer: sizes at which the network runs.

#include "csrc/frontends/onnx/importer.h"

namespace tv::onnx {

// Tactics are timed at the usual sizes, which must therefore be some that the network takes. What
// the caller gave stays.
void Importer::settle_usual_sizes() {
  Graph& graph = result_.graph;
  std::vector<int64_t> usual;
  for (const Symbol& s : graph.symbols) usual.push_back(s.opt);
  const Condition* broken = first_broken(graph.conditions, usual);
  if (!broken) return;
  std::vector<Symbol> movable = graph.symbols;
  for (const int32_t s : given_) {
    Symbol& fixed = movable[static_cast<size_t>(s)];
    fixed.min = fixed.max = fixed.opt;
  }
  const auto found = fulfilling(graph.conditions, movable, usual);
  if (!found) {
    throw Error(ErrorKind::kUser, "[onnx] the model does not run at its usual sizes: " +
                                      broken->refusal(graph.symbols, usual) +
                                      "; give an opt_shape at which it does");
  }
  for (size_t s = 0; s < found->size(); ++s) graph.symbols[s].opt = (*found)[s];
}

}  // namespace tv::onnx
