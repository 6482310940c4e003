#pragma once

#include <cstdint>
#include <string>

namespace tv::cli {

/// Runs a command of the shell in which {} is `file`, without its output. Returns its exit status,
/// or 128 and the number of the signal that ended it. After `seconds` it is killed with all that it
/// has started: 137. Throws Error(kUser) if it cannot be started.
int check_command(const std::string& command, const std::string& file, int64_t seconds);

}  // namespace tv::cli
