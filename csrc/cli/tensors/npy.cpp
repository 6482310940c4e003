#include "csrc/cli/tensors/npy.h"

#include <charconv>
#include <cstring>
#include <limits>
#include <optional>
#include <string_view>

#include "runtime/base/error.h"
#include "runtime/base/file.h"

namespace tv::cli {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";

struct Descr {
  std::string_view text;
  DType dtype;
};
constexpr Descr kDescrs[] = {{"<f4", DType::kF32}, {"<f2", DType::kF16}, {"<f8", DType::kF64},
                             {"<i8", DType::kI64}, {"<i4", DType::kI32}, {"<i2", DType::kI16},
                             {"|i1", DType::kI8},  {"|u1", DType::kU8},  {"|b1", DType::kBool}};

[[noreturn]] void bad(const std::string& path, const std::string& why) {
  throw Error(ErrorKind::kUser, "[npy] " + path + ": " + why);
}

/// The text after 'key': in a header, which is a Python dict literal.
std::string_view value_of(std::string_view header, std::string_view key, const std::string& path) {
  const std::string quoted = "'" + std::string(key) + "'";
  const size_t at = header.find(quoted);
  const size_t colon = at == header.npos ? at : header.find(':', at + quoted.size());
  if (colon == header.npos) bad(path, "its header has no " + quoted);
  std::string_view rest = header.substr(colon + 1);
  rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
  return rest;
}

std::vector<int64_t> shape_of(std::string_view text, const std::string& path) {
  const size_t close = text.find(')');
  if (!text.starts_with('(') || close == text.npos) bad(path, "its header has no shape");
  text = text.substr(1, close - 1);
  std::vector<int64_t> shape;
  while (true) {
    text.remove_prefix(std::min(text.find_first_not_of(", "), text.size()));
    if (text.empty()) return shape;
    int64_t size = 0;
    const auto [next, error] = std::from_chars(text.data(), text.data() + text.size(), size);
    if (error != std::errc() || size < 0) bad(path, "its header has no shape");
    shape.push_back(size);
    text.remove_prefix(static_cast<size_t>(next - text.data()));
  }
}

DType dtype_of(std::string_view text, DType want, const std::string& path) {
  const char quote = text.empty() ? '\0' : text[0];
  const size_t close = text.find(quote, 1);
  if ((quote != '\'' && quote != '"') || close == text.npos) {
    bad(path, "structured arrays are not read");
  }
  const std::string_view descr = text.substr(1, close - 1);
  if (want == DType::kBF16 && (descr == "<u2" || descr == "|V2" || descr == "<V2")) return want;
  for (const Descr& known : kDescrs) {
    if (known.text == descr) return known.dtype;
  }
  bad(path, "elements of type '" + std::string(descr) + "' are not read");
}

/// Integers of files in the type that engines hold them in.
struct Widened {
  std::string_view text;
  DType dtype;
  int64_t bytes;
};
constexpr Widened kWidened[] = {
    {"<u2", DType::kI32, 2}, {"<u4", DType::kI64, 4}, {"<u8", DType::kI64, 8}};

const Widened* widened(std::string_view quoted, DType want) {
  for (const Widened& known : kWidened) {
    if (known.dtype == want && quoted.substr(1).starts_with(known.text)) return &known;
  }
  return nullptr;
}

Tensor wider(const std::string& path, const Widened& from, const std::vector<int64_t>& shape,
             std::span<const uint8_t> data) {
  Tensor tensor(from.dtype, shape);
  const int64_t count = tensor.numel();
  if (static_cast<int64_t>(data.size()) != count * from.bytes) {
    bad(path, "has " + std::to_string(data.size()) + " bytes of data, want " +
                  std::to_string(count * from.bytes));
  }
  const int64_t size = size_bytes(from.dtype);
  for (int64_t i = 0; i < count; ++i) {  // of this machine's order, which is little-endian
    std::memcpy(tensor.bytes.data() + i * size, data.data() + i * from.bytes,
                static_cast<size_t>(from.bytes));
  }
  return tensor;
}

/// From Fortran's order to C's.
Tensor transposed(const Tensor& tensor) {
  Tensor out(tensor.dtype, tensor.shape);
  const auto width = static_cast<size_t>(size_bytes(tensor.dtype));
  const size_t rank = tensor.shape.size();
  std::vector<int64_t> index(rank, 0);
  for (int64_t i = 0, count = tensor.numel(); i < count; ++i) {
    int64_t from = 0, stride = 1;
    for (size_t d = 0; d < rank; ++d) {
      from += index[d] * stride;
      stride *= tensor.shape[d];
    }
    std::memcpy(out.bytes.data() + static_cast<size_t>(i) * width,
                tensor.bytes.data() + static_cast<size_t>(from) * width, width);
    for (size_t d = rank; d-- > 0 && ++index[d] == tensor.shape[d];) index[d] = 0;
  }
  return out;
}

Tensor filled(const std::string& path, DType dtype, const std::vector<int64_t>& shape,
              std::span<const uint8_t> data) {
  int64_t bytes = 0;
  const bool overflow = __builtin_mul_overflow(numel_of(shape), size_bytes(dtype), &bytes);
  if (overflow || bytes != static_cast<int64_t>(data.size())) {
    bad(path,
        "has " + std::to_string(data.size()) + " bytes of data, want " + std::to_string(bytes));
  }
  Tensor tensor(dtype, shape);
  if (bytes > 0) std::memcpy(tensor.bytes.data(), data.data(), data.size());
  return tensor;
}

}  // namespace

Tensor read_npy(const std::string& path, DType want) {
  return npy_tensor(read_file(path, std::numeric_limits<int64_t>::max()), path, want);
}

Tensor npy_tensor(std::span<const uint8_t> file, const std::string& path, DType want) {
  const std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
  if (!text.starts_with(kMagic) || text.size() < 12) bad(path, "is not a .npy file");
  const uint8_t version = file[6];
  const size_t start = version == 1 ? 10 : 12;
  if (version < 1 || version > 3) bad(path, "has an unknown format");
  size_t length = file[8] | static_cast<size_t>(file[9]) << 8;
  if (version > 1)
    length |= static_cast<size_t>(file[10]) << 16 | static_cast<size_t>(file[11]) << 24;
  if (length > text.size() - start) bad(path, "is cut short");
  const std::string_view header = text.substr(start, length);
  const std::string_view descr = value_of(header, "descr", path);
  const Widened* from = descr.empty() ? nullptr : widened(descr, want);
  const DType dtype = from ? from->dtype : dtype_of(descr, want, path);
  const std::vector<int64_t> shape = shape_of(value_of(header, "shape", path), path);
  const auto data = file.subspan(start + length);
  Tensor tensor = from ? wider(path, *from, shape, data) : filled(path, dtype, shape, data);
  const bool fortran = value_of(header, "fortran_order", path).starts_with("True");
  return fortran && shape.size() > 1 ? transposed(tensor) : std::move(tensor);
}

Tensor read_raw(const std::string& path, DType dtype, const std::vector<int64_t>& shape) {
  return filled(path, dtype, shape, read_file(path, std::numeric_limits<int64_t>::max()));
}

void write_npy(const std::string& path, const Tensor& tensor) {
  std::string descr = "<u2";
  for (const Descr& known : kDescrs) {
    if (known.dtype == tensor.dtype) descr = known.text;
  }
  std::string shape;
  for (const int64_t size : tensor.shape) shape += std::to_string(size) + ", ";
  if (tensor.shape.size() > 1) shape.resize(shape.size() - 2);
  std::string header =
      "{'descr': '" + descr + "', 'fortran_order': False, 'shape': (" + shape + "), }";
  header += std::string(63 - (header.size() + 10) % 64, ' ') + "\n";
  std::string prefix(kMagic);
  prefix += '\x01';
  prefix += '\0';
  prefix += static_cast<char>(header.size() & 0xFF);
  prefix += static_cast<char>(header.size() >> 8);
  prefix += header;
  const std::span<const uint8_t> pieces[] = {
      {reinterpret_cast<const uint8_t*>(prefix.data()), prefix.size()},
      {tensor.bytes.data(), static_cast<size_t>(tensor.bytes.size_bytes())}};
  if (const std::string fault = write_file(path, pieces); !fault.empty()) {
    throw Error(ErrorKind::kUser, "[npy] " + path + ": " + fault);
  }
}

}  // namespace tv::cli
