#pragma once
// Engines as files.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/spec/engine_spec.h"
#include "runtime/spec/tensor.h"

namespace tv {

/// An engine in the .vke format, with the bytes of its weights (in the order of the spec) if given.
std::vector<uint8_t> to_vke(const EngineSpec& spec, std::span<const HostTensor> weights = {});

struct VkeContents {
  EngineSpec spec;
  std::vector<std::vector<uint8_t>> weights;  ///< the bytes of each; empty for a stripped file
};
/// Parses with bounds checks. Throws Error(kUser) for anything truncated, altered or out of range.
VkeContents from_vke(std::span<const uint8_t> bytes);
/// Also throws Error(kUser) if the file cannot be read, or written.
VkeContents read_vke(const std::string& path);
void write_vke(const std::string& path, const EngineSpec& spec,
               std::span<const HostTensor> weights);

/// SHA-256 of the file without weights, without names and where they come from in a model, and
/// without the version of the program that built it: equal for engines that do the same.
std::string digest_without_names(EngineSpec spec);

}  // namespace tv
