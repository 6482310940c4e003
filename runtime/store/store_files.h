#pragma once
// The files of a cache directory, for looking after it: list, check, clear, copy.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tv {

/// One file of a store.
struct StoreFile {
  std::string path, kind, name;
  uint64_t size_bytes = 0;
  int64_t used_ns = 0;     ///< last use, since 1970
  bool bad = false;        ///< was set aside
  bool temporary = false;  ///< being written, or left by a process that died
};

/// Extension of what was set aside.
inline constexpr const char* kBadSuffix = ".bad";

/// Kinds of entries that the cache directory `dir` has: "engines", "spirv", "timing".
std::vector<std::string> store_kinds(const std::string& dir);
/// Files of one kind, in no order. What other processes remove meanwhile may be missing.
std::vector<StoreFile> list_store(const std::string& dir, const std::string& kind);

/// What is wrong with the bytes of an entry of the given name; "" if nothing is.
std::string entry_fault(std::span<const uint8_t> bytes, const std::string& name);
/// The key material of a whole entry. Throws Error(kUser) if it is not one.
std::string entry_key(const std::string& path);
/// Copies a whole entry into the cache. Throws Error(kUser) if it is not one, its kind is not a
/// plain name, or it cannot be written.
void import_entry(const std::string& dir, const std::string& kind, const std::string& name,
                  std::span<const uint8_t> bytes);

}  // namespace tv
