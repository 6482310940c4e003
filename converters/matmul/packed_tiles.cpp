#include "converters/matmul/packed_tiles.h"

#include <algorithm>

namespace tv {

Tactic packed_tiles(const DeviceProfile& device, const PackedProblem& problem, int64_t rows,
                    int64_t cols) {
  constexpr int64_t kSteps = 16, kPerThread = 4;
  const int64_t per_row = std::min<int64_t>(kPerThread, rows / 8);
  const int64_t threads = rows / per_row * (cols / kPerThread);
  Tactic tactic{.name = problem.kernel + "_" + text(rows) + "x" + text(cols)};
  if (device.is_cpu()) tactic.refusal = "workgroups that share memory are slow on a CPU";
  if (threads > device.max_workgroup_invocations) {
    tactic.refusal = "workgroups of " + text(threads) + " invocations are not possible";
  }
  if (!tactic.refusal.empty()) return tactic;
  tactic.steps.push_back({.kernel = problem.kernel,
                          .defines = {{"BM", text(rows)},
                                      {"BN", text(cols)},
                                      {"BK", text(kSteps)},
                                      {"BLOCK", "64u"},
                                      {"RM", text(per_row)},
                                      {"RN", text(kPerThread)},
                                      {"A_BY_ROWS", flag(problem.a_by_rows)}},
                          .grid = {{ceil_div(Expr(problem.n), cols), ceil_div(problem.m, rows), 1}},
                          .local_size = {static_cast<uint32_t>(threads), 1, 1}});
  return tactic;
}

Tactic packed_reference(const PackedProblem& problem, int64_t k) {
  const Expr total = problem.m * problem.n;
  return {.name = problem.kernel,
          .steps = {{.kernel = problem.kernel,
                     .params = {param("total", total)},
                     .grid = one_each(total, 64),
                     .local_size = {64, 1, 1},
                     .iterations = Expr(k + k / 32 + 1)}}};
}

}  // namespace tv
