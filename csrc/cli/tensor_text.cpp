#include "csrc/cli/tensor_text.h"

#include <charconv>
#include <cmath>
#include <cstring>

namespace tv::cli {

std::string element_text(const Tensor& tensor, int64_t i) {
  char text[40];
  std::to_chars_result end{};
  if (tensor.dtype == DType::kI64) {  // a double does not hold all of them
    int64_t value = 0;
    std::memcpy(&value, tensor.bytes.data() + i * 8, 8);
    end = std::to_chars(text, text + sizeof(text), value);
  } else {
    const double value = tensor.at(i);
    if (std::isnan(value)) return "NaN";
    if (std::isinf(value)) return value < 0 ? "-Infinity" : "Infinity";
    end = tensor.dtype == DType::kF64
              ? std::to_chars(text, text + sizeof(text), value)
              : std::to_chars(text, text + sizeof(text), static_cast<float>(value));
    if (!is_float(tensor.dtype)) {  // int32 passes float's 24 bits
      end = std::to_chars(text, text + sizeof(text), static_cast<int64_t>(value));
    }
  }
  return {text, end.ptr};
}

}  // namespace tv::cli
