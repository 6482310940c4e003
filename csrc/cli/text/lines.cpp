#include "csrc/cli/text/lines.h"

#include <cstdarg>
#include <cstdio>
#include <ctime>

namespace tv::cli {
namespace {

std::FILE* output = stdout;

void write(std::FILE* to, char severity, const std::string& text) {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  char stamp[32];
  std::strftime(stamp, sizeof(stamp), "%m/%d/%Y-%H:%M:%S", &local);
  size_t at = 0;
  while (true) {
    const size_t end = text.find('\n', at);
    const std::string line = text.substr(at, end == std::string::npos ? end : end - at);
    std::fprintf(to, "[%s] [%c]%s%s\n", stamp, severity, line.empty() ? "" : " ", line.c_str());
    if (end == std::string::npos) break;
    at = end + 1;
  }
  std::fflush(to);
}

}  // namespace

void leave_stdout_alone() { output = stderr; }

std::FILE* log_output() { return output; }

void say(const std::string& text) { write(output, 'I', text); }

void warn(const std::string& text) { write(stderr, 'W', text); }

void complain(const std::string& text) { write(stderr, 'E', text); }

std::string format(const char* pattern, ...) {
  std::va_list arguments, again;
  va_start(arguments, pattern);
  va_copy(again, arguments);
  const int length = std::vsnprintf(nullptr, 0, pattern, arguments);
  va_end(arguments);
  std::string text(static_cast<size_t>(length) + 1, '\0');
  std::vsnprintf(text.data(), text.size(), pattern, again);
  va_end(again);
  text.pop_back();
  return text;
}

}  // namespace tv::cli
