// Attention on matrix units (attention_matrix.comp): tiles and what they need.

#include <algorithm>

#include "converters/attention/attention_problem.h"

namespace tv {

namespace {

constexpr int64_t kInvocations = 32;  // of a subgroup

/// Subgroups that share keys out (`splits`) and queries, blocks of 16 queries of each, keys of
/// each.
struct MatrixTile {
  int64_t subgroups, splits, blocks, keys;
  int64_t queries() const { return 16 * blocks * subgroups; }
  int64_t threads() const { return kInvocations * subgroups * splits; }
  /// As the kernel counts its shared memory.
  int64_t shared_bytes(int64_t d, int64_t e, bool nv2) const {
    const int64_t row_k = d / 8 + 1, row_v = e / 8 + 1, patch = 16 * 17;
    const int64_t merge = (splits - 1) * subgroups * blocks * (e / 16 * 64 + 128);
    const int64_t space = std::max({keys * splits * (row_k + row_v),
                                    subgroups * splits * 16 * row_k, merge, subgroups * patch});
    return 16 * (space + 64 + (nv2 ? 0 : subgroups * splits * patch));
  }
  /// 32-bit registers of an invocation that hold matrices and tiles on their way.
  int64_t registers(int64_t d, int64_t e) const {
    const int64_t matrices = blocks * (d / 16 * 4 + (e + keys) / 16 * 8 + 24);
    return matrices + keys * splits * (d + e) / 8 * 4 / threads();
  }
};

std::string name_of(const MatrixTile& tile, bool nv2) {
  return std::string("attention_matrix") + (nv2 ? "2_" : "_") + std::to_string(tile.queries()) +
         "x" + std::to_string(tile.keys) +
         (tile.splits > 1 ? "_split" + std::to_string(tile.splits) : "");
}

std::string refusal(const NodeContext& c, const Builder& b, const AttentionProblem& p,
                    const MatrixTile& tile, bool nv2) {
  const DType dtype = c.dtype("query");
  if (dtype != DType::kF16 && dtype != DType::kBF16) return "the operands are not 16-bit floats";
  if (c.node.has("softcap") && c.node.number("softcap") != 0) return "scores are capped";
  if (p.d % 16 != 0 || p.e % 16 != 0) return "heads are not multiples of 16";
  if (tile.keys * p.d % (256 * tile.subgroups) != 0 ||
      tile.keys * p.e % (256 * tile.subgroups) != 0) {
    return "a tile of keys is too small for its invocations";
  }
  if (!reads_side_by_side(c, b, 8)) return "rows are not at multiples of 16 bytes";
  const int64_t shared = tile.shared_bytes(p.d, p.e, nv2);
  if (shared > c.device.max_shared_bytes) {
    return "it needs " + std::to_string(shared) + " bytes of shared memory";
  }
  if (tile.threads() >
      std::min(c.device.max_workgroup_invocations, c.device.max_workgroup_size[0])) {
    return "workgroups of " + std::to_string(tile.threads()) + " invocations are not possible";
  }
  constexpr int64_t kRegisters = 210;
  if (tile.registers(p.d, p.e) > kRegisters)
    return "it needs more registers than an invocation has";
  return "";
}

Tactic tactic_of(const NodeContext& c, const Builder& b, const AttentionProblem& p,
                 const MatrixTile& tile, bool nv2) {
  Tactic tactic{.name = name_of(tile, nv2), .refusal = refusal(c, b, p, tile, nv2)};
  if (!tactic.refusal.empty()) return tactic;
  // Probabilities are rounded to the operands' dtype before they are multiplied: by a unit of 2^-11
  // or 2^-8, but each by itself, so that most of it averages out.
  tactic.error = c.dtype("query") == DType::kBF16 ? 0x1p-11 : 0x1p-14;
  Step step = attention_step(c, b, p, "attention_matrix");
  const auto define = [&](const char* name, int64_t value) {
    step.defines.emplace_back(name, std::to_string(value));
  };
  const bool bfloat16 = c.dtype("query") == DType::kBF16;
  define("NV2", nv2 ? 1 : 0);
  define("WQ", tile.subgroups);
  define("WK", tile.splits);
  define("RB", tile.blocks);
  define("BN", tile.keys);
  define("ROUND", bfloat16 ? 1 : 0);
  step.matrix = CooperativeMatrix{.input = c.dtype("query"), .nv2 = nv2};
  step.local_size = {static_cast<uint32_t>(tile.threads()), 1, 1};
  step.subgroup_size = kInvocations;
  step.grid = Grid::flat_groups(ceil_div(p.queries, tile.queries()) * p.heads.count());
  tactic.steps.push_back(std::move(step));
  return tactic;
}

}  // namespace

std::vector<Tactic> matrix_attention(const NodeContext& c, const Builder& b,
                                     const AttentionProblem& p) {
  // Many queries a workgroup read keys least often; few of them, with the keys shared out, fill a
  // large GPU sooner.
  std::vector<MatrixTile> tiles = {{4, 1, 1, 64}, {4, 1, 2, 64}, {8, 1, 1, 64},
                                   {4, 1, 1, 32}, {2, 2, 1, 32}, {1, 4, 1, 32}};
  const int64_t heads = typical(c.graph, p.heads.count());
  const int64_t m = typical(c.graph, p.queries), n = typical(c.graph, p.keys);
  const int64_t units = std::max<int64_t>(c.device.compute_units, 64);
  const auto groups = [&](int64_t rows) { return heads * ((m + rows - 1) / rows); };
  if (groups(64) < units && n >= 64) {
    const size_t best = groups(32) >= units || n < 128 ? 4 : 5;
    std::rotate(tiles.begin(), tiles.begin() + static_cast<int64_t>(best), tiles.end());
  }
  std::vector<Tactic> tactics;
  for (const bool nv2 : {true, false}) {
    for (const MatrixTile& tile : tiles) tactics.push_back(tactic_of(c, b, p, tile, nv2));
  }
  return tactics;
}

}  // namespace tv
