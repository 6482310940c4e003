#pragma once
// What the flags of all commands share.

#include <CLI/CLI.hpp>
#include <string>

#include "csrc/cli/flags/options.h"
#include "csrc/cli/flags/setting_flags.h"

namespace tv::cli {

/// Flags whose text has a grammar of its own.
struct Texts {
  std::string shapes, min_shapes, opt_shapes, max_shapes, load_inputs, constants, percentile, fill;
  std::string range_method, smooth_quant;
  SettingTexts settings;
  bool always = false;  ///< flags that change nothing
};

/// Numbers in a range, which nan is not: every comparison with it is false.
class Amount : public CLI::Validator {
 public:
  explicit Amount(double most);
};

/// "" or why a text is no whole number from 0 to 2^64 - 1.
std::string is_whole(const std::string& text);

/// --fill and --seed, --constants, --config: as every command that runs a network has them.
void add_fill(CLI::App& app, Options& o, Texts& t);
void add_constants(CLI::App& app, Texts& t);
void add_config(CLI::App& app, Options& o);
void add_device(CLI::App& app, Options& o);

/// --calibData and what goes with it.
void add_calibration(CLI::App& app, Options& o, Texts& t);

/// Reads these and --calib, whose file need not be there if data is to make it; `settings` loses it
/// then. Throws CommandError.
void read_calibration_flags(const CLI::App& app, Options& o, const Texts& t,
                            SettingTexts& settings);

/// Throws CommandError where the flags of precision do not go together.
void check_precisions(const Options& o);

}  // namespace tv::cli
