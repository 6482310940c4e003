// Elements of the file's tensors: their types and their bytes.

#include <bit>
#include <cmath>
#include <cstring>

#include "csrc/frontends/onnx/file/small_float.h"
#include "csrc/frontends/onnx/file/tensor.h"
#include "csrc/frontends/onnx/file/unsigned.h"
#include "runtime/base/error.h"

namespace tv::onnx {
namespace {

struct TypeInfo {
  const char* name;
  DType dtype;
  DType as_weight;
  int bits;
};

// By TensorProto.DataType. Small floating-point numbers are held as their codes.
constexpr TypeInfo kTypes[] = {{"undefined", DType::kOther, DType::kOther, 0},
                               {"float", DType::kF32, DType::kF32, 32},
                               {"uint8", DType::kU8, DType::kU8, 8},
                               {"int8", DType::kI8, DType::kI8, 8},
                               {"uint16", DType::kOther, DType::kI32, 16},
                               {"int16", DType::kI16, DType::kI16, 16},
                               {"int32", DType::kI32, DType::kI32, 32},
                               {"int64", DType::kI64, DType::kI64, 64},
                               {"string", DType::kOther, DType::kOther, 0},
                               {"bool", DType::kBool, DType::kBool, 8},
                               {"float16", DType::kF16, DType::kF16, 16},
                               {"double", DType::kF64, DType::kF64, 64},
                               {"uint32", DType::kOther, DType::kI64, 32},
                               {"uint64", DType::kOther, DType::kI64, 64},
                               {"complex64", DType::kOther, DType::kOther, 0},
                               {"complex128", DType::kOther, DType::kOther, 0},
                               {"bfloat16", DType::kBF16, DType::kBF16, 16},
                               {"float8e4m3fn", DType::kOther, DType::kU8, 8},
                               {"float8e4m3fnuz", DType::kOther, DType::kU8, 8},
                               {"float8e5m2", DType::kOther, DType::kU8, 8},
                               {"float8e5m2fnuz", DType::kOther, DType::kU8, 8},
                               {"uint4", DType::kOther, DType::kU8, 4},
                               {"int4", DType::kOther, DType::kI8, 4},
                               {"float4e2m1", DType::kOther, DType::kU8, 4},
                               {"float8e8m0", DType::kOther, DType::kU8, 8},
                               {"uint2", DType::kOther, DType::kU8, 2},
                               {"int2", DType::kOther, DType::kI8, 2}};

const TypeInfo& info(int32_t type) {
  const bool known = type > 0 && type < static_cast<int32_t>(std::size(kTypes));
  return kTypes[known ? type : 0];
}

constexpr int32_t kUint8 = 2, kUint16 = 4, kUint32 = 12, kUint64 = 13, kFloat8E4M3FN = 17,
                  kFloat8E4M3FNUZ = 18, kFloat8E5M2 = 19, kFloat8E5M2FNUZ = 20, kUint4 = 21,
                  kInt4 = 22, kFloat4E2M1 = 23, kFloat8E8M0 = 24, kUint2 = 25, kInt2 = 26;

template <class T>
T at(std::span<const uint8_t> bytes, int64_t i) {
  T value;
  std::memcpy(&value, bytes.data() + i * static_cast<int64_t>(sizeof(T)), sizeof(T));
  return value;
}

double half_to_double(uint16_t h) {
  const int exponent = (h >> 10) & 31, mantissa = h & 1023;
  const double sign = h >> 15 ? -1.0 : 1.0;
  if (exponent == 31) return mantissa ? std::nan("") : sign * HUGE_VAL;
  if (exponent == 0) return sign * std::ldexp(mantissa, -24);
  return sign * std::ldexp(1024 + mantissa, exponent - 25);
}

// Round to nearest even; what is past the range becomes infinite.
uint16_t double_to_half(double value) {
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  if (std::isnan(value)) return sign | 0x7e00;
  const double magnitude = std::fabs(value);
  if (magnitude >= 65520) return sign | 0x7c00;
  if (magnitude == 0) return sign;
  const int exponent = std::max(std::ilogb(magnitude), -14);
  const auto steps = static_cast<int>(std::nearbyint(std::ldexp(magnitude, 10 - exponent)));
  return sign | static_cast<uint16_t>(((exponent + 14) << 10) + steps);
}

uint16_t float_to_bfloat16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if (std::isnan(value)) return 0x7fc0;
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

int64_t packed(std::span<const uint8_t> bytes, int64_t i, int bits, bool is_signed) {
  const int per_byte = 8 / bits;
  const int field = bytes[i / per_byte] >> (bits * (i % per_byte)) & ((1 << bits) - 1);
  return is_signed && field >> (bits - 1) ? field - (1 << bits) : field;
}

int64_t integer_at(std::span<const uint8_t> bytes, int32_t type, int64_t i) {
  switch (type) {
    case kUint4:
    case kFloat4E2M1:
      return packed(bytes, i, 4, false);
    case kInt4:
      return packed(bytes, i, 4, true);
    case kUint2:
      return packed(bytes, i, 2, false);
    case kInt2:
      return packed(bytes, i, 2, true);
    case kUint16:
      return at<uint16_t>(bytes, i);
    case kUint32:
      return at<uint32_t>(bytes, i);
    case kUint64:  // bit for bit
      return at<int64_t>(bytes, i);
    default:
      break;
  }
  switch (info(type).dtype) {
    case DType::kI64:
      return at<int64_t>(bytes, i);
    case DType::kI32:
      return at<int32_t>(bytes, i);
    case DType::kI16:
      return at<int16_t>(bytes, i);
    case DType::kI8:
      return at<int8_t>(bytes, i);
    case DType::kBool:
      return at<uint8_t>(bytes, i) != 0;
    default:
      return at<uint8_t>(bytes, i);
  }
}

double float_at(std::span<const uint8_t> bytes, DType dtype, int64_t i) {
  switch (dtype) {
    case DType::kF64:
      return at<double>(bytes, i);
    case DType::kF16:
      return half_to_double(at<uint16_t>(bytes, i));
    case DType::kBF16:
      return std::bit_cast<float>(static_cast<uint32_t>(at<uint16_t>(bytes, i)) << 16);
    default:
      return at<float>(bytes, i);
  }
}

template <class T>
void put(std::vector<uint8_t>& out, T value) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(&value);
  out.insert(out.end(), bytes, bytes + sizeof(T));
}

void put_integer(std::vector<uint8_t>& out, DType dtype, int64_t value) {
  switch (dtype) {
    case DType::kI64:
      return put(out, value);
    case DType::kI32:
      return put(out, static_cast<int32_t>(value));
    case DType::kI16:
      return put(out, static_cast<int16_t>(value));
    default:
      return put(out, static_cast<uint8_t>(value));
  }
}

void put_float(std::vector<uint8_t>& out, DType dtype, double value) {
  switch (dtype) {
    case DType::kF64:
      return put(out, value);
    case DType::kF16:
      return put(out, double_to_half(value));
    case DType::kBF16:
      return put(out, float_to_bfloat16(static_cast<float>(value)));
    default:
      return put(out, static_cast<float>(value));
  }
}

}  // namespace

int64_t checked_count(const std::vector<int64_t>& dims, const std::string& what) {
  constexpr int64_t kLimit = int64_t{1} << 40;
  int64_t count = 1;
  bool empty = false;
  for (int64_t dim : dims) {
    if (dim < 0 || dim > kLimit) {
      throw Error(ErrorKind::kUser, what + ": a size of " + std::to_string(dim));
    }
    if (dim == 0) empty = true;
    if (dim > 0 && __builtin_mul_overflow(count, dim, &count)) count = kLimit + 1;
    if (count > kLimit) throw Error(ErrorKind::kUser, what + ": more than 2^40 elements");
  }
  return empty ? 0 : count;
}

DType dtype_of(int32_t type, bool as_weight) {
  return as_weight ? info(type).as_weight : info(type).dtype;
}

bool is_held_as_codes(int32_t type) { return info(type).bits == 8 && !small_float(type).empty(); }

DType held_dtype(int32_t type) { return is_held_as_codes(type) ? DType::kU8 : dtype_of(type); }

int32_t widened_type(const Stored& stored) {
  return info(stored.type).dtype == stored.dtype ? 0 : stored.type;
}

int32_t widened_type(int32_t type) {
  return info(type).dtype == DType::kOther && info(type).as_weight != DType::kOther ? type : 0;
}

bool is_wider_unsigned(int32_t type) {
  const DType held = info(type).as_weight;
  return info(type).dtype == DType::kOther && (held == DType::kI32 || held == DType::kI64);
}

std::map<std::string, DType> wider_unsigned() {
  std::map<std::string, DType> held;
  for (int32_t type = 0; type < static_cast<int32_t>(std::size(kTypes)); ++type) {
    if (is_wider_unsigned(type)) held.emplace(type_name(type), info(type).as_weight);
  }
  return held;
}

std::string border_format(int32_t widened) {
  return is_wider_unsigned(widened) ? type_name(widened) : small_float(widened);
}

bool is_uint64(int32_t type) { return type == kUint64; }

bool stored_as_widened(int32_t type) {
  return info(type).bits == 8 * size_bytes(info(type).as_weight);
}

void widen(int32_t type, const uint8_t* packed, int64_t count, uint8_t* wide) {
  const std::span<const uint8_t> bytes(packed, static_cast<size_t>(stored_bytes(type, count)));
  for (int64_t i = 0; i < count; ++i) {
    const int64_t value = integer_at(bytes, type, i);
    const int64_t size = size_bytes(info(type).as_weight);
    std::memcpy(wide + i * size, &value, static_cast<size_t>(size));
  }
}

void narrow(int32_t type, const uint8_t* wide, int64_t count, uint8_t* packed) {
  const int64_t size = size_bytes(info(type).as_weight);
  const int bits = info(type).bits;
  if (bits < 8) std::memset(packed, 0, static_cast<size_t>(stored_bytes(type, count)));
  for (int64_t i = 0; i < count; ++i) {
    const uint8_t* from = wide + i * size;
    if (bits < 8) {
      const int per_byte = 8 / bits, field = *from & ((1 << bits) - 1);
      packed[i / per_byte] |= static_cast<uint8_t>(field << (bits * (i % per_byte)));
    } else {
      std::memcpy(packed + i * (bits / 8), from, static_cast<size_t>(bits / 8));
    }
  }
}

std::string type_name(int32_t type) { return info(type).name; }

int64_t stored_bytes(int32_t type, int64_t count) { return (count * info(type).bits + 7) / 8; }

double round_to(DType dtype, double value) {
  switch (dtype) {
    case DType::kF32:
      return static_cast<float>(value);
    case DType::kF16:
      return half_to_double(double_to_half(value));
    case DType::kBF16:
      return std::bit_cast<float>(
          static_cast<uint32_t>(float_to_bfloat16(static_cast<float>(value))) << 16);
    default:
      return value;
  }
}

std::shared_ptr<const Host> read_host(const Stored& stored, int64_t limit) {
  if (stored.count > limit || stored.dtype == DType::kOther) return nullptr;
  auto host = std::make_shared<Host>();
  host->dtype = stored.dtype;
  host->dims = stored.dims;
  host->baked = false;
  const WeightBytes raw = stored.load_raw();
  const DType in_file = info(stored.type).dtype;
  for (int64_t i = 0; i < stored.count; ++i) {
    if (is_float(stored.dtype)) {
      host->floats.push_back(float_at(raw.bytes, in_file, i));
    } else {
      host->ints.emplace_back(integer_at(raw.bytes, stored.type, i));
    }
  }
  return host;
}

std::vector<uint8_t> host_bytes(const Host& host) {
  std::vector<uint8_t> out;
  for (double value : host.floats) put_float(out, host.dtype, value);
  for (const Expr& value : host.ints) put_integer(out, host.dtype, value.constant().value_or(0));
  return out;
}

WeightBytes read_weight(const Stored& stored) {
  WeightBytes raw = stored.load_raw();
  if (info(stored.type).dtype == stored.dtype && stored.dtype != DType::kBool) return raw;
  auto out = std::make_shared<std::vector<uint8_t>>();
  out->reserve(static_cast<size_t>(stored.count * size_bytes(stored.dtype)));
  const DType in_file = info(stored.type).dtype;
  for (int64_t i = 0; i < stored.count; ++i) {
    if (is_float(stored.dtype)) {
      put_float(*out, stored.dtype, float_at(raw.bytes, in_file, i));
    } else {
      put_integer(*out, stored.dtype, integer_at(raw.bytes, stored.type, i));
    }
  }
  return {*out, out};
}

FourBits four_bits(const Stored& stored) {
  return {stored.type == kUint4 || stored.type == kInt4, stored.type == kInt4};
}

std::string small_float(int32_t type) {
  switch (type) {
    case kFloat8E4M3FN:
      return "float8_e4m3fn";
    case kFloat8E4M3FNUZ:
      return "float8_e4m3fnuz";
    case kFloat8E5M2:
      return "float8_e5m2";
    case kFloat8E5M2FNUZ:
      return "float8_e5m2fnuz";
    case kFloat4E2M1:
      return "float4_e2m1fn";
    case kFloat8E8M0:
      return "float8_e8m0fnu";
    default:
      return "";
  }
}

std::shared_ptr<const Stored> packed_pairs(const std::shared_ptr<const Stored>& matrix,
                                           bool transposed) {
  const int64_t rows = matrix->dims.at(transposed ? 1 : 0);
  const int64_t columns = matrix->dims.at(transposed ? 0 : 1);
  const auto load = [=] {
    const WeightBytes raw = matrix->load_raw();
    const int offset = four_bits(*matrix).is_signed ? 8 : 0;
    auto out = std::make_shared<std::vector<uint8_t>>(static_cast<size_t>(rows * columns / 2));
    for (int64_t i = 0; i < rows * columns; ++i) {
      const int64_t row = i / columns, column = i % columns;
      const int64_t from = transposed ? column * rows + row : i;
      const int64_t element = integer_at(raw.bytes, matrix->type, from) + offset;
      (*out)[static_cast<size_t>(i / 2)] |= static_cast<uint8_t>(element << (i % 2 ? 4 : 0));
    }
    return WeightBytes{*out, out};
  };
  return std::make_shared<Stored>(Stored{.name = matrix->name,
                                         .dtype = DType::kU8,
                                         .type = kUint8,
                                         .dims = {rows, columns / 2},
                                         .count = rows * columns / 2,
                                         .load_raw = load});
}

}  // namespace tv::onnx
