#pragma once
// From an ONNX file to an engine.

#include <memory>
#include <string>

#include "csrc/cli/network.h"
#include "csrc/cli/options.h"
#include "csrc/frontends/onnx/onnx_import.h"

namespace tv::cli {

/// Reads options.onnx for the shapes that the options name; `partial`: as in onnx::ImportOptions.
/// Throws Error.
onnx::ImportedModel import_model(const Options& options, bool partial = false);

/// What import_model imports with.
onnx::ImportOptions import_options(const Options& options, bool partial);

/// Builds one engine of the whole model, or takes it from the cache; says what it does. Throws
/// Error(kUnsupported) listing the nodes that the device cannot run.
Network build_network(std::shared_ptr<Device> device, const onnx::ImportedModel& model,
                      const Options& options);

/// The weights of an ONNX file by name.
NewWeights onnx_weights(const std::string& path);

}  // namespace tv::cli
