#include "csrc/cli/tensors/tensor_text.h"

#include <charconv>
#include <cmath>

namespace tv::cli {

std::string element_text(const Tensor& tensor, int64_t i) {
  char text[40];
  std::to_chars_result end{};
  if (!is_float(tensor.dtype)) {
    end = std::to_chars(text, text + sizeof(text), tensor.integer(i));
  } else {
    const double value = tensor.at(i);
    if (std::isnan(value)) return "NaN";
    if (std::isinf(value)) return value < 0 ? "-Infinity" : "Infinity";
    end = tensor.dtype == DType::kF64
              ? std::to_chars(text, text + sizeof(text), value)
              : std::to_chars(text, text + sizeof(text), static_cast<float>(value));
  }
  return {text, end.ptr};
}

}  // namespace tv::cli
