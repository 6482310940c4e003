#pragma once
// What vkexec prints: trtexec's lines, so that scripts which read those read these.

#include <cstdio>
#include <string>

namespace tv::cli {

/// "[11/21/2026-14:05:09] [I] text" on standard output; several lines become several.
void say(const std::string& text);
/// Where `say` prints: standard output, or standard error after `leave_stdout_alone`.
std::FILE* log_output();
/// Standard output is for a file that vkexec writes.
void leave_stdout_alone();
/// The same as "[W]" and "[E]" on standard error.
void warn(const std::string& text);
void complain(const std::string& text);
/// printf into a string.
[[gnu::format(printf, 1, 2)]] std::string format(const char* pattern, ...);

}  // namespace tv::cli
