#include "csrc/frontends/onnx/scales.h"

#include <algorithm>
#include <cmath>

#include "runtime/base/error.h"

namespace tv::onnx {

const Tensor& scale_in(OpContext& c, size_t i) {
  const Tensor& scale = c.in(i);
  const auto host = scale.host ? scale.host : scale.stored ? read_host(*scale.stored) : nullptr;
  if (!host) return scale;
  const auto wrong = [](double value) { return !std::isfinite(value) || value <= 0; };
  const auto count = std::ranges::count_if(host->floats, wrong);
  if (count == 0) return scale;
  const auto first = std::ranges::find_if(host->floats, wrong);
  throw Error(ErrorKind::kUser,
              "scale \"" + (scale.stored ? scale.stored->name : "of a constant") +
                  "\": " + std::to_string(count) + " of " + std::to_string(host->floats.size()) +
                  " are not positive finite numbers; the first is " + std::to_string(*first) +
                  " at " + std::to_string(first - host->floats.begin()));
}

}  // namespace tv::onnx
