#include "csrc/cli/safetensors.h"

#include <limits>

#include "runtime/base/error.h"
#include "runtime/base/file.h"
#include "runtime/base/json.h"

namespace tv::cli {
namespace {

DType dtype_of(std::string_view text) {
  constexpr std::pair<std::string_view, DType> kNames[] = {
      {"F32", DType::kF32}, {"F16", DType::kF16},  {"BF16", DType::kBF16}, {"F64", DType::kF64},
      {"I64", DType::kI64}, {"I32", DType::kI32},  {"I16", DType::kI16},   {"I8", DType::kI8},
      {"U8", DType::kU8},   {"BOOL", DType::kBool}};
  for (const auto& [known, dtype] : kNames) {
    if (known == text) return dtype;
  }
  return DType::kOther;
}

std::vector<int64_t> integers(const Json* json) {
  std::vector<int64_t> out;
  if (!json || !json->is_array()) return out;
  for (const Json& item : *json) {
    const auto* number = json_as<int64_t>(item);
    out.push_back(number ? *number : -1);
  }
  return out;
}

/// Bytes of a tensor; -1 if there is no such tensor.
int64_t bytes_of(DType dtype, const std::vector<int64_t>& shape) {
  int64_t bytes = size_bytes(dtype);
  for (const int64_t size : shape) {
    if (size < 0 || __builtin_mul_overflow(bytes, size, &bytes)) return -1;
  }
  return bytes;
}

}  // namespace

NewWeights read_safetensors(const std::string& path) {
  const auto file = std::make_shared<const std::vector<uint8_t>>(
      read_file(path, std::numeric_limits<int64_t>::max()));
  const auto bad = [&](const std::string& why) -> Error {
    return {ErrorKind::kUser, "[safetensors] " + path + ": " + why};
  };
  if (file->size() < 8) throw bad("is not a .safetensors file");
  uint64_t length = 0;
  for (int i = 7; i >= 0; --i) length = length << 8 | (*file)[static_cast<size_t>(i)];
  if (length > file->size() - 8) throw bad("is not a .safetensors file, or cut short");
  const std::string_view header(reinterpret_cast<const char*>(file->data()) + 8, length);
  const Json entries = parse_json(header, path);
  if (!entries.is_object()) throw bad("its header is not an object");
  const auto data = std::span(*file).subspan(8 + length);
  NewWeights weights;
  for (const auto& [name, entry] : entries.items()) {
    if (name == "__metadata__") continue;
    if (!entry.is_object()) throw bad("'" + name + "' is not an object");
    const Json* dtype = json_field(entry, "dtype");
    const auto* dtype_text = dtype ? json_as<std::string>(*dtype) : nullptr;
    NewWeight weight{.dtype = dtype_of(dtype_text ? *dtype_text : ""),
                     .shape = integers(json_field(entry, "shape"))};
    if (weight.dtype == DType::kOther) continue;  // no weight of an engine has such a type
    const std::vector<int64_t> offsets = integers(json_field(entry, "data_offsets"));
    const bool inside = offsets.size() == 2 && offsets[0] >= 0 && offsets[1] >= offsets[0] &&
                        offsets[1] <= static_cast<int64_t>(data.size());
    if (!inside || bytes_of(weight.dtype, weight.shape) != offsets[1] - offsets[0]) {
      throw bad("'" + name + "' has wrong offsets");
    }
    weight.bytes = {
        data.subspan(static_cast<size_t>(offsets[0]), static_cast<size_t>(offsets[1] - offsets[0])),
        file};
    weights.emplace(name, std::move(weight));
  }
  return weights;
}

}  // namespace tv::cli
