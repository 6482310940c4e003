// Loaded before all else (LD_PRELOAD) by tests/python/reliability/test_faults.py: the n-th
// allocation that this project's libraries make fails, or the n-th system call on a file below a
// folder.

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <new>

namespace {

std::atomic<long> allocations_left{0}, calls_left{0};
std::atomic<bool> stays{false};
std::atomic<long> counted{0}, of_others{0};
char folder[PATH_MAX] = "";
int fault = 0;  // an errno; -1: writes are short

/// Whether a library of this project calls: by the name of the file that holds the address.
bool is_ours(const void* address) {
  // dladdr takes a hundred times as long as an allocation: answers are kept, with their addresses.
  static std::atomic<uintptr_t> answers[1 << 16];
  const auto place = reinterpret_cast<uintptr_t>(address);
  std::atomic<uintptr_t>& answer = answers[(place ^ (place >> 16)) % std::size(answers)];
  if (const uintptr_t kept = answer.load(); kept >> 1 == place) return (kept & 1) != 0;
  Dl_info info = {};
  const bool ours = dladdr(address, &info) != 0 && info.dli_fname != nullptr &&
                    std::strstr(info.dli_fname, "/torch_vulkan/lib/") != nullptr;
  answer = place << 1 | uintptr_t{ours};
  return ours;
}

bool fails(std::atomic<long>& left) {
  ++counted;
  if (left.load() <= 0) return false;
  if (left.load() == 1 && stays) return true;
  return left.fetch_sub(1) == 1;
}

bool armed() { return folder[0] != 0 && calls_left.load() != 0; }
bool is_below(const char* path) {
  return path != nullptr && std::strncmp(path, folder, std::strlen(folder)) == 0;
}
bool is_below(int fd) {
  char link[64], path[PATH_MAX];
  std::snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t length = ::readlink(link, path, sizeof path - 1);
  if (length <= 0) return false;
  path[length] = 0;
  return is_below(path);
}

template <typename F>
F real(F, const char* name) {
  return reinterpret_cast<F>(dlsym(RTLD_NEXT, name));
}

void* allocate(size_t size, const void* caller) {
  const bool asked = allocations_left.load() != 0, ours = asked && is_ours(caller);
  if (asked && !ours) ++of_others;
  if (ours && fails(allocations_left)) {
    const std::new_handler handler = std::get_new_handler();
    if (handler == nullptr || stays) throw std::bad_alloc();
    handler();  // gives memory back, or throws
  }
  if (void* memory = std::malloc(size ? size : 1)) return memory;
  throw std::bad_alloc();
}

}  // namespace

extern "C" {

/// The n-th allocation from now fails, each from then on where `on` is set; n = 0: none; a huge n
/// only counts.
void tv_fail_allocation(long n, int on) {
  stays = on != 0;
  counted = of_others = 0;
  allocations_left = n;
}

/// The n-th call on a file below `dir` fails with `error` (-1: a write is cut short).
void tv_fail_call(long n, int on, const char* dir, int error) {
  std::snprintf(folder, sizeof folder, "%s", dir);
  fault = error;
  stays = on != 0;
  counted = 0;
  calls_left = n;
}

long tv_counted() { return counted.load(); }

/// Allocations that other libraries made while ours were counted.
long tv_counted_of_others() { return of_others.load(); }

int open(const char* path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  const mode_t mode = flags & O_CREAT ? va_arg(list, mode_t) : 0;
  va_end(list);
  if (armed() && is_below(path) && fault != -1 && fails(calls_left)) return errno = fault, -1;
  static const auto call = real(&open, "open");
  return call(path, flags, mode);
}
int mkdir(const char* path, mode_t mode) noexcept {
  if (armed() && is_below(path) && fault != -1 && fails(calls_left)) return errno = fault, -1;
  static const auto call = real(&mkdir, "mkdir");
  return call(path, mode);
}
int rename(const char* from, const char* to) noexcept {
  if (armed() && is_below(to) && fault != -1 && fails(calls_left)) return errno = fault, -1;
  static const auto call = real(&rename, "rename");
  return call(from, to);
}
int unlink(const char* path) noexcept {
  if (armed() && is_below(path) && fault != -1 && fails(calls_left)) return errno = fault, -1;
  static const auto call = real(&unlink, "unlink");
  return call(path);
}
int fsync(int fd) {
  if (armed() && is_below(fd) && fault != -1 && fails(calls_left)) return errno = fault, -1;
  static const auto call = real(&fsync, "fsync");
  return call(fd);
}
ssize_t write(int fd, const void* bytes, size_t size) {
  static const auto call = real(&write, "write");
  if (armed() && is_below(fd) && fails(calls_left)) {
    if (fault != -1) return errno = fault, -1;
    return call(fd, bytes, size > 1 ? size / 2 : size);
  }
  return call(fd, bytes, size);
}
ssize_t read(int fd, void* bytes, size_t size) {
  static const auto call = real(&read, "read");
  if (armed() && is_below(fd) && fails(calls_left)) {
    if (fault != -1) return errno = fault, -1;
    return call(fd, bytes, size > 1 ? size / 2 : size);
  }
  return call(fd, bytes, size);
}

}  // extern "C"

void* operator new(size_t size) { return allocate(size, __builtin_return_address(0)); }
void* operator new[](size_t size) { return allocate(size, __builtin_return_address(0)); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t) noexcept { std::free(memory); }
