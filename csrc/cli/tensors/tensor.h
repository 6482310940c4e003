#pragma once
// Tensors in host memory, and the files that hold them.

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/dtype.h"
#include "runtime/engine/engine.h"

namespace tv::cli {

/// Memory that devices of any kind may use in place.
class AlignedBytes {
 public:
  AlignedBytes() = default;
  explicit AlignedBytes(int64_t size_bytes);
  uint8_t* data() const { return data_.get(); }
  int64_t size_bytes() const { return size_bytes_; }

 private:
  struct Free {
    void operator()(uint8_t* data) const { std::free(data); }
  };
  std::unique_ptr<uint8_t, Free> data_;
  int64_t size_bytes_ = 0;
};

/// Dense, row-major.
struct Tensor {
  DType dtype = DType::kOther;
  std::vector<int64_t> shape;
  AlignedBytes bytes;

  Tensor() = default;
  /// Zeros. Throws Error(kUser) if the size overflows.
  Tensor(DType dtype, std::vector<int64_t> shape);
  int64_t numel() const;
  HostTensor host() const { return {bytes.data(), bytes.size_bytes()}; }
  /// Element i as a number.
  double at(int64_t i) const;
  /// Element i of integers and bool: a double does not hold every int64.
  int64_t integer(int64_t i) const;
};

/// 1 for no dimensions. Throws Error(kUser) if it overflows.
int64_t numel_of(const std::vector<int64_t>& shape);
/// Of a dense tensor. Throws Error(kUser) if it overflows.
int64_t bytes_of(const std::vector<int64_t>& shape, DType dtype);

/// Uniform in [-1, 1) for floats, 0 or 1 for integers and bool, which are often indices or masks;
/// the same numbers for the same seed anywhere.
void fill_random(Tensor& tensor, uint64_t seed);

}  // namespace tv::cli
