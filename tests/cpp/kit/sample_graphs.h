#pragma once
// Graphs of every operator that has a converter.

#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "csrc/converter.h"

namespace tv::test {

/// TV_TEST_OP: "aten::triu", the only operator whose examples the tests below run, for work on it;
/// else null.
inline const char* only_operator() { return std::getenv("TV_TEST_OP"); }

/// The operators with examples, by name, and their converters. Ends the process with status 2, and
/// says why, if TV_TEST_OP names another: this runs before main, where nobody catches.
inline std::vector<std::pair<std::string_view, const Converter&>> operators_with_examples() {
  std::vector<std::pair<std::string_view, const Converter&>> found;
  for (const auto& [op, converter] : Registry::instance().all()) {
    if (!converter.examples || (only_operator() != nullptr && op != only_operator())) continue;
    found.emplace_back(op, converter);
  }
  if (found.empty()) {
    std::fprintf(stderr,
                 "TV_TEST_OP=%s: no converter with examples is of this name. An operator of the "
                 "pointwise table has other tests: docs/adding_an_operator.md\n",
                 only_operator());
    std::exit(2);
  }
  return found;
}

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
