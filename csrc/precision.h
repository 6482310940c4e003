#pragma once
// What settings say of precision.

#include <vector>

#include "csrc/settings.h"

namespace tv {

/// The 16-bit dtype among settings.enabled_precisions, float16 first; kOther if there is none.
DType low_precision(const Settings& settings);

/// Whether settings.enabled_precisions has int8.
bool permits_int8(const Settings& settings);

/// What engines hold under truncate_long_and_double: int32 for int64, float32 for float64, else the
/// dtype itself.
DType truncated(DType dtype);

/// What settings.enabled_precisions comes to, the same for all that mean the same: the 16-bit
/// dtype, and with int8 that and, if it is there, float32.
std::vector<DType> effective_precisions(const Settings& settings);

/// Throws Error(kUser) for settings that mean nothing together: a calibration without int8, and
/// nodes that are kept in float32 where nothing else is permitted. For readers of users' settings.
void check_together(const Settings& settings);

}  // namespace tv
