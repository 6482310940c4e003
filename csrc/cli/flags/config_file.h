#pragma once

#include <string>

#include "csrc/cli/flags/options.h"

namespace tv::cli {

/// Reads what tv.Config writes: settings by their names, onnx_path, engine_path, fp16, bf16,
/// workspace (MiB), min_shapes, opt_shapes and max_shapes. Variables of the environment come before
/// the file. Returns a warning of settings that are Python's alone; "": there are none. Throws
/// CommandError.
std::string read_config(const std::string& path, Options& options);

}  // namespace tv::cli
