#pragma once
// Parameters of a model's configuration: settings of csrc/settings_table.h by their names, and the
// backend's own.

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "csrc/cache/cache_settings.h"
#include "csrc/frontends/onnx/onnx_import.h"
#include "csrc/settings.h"
#include "runtime/engine/engine.h"

namespace tv::triton {

/// What a model is loaded from: an engine, a file that an engine is built from, or a folder of
/// tv.save_decoder.
enum class ModelKind { kEngine, kBuilt, kDecoder };

struct Parameters {
  Settings settings;
  CacheSettings cache;
  std::string device;  ///< as open_device takes it; "": not given
  EngineOptions engine;
  std::map<std::string, std::vector<onnx::DimRange>> shapes;  ///< of inputs
  std::optional<int64_t> steps_per_submission;                ///< of decoders
};

/// Reads texts by name. `folder`: where paths that are not absolute begin. Of `kind` only
/// kBuilt takes more than what says how engines are loaded and run. Throws Error(kUser) or
/// CommandError that names the parameter: for an unknown one with the nearest, for one that means
/// nothing with the reason.
Parameters read_parameters(const std::map<std::string, std::string>& given,
                           const std::string& folder, ModelKind kind);

/// Of the texts that the server was started with (--backend-config=vulkan,NAME=VALUE) those that a
/// model of this kind takes where it does not say otherwise; unknown ones too, to be refused.
std::map<std::string, std::string> applicable(const std::map<std::string, std::string>& defaults,
                                              ModelKind kind);

}  // namespace tv::triton
