#pragma once
// Memory of the host that a device can read in place.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <new>

namespace tv::ort {

inline constexpr std::align_val_t kAlignment{64};

inline std::shared_ptr<uint8_t> aligned_memory(int64_t size_bytes) {
  auto* memory = static_cast<uint8_t*>(
      ::operator new(static_cast<size_t>(std::max<int64_t>(size_bytes, 1)), kAlignment));
  return {memory, [](uint8_t* m) { ::operator delete(m, kAlignment); }};
}

inline bool is_aligned(const void* memory) {
  return reinterpret_cast<uintptr_t>(memory) % static_cast<uintptr_t>(kAlignment) == 0;
}

}  // namespace tv::ort
