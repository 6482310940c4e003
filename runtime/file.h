#pragma once
// Whole files: read with a bound, written so that a reader sees all of it or nothing.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tv {

/// kShared: `remove_unless_used` of another process leaves the file alone meanwhile.
enum class FileUse : uint8_t { kPlain, kShared };

/// Reads the regular file `path`. Throws Error(kUser) where it cannot be read or exceeds `max_bytes`.
std::vector<uint8_t> read_file(const std::string& path, uint64_t max_bytes,
                               FileUse use = FileUse::kPlain);

/// Removes `path` unless somebody is reading it as kShared. True where it is gone.
bool remove_unless_used(const std::string& path);

/// Writes the pieces, one after the other, to a temporary file beside `path`, syncs it and renames
/// it to `path`. Returns "" or what went wrong (then `path` is as before). Several threads and
/// processes may write the same path: the last one wins whole.
std::string write_file_atomically(const std::string& path,
                                  std::span<const std::span<const uint8_t>> pieces);

/// True for the name of a temporary file of write_file_atomically.
bool is_temporary_name(const std::string& name);

}  // namespace tv
