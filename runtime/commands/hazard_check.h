#pragma once
// The project's own hazard check: the Khronos layer's synchronisation validation does not see
// device addresses. Recomputes everything from the specification and the absolute addresses,
// sharing no code with the encoder.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/commands/encoder.h"

namespace tv {

/// What a recording would do, and at what addresses its buffers lie.
struct RecordedProgram {
  const EngineSpec& spec;
  std::span<const Dispatch> program;
  std::span<const int64_t> symbols;
  std::span<const uint64_t> addresses;  ///< of each EngineSpec::buffers
  const EncodedProgram& encoded;        ///< with its addresses patched
  std::span<const MovedBuffer> moved = {};
};

/// Every fault of the recording as a sentence: two dispatches that touch the same bytes, one of
/// them writing, with no barrier between them; a dispatch left out that has work to do; an address
/// pushed that is not its operand's. Empty: the recording is sound.
std::vector<std::string> find_faults(const RecordedProgram& recorded);

}  // namespace tv
