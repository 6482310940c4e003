#pragma once
// Models with inputs that set shapes: values of these with which a model is one engine.

#include <optional>
#include <set>
#include <string>

#include "csrc/division/groups.h"

namespace tv::onnx {

/// Whether an input of this type may set shapes, and has a value that a trial can be made with.
bool can_set_shapes(DType dtype);

struct Trial {
  DivisionRequest request;  ///< with values that engines take
  GroupedDivision division;
};

/// Looks for values of the inputs `names` with which all of the model is one engine. None where the
/// file does not say how many elements they have, or no trial succeeds.
std::optional<Trial> trial_of(const DivisionRequest& request, const std::set<std::string>& names,
                              const Settings& settings, const DeviceProfile& device);

}  // namespace tv::onnx
