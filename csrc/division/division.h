#pragma once
// An ONNX model divided into what engines run and what others do: the compiler's plan of it, in
// which a node of the file is in engines as a whole or not at all. Callers that run the parts ask
// for groups of whole nodes (groups.h), or for what to run one after the other (steps.h).

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "csrc/frontends/onnx/onnx_import.h"
#include "csrc/plan/plan.h"

namespace tv::onnx {

struct Division {
  ImportedModel model;
  Plan plan;
};

struct Group;
struct GroupBorder;

/// What is given beside settings and device.
struct DivisionRequest {
  std::shared_ptr<const Model> model;
  /// As import_options makes it; `partial` is set, and ranges of constants are dropped.
  ImportOptions import;
  /// Of groups: throws Error where the caller could not call one.
  std::function<void(const Division&, const Group&, const GroupBorder&)> check = {};
};

/// Imports and plans until no node is taken in part, or `is_whole`, which may plan an import by
/// itself, is true of it. Builds nothing.
Division divide(const DivisionRequest& request, const Settings& settings,
                const DeviceProfile& device,
                const std::function<bool(Division&)>& is_whole = nullptr);

/// The import of a request as `divide` makes it first.
ImportedModel import_of(const DivisionRequest& request);

}  // namespace tv::onnx
