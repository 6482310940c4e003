#include "csrc/cli/tensors/tensor.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <new>

#include "runtime/base/error.h"

namespace tv::cli {
namespace {

constexpr size_t kAlignment = 4096;  // of host memory that a device may import

uint16_t half_bits(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 16) & 0x8000U;
  // fill_random's numbers: normal in half precision, or 0.
  const float magnitude = std::fabs(value);
  if (magnitude < 6.2e-5F) return static_cast<uint16_t>(sign);
  const uint32_t rounded = (bits & 0x7FFFFFFFU) + 0xFFFU + ((bits >> 13) & 1U);
  return static_cast<uint16_t>(sign | ((rounded - (112U << 23)) >> 13));
}

float half_value(uint16_t bits) {
  const int exponent = (bits >> 10) & 31;
  const float fraction = static_cast<float>(bits & 1023);
  float value = std::ldexp(exponent == 0 ? fraction : fraction + 1024, std::max(exponent, 1) - 25);
  if (exponent == 31) {
    value = fraction == 0 ? std::numeric_limits<float>::infinity()
                          : std::numeric_limits<float>::quiet_NaN();
  }
  return (bits & 0x8000) != 0 ? -value : value;
}

template <typename T>
T load(const uint8_t* at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}

template <typename T>
void store(uint8_t* at, T value) {
  std::memcpy(at, &value, sizeof(T));
}

/// splitmix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014).
uint64_t mixed(uint64_t x) {
  x += 0x9E3779B97F4A7C15ULL;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}

}  // namespace

AlignedBytes::AlignedBytes(int64_t size_bytes) : size_bytes_(size_bytes) {
  const size_t rounded = (std::max<size_t>(static_cast<size_t>(size_bytes), 1) + kAlignment - 1) /
                         kAlignment * kAlignment;
  data_.reset(static_cast<uint8_t*>(std::aligned_alloc(kAlignment, rounded)));
  if (!data_) throw std::bad_alloc();
  std::memset(data_.get(), 0, rounded);
}

int64_t numel_of(const std::vector<int64_t>& shape) {
  int64_t count = 1;
  for (const int64_t size : shape) {
    if (size < 0 || __builtin_mul_overflow(count, size, &count)) {
      throw Error(ErrorKind::kUser, "[tensor] a shape is negative or too large");
    }
  }
  return count;
}

int64_t bytes_of(const std::vector<int64_t>& shape, DType dtype) {
  int64_t bytes = 0;
  if (__builtin_mul_overflow(numel_of(shape), size_bytes(dtype), &bytes)) {
    throw Error(ErrorKind::kUser, "[tensor] a shape is too large");
  }
  return bytes;
}

Tensor::Tensor(DType type, std::vector<int64_t> sizes)
    : dtype(type), shape(std::move(sizes)), bytes(bytes_of(shape, dtype)) {}

int64_t Tensor::numel() const { return numel_of(shape); }

double Tensor::at(int64_t i) const {
  const uint8_t* p = bytes.data() + i * size_bytes(dtype);
  switch (dtype) {
    case DType::kF32:
      return load<float>(p);
    case DType::kF64:
      return load<double>(p);
    case DType::kF16:
      return half_value(load<uint16_t>(p));
    case DType::kBF16:
      return std::bit_cast<float>(uint32_t{load<uint16_t>(p)} << 16);
    case DType::kI64:
      return static_cast<double>(load<int64_t>(p));
    case DType::kI32:
      return load<int32_t>(p);
    case DType::kI16:
      return load<int16_t>(p);
    case DType::kI8:
      return load<int8_t>(p);
    case DType::kU8:
    case DType::kBool:
      return *p;
    case DType::kOther:
      break;
  }
  return 0;
}

int64_t Tensor::integer(int64_t i) const {
  if (dtype == DType::kI64) return load<int64_t>(bytes.data() + i * 8);
  return static_cast<int64_t>(at(i));
}

void fill_random(Tensor& tensor, uint64_t seed) {
  const int64_t width = size_bytes(tensor.dtype), count = tensor.numel();
  for (int64_t i = 0; i < count; ++i) {
    const uint64_t bits = mixed(seed * 0x2545F4914F6CDD1DULL + static_cast<uint64_t>(i));
    uint8_t* at = tensor.bytes.data() + i * width;
    if (!is_float(tensor.dtype)) {
      at[0] = static_cast<uint8_t>(bits >> 63);  // little endian; the other bytes are 0
      continue;
    }
    const float value = static_cast<float>(bits >> 40) * 0x1p-23F - 1;
    switch (tensor.dtype) {
      case DType::kF64:
        store<double>(at, value);
        break;
      case DType::kF16:
        store(at, half_bits(value));
        break;
      case DType::kBF16:
        store(at, static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16));
        break;
      default:
        store(at, value);
    }
  }
}

}  // namespace tv::cli
