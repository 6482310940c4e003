#include "csrc/report/layer_times.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <numeric>

#include "csrc/report/bar_picture.h"
#include "csrc/report/svg.h"

namespace tv {
namespace {

using json = nlohmann::ordered_json;

double total_us(std::span<const LayerTime> layers) {
  return std::accumulate(layers.begin(), layers.end(), 0.0,
                         [](double sum, const LayerTime& layer) { return sum + layer.time_us; });
}

/// Text of any encoding: names come from files.
std::string dumped(const json& value, int indent = -1) {
  return value.dump(indent, ' ', false, json::error_handler_t::replace);
}

std::string format(const char* pattern, auto... values) {
  char text[64];
  std::snprintf(text, sizeof(text), pattern, values...);
  return text;
}

/// Text in a column: `width` characters, whatever their bytes.
std::string column(const std::string& cut, size_t width) {
  const auto characters = static_cast<size_t>(std::count_if(cut.begin(), cut.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
  return cut + std::string(width - std::min(width, characters), ' ');
}

}  // namespace

std::vector<LayerTime> layer_times(const EngineSpec& spec, std::span<const DispatchTime> times,
                                   int64_t call) {
  std::vector<LayerTime> layers;
  for (size_t i = 0; i < spec.dispatches.size(); ++i) {
    const Dispatch& d = spec.dispatches[i];
    layers.push_back({.engine = spec.name,
                      .call = call,
                      .name = d.name,
                      .tactic = d.tactic,
                      .ops = d.ops,
                      .module_path = d.module_path,
                      .source = d.source,
                      .time_us = times[i].time_us,
                      .mean_us = times[i].mean_us,
                      .bytes = times[i].bytes});
  }
  return layers;
}

std::string layer_table(std::span<const LayerTime> layers, size_t rows, bool by_time) {
  std::vector<const LayerTime*> order;
  for (const LayerTime& layer : layers) order.push_back(&layer);
  if (by_time) {
    std::stable_sort(order.begin(), order.end(),
                     [](auto* a, auto* b) { return a->time_us > b->time_us; });
  }
  if (rows != 0 && rows < order.size()) order.resize(rows);
  const double total = total_us(layers);
  const bool modules = std::any_of(layers.begin(), layers.end(),
                                   [](const LayerTime& l) { return !l.module_path.empty(); });
  const auto row = [&](const std::string& numbers, const std::string& name,
                       const std::string& module, const std::string& tactic) {
    return numbers + "  " + column(shortened(name, 40), 40) + " " +
           (modules ? column(shortened_front(module, 32), 32) + " " : "") + tactic + "\n";
  };
  std::string text = row("      time  share    GB/s", "layer", "module", "tactic");
  for (const LayerTime* layer : order) {
    const double us = layer->time_us;
    const double rate = us > 0 ? static_cast<double>(layer->bytes) / us / 1e3 : 0;
    text += row(format("%7.1f us %5.1f%% ", us, total > 0 ? 100 * us / total : 0) +
                    (us > 0 ? format("%7.1f", rate) : std::string(7, ' ')),
                layer->name, layer->module_path, layer->tactic);
  }
  return text + format("%7.1f us in %zu layers", total, layers.size());
}

std::string layer_json(std::span<const LayerTime> layers, int64_t runs) {
  json list = json::array({{{"count", runs}}});
  const double total = total_us(layers);
  for (const LayerTime& layer : layers) {
    list.push_back({{"name", layer.name},
                    {"timeMs", layer.mean_us * static_cast<double>(runs) / 1e3},
                    {"averageMs", layer.mean_us / 1e3},
                    {"medianMs", layer.time_us / 1e3},
                    {"percentage", total > 0 ? 100 * layer.time_us / total : 0},
                    {"tactic", layer.tactic},
                    {"ops", layer.ops},
                    {"modulePath", layer.module_path},
                    {"source", layer.source},
                    {"bytes", layer.bytes}});
  }
  return dumped(list, 2) + "\n";
}

std::string layer_trace(std::span<const LayerTime> layers) {
  json events = json::array();
  double now = 0;
  for (const LayerTime& layer : layers) {
    events.push_back({{"name", layer.name},
                      {"cat", layer.engine},
                      {"ph", "X"},
                      {"pid", 0},
                      {"tid", layer.call},
                      {"ts", now},
                      {"dur", layer.time_us},
                      {"args",
                       {{"tactic", layer.tactic},
                        {"ops", layer.ops},
                        {"module_path", layer.module_path},
                        {"source", layer.source},
                        {"bytes", layer.bytes}}}});
    now += layer.time_us;
  }
  return dumped({{"traceEvents", events}, {"displayTimeUnit", "ns"}}) + "\n";
}

std::string layer_picture(std::span<const LayerTime> layers) {
  const std::string engine = layers.empty() ? "" : layers.front().engine;
  const bool one = std::all_of(layers.begin(), layers.end(),
                               [&](const LayerTime& layer) { return layer.engine == engine; });
  const std::string title = (one ? shortened(engine, 40) : std::string("engines")) + ": " +
                            std::to_string(layers.size()) + " layers, " +
                            format("%.1f", total_us(layers)) + " µs in all";
  std::vector<std::string> tactics;
  std::vector<Bar> bars;
  for (const LayerTime& layer : layers) {
    const auto known = std::find(tactics.begin(), tactics.end(), layer.tactic);
    const auto kind = static_cast<size_t>(known - tactics.begin());
    if (known == tactics.end()) tactics.push_back(layer.tactic);
    bars.push_back({.length = layer.time_us,
                    .label = format("%.1f µs  ", layer.time_us) + shortened(layer.name, 48) +
                             (layer.tactic.empty() ? "" : "  " + shortened(layer.tactic, 40)),
                    .title = layer.module_path + " " + layer.source,
                    .kind = kind});
  }
  return bar_picture(title, "µs of the device's clock, in the order in which the layers run", bars);
}

}  // namespace tv
