#pragma once
// A divided model as what to run one after the other, for a caller that runs all of it.

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "csrc/division/division.h"

namespace tv::onnx {

/// A block of the plan. Values of the graph, as its engine orders them.
struct EngineStep {
  size_t block = 0;
  std::vector<ValueId> inputs, outputs;
};

/// Nodes of the file that others run, one after the other.
struct NativeStep {
  std::vector<int32_t> nodes;  ///< ascending; what only feeds them (constants that are nodes) too
  std::vector<std::pair<std::string, ValueId>> by_value;  ///< that they read: values of the graph
  std::vector<std::string> by_size;  ///< that they read, and that are computed from sizes
  std::vector<std::string> outputs;  ///< that others read, or that tell sizes
};

using Step = std::variant<EngineStep, NativeStep>;

/// In the order in which they run; native ones of which nothing is read are left out.
std::vector<Step> steps_of(const Division& division, const Model& model);

}  // namespace tv::onnx
