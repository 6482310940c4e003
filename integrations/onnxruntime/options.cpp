#include "integrations/onnxruntime/options.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <mutex>

#include "csrc/cache/place_caches.h"
#include "csrc/calibration/calibration.h"
#include "csrc/cli/text/nearest.h"
#include "csrc/cli/text/shapes.h"
#include "csrc/plan/plan.h"
#include "csrc/precision.h"
#include "csrc/setting_values.h"
#include "csrc/user_code.h"
#include "integrations/kit/option_text.h"

namespace tv::ort {
namespace {

/// What messages call an option.
std::string shown(const std::string& key) { return "option " + key; }

bool flag(const std::string& key, const std::string& text) { return option_flag(shown(key), text); }

/// Options that mean a setting, by the TensorRT provider's names.
struct Alias {
  const char* name;
  const char* setting;
};
constexpr Alias kAliases[] = {
    {"max_workspace_size", "workspace_size"},  {"min_subgraph_size", "min_block_size"},
    {"engine_cache_path", "engine_cache_dir"}, {"builder_optimization_level", "optimization_level"},
    {"sparsity_enable", "sparse_weights"},     {"int8_calibration_table_name", "calibration"},
};

struct Refused {
  const char* name;
  const char* reason;
  bool flag = false;  ///< it may be given as false, which is so
};
constexpr Refused kRefused[] = {
    {"dla_enable", "there are no such cores", true},
    {"dla_core", "there are no such cores"},
    {"tactic_sources", "tactics are chosen by time"},
    {"cuda_graph_enable", "commands are recorded once for each shape, always", true},
    {"auxiliary_streams", "an engine orders its own commands"},
    {"engine_decryption_enable", "engines are not encrypted", true},
    {"engine_decryption_lib_path", "engines are not encrypted"},
    {"force_timing_cache", "times of another device are never used", true},
    {"user_compute_stream", "calls wait for their results"},
    {"has_user_compute_stream", "calls wait for their results", true},
    {"max_partition_iterations", "the partition takes one"},
    {"layer_norm_fp32_fallback", "sums are float32, always", true},
    {"build_heuristics_enable", "builder_optimization_level says how long to search", true},
    {"force_sequential_engine_build", "engines are built one after another", true},
    {"engine_cache_prefix", "entries of the cache are found by what they were built for"},
    {"preview_features", "there are none"},
    {"dump_ep_context_model", "ep.context_enable, a session option, is ONNX Runtime's name for it",
     true},
    {"ep_context_file_path",
     "ep.context_file_path, a session option, is ONNX Runtime's name for it"},
    {"ep_context_embed_mode",
     "ep.context_embed_mode, a session option, is ONNX Runtime's name for it", true},
    {"require_full_compilation", "session.disable_cpu_ep_fallback=1 is ONNX Runtime's name for it",
     true},
    {"torch_executed_ops", "op_types_to_exclude takes names of ONNX's operators"},
    {"external_data_bytestream",
     "weights are those that ONNX Runtime has; of contexts without "
     "weights they are read beside the model"},
    {"external_data_bytestream_size",
     "weights are those that ONNX Runtime has; of contexts "
     "without weights they are read beside the model"},
    {"load_user_initializer", "weights are those that ONNX Runtime has, always", true},
    {"truncate_long_and_double", "values keep their types between providers", true},
};

/// Libraries of users' operators: each is loaded once in a process.
void load_libraries(const std::string& paths) {
  static std::mutex mutex;
  static std::set<std::string> loaded;
  const std::lock_guard lock(mutex);
  size_t at = 0;
  while (at <= paths.size()) {  // separated as the TensorRT provider separates them
    const size_t end = std::min(paths.find(';', at), paths.size());
    const std::string path = paths.substr(at, end - at);
    if (!path.empty() && !loaded.contains(path)) {
      load_user_library(path);
      loaded.insert(path);
    }
    at = end + 1;
  }
}

class Reader {
 public:
  explicit Reader(const std::map<std::string, std::string>& given) {
    read_environment_settings(options_.settings, options_.cache);
    add_settings(options_.settings);
    add_settings(options_.cache);
    add_own();
    for (const Alias& alias : kAliases) {
      readers_[alias.name] = readers_.at(alias.setting);
      if (given.contains(alias.name)) refuse_both(given, alias.name, alias.setting);
    }
    for (const Refused& refused : kRefused) {
      readers_[refused.name] = [refused](const auto& key, const auto& text) {
        if (!refused.flag || flag(key, text)) user_error("option " + key + ": " + refused.reason);
      };
    }
    for (const auto& [key, text] : given) read(key, text);
    // Flags that mean settings, where they mean them:
    for (const auto& [key, setting] : set_by_flags_) refuse_both(given, key, setting);
  }

  Options run() {
    options_.shapes = profile_ranges(min_, opt_, max_);
    place_caches(options_.settings, options_.cache);
    add_calibration();
    check_together(options_.settings);
    if (!timing_) options_.settings.timing_cache_path.clear();
    if ((bytes_at_ == 0) != (bytes_size_ == 0)) {
      user_error("options onnx_bytestream and onnx_bytestream_size: got one of them");
    }
    if (bytes_at_ != 0 && !options_.refit_from.empty()) {
      user_error("option refit_from_onnx: onnx_bytestream gives a model, too");
    }
    options_.model_bytes = {reinterpret_cast<const uint8_t*>(bytes_at_), bytes_size_};
    return std::move(options_);
  }

 private:
  using Read = std::function<void(const std::string& key, const std::string& text)>;

  /// As vkexec's --int8 and --calib.
  void add_calibration() {
    std::vector<DType>& enabled = options_.settings.enabled_precisions;
    if (int8_) {
      if (enabled.empty()) enabled = {DType::kF32};
      enabled.push_back(DType::kI8);
    }
    if (calibration_.empty()) return;
    if (!permits_int8(options_.settings)) {
      user_error("option " + calibration_name_ + ": it needs int8_enable=1");
    }
    std::error_code unknown;
    const std::filesystem::path cached =
        std::filesystem::path(options_.cache.engine_cache_dir) / calibration_;
    const bool here = std::filesystem::exists(calibration_, unknown);
    const bool there = !here && std::filesystem::exists(cached, unknown);
    options_.settings.calibration = calibration_file(there ? cached.string() : calibration_);
  }

  template <typename S>
  void add_settings(S& settings) {
    each_setting(settings, [&](const SettingRow& row, auto& member) {
      if (!row.of_user) return;
      readers_[row.name] = [&row, &member](const auto& key, const auto& text) {
        read_setting(row, setting_of_text(row, shown(key), text), member, shown(key));
      };
    });
  }

  /// One of two names of an option would win, unseen.
  static void refuse_both(const std::map<std::string, std::string>& given, const std::string& key,
                          const std::string& other) {
    if (given.contains(other)) {
      user_error("option " + key + ": " + other + ", which means the same, is given, too");
    }
  }

  /// As vkexec's flag of that name: --fp16, --bf16.
  Read precision(const std::string& flag_name) {
    return [this, flag_name](const auto& key, const auto& text) {
      if (!flag(key, text)) return;
      const SettingRow& row = setting_row("enabled_precisions");
      for (const SettingFlag& of_row : row.flags) {
        if (flag_name != of_row.name) continue;
        if (!options_.settings.enabled_precisions.empty()) {
          user_error("option " + key + ": another precision is given, too");
        }
        read_setting(row, Json::parse(of_row.sets, of_row.name),
                     options_.settings.enabled_precisions);
        set_by_flags_.emplace(key, row.name);
      }
    };
  }

  Read shapes(cli::NamedShapes& into) {
    return
        [&into](const auto& key, const auto& text) { into = cli::parse_shapes(shown(key), text); };
  }

  template <typename T>
  Read number(T& into, const char* wanted) {
    return [&into, wanted](const auto& key, const auto& text) {
      const char* end = text.data() + text.size();
      const auto [stop, error] = std::from_chars(text.data(), end, into);
      if (error != std::errc() || stop != end) refuse_option(shown(key), text, wanted);
    };
  }

  void add_own() {
    add_device();
    add_precisions();
    add_caches();
    add_models();
    add_shapes();
    readers_["op_types_to_exclude"] = [this](const auto& key, const auto& text) {
      for (const std::string& item : option_items(text)) exclude(key, item);
    };
    readers_["extra_plugin_lib_paths"] = [](const auto&, const auto& text) {
      load_libraries(text);
    };
    readers_["dump_subgraphs"] = [this](const auto& key, const auto& text) {
      if (flag(key, text)) options_.settings.debug_dir = "vulkan_subgraphs";
    };
    readers_["detailed_build_log"] = [this](const auto& key, const auto& text) {
      options_.detailed_log = flag(key, text);
    };
    // True of every engine: "runs on" is the wide fingerprint, and arenas are pooled. A calibration
    // table that is not TensorRT's is refused where it is read.
    for (const char* always : {"engine_hw_compatible", "context_memory_sharing_enable",
                               "int8_use_native_calibration_table"}) {
      readers_[always] = [](const auto& key, const auto& text) { flag(key, text); };
    }
  }

  void add_device() {
    const Read device = [this](const auto& key, const auto& text) {
      if (!options_.device.empty() && options_.device != text) {
        user_error("option " + key + ": got device and device_id, want one of them");
      }
      options_.device = text;
    };
    readers_["device"] = device;
    readers_["device_id"] = [device](const auto& key, const auto& text) {
      if (text.find_first_not_of("0123456789") != std::string::npos || text.empty()) {
        refuse_option(shown(key), text, "the index of a Vulkan device");
      }
      device(key, text);
    };
  }

  void add_precisions() {
    readers_["fp16_enable"] = precision("--fp16");
    readers_["bf16_enable"] = precision("--bf16");
    readers_["int8_enable"] = [this](const auto& key, const auto& text) {
      int8_ = flag(key, text);
      if (int8_) set_by_flags_.emplace(key, "enabled_precisions");
    };
    readers_["calibration"] = [this](const auto& key, const auto& text) {
      calibration_ = text;
      calibration_name_ = key;
    };
  }

  void add_caches() {
    readers_["engine_cache_enable"] = [this](const auto& key, const auto& text) {
      for (const char* own : {"cache_built_engines", "reuse_cached_engines"}) {
        set_by_flags_.emplace(key, own);
      }
      options_.cache.cache_built_engines = options_.cache.reuse_cached_engines = flag(key, text);
    };
    readers_["timing_cache_enable"] = [this](const auto& key, const auto& text) {
      timing_ = flag(key, text);
    };
    readers_["timing_cache_path"] = [this](const auto& key, const auto& text) {
      const SettingRow& row = setting_row("timing_cache_path");
      std::error_code unknown;
      const bool folder = std::filesystem::is_directory(text, unknown);
      read_setting(row, setting_of_text(row, shown(key), folder ? text + "/timings.json" : text),
                   options_.settings.timing_cache_path, shown(key));
    };
  }

  /// Of the files beside a context, and of the model that weights come from.
  void add_models() {
    readers_["weight_stripped_engine_enable"] = [this](const auto& key, const auto& text) {
      options_.strip_weights = flag(key, text);
    };
    readers_["onnx_model_folder_path"] = [this](const auto&, const auto& text) {
      options_.model_folder = text;
    };
    readers_["refit_from_onnx"] = [this](const auto&, const auto& text) {
      options_.refit_from = text;
    };
    readers_["onnx_bytestream"] = number(bytes_at_, "the address of a model as a decimal number");
    readers_["onnx_bytestream_size"] = number(bytes_size_, "the size of a model in bytes");
  }

  void add_shapes() {
    readers_["profile_min_shapes"] = shapes(min_);
    readers_["profile_opt_shapes"] = shapes(opt_);
    readers_["profile_max_shapes"] = shapes(max_);
    readers_["max_shape_values"] = [this](const auto& key, const auto& text) {
      if (text.empty() || text.size() > 6 ||
          text.find_first_not_of("0123456789") != std::string::npos) {
        refuse_option(shown(key), text, "a number of engines from 0 to 999999");
      }
      options_.max_shape_values = std::stoll(text);
    };
  }

  /// Any name is taken, since a model may hold operators of any domain. One that is nearly an
  /// operator that engines take is an error: it would leave nothing out, unseen.
  void exclude(const std::string& key, const std::string& item) {
    const size_t begin = item.find_first_not_of(' '), end = item.find_last_not_of(' ');
    if (begin == std::string::npos) return;
    const std::string name = item.substr(begin, end - begin + 1);
    std::vector<std::string> translated = onnx::translated_operators();
    for (std::string& other : translated) {
      const size_t domain = other.find("::");
      if (domain != std::string::npos) other = other.substr(domain + 2);
    }
    const std::string near = cli::nearest(name, translated);
    if (!near.empty() && near != name) {
      refuse_option(shown(key), name, "types of operators; did you mean '" + near + "'?");
    }
    options_.excluded.insert(name);
  }

  void read(const std::string& key, const std::string& text) {
    const auto reader = readers_.find(key);
    if (reader != readers_.end()) return reader->second(key, text);
    constexpr std::string_view kTensorRt = "trt_";
    if (key.starts_with(kTensorRt) && readers_.contains(key.substr(kTensorRt.size()))) {
      user_error("unknown option '" + key +
                 "'; write it without trt_: " + key.substr(kTensorRt.size()));
    }
    for (const SettingRow& row : setting_rows()) {
      if (row.scope == SettingScope::kPython && row.of_user && key == row.name) {
        user_error("option " + key + ": it is for PyTorch's models");
      }
    }
    std::vector<std::string> names;
    for (const auto& [name, unused] : readers_) names.push_back(name);
    refuse_unknown("option", key, names, "docs/onnxruntime.md");
  }

  Options options_;
  std::map<std::string, Read> readers_;
  cli::NamedShapes min_, opt_, max_;
  bool timing_ = true, int8_ = false;
  std::string calibration_, calibration_name_;  ///< its file, and the option that names it
  uintptr_t bytes_at_ = 0;
  size_t bytes_size_ = 0;
  std::multimap<std::string, std::string> set_by_flags_;  ///< settings, by the flags' names
};

}  // namespace

Options read_options(const std::map<std::string, std::string>& given,
                     const std::map<std::string, std::string>& session) {
  Options options = Reader(given).run();
  const auto entry = [&](const char* key) {
    const auto found = session.find(key);
    return found == session.end() ? std::string() : found->second;
  };
  const auto is_on = [&](const char* key) {
    const std::string text = entry(key);
    if (!text.empty() && text != "0" && text != "1") refuse_option(key, text, "0 or 1");
    return text == "1";
  };
  options.context = {.enable = is_on("ep.context_enable"),
                     .embed = is_on("ep.context_embed_mode"),
                     .file = entry("ep.context_file_path"),
                     .source = entry("ep.context_source_model_path")};
  // One request under the names of several versions of the runtime; "2" is of all weights.
  const bool of_session = is_on("ep.enable_weightless");
  const bool of_nodes = is_on("ep.enable_weightless_ep_context_nodes");
  options.strip_weights =
      options.strip_weights || of_session || of_nodes || entry("ep.enable_weightless_mode") == "2";
  return options;
}

}  // namespace tv::ort
