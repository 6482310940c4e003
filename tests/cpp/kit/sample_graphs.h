#pragma once
// Graphs of every operator that has a converter.

#include "csrc/converter.h"

namespace tv::test {

/// The first example of every converter, as a sample of operators.
inline std::vector<Graph> sample_graphs() {
  std::vector<Graph> graphs;
  for (const auto& [op, converter] : Registry::instance().all()) {
    if (!converter.examples) continue;
    std::vector<Graph> examples = converter.examples();
    if (!examples.empty()) graphs.push_back(std::move(examples.front()));
  }
  return graphs;
}

}  // namespace tv::test
