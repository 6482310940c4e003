// Attention for few queries over many keys (attention_decode.comp), as each step of generating text
// has it: the keys are shared out over workgroups, and the heads that share keys read them once.

#include <algorithm>

#include "converters/attention/attention_problem.h"

namespace tv {

namespace {

constexpr int64_t kMostRows = 16;       // of a workgroup
constexpr int64_t kMostSplits = 64;     // ranges of keys
constexpr int64_t kTypicalKeys = 1024;  // of a cache that grows

/// Invocations of a workgroup, and keys that it takes at once.
struct DecodeTile {
  int64_t threads, keys;
};

int64_t next_power_of_two(int64_t n) {
  int64_t power = 1;
  while (power < n) power *= 2;
  return power;
}

/// As the kernel counts its shared memory.
int64_t shared_bytes(const AttentionProblem& p, const DecodeTile& tile, int64_t rows) {
  return 16 * rows * div_up(p.d, 4) + 4 * rows * (tile.keys + 3) + 16 * tile.threads + 4;
}

Tactic tactic_of(const NodeContext& c, Builder& b, const AttentionProblem& p,
                 const DecodeTile& tile, int64_t splits) {
  const auto repeat = p.repeat.constant(), queries = p.queries.constant();
  Tactic tactic{.name = "attention_decode_" + std::to_string(tile.keys) + "_" +
                        std::to_string(tile.threads) + "_split" + std::to_string(splits)};
  if (!repeat || !queries || *repeat * *queries < 1) {
    tactic.refusal = "the number of queries is not known";
    return tactic;
  }
  const int64_t rows = *repeat * *queries, block = std::min(next_power_of_two(rows), kMostRows);
  const auto width = static_cast<int64_t>(c.device.subgroup_size);
  const bool shuffle = c.device.subgroup_size_control && width >= 8 && width <= tile.threads;
  if (c.node.outputs.size() > 1) {
    // Gradients compute scores again, and want the numbers whose sum's log they are given.
    tactic.refusal = "gradients want the scores in the order of the other kernels";
  } else if (*queries > kMostRows) {
    tactic.refusal = std::to_string(*queries) + " queries are not few";
  } else if (shared_bytes(p, tile, block) > c.device.max_shared_bytes) {
    tactic.refusal =
        "it needs " + std::to_string(shared_bytes(p, tile, block)) + " bytes of shared memory";
  } else if (tile.threads >
             std::min(c.device.max_workgroup_invocations, c.device.max_workgroup_size[0])) {
    tactic.refusal =
        "workgroups of " + std::to_string(tile.threads) + " invocations are not possible";
  } else if (div_up(p.e, 4) > tile.threads) {
    tactic.refusal = "values have more columns than a workgroup has invocations";
  }
  if (!tactic.refusal.empty()) return tactic;

  AttentionProblem grouped = p;
  grouped.heads = p.groups;
  Step step = attention_step(c, b, grouped, "attention_decode");
  const auto define = [&](const char* name, int64_t value) {
    step.defines.emplace_back(name, std::to_string(value));
  };
  define("REPEAT", *repeat);
  define("QUERIES", *queries);
  define("BM", block);
  define("BN", tile.keys);
  define("TX", shuffle ? 8 : 1);
  define("LANES", shuffle ? std::min(tile.threads / block, width) : 1);
  define("SPLITS", splits);
  define("SHUFFLE", shuffle ? 1 : 0);
  add_fours(c, b, step);
  step.params.push_back(param("q_g", p.q_group));
  if (p.mask != kNoValue) step.params.push_back(param("mask_g", p.mask_group));
  step.local_size = {static_cast<uint32_t>(tile.threads), 1, 1};
  step.subgroup_size = shuffle ? static_cast<uint32_t>(width) : 0;
  step.grid = Grid::flat_groups(p.groups.count() * div_up(rows, block) * splits);
  const int64_t of_tile = tile.keys * (div_up(p.d, 4) + 4) + block * tile.keys / tile.threads;
  step.iterations = ceil_div(ceil_div(p.keys, splits), tile.keys) * of_tile + block * tile.threads;
  if (splits == 1) {
    tactic.steps.push_back(std::move(step));
    return tactic;
  }
  const Expr all = p.groups.count() * rows;
  const ValueId part = b.scratch("part", DType::kF32, {Expr(splits), all, Expr(p.e)});
  const ValueId sums = b.scratch("sums", DType::kF32, {Expr(splits), all, Expr(2)});
  Step end{.kernel = "attention_decode_end",
           .operands = {src("part", part), src("sums", sums), dst("y", c.node.outputs[0])},
           .params = {param("rows", all)},
           .grid = one_each(all * p.e, 64),
           .iterations = Expr(2 * splits)};
  for (const auto& [name, value] : step.defines) {
    if (name == "DV" || name == "SPLITS" || name.starts_with("INVERSE") ||
        name.starts_with("RESULT")) {
      end.defines.emplace_back(name, value);
    }
  }
  std::erase_if(step.operands, [](const Operand& operand) { return operand.write; });
  step.operands.push_back(dst("part", part));
  step.operands.push_back(dst("sums", sums));
  tactic.steps.push_back(std::move(step));
  tactic.steps.push_back(std::move(end));
  return tactic;
}

}  // namespace

std::vector<Tactic> decode_attention(const NodeContext& c, Builder& b, const AttentionProblem& p) {
  const int64_t rows = typical(c.graph, p.repeat) * typical(c.graph, p.queries);
  const int64_t groups = typical(c.graph, p.groups.count()) * div_up(rows, kMostRows);
  const int64_t keys = p.keys.constant().value_or(std::max(typical(c.graph, p.keys), kTypicalKeys));
  const int64_t units = std::max<int64_t>(c.device.compute_units, 64);
  // Two workgroups a unit hide each other's loads; a range is worth a tile or more.
  const int64_t wanted = std::clamp<int64_t>(div_up(2 * units, std::max<int64_t>(groups, 1)), 1,
                                             std::clamp<int64_t>(keys / 64, 1, kMostSplits));
  std::vector<Tactic> tactics = {tactic_of(c, b, p, {128, 64}, wanted)};
  if (wanted > 1) {
    tactics.push_back(tactic_of(c, b, p, {128, 64}, (wanted + 1) / 2));
    if (wanted > 2) tactics.push_back(tactic_of(c, b, p, {128, 64}, 1));
  }
  tactics.push_back(tactic_of(c, b, p, {64, 32}, wanted));
  return tactics;
}

}  // namespace tv
