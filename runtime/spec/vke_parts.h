#pragma once
// Networks with several profiles of shapes: one .vke file for each, one after the other.

#include <cstdint>
#include <span>
#include <vector>

namespace tv {

/// The files in `bytes`, views of them; weights are in the first alone. Bytes that are no .vke file
/// are a part of their own, which from_vke() refuses.
std::vector<std::span<const uint8_t>> split_vke(std::span<const uint8_t> bytes);

}  // namespace tv
