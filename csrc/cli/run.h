#pragma once

#include "csrc/cli/flags/options.h"

namespace tv::cli {

/// Does what the options say; false if a comparison found a difference. Throws Error.
bool execute(const Options& options);

}  // namespace tv::cli
