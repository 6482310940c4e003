#include "csrc/frontends/safetensors.h"

#include "csrc/frontends/mapped_file.h"
#include "runtime/base/error.h"
#include "runtime/base/json.h"

namespace tv {
namespace {

constexpr std::pair<std::string_view, DType> kNames[] = {
    {"F32", DType::kF32}, {"F16", DType::kF16},  {"BF16", DType::kBF16}, {"F64", DType::kF64},
    {"I64", DType::kI64}, {"I32", DType::kI32},  {"I16", DType::kI16},   {"I8", DType::kI8},
    {"U8", DType::kU8},   {"BOOL", DType::kBool}};

DType dtype_of(std::string_view text) {
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

class FileReader {
 public:
  FileReader(const std::string& path, uint64_t most_header_bytes)
      : path_(path), file_(map_file(path, 1 << 20, "[safetensors] " + path)) {
    const std::span<const uint8_t> bytes = file_.bytes;
    if (bytes.size() < 8) fail("is not a .safetensors file");
    uint64_t length = 0;
    for (int i = 7; i >= 0; --i) length = length << 8 | bytes[static_cast<size_t>(i)];
    if (length > bytes.size() - 8) fail("is not a .safetensors file, or cut short");
    if (length > most_header_bytes) {
      fail("its header has " + std::to_string(length) + " bytes, want at most " +
           std::to_string(most_header_bytes));
    }
    header_ = {reinterpret_cast<const char*>(bytes.data()) + 8, length};
    data_ = bytes.subspan(8 + length);
  }

  Safetensors run() const {
    const Json parsed = Json::parse(header_, path_);
    const auto* entries = parsed.get<Json::Object>();
    if (!entries) fail("its header is not an object");
    Safetensors found{.data_bytes = data_.size()};
    for (const auto& [name, value] : *entries) {
      const auto* entry = value.get<Json::Object>();
      if (!entry) fail("'" + name + "' is not an object");
      if (name == "__metadata__") {
        found.metadata = metadata(*entry);
        continue;
      }
      StoredTensor tensor = read(name, *entry);
      // No weight of an engine has another type.
      if (tensor.dtype != DType::kOther) found.tensors.emplace(name, std::move(tensor));
    }
    return found;
  }

 private:
  [[noreturn]] void fail(const std::string& why) const {
    throw Error(ErrorKind::kUser, "[safetensors] " + path_ + ": " + why);
  }

  std::map<std::string, std::string> metadata(const Json::Object& entry) const {
    std::map<std::string, std::string> found;
    for (const auto& [key, value] : entry) {
      const auto* text = value.get<std::string>();
      if (!text) fail("its metadata '" + key + "' is no text");
      found.emplace(key, *text);
    }
    return found;
  }

  StoredTensor read(const std::string& name, const Json::Object& entry) const {
    const auto field = [&](const char* key) {
      const auto found = entry.find(key);
      return found == entry.end() ? nullptr : &found->second;
    };
    const Json* dtype = field("dtype");
    const auto* text = dtype ? dtype->get<std::string>() : nullptr;
    StoredTensor tensor{.dtype = dtype_of(text ? *text : ""), .shape = integers(field("shape"))};
    if (tensor.dtype == DType::kOther) return tensor;
    const std::vector<int64_t> offsets = integers(field("data_offsets"));
    const bool inside = offsets.size() == 2 && offsets[0] >= 0 && offsets[1] >= offsets[0] &&
                        offsets[1] <= static_cast<int64_t>(data_.size());
    if (!inside || bytes_of(tensor.dtype, tensor.shape) != offsets[1] - offsets[0]) {
      fail("'" + name + "' has wrong offsets");
    }
    const auto begin = static_cast<size_t>(offsets[0]), end = static_cast<size_t>(offsets[1]);
    tensor.bytes = {data_.subspan(begin, end - begin), file_.owner};
    return tensor;
  }

  const std::string& path_;
  WeightBytes file_;
  std::string_view header_;
  std::span<const uint8_t> data_;
};

}  // namespace

Safetensors read_safetensors(const std::string& path, uint64_t most_header_bytes) {
  return FileReader(path, most_header_bytes).run();
}

std::string_view safetensors_name(DType dtype) {
  for (const auto& [name, known] : kNames) {
    if (known == dtype) return name;
  }
  return "";
}

}  // namespace tv
