#pragma once
// A divided model as groups of whole nodes, for a runtime that calls each group as one node, in an
// order of its own.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "csrc/division/division.h"

namespace tv::onnx {

/// Nodes that become one.
struct Group {
  size_t block = 0;            ///< of the plan
  std::vector<int32_t> nodes;  ///< by number, ascending; those that only compute its sizes included
  bool by_value = false;  ///< divide_by_value made it: the plan may have no block, and nothing read
};

/// Names that a group reads, and those of its results that others do.
struct GroupBorder {
  std::vector<std::string> inputs, outputs;
};

struct GroupedDivision : Division {
  std::vector<Group> groups;
  /// Of each node in no group: why.
  std::map<int32_t, std::string> reasons;
};

/// Plans the model, as one group where engines take all of it. Builds nothing. Of a request whose
/// sizes may be 0, those that products sum over are 1 or more, for speed, and all are where this
/// leaves fewer nodes to others.
GroupedDivision divide_into_groups(const DivisionRequest& request, const Settings& settings,
                                   const DeviceProfile& device);

/// All of the model as one group, with the request's constants: values of inputs that set shapes.
/// Its plan may have no block: a value may leave nothing to compute. Throws Error that says what is
/// in the way. Sizes that may be 0 are 1 or more where it cannot be done otherwise.
GroupedDivision divide_by_value(const DivisionRequest& request, const Settings& settings,
                                const DeviceProfile& device);

/// Whether the one block of a plan of all of a model does enough to be an engine.
bool is_large_enough(const Plan& plan);

}  // namespace tv::onnx
