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
  const auto* items = json ? json->get<Json::Array>() : nullptr;
  if (!items) return out;
  for (const Json& item : *items) {
    const auto* number = item.get<int64_t>();
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
  const Json parsed = Json::parse(header, path);
  const auto* entries = parsed.get<Json::Object>();
  if (!entries) throw bad("its header is not an object");
  const auto data = std::span(*file).subspan(8 + length);
  NewWeights weights;
  for (const auto& [name, value] : *entries) {
    if (name == "__metadata__") continue;
    const auto* entry = value.get<Json::Object>();
    if (!entry) throw bad("'" + name + "' is not an object");
    const auto field = [&](const char* key) {
      const auto found = entry->find(key);
      return found == entry->end() ? nullptr : &found->second;
    };
    const Json* dtype = field("dtype");
    const auto* dtype_text = dtype ? dtype->get<std::string>() : nullptr;
    NewWeight weight{.dtype = dtype_of(dtype_text ? *dtype_text : ""),
                     .shape = integers(field("shape"))};
    if (weight.dtype == DType::kOther) continue;  // no weight of an engine has such a type
    const std::vector<int64_t> offsets = integers(field("data_offsets"));
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
