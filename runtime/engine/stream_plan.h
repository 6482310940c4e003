#pragma once
// Weights that are not kept on the device: which ones, and how they pass through device memory
// while an engine runs (docs/design/0028-weight-streaming.md). Pure functions of the engine.

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/spec/engine_spec.h"

namespace tv {

/// How launches are cut into segments, and what is copied into the slots before each of them.
struct StreamPlan {
  struct Copy {
    uint32_t buffer = 0;
    int64_t bytes = 0;
    int64_t at = 0;  ///< in the slots
  };
  struct Segment {
    size_t first = 0;  ///< into EngineSpec::dispatches; the segment ends where the next begins
    std::vector<Copy> copies = {};
    int64_t begin = 0, end = 0;  ///< of its part of the slots
  };
  std::vector<Segment> segments;
  int64_t slot_bytes = 0;
};

/// Of the weights that are to be placed (`bytes` > 0, by EngineSpec::buffers), those to stream, so
/// that the others take at most `budget` bytes. They are spread evenly over the launches: copies
/// then have as much time before each segment. Tables that are only looked up go first.
std::vector<bool> choose_streamed(const EngineSpec& spec, std::span<const int64_t> bytes,
                                  int64_t budget);

/// Segments for the weights that are `streamed`, which take `bytes` (both by EngineSpec::buffers).
/// A launch that looks rows up in a table reads it in host memory.
StreamPlan plan_stream(const EngineSpec& spec, std::span<const int64_t> bytes,
                       const std::vector<bool>& streamed);

/// What the slots take at most, whichever weights are streamed.
int64_t slot_bytes_at_most(std::span<const int64_t> bytes);

/// How many segments before each, over endless repetitions, the last one is whose part of the slots
/// overlaps its own; 0: it has none. Copies wait for that one's launches.
std::vector<size_t> reuse_distances(std::span<const StreamPlan::Segment> segments);

}  // namespace tv
