#pragma once
// The provider's options: the settings of csrc/settings_table.h, under their own names and those of
// the TensorRT provider without `trt_`.

#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "csrc/cache/cache_settings.h"
#include "csrc/frontends/onnx/onnx_import.h"
#include "csrc/settings.h"

namespace tv::ort {

/// ONNX Runtime's own session options about EPContext models.
struct ContextOptions {
  bool enable = false, embed = false;
  std::string file;    ///< of the context model; "": beside the model
  std::string source;  ///< the model that has the weights of a context without them; "": not given
};

struct Options {
  Settings settings;
  CacheSettings cache;
  std::string device;  ///< as open_device takes it; "": not given
  std::map<std::string, std::vector<onnx::DimRange>> shapes;  ///< of inputs
  std::set<std::string> excluded;                             ///< types of ONNX operators
  bool detailed_log = false;     ///< what is left to others is a warning in the log
  int64_t max_shape_values = 8;  ///< of inputs that set shapes: for how many an engine is kept
  bool strip_weights = false;    ///< of contexts that are written
  std::string model_folder;      ///< where the models of contexts without weights are
  std::string refit_from;        ///< a model whose weights contexts without weights take
  std::span<const uint8_t> model_bytes;  ///< the same in memory, or the model that is compiled
  ContextOptions context;
};

/// Reads options by name, and the session's entries about EPContext models. Throws
/// Error(kUser) or CommandError that names the option: for an unknown one with the nearest, for one
/// that means nothing here with the reason.
Options read_options(const std::map<std::string, std::string>& given,
                     const std::map<std::string, std::string>& session);

}  // namespace tv::ort
