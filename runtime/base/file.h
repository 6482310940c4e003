#pragma once
// Whole files: read with a bound, written so that a reader sees all of it or nothing.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tv {

/// kShared: `remove_unless_used` of another process leaves the file alone meanwhile.
enum class FileUse : uint8_t { kPlain, kShared };

/// Reads the regular file `path`. Throws Error(kUser) if it cannot be read or exceeds
/// `max_bytes`.
std::vector<uint8_t> read_file(const std::string& path, uint64_t max_bytes,
                               FileUse use = FileUse::kPlain);

/// Removes `path` unless somebody is reading it as kShared. True if it is gone.
bool remove_unless_used(const std::string& path);

/// Writes the pieces, one after the other, to a temporary file beside `path`, syncs it and renames
/// it to `path`, for this user alone (0600). Returns "" or what went wrong (then `path` is as
/// before). Several threads and processes may write the same path: the last one wins whole.
std::string write_file_atomically(const std::string& path,
                                  std::span<const std::span<const uint8_t>> pieces);

/// The same for a path that a user names: a symbolic link is followed, and stays; what is no
/// regular file - a device, a FIFO, /dev/stdout - is written into. A new file's mode is as the
/// umask says, one that is replaced keeps its own.
std::string write_file(const std::string& path, std::span<const std::span<const uint8_t>> pieces);

/// What a path leads to.
struct FileTarget {
  std::string path;  ///< with links in its last place followed, of which the target may be missing
  int descriptor = -1;  ///< of this process, which /dev/stdout and /dev/fd/3 name; -1: none
};
FileTarget followed(const std::string& path);

/// Makes `dir` and what is missing above it, each with mode 0700. False: errno says why not.
bool make_private_directories(const std::string& dir);

/// True for the name of a temporary file of write_file_atomically.
bool is_temporary_name(const std::string& name);

}  // namespace tv
