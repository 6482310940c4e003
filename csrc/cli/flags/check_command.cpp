#include "csrc/cli/flags/check_command.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <thread>

#include "runtime/base/error.h"

namespace tv::cli {
namespace {

/// For the shell, whatever the file is called.
std::string quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::string with_file(std::string command, const std::string& file) {
  const std::string name = quoted(file);
  for (size_t at = 0; (at = command.find("{}", at)) != std::string::npos; at += name.size()) {
    command.replace(at, 2, name);
  }
  return command;
}

[[noreturn]] void become_shell(const char* command) {
  setpgid(0, 0);  // to be killed with what it starts
  const int nothing = open("/dev/null", O_RDWR);
  if (nothing >= 0) {
    for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) dup2(nothing, stream);
  }
  execl("/bin/sh", "sh", "-c", command, static_cast<char*>(nullptr));
  _exit(127);
}

}  // namespace

int check_command(const std::string& command, const std::string& file, int64_t seconds) {
  const std::string text = with_file(command, file);
  const pid_t child = fork();
  if (child < 0) {
    throw Error(ErrorKind::kUser,
                std::string("[debug reduce] --check cannot be started: ") + std::strerror(errno));
  }
  if (child == 0) become_shell(text.c_str());
  setpgid(child, child);
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  int status = 0;
  bool killed = false;
  for (;;) {
    const pid_t done = waitpid(child, &status, killed ? 0 : WNOHANG);
    if (done == child || (done < 0 && errno != EINTR)) break;
    if (!killed && std::chrono::steady_clock::now() >= end) {
      kill(-child, SIGKILL);
      killed = true;
    } else if (!killed) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }
  constexpr int kSignal = 128;
  return WIFSIGNALED(status) ? kSignal + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace tv::cli
