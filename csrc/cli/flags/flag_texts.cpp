#include "csrc/cli/flags/flag_texts.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <optional>

#include "csrc/calibration/calibration.h"
#include "csrc/cli/text/command_error.h"
#include "csrc/plan/plan.h"
#include "csrc/precision.h"
#include "runtime/base/error.h"

namespace tv::cli {

Amount::Amount(double most) {
  func_ = [most](const std::string& text) -> std::string {
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    const bool good =
        error == std::errc() && end == text.data() + text.size() && value >= 0 && value <= most;
    return good ? ""
                : "got '" + text + "', want a number from 0 to " + CLI::detail::to_string(most);
  };
}

std::string is_whole(const std::string& text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool good = error == std::errc() && end == text.data() + text.size();
  return good ? "" : "got '" + text + "', want a whole number from 0 to 2^64 - 1";
}

void add_fill(CLI::App& app, Options& o, Texts& t) {
  app.add_option("--fill", t.fill, "Inputs without a file")
      ->type_name("random|zero")
      ->default_str("random")
      ->check(CLI::IsMember({"random", "zero"}));
  app.add_option("--seed", o.seed, "Of random inputs")->check(is_whole)->capture_default_str();
}

void add_constants(CLI::App& app, Texts& t) {
  app.add_option("--constants", t.constants,
                 "k:k.npy: inputs that are fixed here, as those that set shapes must be")
      ->type_name("FILES");
}

void add_config(CLI::App& app, Options& o) {
  app.add_option("--config", o.config,
                 "Read settings, files and shapes from this YAML file; flags come before it")
      ->type_name("FILE");
}

void add_device(CLI::App& app, Options& o) {
  app.add_option("--device", o.device, "Number, part of the name, or UUID of a device")
      ->type_name("DEVICE");
}

void add_calibration(CLI::App& app, Options& o, Texts& t) {
  app.add_option("--calibData", o.calibration_data,
                 "Make the cache that --calib names, unless it is there, from this folder of "
                 "batches: .npz files, or folders of .npy files, named as inputs are")
      ->type_name("DIR")
      ->check(CLI::ExistingDirectory);
  app.add_option("--calibMethod", t.range_method, "How it chooses the range of a tensor")
      ->type_name("METHOD")
      ->default_str("entropy")
      ->check(CLI::IsMember(std::vector<std::string>(kRangeMethods.begin(), kRangeMethods.end())));
  app.add_option("--calibPercentile", o.range.percentile,
                 "Of the method percentile: the share of magnitudes that the range holds")
      ->type_name("PERCENT")
      ->capture_default_str()
      ->check(Amount(100));
  app.add_option("--calibSmoothQuant", t.smooth_quant,
                 "SmoothQuant: balance the channels of products' inputs with those of weights, by "
                 "this alpha (0.5 where none is given)")
      ->type_name("ALPHA")
      ->expected(0, 1)
      ->check(Amount(1));
  app.add_flag("--calibBiasCorrection", o.range.bias_correction,
               "Add to biases what rounding weights takes from the mean of each channel");
}

namespace {

/// As flags that make a cache of it.
std::string corrections(std::optional<float> smooth_quant, bool bias_correction) {
  std::vector<std::string> flags;
  if (smooth_quant) flags.push_back("--calibSmoothQuant=" + CLI::detail::to_string(*smooth_quant));
  if (bias_correction) flags.emplace_back("--calibBiasCorrection");
  return flags.empty() ? "neither --calibSmoothQuant nor --calibBiasCorrection"
                       : CLI::detail::join(flags, " and ");
}

/// Throws CommandError for a cache that is there and of other flags.
void check_cache(const std::string& path, const RangeChoice& choice) {
  const auto refuse = [&](const std::string& has, const std::string& want) {
    throw CommandError("--calib: " + path + " is " + has + ", " + want +
                       ": remove it, or name another file");
  };
  const Calibration found = read_calibration(calibration_of("--calib", path), path);
  if (!is_of_method(found.header, choice.method)) {
    refuse(found.header,
           "--calibMethod=" + std::string(kRangeMethods.at(static_cast<size_t>(choice.method))) +
               " makes " + std::string(algorithm_of(choice.method)));
  }
  const bool corrects = std::ranges::any_of(
      found.channels, [](const auto& channels) { return !channels.second.means.empty(); });
  if (found.alpha != choice.smooth_quant || corrects != choice.bias_correction) {
    refuse("of " + corrections(found.alpha, corrects),
           "want " + corrections(choice.smooth_quant, choice.bias_correction));
  }
}

}  // namespace

void read_calibration_flags(const CLI::App& app, Options& o, const Texts& t,
                            SettingTexts& settings) {
  const auto need = [](bool good, const char* message) {
    if (!good) throw CommandError(message);
  };
  if (app.get_option_no_throw("--calibData") == nullptr) return;
  const auto at = std::ranges::find(kRangeMethods, t.range_method);
  if (at != kRangeMethods.end())
    o.range.method = static_cast<RangeMethod>(at - kRangeMethods.begin());
  const bool has_method = app.count("--calibMethod") > 0;
  const bool has_share = app.count("--calibPercentile") > 0;
  if (app.count("--calibSmoothQuant") > 0) {
    o.range.smooth_quant =
        t.smooth_quant.empty() ? 0.5F : static_cast<float>(std::stod(t.smooth_quant));
  }
  need(!has_share || o.range.method == RangeMethod::kPercentile,
       "--calibPercentile needs --calibMethod=percentile");
  need(o.range.percentile > 0, "--calibPercentile: got 0, want more");
  if (o.calibration_data.empty()) {
    need(!has_method, "--calibMethod needs --calibData");
    need(!o.range.smooth_quant, "--calibSmoothQuant needs --calibData");
    need(!o.range.bias_correction, "--calibBiasCorrection needs --calibData");
    return;
  }
  const auto cache = settings.files.find("--calib");
  need(cache != settings.files.end() && !cache->second.empty(),
       "--calibData needs --calib=FILE, the cache that it makes");
  std::error_code unknown;
  if (std::filesystem::exists(cache->second, unknown)) return check_cache(cache->second, o.range);
  o.new_calibration = std::move(cache->second);
  settings.files.erase(cache);
  o.settings.calibration.clear();  // of --config
}

void check_precisions(const Options& o) {
  const auto need = [](bool good, const char* message) {
    if (!good) throw CommandError(message);
  };
  need(permits_int8(o.settings) || o.settings.calibration.empty(),
       "--calib needs --int8 or --best");
  need(permits_int8(o.settings) || o.calibration_data.empty(),
       "--calibData needs --int8 or --best");
  try {
    check_together(o.settings);
  } catch (const Error& error) {
    throw CommandError(error.what());
  }
}

}  // namespace tv::cli
