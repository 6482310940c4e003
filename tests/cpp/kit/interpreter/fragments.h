#pragma once
// Which element of a cooperative matrix which invocation of a subgroup of 32 holds.

#include <cstdint>
#include <utility>

namespace tv::interpreter {

inline constexpr uint32_t kSubgroup = 32;

enum class FragmentLayout : uint8_t {
  kNvidia,      ///< as the PTX ISA has it for mma.m16n8k16
                ///< (converters/matmul/matrix_units/direct_load.glsl), and for bytes mma.m16n8k32
  kScattered,   ///< like no device: kernels that ask nothing of the layout run with it
  kReplicated,  ///< a whole row an invocation, each held by two, as AMD's RDNA 3 does
};
inline constexpr FragmentLayout kFragmentLayouts[] = {
    FragmentLayout::kNvidia, FragmentLayout::kScattered, FragmentLayout::kReplicated};

/// A cooperative matrix as a module declares it: 16 rows or columns, and as many of the others, or
/// 32 along k.
struct Fragment {
  enum Use : uint8_t { kLeft, kRight, kSum, kAny };  ///< kAny: GL_NV_cooperative_matrix names none
  uint32_t rows = 0, columns = 0;
  Use use = kAny;
};

inline constexpr uint32_t kMostSteps = 32;

uint32_t components(FragmentLayout layout, const Fragment& fragment);
/// Row and column of a component.
std::pair<uint32_t, uint32_t> place(FragmentLayout layout, const Fragment& fragment, uint32_t lane,
                                    uint32_t component);

}  // namespace tv::interpreter
