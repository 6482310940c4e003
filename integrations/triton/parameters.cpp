#include "integrations/triton/parameters.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <functional>

#include "csrc/cache/place_caches.h"
#include "csrc/calibration/calibration.h"
#include "csrc/precision.h"
#include "csrc/setting_values.h"
#include "integrations/kit/option_text.h"

namespace tv::triton {
namespace {

struct Refused {
  const char* name;
  const char* reason;
};
constexpr const char* kWhole = "the backend runs models whole or not at all";
constexpr Refused kRefused[] = {
    {"min_block_size", kWhole},
    {"torch_executed_ops", kWhole},
    {"require_full_compilation", kWhole},
};

/// How a model of any kind is loaded.
constexpr const char* kOfLoading[] = {"device", "check_addresses", "weight_budget"};
constexpr const char* kSteps = "steps_per_submission";

bool is_taken(const std::string& name, ModelKind kind) {
  if (name == kSteps) return kind == ModelKind::kDecoder;
  return kind == ModelKind::kBuilt || std::ranges::find(kOfLoading, name) != std::end(kOfLoading);
}

std::string shown(const std::string& key) { return "parameter " + key; }

class Reader {
 public:
  explicit Reader(const std::string& folder) : folder_(folder) {
    read_environment_settings(out_.settings, out_.cache);
    add_settings(out_.settings);
    add_settings(out_.cache);
    add_own();
    for (const Refused& refused : kRefused) {
      readers_[refused.name] = [&refused](const auto& key, const auto&) {
        user_error(shown(key) + ": " + refused.reason);
      };
    }
  }

  bool knows(const std::string& key) const { return readers_.contains(key); }

  void read(const std::string& key, const std::string& text) {
    const auto reader = readers_.find(key);
    if (reader != readers_.end()) return reader->second(key, text);
    for (const SettingRow& row : setting_rows()) {
      if (row.scope == SettingScope::kPython && row.of_user && key == row.name) {
        user_error(shown(key) + ": it is for PyTorch's models");
      }
    }
    std::vector<std::string> names;
    for (const auto& [name, unused] : readers_) names.push_back(name);
    refuse_unknown("parameter", key, names, "docs/triton.md");
  }

  Parameters run() {
    out_.settings.require_full_compilation = true;
    out_.settings.min_block_size = 1;
    out_.shapes = profile_ranges(min_, opt_, max_);
    out_.engine.weight_budget = out_.settings.weight_budget;
    place_caches(out_.settings, out_.cache);
    check_together(out_.settings);
    return std::move(out_);
  }

 private:
  using Read = std::function<void(const std::string& key, const std::string& text)>;

  template <typename S>
  void add_settings(S& settings) {
    each_setting(settings, [&](const SettingRow& row, auto& member) {
      if (!row.of_user) return;
      readers_[row.name] = [this, &row, &member](const auto& key, const auto& text) {
        const std::string_view kind = row.kind;
        const bool path = kind == "File" || kind == "Directory" || kind == "Calibration";
        const std::string value = path ? in_folder(text) : text;
        if (kind == "Calibration") {
          read_setting(row, Json(calibration_file(value)), member, shown(key));
        } else {
          read_setting(row, setting_of_text(row, shown(key), value), member, shown(key));
        }
      };
    });
  }

  std::string in_folder(const std::string& path) const {
    return path.empty() ? path : (std::filesystem::path(folder_) / path).string();
  }

  Read shapes(cli::NamedShapes& into) {
    return
        [&into](const auto& key, const auto& text) { into = cli::parse_shapes(shown(key), text); };
  }

  void add_own() {
    readers_["device"] = [this](const auto&, const auto& text) { out_.device = text; };
    readers_["check_addresses"] = [this](const auto& key, const auto& text) {
      out_.engine.check_addresses = option_flag(shown(key), text);
    };
    readers_[kSteps] = [this](const auto& key, const auto& text) { read_steps(key, text); };
    readers_["profile_min_shapes"] = shapes(min_);
    readers_["profile_opt_shapes"] = shapes(opt_);
    readers_["profile_max_shapes"] = shapes(max_);
  }

  void read_steps(const std::string& key, const std::string& text) {
    constexpr int64_t kMost = 1 << 16;
    int64_t steps = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), steps);
    if (error != std::errc() || end != text.data() + text.size() || steps < 1 || steps > kMost) {
      user_error(shown(key) + ": got '" + text + "', want a whole number from 1 to " +
                 std::to_string(kMost));
    }
    out_.steps_per_submission = steps;
  }

  std::string folder_;
  Parameters out_;
  std::map<std::string, Read> readers_;
  cli::NamedShapes min_, opt_, max_;
};

}  // namespace

Parameters read_parameters(const std::map<std::string, std::string>& given,
                           const std::string& folder, ModelKind kind) {
  Reader reader(folder);
  for (const auto& [key, text] : given) {
    if (reader.knows(key) && !is_taken(key, kind)) {
      user_error(shown(key) + (key == kSteps ? ": it is for folders of tv.save_decoder"
                                             : ": the model's engines are built already; they take "
                                               "device, check_addresses and weight_budget"));
    }
    reader.read(key, text);
  }
  return reader.run();
}

std::map<std::string, std::string> applicable(const std::map<std::string, std::string>& defaults,
                                              ModelKind kind) {
  const Reader reader("");
  std::map<std::string, std::string> out;
  for (const auto& [key, text] : defaults) {
    if (is_taken(key, kind) || !reader.knows(key)) out.emplace(key, text);
  }
  return out;
}

}  // namespace tv::triton
