#include "csrc/cli/flags/setting_flags.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <limits>
#include <string_view>
#include <utility>
#include <vector>

#include "csrc/calibration/calibration.h"
#include "csrc/cli/text/command_error.h"
#include "csrc/setting_values.h"

namespace tv::cli {
namespace {

/// A size as trtexec takes it: MiB, or with one of B, K, M, G, KiB, MiB, GiB.
int64_t bytes(const std::string& flag, const std::string& text) {
  size_t end = text.find_first_not_of("0123456789.");
  end = std::min(end, text.size());
  std::string unit = text.substr(end);
  std::transform(unit.begin(), unit.end(), unit.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (unit.size() == 3 && unit.ends_with("ib")) unit.resize(1);
  constexpr std::string_view kUnits = "bkmg";
  const size_t power = unit.empty() ? 2 : unit.size() == 1 ? kUnits.find(unit) : kUnits.npos;
  if (power == kUnits.npos) {
    throw CommandError(flag + ": got '" + text +
                       "', want a number of MiB, or one with a unit: B, "
                       "K, M, G, KiB, MiB or GiB");
  }
  const double count = number(flag, text.substr(0, end));
  if (unit.empty() && count >= static_cast<double>(kTooManyMebibytes)) {
    throw CommandError(flag + ": got '" + text +
                       "' MiB, want less than 1048576, or a unit: " + text + "B is as many bytes");
  }
  const double size = std::ldexp(count, static_cast<int>(10 * power));
  if (!(size >= 0 && size < 0x1p60)) {
    throw CommandError(flag + ": got '" + text + "', want 0 or more, and less than 2^60 bytes");
  }
  return static_cast<int64_t>(size);
}

bool is_whole(const std::string& text, int64_t& value) {
  const char* end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && at == end;
}

bool is(const SettingRow& row, const char* kind) { return std::string_view(row.kind) == kind; }

/// What an integer must be: the row's range.
CLI::Validator in_range(const SettingRow& row) {
  const bool ends = row.high < std::numeric_limits<int64_t>::max();
  const std::string want = "', want an integer from " + std::to_string(row.low) +
                           (ends ? " to " + std::to_string(row.high) : " up");
  const auto check = [low = row.low, high = row.high, want](const std::string& text) {
    int64_t value = 0;
    const bool good = is_whole(text, value) && value >= low && value <= high;
    return good ? std::string() : "got '" + text + want;
  };
  return {check, "", ""};
}

/// A flag that takes its setting's value.
void add_value(CLI::App& app, const SettingRow& row, const SettingFlag& flag, int64_t& value,
               SettingTexts& texts) {
  if (is(row, "Bytes")) {
    app.add_option(flag.name, texts.sizes[flag.name], flag.help)->type_name("SIZE");
  } else {
    app.add_option(flag.name, value, flag.help)->check(in_range(row))->capture_default_str();
  }
}

void add_value(CLI::App& app, const SettingRow& row, const SettingFlag& flag, std::string& value,
               SettingTexts& texts) {
  if (is(row, "Calibration")) {
    // Whether it is there is asked where it is read: --calibData may make it.
    app.add_option(flag.name, texts.files[flag.name], flag.help)
        ->type_name("FILE")
        ->check(is_no_directory);
    return;
  }
  CLI::Option* option = app.add_option(flag.name, value, flag.help);
  if (is(row, "File")) option->type_name("FILE")->check(is_no_directory);
  if (is(row, "Directory")) option->type_name("DIR")->check(is_no_file);
}

template <typename T>
void add_value(CLI::App&, const SettingRow& row, const SettingFlag& flag, T&, SettingTexts&) {
  throw Error(ErrorKind::kInternal, std::string("[vkexec] ") + flag.name + ": a setting of kind " +
                                        row.kind + " takes no text; its row says what it sets");
}

/// What two flags that set dtypes permit together: of float16 and bfloat16 one.
void merge(std::vector<DType>& into, const std::vector<DType>& more, const std::string& flags) {
  const auto has = [&](DType dtype) { return std::ranges::find(into, dtype) != into.end(); };
  for (const DType dtype : more) {
    if (!has(dtype)) into.push_back(dtype);
  }
  if (has(DType::kF16) && has(DType::kBF16)) {
    throw CommandError("got " + flags + ", want one of them");
  }
}

constexpr std::string_view kWorkspace = "workspace";
constexpr auto kIdlePools = std::to_array<std::string_view>(
    {"tacticSharedMem", "dlaSRAM", "dlaLocalDRAM", "dlaGlobalDRAM"});

/// "workspace:2G,tacticSharedMem:1M": pools and their sizes, as trtexec takes them.
std::vector<std::pair<std::string, int64_t>> read_pools(const std::string& text) {
  std::vector<std::pair<std::string, int64_t>> pools;
  for (const std::string& part : CLI::detail::split(text, ',')) {
    const size_t colon = std::min(part.find(':'), part.size());
    const std::string pool = part.substr(0, colon);
    const bool known = pool == kWorkspace || std::ranges::count(kIdlePools, pool) > 0;
    if (!known || colon == part.size()) {
      throw CommandError("--memPoolSize: got '" + text +
                         "', want workspace:MiB, or with a unit: workspace:1GiB");
    }
    pools.emplace_back(pool, bytes("--memPoolSize", part.substr(colon + 1)));
  }
  return pools;
}

void read_size(const SettingRow& row, const SettingFlag& flag, const std::string& text,
               int64_t& value) {
  int64_t size = value;
  if (row.low < 0 && text.starts_with('-')) {
    if (!is_whole(text, size)) size = row.low - 1;
  } else if (std::string_view(flag.name) == "--memPoolSize") {
    for (const auto& [pool, pool_bytes] : read_pools(text)) {
      if (pool == kWorkspace) size = pool_bytes;
    }
  } else {
    size = bytes(flag.name, text);
  }
  if (size < row.low) {
    throw CommandError(std::string(flag.name) + ": got '" + text + "', want " +
                       (row.low < 0 ? row.unit : std::to_string(row.low) + " bytes or more"));
  }
  value = size;
}

}  // namespace

void add_setting_flags(CLI::App& app, Settings& settings, CacheSettings& cache,
                       SettingTexts& texts) {
  const auto add = [&](const SettingRow& row, auto& value) {
    for (const SettingFlag& flag : row.flags) {
      if (!*flag.sets) {
        add_value(app, row, flag, value, texts);
      } else if (!app.get_option_no_throw(flag.name)) {  // one may set several
        app.add_flag(flag.name, texts.switches[flag.name], flag.help);
      }
    }
  };
  each_setting(settings, add);
  each_setting(cache, add);
}

void read_environment_without_flags(const CLI::App& app, Settings& settings) {
  each_setting(settings, [&](const SettingRow& row, auto& member) {
    for (const SettingFlag& flag : row.flags) {
      const CLI::Option* option = app.get_option_no_throw(flag.name);
      if (option && option->count() > 0) return;
    }
    try {
      const Json value = setting_of_environment(row);
      if (!value.is_null()) read_setting(row, value, member);
    } catch (const Error& error) {
      throw CommandError(error.what());
    }
  });
}

void read_setting_flags(const SettingTexts& texts, Settings& settings, CacheSettings& cache) {
  const auto read = [&](const SettingRow& row, auto& value) {
    std::string given;
    for (const SettingFlag& flag : row.flags) {
      const auto found = texts.switches.find(flag.name);
      if (found != texts.switches.end() && found->second) {
        auto sets = std::decay_t<decltype(value)>{};
        read_setting(row, Json::parse(flag.sets, flag.name), sets);
        const std::string both = given + " and " + flag.name;
        if (given.empty()) {
          value = std::move(sets);
        } else if constexpr (std::is_same_v<decltype(value), std::vector<DType>&>) {
          merge(value, sets, both);
        } else {
          throw CommandError("got " + both + ", want one of them");
        }
        given = flag.name;
      }
      if constexpr (std::is_same_v<decltype(value), std::string&>) {
        const auto file = texts.files.find(flag.name);
        if (file != texts.files.end() && !file->second.empty()) {
          value = calibration_of(flag.name, file->second);
        }
      }
      if constexpr (std::is_same_v<decltype(value), int64_t&>) {
        const auto size = texts.sizes.find(flag.name);
        if (size != texts.sizes.end() && !size->second.empty()) {
          read_size(row, flag, size->second, value);
        }
      }
    }
  };
  each_setting(settings, read);
  each_setting(cache, read);
}

std::string calibration_of(const std::string& flag, const std::string& path) {
  try {
    return calibration_file(path);
  } catch (const Error& error) {
    throw CommandError(flag + ": " + error.what());
  }
}

std::string idle_pools(const SettingTexts& texts) {
  const auto found = texts.sizes.find("--memPoolSize");
  std::string names;
  if (found == texts.sizes.end() || found->second.empty()) return names;
  for (const auto& [pool, size] : read_pools(found->second)) {
    if (pool != kWorkspace) names += (names.empty() ? "" : ", ") + pool;
  }
  return names.empty() ? names
                       : "--memPoolSize: " + names + ": only the pool workspace has a limit here";
}

std::string is_no_directory(const std::string& path) {
  std::error_code unknown;  // such as a name that is too long, which is told where it is used
  return std::filesystem::is_directory(path, unknown) ? path + " is a directory, want a file" : "";
}

std::string is_no_file(const std::string& path) {
  std::error_code unknown;
  return std::filesystem::is_regular_file(path, unknown) ? path + " is a file, want a directory"
                                                         : "";
}

double number(const std::string& flag, const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    throw CommandError(flag + ": got '" + text + "', want a number");
  }
  return value;
}

}  // namespace tv::cli
