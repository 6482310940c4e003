#include "csrc/cli/flags/config_file.h"

#include <algorithm>
#include <fstream>
#include <set>

#include "csrc/cli/flags/setting_flags.h"
#include "csrc/cli/flags/trtexec_flags.h"
#include "csrc/cli/flags/yaml.h"
#include "csrc/cli/text/command_error.h"
#include "csrc/cli/text/nearest.h"
#include "csrc/setting_values.h"
#include "runtime/base/env.h"

namespace tv::cli {
namespace {

constexpr size_t kMaxBytes = 1 << 20;

std::string text_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text(kMaxBytes + 1, '\0');
  if (!file) throw CommandError("--config: cannot read " + path);
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  if (file.bad()) throw CommandError("--config: cannot read " + path);
  if (text.size() > kMaxBytes) throw CommandError("--config: " + path + " is larger than 1 MiB");
  return text;
}

class ConfigReader {
 public:
  ConfigReader(std::string path, Options& options) : path_(std::move(path)), o_(options) {
    const Json made = parse_yaml(text_of(path_), path_);
    const auto* object = made.get<Json::Object>();
    if (!object && !made.is_null()) throw CommandError(path_ + ": want keys with values");
    if (object) fields_ = *object;
  }

  std::string run() {
    read_settings(o_.settings);
    read_settings(o_.cache);
    read_model();
    read_shorthands();
    read_device();
    const std::string idle = settings_of_python();
    if (!fields_.empty()) refuse_unknown(fields_.begin()->first);
    return idle;
  }

 private:
  [[noreturn]] void fail(const std::string& key, const Json& got, const std::string& want) const {
    throw CommandError(source_of(key) + ": " + key + ": got " + got.dump() + ", want " + want);
  }

  /// Where the value of a key is written.
  std::string source_of(const std::string& key) const {
    return of_environment_.contains(key) ? "environment variable " + variable_of_key(key) : path_;
  }

  /// For keys that exclude each other.
  [[noreturn]] void conflict(const std::string& text) const {
    std::string names;
    for (const std::string& key : of_environment_) {
      names += (names.empty() ? "" : ", ") + variable_of_key(key);
    }
    throw CommandError(path_ + ": " + text +
                       (names.empty() ? "" : " (after what the environment gives: " + names + ")"));
  }

  /// A variable comes before the file. Its text is what the file would have there.
  void take_variable(const std::string& key) {
    if (has_rule_of_its_own(key)) return;
    const std::string text = env_of_key(key);
    if (text.empty()) return;
    of_environment_.insert(key);
    fields_[key] = parse_yaml(text, source_of(key));
  }

  /// Of variables that give settings without a file, too, the rules are elsewhere.
  static bool has_rule_of_its_own(const std::string& key) {
    const auto rows = setting_rows();
    return key == "device" || std::any_of(rows.begin(), rows.end(), [&](const SettingRow& row) {
             return key == row.name && *row.variable;
           });
  }

  /// The value, unless the key is absent or null, which stands for no value of some keys.
  bool take(const std::string& key, Json& value, bool optional) {
    known_.push_back(key);
    take_variable(key);
    const auto field = fields_.extract(key);
    if (!field) return false;
    if (field.mapped().is_null()) {
      if (!optional) fail(key, {}, "a value; without the key the default is taken");
      return false;
    }
    value = field.mapped();
    return true;
  }

  template <typename S>
  void read_settings(S& settings) {
    each_setting(settings, [&](const SettingRow& row, auto& member) {
      Json value;
      if (!row.of_user || !take_setting(row, value)) return;
      try {
        const std::string shown = source_of(row.name) + ": " + row.name;
        check_written(row, value, shown);
        if constexpr (std::is_same_v<decltype(member), std::string&>) {
          if (value == Json("")) fail(row.name, value, "a path");
          if (std::string_view(row.kind) == "Calibration") value = text_of_calibration(value);
        }
        read_setting(row, value, member, shown);
      } catch (const Error& error) {
        throw CommandError(error.what());
      }
    });
  }

  /// The cache that a value names.
  Json text_of_calibration(const Json& value) const {
    const auto* path = value.get<std::string>();
    if (!path) fail("calibration", value, "the path of a calibration cache");
    return calibration_of(source_of("calibration") + ": calibration", *path);
  }

  bool take_setting(const SettingRow& row, Json& value) {
    const bool given = take(row.name, value, is_optional(row));
    given_by_name_ |= given && std::string_view(row.name) == "enabled_precisions";
    workspace_given_ |= given && std::string_view(row.name) == "workspace_size";
    return given;
  }

  /// Whether null stands for the default, as None does in Python.
  static bool is_optional(const SettingRow& row) {
    const std::string_view kind = row.kind;
    return kind == "OptionalBool" || kind == "Device" || kind == "Precisions" ||
           kind == "LowPrecision" || kind == "Calibration" || kind == "File" || kind == "Directory";
  }

  void read_text(const std::string& key, std::string& into) {
    Json value;
    if (!take(key, value, /*optional=*/true)) return;
    const auto* text = value.get<std::string>();
    if (!text || text->empty()) fail(key, value, "a path");
    into = *text;
  }

  bool read_flag(const std::string& key) {
    Json value;
    if (!take(key, value, /*optional=*/false)) return false;
    const bool* flag = value.get<bool>();
    if (!flag) fail(key, value, "true or false");
    return *flag;
  }

  void read_model() {
    read_text("onnx_path", o_.onnx);
    read_text("graph_path", o_.graph);
    if (!o_.onnx.empty() && !o_.graph.empty()) {
      conflict("got onnx_path and graph_path, want one of them");
    }
    read_text("engine_path", o_.save_engine);
    read_shapes("min_shapes", o_.min_shapes);
    read_shapes("opt_shapes", o_.opt_shapes);
    read_shapes("max_shapes", o_.max_shapes);
  }

  void read_shapes(const std::string& key, NamedShapes& into) {
    Json value;
    if (!take(key, value, /*optional=*/false)) return;
    const char* want = "sizes by name: {x: [1, 3, 224, 224]}";
    const auto* shapes = value.get<Json::Object>();
    if (!shapes) fail(key, value, want);
    for (const auto& [name, sizes] : *shapes) {
      const auto* list = sizes.get<Json::Array>();
      if (!list) fail(key, value, want);
      for (const Json& size : *list) {
        const auto* whole = size.get<int64_t>();
        if (!whole || *whole < 0) fail(key, value, want);
        into[name].push_back(*whole);
      }
      if (list->empty()) into[name] = {};
    }
  }

  void read_precisions() {
    const bool fp16 = read_flag("fp16"), bf16 = read_flag("bf16"), int8 = read_flag("int8");
    if (fp16 + bf16 > 1 || ((fp16 || bf16 || int8) && given_by_name_)) {
      conflict("got more than one of fp16, bf16 and enabled_precisions");
    }
    read_text("calibration_cache", o_.calibration_cache);
    if (!o_.calibration_cache.empty() && !o_.settings.calibration.empty()) {
      conflict("got calibration_cache and calibration, want one of them");
    }
    if (!fp16 && !bf16 && !int8) return;
    std::vector<DType>& enabled = o_.settings.enabled_precisions;
    enabled = {DType::kF32};
    if (fp16 || bf16) enabled.push_back(fp16 ? DType::kF16 : DType::kBF16);
    if (int8) enabled.push_back(DType::kI8);
  }

  void read_shorthands() {
    read_precisions();
    Json mebibytes;
    if (!take("workspace", mebibytes, /*optional=*/true)) return;
    if (workspace_given_) conflict("got workspace and workspace_size, want one");
    const auto* count = mebibytes.get<int64_t>();
    if (!count || *count < 0 || *count >= kTooManyMebibytes) {
      fail("workspace", mebibytes,
           "a whole number of MiB below 1048576; workspace_size takes bytes");
    }
    o_.settings.workspace_size = *count << 20;
  }

  void read_device() {
    Json value;
    if (!take("device", value, /*optional=*/true) || !env("TORCH_VULKAN_DEVICE").empty()) return;
    const auto* number = value.get<int64_t>();
    const auto* text = value.get<std::string>();
    const bool good = text ? !text->empty() : number && *number >= 0;
    if (!good) fail("device", value, "a number, a name or a UUID");
    o_.device = text ? *text : std::to_string(*number);
  }

  std::string settings_of_python() {
    std::string found;
    for (const SettingRow& row : setting_rows()) {
      Json value;
      if (row.scope != SettingScope::kPython || !row.of_user) continue;
      if (!take(row.name, value, is_optional(row))) continue;
      found += (found.empty() ? "" : "; ") + std::string(row.name) + ": it is for Python";
    }
    return found;
  }

  [[noreturn]] void refuse_unknown(const std::string& key) const {
    const std::string near = nearest(key, known_);
    std::string names;
    for (const std::string& name : known_) names += (names.empty() ? "" : ", ") + name;
    throw CommandError(
        path_ + ": unknown key '" + key +
        (near.empty() ? "'; want one of " + names : "'; did you mean " + near + "?"));
  }

  const std::string path_;
  Options& o_;
  Json::Object fields_;
  std::vector<std::string> known_;
  std::set<std::string> of_environment_;  ///< keys
  bool given_by_name_ = false, workspace_given_ = false;
};

}  // namespace

std::string read_config(const std::string& path, Options& options) {
  return ConfigReader(path, options).run();
}

}  // namespace tv::cli
