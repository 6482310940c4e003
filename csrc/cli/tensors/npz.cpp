#include "csrc/cli/tensors/npz.h"

#include <zlib.h>

#include <algorithm>
#include <limits>
#include <span>

#include "runtime/base/error.h"
#include "runtime/base/file.h"

namespace tv::cli {
namespace {

// PKWARE's APPNOTE.TXT, 4.3: signatures and sizes of records without what varies.
constexpr uint32_t kLocal = 0x04034b50, kCentral = 0x02014b50, kEnd = 0x06054b50;
constexpr size_t kLocalBytes = 30, kCentralBytes = 46, kEndBytes = 22, kLongestComment = 0xFFFF;
constexpr uint32_t kElsewhere = 0xFFFFFFFF;  // in a field of 64 bits
constexpr uint16_t kStored = 0, kDeflated = 8, kEncrypted = 1;
constexpr uint64_t kMostRatio = 1100;  // of what deflate can do, 1032

}  // namespace

Npz::Npz(const std::string& path)
    : path_(path), file_(read_file(path, std::numeric_limits<uint32_t>::max())) {
  read_directory();
}

void Npz::fail(const std::string& why) const {
  throw Error(ErrorKind::kUser, "[npz] " + path_ + ": " + why);
}

/// Little-endian. Fails where the file ends before.
uint32_t Npz::number(size_t at, size_t bytes) const {
  if (at > file_.size() || bytes > file_.size() - at) fail("is cut short");
  uint32_t value = 0;
  for (size_t i = 0; i < bytes; ++i) value |= static_cast<uint32_t>(file_[at + i]) << (8 * i);
  return value;
}

/// Where the record at the file's end begins; a comment may follow it.
size_t Npz::directory_end() const {
  if (file_.size() < kEndBytes) fail("is not a .npz file");
  const size_t last = file_.size() - kEndBytes;
  for (size_t at = last; at + kLongestComment >= last; --at) {
    if (number(at, 4) == kEnd) return at;
    if (at == 0) break;
  }
  fail("is not a .npz file");
}

void Npz::read_directory() {
  const size_t end = directory_end();
  const uint32_t count = number(end + 10, 2);
  size_t at = number(end + 16, 4);
  for (uint32_t i = 0; i < count; ++i) {
    if (number(at, 4) != kCentral) fail("its directory is damaged");
    const size_t name_bytes = number(at + 28, 2);
    Member member{.name = {},
                  .method = static_cast<uint16_t>(number(at + 10, 2)),
                  .checksum = number(at + 16, 4),
                  .packed_bytes = number(at + 20, 4),
                  .bytes = number(at + 24, 4),
                  .offset = number(at + 42, 4)};
    number(at + kCentralBytes + name_bytes, 0);
    const auto* name = reinterpret_cast<const char*>(file_.data() + at + kCentralBytes);
    member.name.assign(name, name_bytes);
    if (member.name.ends_with(".npy")) member.name.resize(name_bytes - 4);
    if ((number(at + 8, 2) & kEncrypted) != 0) fail("'" + member.name + "' is encrypted");
    if (std::max({member.packed_bytes, member.bytes, member.offset}) == kElsewhere) {
      fail("'" + member.name + "' has more than 4 GiB; want files of .npy");
    }
    members_.push_back(std::move(member));
    at += kCentralBytes + name_bytes + number(at + 30, 2) + number(at + 32, 2);
  }
}

std::vector<std::string> Npz::names() const {
  std::vector<std::string> names;
  for (const Member& member : members_) names.push_back(member.name);
  return names;
}

const Npz::Member* Npz::find(const std::string& name) const {
  const auto found = std::ranges::find(members_, name, &Member::name);
  return found == members_.end() ? nullptr : &*found;
}

std::vector<uint8_t> Npz::array(const std::string& name) const {
  const Member* member = find(name);
  if (!member) fail("has no array '" + name + "'");
  const auto damaged = [&] { fail("'" + name + "' is damaged"); };
  if (number(member->offset, 4) != kLocal) damaged();
  const size_t at = member->offset + kLocalBytes + number(member->offset + 26, 2) +
                    number(member->offset + 28, 2);
  number(at + member->packed_bytes, 0);
  const std::span<const uint8_t> packed = std::span(file_).subspan(at, member->packed_bytes);
  std::vector<uint8_t> made;
  if (member->method == kStored) {
    if (member->packed_bytes != member->bytes) damaged();
    made.assign(packed.begin(), packed.end());
  } else if (member->method == kDeflated) {
    if (member->bytes / kMostRatio > member->packed_bytes) damaged();
    made.resize(member->bytes);
    z_stream stream{};
    stream.next_in = const_cast<uint8_t*>(packed.data());  // which zlib reads only
    stream.avail_in = member->packed_bytes;
    stream.next_out = made.data();
    stream.avail_out = member->bytes;
    const bool begun = inflateInit2(&stream, -MAX_WBITS) == Z_OK;  // without a header
    const int result = begun ? inflate(&stream, Z_FINISH) : Z_MEM_ERROR;
    const bool whole = result == Z_STREAM_END && stream.avail_out == 0;
    if (begun) inflateEnd(&stream);
    if (!whole) damaged();
  } else {
    fail("'" + name + "' is packed by a method that is not read; want numpy.savez_compressed's");
  }
  if (crc32(0, made.data(), static_cast<uInt>(made.size())) != member->checksum) damaged();
  return made;
}

}  // namespace tv::cli
