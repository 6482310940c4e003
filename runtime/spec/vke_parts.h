#pragma once
// Networks with several shape profiles: a .vke file for each, one after the other.

#include <cstdint>
#include <span>
#include <vector>

namespace tv {

/// The files in `bytes`, as views of them; only the first has weights. Bytes that are not a .vke
/// file become a part of their own, which from_vke() refuses.
std::vector<std::span<const uint8_t>> split_vke(std::span<const uint8_t> bytes);

}  // namespace tv
