// The .vke file, numbers little-endian:
//   header (64 bytes): magic, u32 format version, u32 header bytes, u64 file bytes, u64 metadata
//     bytes, u64 SPIR-V bytes, u64 weights offset, u64 weights bytes, u64 0
//   metadata (vke.proto), SPIR-V modules one after the other (from a multiple of 8),
//   weights, each from a multiple of 4096 (none if stripped), SHA-256 of all before it.
//
// A digest is not trust: whoever can write the file can write its digest. So nothing in the file is
// believed before it is checked, and validate() has the last word.

#include "runtime/spec/vke.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>
#include <limits>

#include "runtime/base/error.h"
#include "runtime/base/file.h"
#include "runtime/base/sha256.h"
#include "runtime/spec/vke_metadata.h"
#include "runtime/spec/vke_parts.h"

namespace tv {

namespace {

static_assert(std::endian::native == std::endian::little);

constexpr char kMagic[8] = {'\x8a', 'T', 'V', 'K', 'E', '\r', '\n', '\x1a'};
constexpr uint32_t kFormatVersion = 2;  // 2: conditions on sizes
constexpr uint64_t kModuleAlignment = 8, kWeightAlignment = 4096, kDigestBytes = 32;
constexpr uint64_t kMaxMetadataBytes = uint64_t{64} << 20;

using Bytes = std::span<const uint8_t>;

struct Header {
  char magic[8];
  uint32_t format_version, header_bytes;
  uint64_t file_bytes, metadata_bytes, spirv_bytes, weights_offset, weights_bytes, zero;
};
static_assert(sizeof(Header) == 64);

constexpr const char* kCopyAgain = "; copy it again, or build the engine again";

[[noreturn]] void fail_file(const std::string& what) {
  throw Error(ErrorKind::kUser, "[vke] " + what);
}

constexpr uint64_t align(uint64_t offset, uint64_t alignment) {
  return (offset + alignment - 1) / alignment * alignment;
}

/// The file without its digest: everything up to the weights, then the weights with their padding.
struct Parts {
  std::vector<uint8_t> head;
  std::vector<Bytes> pieces;  ///< weights and padding; they point to the caller's memory
};

Parts make_parts(const EngineSpec& spec, std::span<const HostTensor> weights) {
  static constexpr uint8_t kZeros[kWeightAlignment] = {};
  if (!weights.empty() && weights.size() != spec.weights.size())
    fail_file("got " + std::to_string(weights.size()) + " weights, want " +
              std::to_string(spec.weights.size()) + " or none");
  const std::string metadata = encode_metadata(spec, weights);

  Header header = {};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.format_version = kFormatVersion;
  header.header_bytes = sizeof header;
  header.metadata_bytes = metadata.size();
  for (const auto& module : spec.modules) header.spirv_bytes += module.size() * 4;

  Parts parts;
  const uint64_t spirv_offset = align(sizeof header + metadata.size(), kModuleAlignment);
  uint64_t end = spirv_offset + header.spirv_bytes;
  header.weights_offset = weights.empty() ? end : align(end, kWeightAlignment);
  const auto pad_to = [&](uint64_t offset) {
    if (offset > end) parts.pieces.push_back({kZeros, offset - end});
    end = offset;
  };
  if (!weights.empty()) pad_to(header.weights_offset);
  for (const HostTensor& weight : weights) {
    pad_to(align(end, kWeightAlignment));
    const auto size = static_cast<uint64_t>(weight.size_bytes);
    parts.pieces.push_back({static_cast<const uint8_t*>(weight.data), size});
    end += size;
  }
  header.weights_bytes = end - header.weights_offset;
  header.file_bytes = end + kDigestBytes;

  parts.head.resize(spirv_offset);
  std::memcpy(parts.head.data(), &header, sizeof header);
  std::memcpy(parts.head.data() + sizeof header, metadata.data(), metadata.size());
  for (const auto& module : spec.modules) {
    const auto* words = reinterpret_cast<const uint8_t*>(module.data());
    parts.head.insert(parts.head.end(), words, words + module.size() * 4);
  }
  return parts;
}

std::array<uint8_t, 32> digest_of(const Parts& parts) {
  Sha256 sha;
  sha.update(parts.head);
  for (const Bytes piece : parts.pieces) sha.update(piece);
  return sha.finish();
}

/// The header, its sizes known to lie inside `bytes` and to follow each other.
Header check_header(Bytes bytes) {
  Header header;
  const size_t to_compare = std::min(bytes.size(), sizeof kMagic);
  if (std::memcmp(bytes.data(), kMagic, to_compare) != 0) {
    const bool is_zip = bytes.size() > 4 && std::memcmp(bytes.data(), "PK\3\4", 4) == 0;
    fail_file(
        is_zip ? "this is not a .vke file but a zip archive, as .pt2 and .pt files are: load those "
                 "with torch_vulkan.load"
               : "this is not a .vke file; want one that an engine was saved to");
  }
  if (bytes.size() < sizeof header + kDigestBytes)
    fail_file("the file is truncated: got " + std::to_string(bytes.size()) + " bytes" + kCopyAgain);
  std::memcpy(&header, bytes.data(), sizeof header);
  if (header.format_version != kFormatVersion)
    fail_file("the file has format version " + std::to_string(header.format_version) +
              ", this torch_vulkan reads version " + std::to_string(kFormatVersion) +
              (header.format_version > kFormatVersion
                   ? ": upgrade torch_vulkan, or build the engine again"
                   : ": build the engine again"));
  if (const size_t parts = split_vke(bytes).size(); parts > 1)
    fail_file("the file holds " + std::to_string(parts) +
              " engines, one for each shape profile: take one of what split_vke() makes of it "
              "(runtime/spec/vke_parts.h)");
  if (header.file_bytes != bytes.size())
    fail_file("the file is " +
              std::string(header.file_bytes > bytes.size() ? "truncated" : "altered") + ": got " +
              std::to_string(bytes.size()) + " bytes, want " + std::to_string(header.file_bytes) +
              kCopyAgain);
  const uint64_t body = bytes.size() - kDigestBytes;
  const bool in_range = header.header_bytes == sizeof header && header.zero == 0 &&
                        header.metadata_bytes <= std::min(body, kMaxMetadataBytes) &&
                        header.spirv_bytes <= body && header.weights_offset <= body &&
                        header.weights_bytes <= body - header.weights_offset;
  if (!in_range) fail_file("the file is altered: a size in its header is out of range");
  const uint64_t spirv_end =
      align(sizeof header + header.metadata_bytes, kModuleAlignment) + header.spirv_bytes;
  if (spirv_end > header.weights_offset || header.weights_offset + header.weights_bytes != body)
    fail_file("the file is altered: its sections do not follow each other");
  return header;
}

std::vector<std::vector<uint32_t>> read_modules(Bytes section, const std::vector<uint64_t>& words) {
  std::vector<std::vector<uint32_t>> modules;
  for (const uint64_t count : words) {
    if (count > section.size() / 4) fail_file("a SPIR-V module reaches outside its section");
    std::vector<uint32_t>& module = modules.emplace_back(count);
    if (count) std::memcpy(module.data(), section.data(), count * 4);
    section = section.subspan(count * 4);
  }
  if (!section.empty()) fail_file("the SPIR-V section has bytes that belong to no module");
  return modules;
}

std::vector<std::vector<uint8_t>> read_weights(Bytes section, const std::vector<uint64_t>& sizes,
                                               const EngineSpec& spec) {
  std::vector<std::vector<uint8_t>> weights;
  if (!sizes.empty() && sizes.size() != spec.weights.size())
    fail_file("the file holds " + std::to_string(sizes.size()) + " weights, want " +
              std::to_string(spec.weights.size()) + " or none");
  uint64_t at = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    at = align(at, kWeightAlignment);
    if (at > section.size() || sizes[i] > section.size() - at)
      fail_file("weight " + std::to_string(i) + " reaches outside its section");
    if (sizes[i] != weight_bytes(spec.weights[i]))
      fail_file("weight " + std::to_string(i) + " has " + std::to_string(sizes[i]) +
                " bytes, want " + std::to_string(weight_bytes(spec.weights[i])));
    const Bytes bytes = section.subspan(at, sizes[i]);
    weights.emplace_back(bytes.begin(), bytes.end());
    at += sizes[i];
  }
  if (at != section.size()) fail_file("the weights section has bytes that belong to no weight");
  return weights;
}

}  // namespace

std::vector<uint8_t> to_vke(const EngineSpec& spec, std::span<const HostTensor> weights) {
  Parts parts = make_parts(spec, weights);
  const auto digest = digest_of(parts);
  std::vector<uint8_t> bytes = std::move(parts.head);
  for (const Bytes piece : parts.pieces) bytes.insert(bytes.end(), piece.begin(), piece.end());
  bytes.insert(bytes.end(), digest.begin(), digest.end());
  return bytes;
}

VkeContents from_vke(std::span<const uint8_t> bytes) {
  if (bytes.empty()) fail_file(std::string("the file is empty") + kCopyAgain);
  const Header header = check_header(bytes);
  const Bytes body = bytes.first(bytes.size() - kDigestBytes);
  const auto digest = Sha256().update(body).finish();
  if (!std::equal(digest.begin(), digest.end(), bytes.end() - kDigestBytes))
    fail_file(std::string("the file is altered: its digest does not match") + kCopyAgain);

  Metadata metadata = decode_metadata(body.subspan(sizeof header, header.metadata_bytes));
  const uint64_t spirv_offset = align(sizeof header + header.metadata_bytes, kModuleAlignment);
  VkeContents contents;
  contents.spec = std::move(metadata.spec);
  contents.spec.modules =
      read_modules(body.subspan(spirv_offset, header.spirv_bytes), metadata.module_words);
  validate(contents.spec);
  contents.weights = read_weights(body.subspan(header.weights_offset, header.weights_bytes),
                                  metadata.weight_bytes, contents.spec);
  return contents;
}

std::vector<Bytes> split_vke(Bytes bytes) {
  const auto starts = [](Bytes rest) {
    return rest.size() >= sizeof(Header) && std::memcmp(rest.data(), kMagic, sizeof kMagic) == 0;
  };
  std::vector<Bytes> files;
  while (files.empty() || !bytes.empty()) {
    uint64_t size = bytes.size();
    if (starts(bytes)) std::memcpy(&size, bytes.data() + offsetof(Header, file_bytes), sizeof size);
    // What does not add up is from_vke's to refuse.
    const bool fits = size >= sizeof(Header) && size <= bytes.size() &&
                      (size == bytes.size() || starts(bytes.subspan(size)));
    if (!fits) size = bytes.size();
    files.push_back(bytes.first(size));
    bytes = bytes.subspan(size);
  }
  return files;
}

VkeContents read_vke(const std::string& path) {
  try {
    return from_vke(read_file(path, std::numeric_limits<int64_t>::max()));
  } catch (const Error& error) {
    if (std::string_view(error.what()).starts_with("[file]")) throw;
    throw Error(error.kind(), std::string(error.what()) + " (" + path + ")");
  }
}

void write_vke(const std::string& path, const EngineSpec& spec,
               std::span<const HostTensor> weights) {
  const Parts parts = make_parts(spec, weights);
  const auto digest = digest_of(parts);
  std::vector<Bytes> pieces = {parts.head};
  pieces.insert(pieces.end(), parts.pieces.begin(), parts.pieces.end());
  pieces.emplace_back(digest);
  const std::string why = write_file(path, pieces);
  if (!why.empty()) fail_file(path + " cannot be written: " + why);
}

std::string digest_without_names(EngineSpec spec) {
  spec.name.clear();
  spec.builder_version.clear();
  for (Symbol& symbol : spec.symbols) symbol.name.clear();
  for (Condition& condition : spec.conditions) condition.source.clear();
  for (auto* bindings : {&spec.inputs, &spec.outputs, &spec.weights}) {
    for (Binding& binding : *bindings) binding.name.clear();
  }
  for (Buffer& buffer : spec.buffers) buffer.name.clear();
  for (auto* program : {&spec.weight_program, &spec.dispatches}) {
    for (Dispatch& dispatch : *program) {
      dispatch.name.clear();
      dispatch.module_path.clear();
      dispatch.source.clear();
    }
  }
  return sha256_hex(to_vke(spec));
}

}  // namespace tv
