#pragma once
// Engines as files.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/spec/engine_spec.h"
#include "runtime/spec/tensor.h"

namespace tv {

/// The .vke format. `weights`, where given (spec order, bytes), are stored in aligned sections.
std::vector<uint8_t> to_vke(const EngineSpec& spec, std::span<const HostTensor> weights = {});

struct VkeContents {
  EngineSpec spec;
  std::vector<std::vector<uint8_t>> weights;  ///< empty where the file is stripped
};
/// Bounded, checked parsing: throws Error(kUser) on anything truncated, altered or out of range.
VkeContents from_vke(std::span<const uint8_t> bytes);
VkeContents read_vke(const std::string& path);
void write_vke(const std::string& path, const EngineSpec& spec,
               std::span<const HostTensor> weights);

/// SHA-256 of the file without weights, without names and where they come from in a model, and
/// without the version of the program that built it: equal for engines that do the same.
std::string digest_without_names(EngineSpec spec);

}  // namespace tv
