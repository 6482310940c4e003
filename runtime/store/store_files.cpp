#include "runtime/store/store_files.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>

#include "runtime/base/error.h"
#include "runtime/base/file.h"
#include "runtime/base/sha256.h"
#include "runtime/store/store.h"
#include "runtime/store/store_entry.h"

namespace tv {

namespace {

[[noreturn]] void fail(const std::string& what) {
  throw Error(ErrorKind::kUser, "[cache] " + what);
}

std::vector<std::string> names_in(const std::string& dir) {
  std::vector<std::string> names;
  const std::unique_ptr<DIR, int (*)(DIR*)> open(::opendir(dir.c_str()), &::closedir);
  if (!open) return names;
  while (const dirent* entry = ::readdir(open.get())) {
    if (entry->d_name[0] != '.') names.emplace_back(entry->d_name);
  }
  return names;
}

bool is_kind(const std::string& name) {
  const auto plain = [](char c) { return (c >= 'a' && c <= 'z') || c == '_'; };
  return !name.empty() && name.size() <= 32 && std::ranges::all_of(name, plain);
}

bool is_digest(const std::string& name) {
  const auto hex = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  return name.size() == 64 && std::ranges::all_of(name, hex);
}

}  // namespace

std::vector<std::string> store_kinds(const std::string& dir) {
  std::vector<std::string> kinds;
  for (std::string& name : names_in(dir)) {
    struct stat info = {};
    const bool is_dir = ::stat((dir + "/" + name).c_str(), &info) == 0 && S_ISDIR(info.st_mode);
    if (is_dir && is_kind(name)) kinds.push_back(std::move(name));
  }
  std::sort(kinds.begin(), kinds.end());
  return kinds;
}

std::vector<StoreFile> list_store(const std::string& dir, const std::string& kind) {
  std::vector<StoreFile> files;
  for (const std::string& name : names_in(dir + "/" + kind)) {
    StoreFile file{.path = dir + "/" + kind + "/" + name, .kind = kind, .name = name};
    struct stat info = {};
    if (::lstat(file.path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) continue;
    file.size_bytes = static_cast<uint64_t>(info.st_size);
    file.used_ns = static_cast<int64_t>(info.st_mtim.tv_sec) * 1000000000 + info.st_mtim.tv_nsec;
    file.bad = name.ends_with(kBadSuffix);
    file.temporary = is_temporary_name(name);
    if (file.bad || file.temporary || is_digest(name)) files.push_back(std::move(file));
  }
  return files;
}

std::string entry_fault(std::span<const uint8_t> bytes, const std::string& name) {
  StoreEntry entry;
  if (!read_entry(bytes, entry)) return "it is not a whole entry";
  if (sha256_hex(entry.key) != name) return "its name is not the digest of its key";
  return "";
}

std::string entry_key(const std::string& path) {
  const auto bytes = read_file(path, std::numeric_limits<int64_t>::max());
  StoreEntry entry;
  if (!read_entry(bytes, entry)) fail(path + " is not a whole entry");
  return {entry.key.begin(), entry.key.end()};
}

void import_entry(const std::string& dir, const std::string& kind, const std::string& name,
                  std::span<const uint8_t> bytes) {
  if (!is_kind(kind) || !is_digest(name)) fail(kind + "/" + name + " is not the name of an entry");
  const std::string fault = entry_fault(bytes, name);
  if (!fault.empty()) fail(kind + "/" + name + " was not taken: " + fault);
  StoreEntry entry;
  read_entry(bytes, entry);
  const Store store(dir, kind, std::numeric_limits<int64_t>::max());
  if (!store.refusal().empty()) fail(store.refusal());
  if (!store.put({entry.key.begin(), entry.key.end()}, entry.value))
    fail(kind + "/" + name + " cannot be written to " + dir);
}

}  // namespace tv
