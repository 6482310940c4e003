#include "converters/matmul/matrix_units.h"

#include <algorithm>

#include "csrc/graph/strided.h"

namespace tv {

std::string SplitPrecision::name() const {
  const std::string type = input == DType::kF16 ? "f16" : "bf16";
  return is_split() ? type + "x" + text(pieces) : type;
}

std::vector<SplitPrecision> split_precisions(DType dtype, std::vector<SplitPrecision> of_floats) {
  switch (dtype) {
    case DType::kF16:
    case DType::kBF16:
      return {{.input = dtype}};
    case DType::kF32:
      return of_floats;
    default:
      return {};
  }
}

std::string name_of(const MatrixTile& t, int64_t bk) {
  return text(t.bm) + "x" + text(t.bn) + (bk > 0 ? "x" + text(bk) : "") + "_w" + text(t.wm) + "x" +
         text(t.wn) + (t.wk > 1 ? "x" + text(t.wk) : "");
}

Step matrix_step(const std::string& kernel, const SplitPrecision& precision, int64_t threads) {
  return {.kernel = kernel,
          .defines = {{"PIECES", text(precision.pieces)}},
          .local_size = {static_cast<uint32_t>(threads), 1, 1},
          .subgroup_size = kInvocations,
          .matrix = CooperativeMatrix{.input = precision.input,
                                      .denormals = precision.scale != SplitPrecision::kUnscaled}};
}

Step matrix_step(const std::string& kernel, const SplitPrecision& precision,
                 const MatrixTile& tile) {
  Step step = matrix_step(kernel, precision, tile.threads());
  for (const auto& [name, value] : {std::pair("BM", tile.bm),
                                    {"BN", tile.bn},
                                    {"WM", tile.wm},
                                    {"WN", tile.wn},
                                    {"WK", tile.wk}}) {
    step.defines.emplace_back(name, text(value));
  }
  return step;
}

int64_t fragment_uvec4s(const SplitPrecision& precision) { return precision.pieces * kInvocations; }

Step pack_step(const std::string& kernel, const SplitPrecision& precision, const Expr& fragments) {
  Step step = matrix_step(kernel, precision, kPackedTogether * kInvocations);
  step.defines.emplace_back("TO_16", precision.rounding());
  step.params.push_back(param("fragments", fragments));
  return step;
}

std::string workgroup_refusal(const DeviceProfile& device, int64_t threads, int64_t shared_bytes) {
  if (threads > device.max_workgroup_invocations) {
    return "workgroups of " + text(threads) + " invocations are not possible";
  }
  if (shared_bytes > device.max_shared_bytes) {
    return "needs " + text(shared_bytes) + " bytes of shared memory; there are " +
           text(device.max_shared_bytes);
  }
  return "";
}

bool divides(int64_t divisor, const Expr& value) { return mod(value, divisor) == Expr(0); }

bool is_aligned(const NodeContext& c, ValueId id) {
  const int64_t element = size_bytes(c.graph.value(id).dtype);
  return divides(kUvec4Bytes, layout_of(c.graph, id).offset * Expr(element));
}

bool loads_runs(int64_t length, const Expr& count, const Expr& along, const Expr& across,
                const Shape& batch) {
  return along == Expr(1) && divides(length, count) && divides(length, across) &&
         std::all_of(batch.begin(), batch.end(), [&](const Expr& s) { return divides(length, s); });
}

int64_t compute_units(const DeviceProfile& device) {
  constexpr int64_t kMiddling = 64;
  return device.compute_units > 0 ? device.compute_units : kMiddling;
}

double overlapped(double work, double chain) {
  constexpr double kNotHidden = 0.3;
  return std::max(work, chain) + kNotHidden * std::min(work, chain);
}

}  // namespace tv
