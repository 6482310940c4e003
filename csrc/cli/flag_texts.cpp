#include "csrc/cli/flag_texts.h"

#include <algorithm>
#include <charconv>

#include "csrc/cli/command_error.h"

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

void check_precisions(const Options& o) {
  const auto need = [](bool good, const char* message) {
    if (!good) throw CommandError(message);
  };
  const bool int8 = std::ranges::find(o.settings.enabled_precisions, DType::kI8) !=
                    o.settings.enabled_precisions.end();
  need(int8 || o.settings.calibration.empty(), "--calib needs --int8 or --best");
  need(
      !int8 || !o.settings.calibration.empty(),
      "--int8 and --best need --calib=FILE, a cache that tv.calibrate or TensorRT wrote; quantised "
      "ONNX files (Q/DQ pairs) run in 8 bits without these flags");
}

}  // namespace tv::cli
