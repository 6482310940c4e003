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

void check_together(const Settings& settings) {
  const bool excludes =
      !settings.autocast_excluded_nodes.empty() || !settings.autocast_excluded_ops.empty();
  if (excludes && low_precision(settings) == DType::kOther && !permits_int8(settings)) {
    throw Error(ErrorKind::kUser,
                "autocast_excluded_nodes and autocast_excluded_ops need enable_autocast=True or "
                "enabled_precisions with a 16-bit dtype or torch.int8");
  }
  if (!settings.calibration.empty() && !permits_int8(settings)) {
    throw Error(ErrorKind::kUser,
                "calibration needs torch.int8 in enabled_precisions, e.g. {torch.float32, "
                "torch.int8}");
  }
}

}  // namespace tv
