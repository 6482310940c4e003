// tv::attention: scaled dot-product attention as one launch. Made by attention.cpp on devices whose
// workgroups share memory:
//   out[, log_sum_exp] =
//       tv::attention(query, key, value, mask?, factor?, first?, is_causal, scale, rows, softcap?,
//                     window?)
// query [..., m, d], key [..., n, d], value [..., n, e], mask broadcast to [..., m, n], bool or
// added; keys and values may have fewer heads (dimension -3), which queries then share in order.
// With `first`, an integer, query m has the place first + m and sees the keys up to that, with
// `window` > 0 no more than so many; what `mask` hides besides is hidden, too.
// `factor` is one element, times the scale; `softcap` c makes c · tanh(s) of scaled scores s.
// `rows`: a row whose every score is -inf gives "zeros", or what is not a number ("softmax"); or
// zeros, as any row that is not a number does ("nan_is_zero"). Head sizes are constant. Operands
// are read through strides, so that a merged product needs no copies.

#include <algorithm>

#include "converters/attention/attention_problem.h"

namespace tv {

namespace {

/// Queries and keys of a workgroup's tile, invocations that share a row, rows of an invocation.
struct SimtTile {
  int64_t queries, keys, lanes, rows;
  int64_t threads() const { return queries / rows * lanes; }
  int64_t shared_bytes(int64_t d, int64_t e, bool shuffle) const {
    const int64_t d4 = div_up(d, 4) + 1, e4 = div_up(e, 4) + 1;
    return 16 * (queries * d4 + keys * (d4 + e4) + queries * (keys / 4 + 1)) +
           (shuffle ? 0 : 4 * queries * lanes);
  }
  /// Of an invocation for each tile of keys.
  int64_t iterations(int64_t d, int64_t e) const {
    const int64_t d4 = div_up(d, 4), e4 = div_up(e, 4);
    return 1 + div_up(keys * d4, threads()) + div_up(keys * e4, threads()) + d4 + keys / 4;
  }
};

Tactic simt_tactic(const NodeContext& c, const Builder& b, const AttentionProblem& p,
                   const SimtTile& tile) {
  Tactic tactic{.name = "attention_flash_" + std::to_string(tile.queries) + "x" +
                        std::to_string(tile.keys) + "_" + std::to_string(tile.threads())};
  const uint32_t width = c.device.subgroup_size;
  const auto threads = static_cast<uint32_t>(tile.threads());
  const bool shuffle =
      c.device.subgroup_size_control && width >= tile.lanes && threads % width == 0;
  const int64_t shared = tile.shared_bytes(p.d, p.e, shuffle);
  if (shared > c.device.max_shared_bytes) {
    tactic.refusal = "it needs " + std::to_string(shared) + " bytes of shared memory";
  } else if (threads >
             std::min(c.device.max_workgroup_invocations, c.device.max_workgroup_size[0])) {
    tactic.refusal = "workgroups of " + std::to_string(threads) + " invocations are not possible";
  }
  if (!tactic.refusal.empty()) return tactic;
  Step step = attention_step(c, b, p, "attention_flash");
  const auto define = [&](const char* name, const std::string& text) {
    step.defines.emplace_back(name, text);
  };
  define("BM", std::to_string(tile.queries));
  define("BN", std::to_string(tile.keys));
  define("TX", std::to_string(tile.lanes));
  define("SHUFFLE", shuffle ? "1" : "0");
  add_fours(c, b, step);
  step.local_size = {threads, 1, 1};
  step.subgroup_size = shuffle ? width : 0;
  step.grid = Grid::flat_groups(ceil_div(p.queries, tile.queries) * p.heads.count());
  step.iterations = ceil_div(p.keys, tile.keys) * tile.iterations(p.d, p.e);
  tactic.steps.push_back(std::move(step));
  return tactic;
}

Tactic reference_tactic(const NodeContext& c, const Builder& b, const AttentionProblem& p) {
  Step step = attention_step(c, b, p, "attention_reference");
  step.grid = one_each(p.heads.count() * p.queries, 64);
  step.iterations = p.keys * (1 + p.d + p.e) + 2 * p.e;
  return {.name = "attention_reference", .steps = {std::move(step)}};
}

/// Tiles, best first: as many queries as still give every processor of a large GPU a workgroup, for
/// a key is then read from memory least often.
std::vector<SimtTile> simt_tiles(const NodeContext& c, const AttentionProblem& p) {
  const int64_t work = typical(c.graph, p.heads.count()) * typical(c.graph, p.queries);
  const bool narrow = std::max(p.d, p.e) <= 32;
  std::vector<SimtTile> tiles;
  if (narrow) {
    tiles = {{64, 32, 8, 4}, {32, 32, 8, 2}, {16, 32, 8, 1}};
  } else {
    tiles = {{64, 32, 16, 4}, {32, 32, 16, 4}, {16, 32, 16, 2}};
  }
  constexpr int64_t kGroups = 128;
  const auto first = std::find_if(tiles.begin(), tiles.end(), [&](const SimtTile& tile) {
    return work / tile.queries >= kGroups;
  });
  std::rotate(tiles.begin(), first == tiles.end() ? std::prev(tiles.end()) : first, tiles.end());
  // For large heads in little shared memory.
  tiles.push_back({16, 16, 16, 2});
  tiles.push_back({8, 16, 16, 4});
  return tiles;
}

void convert(const NodeContext& c, Builder& b) {
  const AttentionProblem p = attention_problem(c, b);
  // First where there are few queries: others read keys for a tile of them.
  std::vector<Tactic> tactics = decode_attention(c, b, p);
  for (Tactic& tactic : matrix_attention(c, b, p)) tactics.push_back(std::move(tactic));
  for (const SimtTile& tile : simt_tiles(c, p)) tactics.push_back(simt_tactic(c, b, p, tile));
  tactics.push_back(reference_tactic(c, b, p));
  b.emit(std::move(tactics));
}

struct Example {
  DType dtype = DType::kF32;
  Shape query = {2, 3, 37, 64}, key = {2, 3, 41, 64}, value = {2, 3, 41, 64}, mask = {};
  DType mask_dtype = DType::kBool;
  bool causal = false, lse = false, factor = false;
  std::string rows = "zeros";
  double softcap = 0;
  DType first = DType::kOther;
  int64_t window = 0;
};

Graph example(const Example& e) {
  ExampleGraph g("tv::attention");
  g.input("query", e.dtype, e.query).input("key", e.dtype, e.key).input("value", e.dtype, e.value);
  e.mask.empty() ? g.none("mask") : g.input("mask", e.mask_dtype, e.mask);
  e.factor ? g.input("factor", e.dtype, {}) : g.none("factor");
  if (e.first != DType::kOther) {
    g.input("first", e.first, {1}).attr("window", Expr(e.window));
  }
  g.attr("is_causal", e.causal).attr("scale", 0.125).attr("rows", e.rows);
  if (e.softcap != 0) g.attr("softcap", e.softcap);
  Shape out = e.query, lse(e.query.begin(), e.query.end() - 1);
  out.back() = e.value.back();
  g.output(e.dtype, out);
  if (e.lse) g.output(DType::kF32, lse);
  return g.graph();
}

std::vector<Graph> examples() {
  const auto sizes = [](int64_t d) { return Shape{1, 2, 41, d}; };
  std::vector<Graph> graphs = {
      example({}),
      example({.dtype = DType::kF16, .causal = true, .lse = true}),
      example({.dtype = DType::kBF16, .mask = {41}}),
      example({.mask = {2, 1, 37, 41}, .mask_dtype = DType::kF32}),
      example({.dtype = DType::kF16, .mask = {37, 41}, .mask_dtype = DType::kF16}),
      example({.query = {2, 6, 37, 64}}),
      example({.mask = {37, 41}, .mask_dtype = DType::kF32, .factor = true, .rows = "softmax"}),
      example({.dtype = DType::kF16, .causal = true, .factor = true, .rows = "nan_is_zero"}),
      example({.query = sizes(11), .key = sizes(11), .value = sizes(7)}),
      example({.query = sizes(256), .key = sizes(256), .value = sizes(256)}),
  };
  graphs.push_back(example({.rows = "softmax", .softcap = 2.5}));
  const auto one_query = [](Shape query, Shape key) {
    return Example{.query = std::move(query), .key = key, .value = key};
  };
  Example capped = one_query({2, 6, 1, 64}, {2, 2, 300, 64});
  capped.softcap = 2.5;
  graphs.push_back(example(capped));
  capped.rows = "softmax";  // eager attention of Gemma 2, its mask in numbers
  capped.first = DType::kI64;
  capped.window = 16;
  graphs.push_back(example(capped));
  Example masked = one_query({2, 8, 1, 32}, {2, 1, 200, 32});
  masked.mask = {2, 1, 1, 200};
  masked.dtype = DType::kBF16;
  graphs.push_back(example(masked));
  Example added = one_query({1, 4, 3, 12}, {1, 2, 130, 12});
  added.mask = {1, 4, 3, 130};
  added.mask_dtype = DType::kF32;
  added.lse = true;
  graphs.push_back(example(added));
  Example placed = one_query({2, 8, 1, 32}, {2, 2, 200, 32});
  placed.first = DType::kI64;
  graphs.push_back(example(placed));
  placed.window = 3;
  placed.mask = {2, 1, 1, 200};
  placed.dtype = DType::kF16;
  graphs.push_back(example(placed));
  graphs.push_back(example({.first = DType::kI64}));
  graphs.push_back(example({.rows = "softmax", .softcap = 2.5, .first = DType::kI64, .window = 9}));
  graphs.push_back(example({.dtype = DType::kF16, .first = DType::kI32, .window = 20}));
  const Expr m = Expr::symbol(0);
  graphs.push_back(example({.query = {2, m, 80}, .key = {2, m, 80}, .value = {2, m, 80}}));
  graphs.back().symbols = {{.name = "m", .min = 1, .opt = 300}};
  return graphs;
}

const RegisterConverter attention{{.op = "tv::attention",
                                   .convert = convert,
                                   .reads_views = {"*"},
                                   .epilogue = true,
                                   .examples = examples}};

}  // namespace

}  // namespace tv
