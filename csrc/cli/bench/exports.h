#pragma once
// The files of --export….

#include <span>

#include "csrc/cli/bench/bench.h"
#include "csrc/report/layer_times.h"

namespace tv::cli {

/// Writes text to a file. Throws Error(kUser) if it cannot.
void write_text(const std::string& path, const std::string& text);

/// A list with an object a call: trtexec's fields startH2dMs … latencyMs, and stream, hostMs,
/// enqueueMs.
void export_times(const std::string& path, const BenchResult& result);

/// One .json file, a list with name, dimensions and values of each output; or, where `path` ends in
/// a slash or is a directory, NAME.npy files.
void export_outputs(const std::string& path, const EngineSpec& spec,
                    const std::vector<Tensor>& outputs);

/// By the end of the name: a picture (.svg), a Chrome trace (trace.json), or trtexec's JSON.
void export_profile(const std::string& path, std::span<const LayerTime> layers, int64_t runs);

/// The name of a tensor as that of a file: what is not a letter, a digit, '.', '-' or '_' is '_'.
std::string file_name_of(const std::string& tensor);

}  // namespace tv::cli
