#include "csrc/precision.h"

#include <algorithm>

#include "runtime/base/error.h"

namespace tv {
namespace {

bool enables(const Settings& settings, DType dtype) {
  const std::vector<DType>& enabled = settings.enabled_precisions;
  return std::ranges::find(enabled, dtype) != enabled.end();
}

}  // namespace

DType low_precision(const Settings& settings) {
  for (const DType dtype : {DType::kF16, DType::kBF16}) {
    if (enables(settings, dtype)) return dtype;
  }
  return DType::kOther;
}

bool permits_int8(const Settings& settings) { return enables(settings, DType::kI8); }

DType truncated(DType dtype) {
  if (dtype == DType::kI64) return DType::kI32;
  return dtype == DType::kF64 ? DType::kF32 : dtype;
}

std::vector<DType> effective_precisions(const Settings& settings) {
  std::vector<DType> found;
  if (const DType low = low_precision(settings); low != DType::kOther) found.push_back(low);
  if (permits_int8(settings)) {
    found.push_back(DType::kI8);
    if (enables(settings, DType::kF32)) found.push_back(DType::kF32);
  }
  return found;
}

void check_together(const Settings& settings) {
  const bool excludes =
      !settings.autocast_excluded_nodes.empty() || !settings.autocast_excluded_ops.empty();
  if (excludes && low_precision(settings) == DType::kOther && !permits_int8(settings)) {
    throw Error(ErrorKind::kUser,
                "autocast_excluded_nodes and autocast_excluded_ops need a lower precision: "
                "enabled_precisions with a 16-bit dtype or int8, or, in Python, "
                "enable_autocast=True");
  }
  if (!settings.calibration.empty() && !permits_int8(settings)) {
    throw Error(ErrorKind::kUser,
                "calibration needs int8 in enabled_precisions, beside float32 if layers may stay "
                "in it");
  }
}

}  // namespace tv
