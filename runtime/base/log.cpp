#include "runtime/base/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include "runtime/base/env.h"

namespace tv {

namespace {

std::shared_ptr<spdlog::logger> make_logger() {
  // Not in spdlog's registry: another library of the process may use it and shut it down.
  auto logger = std::make_shared<spdlog::logger>(
      "torch_vulkan", std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
  logger->set_pattern("[%n] [%^%l%$] %v");
  logger->set_level(spdlog::level::warn);
  const std::string wanted = env("TORCH_VULKAN_LOG");
  if (wanted.empty()) return logger;
  // from_str answers `off` for what it does not know.
  const auto level = spdlog::level::from_str(wanted);
  if (level == spdlog::level::off && wanted != "off") {
    logger->warn("TORCH_VULKAN_LOG={} is not one of trace, debug, info, warn, error, off", wanted);
  } else {
    logger->set_level(level);
  }
  return logger;
}

spdlog::logger& logger() {
  // Never destroyed: static destructors of other files may still log.
  static auto* logger = new std::shared_ptr<spdlog::logger>(make_logger());
  return **logger;
}

spdlog::level::level_enum spdlog_level(LogLevel level) {
  switch (level) {
    case LogLevel::kTrace:
      return spdlog::level::trace;
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarn:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
  }
  return spdlog::level::err;
}

}  // namespace

void log(LogLevel level, const std::string& message) {
  logger().log(spdlog_level(level), spdlog::string_view_t(message));
}

bool log_enabled(LogLevel level) { return logger().should_log(spdlog_level(level)); }

}  // namespace tv
