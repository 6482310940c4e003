// Loaded before all else (LD_PRELOAD) by tests/python/reliability/test_faults.py: the n-th
// allocation that this project's libraries make fails, or the n-th system call on a file below a
// folder.

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <malloc.h>
#include <sys/file.h>
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
#include <string_view>

namespace {

std::atomic<long> allocations_left{0}, calls_left{0};
std::atomic<bool> stays{false};
std::atomic<long> counted{0}, of_others{0};
std::atomic<bool> entry_refused{false};
std::atomic<long> held{0};  // bytes that were allocated by new and not yet deleted
char folder[PATH_MAX] = "";
constexpr int kShort = -1;
int fault = 0;  // an errno; kShort: what is read and written is cut short

/// The file that holds an address.
std::string_view file_of(const void* address) {
  Dl_info info = {};
  return dladdr(address, &info) != 0 && info.dli_fname != nullptr ? info.dli_fname : "";
}

/// Whether a library of this project calls: by the name of the file that holds the address.
bool is_ours(const void* address) {
  // dladdr takes a hundred times as long as an allocation: answers are kept, with their addresses.
  static std::atomic<uintptr_t> answers[1 << 16];
  const auto place = reinterpret_cast<uintptr_t>(address);
  std::atomic<uintptr_t>& answer = answers[(place ^ (place >> 16)) % std::size(answers)];
  if (const uintptr_t kept = answer.load(); kept >> 1 == place) return (kept & 1) != 0;
  const bool ours = file_of(address).find("/torch_vulkan/lib/") != std::string_view::npos;
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

/// Whether this call, on a file by its name or its descriptor, is the one that fails; sets errno.
template <typename File>
bool refused(File file) {
  if (!armed() || fault == kShort || !is_below(file) || !fails(calls_left)) return false;
  errno = fault;
  return true;
}

/// How many of `size` bytes this call may read or write; 0: it fails, and errno is set.
size_t transferred(int fd, size_t size) {
  if (fault != kShort) return refused(fd) ? 0 : size;
  return armed() && is_below(fd) && fails(calls_left) && size > 1 ? size / 2 : size;
}

template <typename F>
F real(F, const char* name) {
  return reinterpret_cast<F>(dlsym(RTLD_NEXT, name));
}

/// A size that is no multiple of the alignment is rounded up; 0: any alignment.
void* allocate(size_t size, const void* caller, size_t alignment = 0) {
  const bool asked = allocations_left.load() != 0, ours = asked && is_ours(caller);
  if (asked && !ours) ++of_others;
  if (ours && fails(allocations_left)) {
    entry_refused = size == 24 && file_of(caller).find("/_C.") != std::string_view::npos;
    const std::new_handler handler = std::get_new_handler();
    if (handler == nullptr || stays) throw std::bad_alloc();
    handler();  // gives memory back, or throws
  }
  size = size ? size : 1;
  void* const memory =
      alignment == 0
          ? std::malloc(size)
          : std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
  if (memory == nullptr) throw std::bad_alloc();
  held += static_cast<long>(malloc_usable_size(memory));
  return memory;
}

void release(void* memory) {
  held -= static_cast<long>(malloc_usable_size(memory));
  std::free(memory);
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

/// Whether the last allocation that failed may have been an entry of pybind11's table of objects.
int tv_entry_refused() { return entry_refused; }

/// Bytes of C++ objects in all libraries.
long tv_held() { return held.load(); }

/// Allocations that other libraries made while ours were counted.
long tv_counted_of_others() { return of_others.load(); }

int open(const char* path, int flags, ...) {
  static const auto call = real(&open, "open");
  va_list list;
  va_start(list, flags);
  const mode_t mode = flags & O_CREAT ? va_arg(list, mode_t) : 0;
  va_end(list);
  return refused(path) ? -1 : call(path, flags, mode);
}
int open64(const char* path, int flags, ...) {  // as Python calls it
  static const auto call = real(&open64, "open64");
  va_list list;
  va_start(list, flags);
  const mode_t mode = flags & O_CREAT ? va_arg(list, mode_t) : 0;
  va_end(list);
  return refused(path) ? -1 : call(path, flags, mode);
}
DIR* opendir(const char* path) {
  static const auto call = real(&opendir, "opendir");
  return refused(path) ? nullptr : call(path);
}
dirent* readdir(DIR* dir) {
  static const auto call = real(&readdir, "readdir");
  return refused(::dirfd(dir)) ? nullptr : call(dir);
}
int mkdir(const char* path, mode_t mode) noexcept {
  static const auto call = real(&mkdir, "mkdir");
  return refused(path) ? -1 : call(path, mode);
}
int rename(const char* from, const char* to) noexcept {
  static const auto call = real(&rename, "rename");
  return refused(to) ? -1 : call(from, to);
}
int unlink(const char* path) noexcept {
  static const auto call = real(&unlink, "unlink");
  return refused(path) ? -1 : call(path);
}
int stat(const char* path, struct stat* info) noexcept {
  static const auto call = real(static_cast<int (*)(const char*, struct stat*)>(&stat), "stat");
  return refused(path) ? -1 : call(path, info);
}
int lstat(const char* path, struct stat* info) noexcept {
  static const auto call = real(&lstat, "lstat");
  return refused(path) ? -1 : call(path, info);
}
int fstat(int fd, struct stat* info) noexcept {
  static const auto call = real(&fstat, "fstat");
  return refused(fd) ? -1 : call(fd, info);
}
int fchmod(int fd, mode_t mode) noexcept {
  static const auto call = real(&fchmod, "fchmod");
  return refused(fd) ? -1 : call(fd, mode);
}
int utimensat(int fd, const char* path, const timespec times[2], int flags) noexcept {
  static const auto call = real(&utimensat, "utimensat");
  return refused(path) ? -1 : call(fd, path, times, flags);
}
int flock(int fd, int operation) noexcept {
  static const auto call = real(&flock, "flock");
  return refused(fd) ? -1 : call(fd, operation);
}
int ftruncate(int fd, off_t size) noexcept {
  static const auto call = real(&ftruncate, "ftruncate");
  return refused(fd) ? -1 : call(fd, size);
}
int fsync(int fd) {
  static const auto call = real(&fsync, "fsync");
  return refused(fd) ? -1 : call(fd);
}
int fdatasync(int fd) {
  static const auto call = real(&fdatasync, "fdatasync");
  return refused(fd) ? -1 : call(fd);
}
int close(int fd) {  // it is closed, whatever it says
  static const auto call = real(&close, "close");
  const bool fails = refused(fd);
  const int error = errno, status = call(fd);
  return fails ? errno = error, -1 : status;
}
ssize_t write(int fd, const void* bytes, size_t size) {
  static const auto call = real(&write, "write");
  const size_t most = transferred(fd, size);
  return most == 0 && size != 0 ? -1 : call(fd, bytes, most);
}
ssize_t pwrite(int fd, const void* bytes, size_t size, off_t place) {
  static const auto call = real(&pwrite, "pwrite");
  const size_t most = transferred(fd, size);
  return most == 0 && size != 0 ? -1 : call(fd, bytes, most, place);
}
ssize_t read(int fd, void* bytes, size_t size) {
  static const auto call = real(&read, "read");
  const size_t most = transferred(fd, size);
  return most == 0 && size != 0 ? -1 : call(fd, bytes, most);
}

}  // extern "C"

void* operator new(size_t size) { return allocate(size, __builtin_return_address(0)); }
void* operator new[](size_t size) { return allocate(size, __builtin_return_address(0)); }
void operator delete(void* memory) noexcept { release(memory); }
void operator delete[](void* memory) noexcept { release(memory); }
void operator delete(void* memory, size_t) noexcept { release(memory); }
void operator delete[](void* memory, size_t) noexcept { release(memory); }
void* operator new(size_t size, std::align_val_t alignment) {
  return allocate(size, __builtin_return_address(0), static_cast<size_t>(alignment));
}
void* operator new[](size_t size, std::align_val_t alignment) {
  return allocate(size, __builtin_return_address(0), static_cast<size_t>(alignment));
}
void operator delete(void* memory, std::align_val_t) noexcept { release(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { release(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { release(memory); }
void operator delete[](void* memory, size_t, std::align_val_t) noexcept { release(memory); }
