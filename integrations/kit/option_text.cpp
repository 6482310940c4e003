#include "integrations/kit/option_text.h"

#include <algorithm>
#include <charconv>

#include "csrc/cli/text/nearest.h"
#include "csrc/setting_values.h"

namespace tv {

void user_error(const std::string& message) { throw Error(ErrorKind::kUser, message); }

void refuse_option(const std::string& key, const std::string& text, const std::string& want) {
  user_error(key + ": got '" + text + "', want " + want);
}

bool option_flag(const std::string& key, const std::string& text) {
  for (const char* yes : {"1", "true", "True"}) {
    if (text == yes) return true;
  }
  for (const char* no : {"0", "false", "False"}) {
    if (text == no) return false;
  }
  refuse_option(key, text, "1 or 0, true or false");
}

std::vector<std::string> option_items(const std::string& text) {
  std::vector<std::string> out;
  size_t at = 0;
  while (at <= text.size()) {
    const size_t end = std::min(text.find(',', at), text.size());
    if (end > at) out.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return out;
}

Json setting_of_text(const SettingRow& row, const std::string& key, const std::string& text) {
  const std::string_view kind = row.kind;
  if (kind == "Bool") return option_flag(key, text);
  if (kind == "Integer" || kind == "Bytes" || kind == "Nodes") {
    if (kind == "Nodes" && text == "inf") return Json("inf");
    int64_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || end != text.data() + text.size()) {
      refuse_option(key, text,
                    kind == "Nodes" ? "a whole number from 1, or inf" : "a whole number");
    }
    return number;
  }
  if (kind == "Text" || kind == "File" || kind == "Directory") return text;
  const std::vector<std::string> names = option_items(text);
  Json items = Json::Array(names.begin(), names.end());
  check_written(row, items, key);
  return items;
}

void refuse_unknown(const std::string& kind, const std::string& key,
                    const std::vector<std::string>& known, const std::string& page) {
  const std::string near = cli::nearest(key, known);
  user_error("unknown " + kind + " '" + key + "'" +
             (near.empty() ? "; " + page + " lists them" : "; did you mean '" + near + "'?"));
}

std::map<std::string, std::vector<onnx::DimRange>> profile_ranges(const cli::NamedShapes& min,
                                                                  const cli::NamedShapes& opt,
                                                                  const cli::NamedShapes& max) {
  std::map<std::string, std::vector<onnx::DimRange>> out;
  if (min.size() != max.size() || opt.size() != max.size()) {
    user_error(
        "want the same inputs in profile_min_shapes, profile_opt_shapes and "
        "profile_max_shapes");
  }
  for (const auto& [name, most] : max) {
    const auto least = min.find(name), usual = opt.find(name);
    const bool all = least != min.end() && usual != opt.end();
    if (!all || least->second.size() != most.size() || usual->second.size() != most.size()) {
      user_error("shape profile of '" + name +
                 "': want the same rank in profile_min_shapes, "
                 "profile_opt_shapes and profile_max_shapes");
    }
    std::vector<onnx::DimRange>& dims = out[name];
    for (size_t d = 0; d < most.size(); ++d) {
      dims.push_back({.min = least->second[d], .opt = usual->second[d], .max = most[d]});
      if (dims[d].min > dims[d].opt || dims[d].opt > dims[d].max) {
        user_error("shape profile of '" + name + "': want min ≤ opt ≤ max, got " +
                   cli::shape_text(least->second) + ", " + cli::shape_text(usual->second) + ", " +
                   cli::shape_text(most));
      }
    }
  }
  return out;
}

void read_environment_settings(Settings& settings, CacheSettings& cache) {
  read_environment(settings);
  read_environment(cache);
}

}  // namespace tv
