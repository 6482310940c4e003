#pragma once
// Times of the layers of engines, for people and tools: tv.profile and vkexec print the same.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/engine/engine.h"

namespace tv {

/// One dispatch of one call of an engine.
struct LayerTime {
  std::string engine;
  int64_t call = 0;  ///< number of the timed call
  std::string name, tactic;
  std::vector<std::string> ops = {};
  std::string module_path = {}, source = {};  ///< "layer1.0.conv1", "model.py:42"
  double time_us = 0;  ///< median, by the device's clock, alone between barriers
  double mean_us = 0;
  int64_t bytes = 0;  ///< of the operands
};

/// The layers of one call in the order of the specification; `times`: of Engine::time_dispatches.
std::vector<LayerTime> layer_times(const EngineSpec& spec, std::span<const DispatchTime> times,
                                   int64_t call = 0);

/// A table with one line a layer and the sum; at most `rows` layers where that is not 0. By time,
/// longest first, or as they ran.
std::string layer_table(std::span<const LayerTime> layers, size_t rows = 0, bool by_time = true);

/// The same as JSON text: a list of an object {"count": runs}, then one a layer with trtexec's
/// fields (name, timeMs, averageMs, medianMs, percentage) and ours (tactic, ops, modulePath,
/// source, bytes). `runs`: how often each layer ran.
std::string layer_json(std::span<const LayerTime> layers, int64_t runs);

/// Events for chrome://tracing and Perfetto, one layer after the other; a call is a track.
std::string layer_trace(std::span<const LayerTime> layers);

/// A bar chart as SVG, in the order in which they ran; a colour is a tactic.
std::string layer_picture(std::span<const LayerTime> layers);

}  // namespace tv
