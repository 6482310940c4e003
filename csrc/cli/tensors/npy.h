#pragma once
// Tensors in files: NumPy's .npy (format 1 to 3) and raw bytes.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "csrc/cli/tensors/tensor.h"

namespace tv::cli {

/// Reads a .npy file: little endian, C or Fortran order. bfloat16, which NumPy has not, is read
/// from uint16 or 2-byte void where `want` is kBF16. Throws Error(kUser) naming the file.
Tensor read_npy(const std::string& path, DType want = DType::kOther);

/// The same of a file's bytes; `what` names it in messages.
Tensor npy_tensor(std::span<const uint8_t> file, const std::string& what,
                  DType want = DType::kOther);

/// Reads a file of exactly the bytes of such a tensor. Throws Error(kUser).
Tensor read_raw(const std::string& path, DType dtype, const std::vector<int64_t>& shape);

/// Writes a .npy file; bfloat16 as uint16. Throws Error(kUser) if it cannot.
void write_npy(const std::string& path, const Tensor& tensor);

}  // namespace tv::cli
