#pragma once
// The sizes that flags name, by input.

#include <map>
#include <string>
#include <vector>

#include "csrc/cli/flags/options.h"
#include "csrc/frontends/onnx/onnx_import.h"

namespace tv::cli {

/// The ranges of --minShapes, --optShapes and --maxShapes; what is missing is the next larger one
/// there is, else the next smaller. --shapes alone is the only size. Throws CommandError for none
/// that could be.
std::map<std::string, std::vector<DimRange>> input_ranges(const Options& options);

}  // namespace tv::cli
