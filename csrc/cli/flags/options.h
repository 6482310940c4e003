#pragma once
// The command line of vkexec as data.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "csrc/cache/cache_settings.h"
#include "csrc/calibration/observations.h"
#include "csrc/cli/text/sampler.h"
#include "csrc/cli/text/shapes.h"
#include "csrc/settings.h"

namespace tv::cli {

enum class Fill : uint8_t { kRandom, kZero };

struct Options {
  // Model
  std::string config;  ///< what was read before the flags
  std::string onnx, graph, load_engine, save_engine;
  bool check_addresses = false;  ///< of a loaded engine
  std::string weights;           ///< .safetensors
  std::string refit_from_onnx;
  bool refit = false, strip_weights = false;
  bool skip_inference = false;

  // Build
  NamedShapes min_shapes, opt_shapes, max_shapes, shapes;
  Settings settings;  ///< as the flags say
  CacheSettings cache;
  std::string calibration_cache;  ///< of the --config file: read where int8 is permitted
  std::string calibration_data;   ///< folder; "": nothing is calibrated
  std::string new_calibration;    ///< the cache that this makes; "": it is there already
  RangeChoice range;              ///< by which it does
  bool best = false;              ///< int8 is permitted by --best alone
  std::string sparsity;           ///< "", "disable", "enable" or "force", which prunes weights
  std::map<std::string, std::string> constants;  ///< files of inputs that are fixed when building

  // Inference
  int64_t iterations = 10, warm_up_ms = 200, idle_ms = 0, streams = 1;
  double duration_s = 3;
  std::map<std::string, std::string> load_inputs;
  Fill fill = Fill::kRandom;
  uint64_t seed = 0;

  // Report
  int64_t avg_runs = 10;
  std::vector<double> percentiles = {90, 95, 99};
  bool verbose = false, dump_output = false, dump_profile = false, dump_layer_info = false;
  bool dump_refit = false;
  std::string export_times, export_output, export_profile, export_layer_info, export_graph;

  // System
  std::string device;
  bool list_devices = false;

  // vkexec compare and vkexec debug
  bool compare = false;
  std::string debug;  ///< "precision", "reduce" or ""
  std::string ref;
  double atol = 1e-5, rtol = 1e-4;
  bool tolerance_given = false;
  bool writes_to_stdout = false;  ///< a file of its output is standard output
  bool layers = true, sensitivity = false;
  std::string export_comparison;
  double snr_db = 40;  ///< of debug precision; the tolerance counts instead where it is given
  std::string save;    ///< what debug found
  std::string check;   ///< a command that fails for what debug reduces
  int64_t check_seconds = 600, max_runs = 200;
  bool quiet = false;  ///< says nothing of engines that are built

  // vkexec generate
  bool generate = false;
  std::string model, tokenizer, prompt;
  int64_t tokens = 0;  ///< most to add; 0: until the text ends or the cache is full
  std::optional<int64_t> steps_per_submission;  ///< none: as the device gains from it
  Sampling sampling;
  bool stream = false;

  /// The file that is built from.
  const std::string& model_path() const { return graph.empty() ? onnx : graph; }
  bool runs() const { return !skip_inference; }
  bool profiles() const { return dump_profile || !export_profile.empty(); }
};

/// What the command line asks for: something to do, or a text to print and leave (help, version).
struct Command {
  Options options;
  std::string text;     ///< "" : do what the options say
  std::string warning;  ///< of flags that change nothing; "": there are none
};

/// Throws CommandError naming the flag that is wrong.
Command parse_command(int argc, const char* const* argv);

}  // namespace tv::cli
