#include "converters/sorting/sort_simd.h"

#include <algorithm>
#include <functional>

#include "converters/kit/simd.h"
#include "csrc/graph/strided.h"

namespace tv {
namespace {

constexpr int64_t kMostVectors = 16;  // of a block: what LLVM keeps at hand
constexpr int64_t kMostEmitted = 8;   // pairs of vectors that a workgroup emits
constexpr int64_t kMostHeld = 8;      // blocks of which a workgroup compares two vectors each

/// Comparisons of the vectors k[i] and at[i], as a define NETWORK(k, at).
class Network {
 public:
  void order(int64_t low, int64_t high) {
    text_ += "order(" + pair(low) + ", " + pair(high) + "); ";
  }
  void lower(int64_t low, int64_t high) {
    text_ += "lower(" + pair(low) + ", " + pair(high) + "); ";
  }
  void mirror(int64_t low, int64_t high, int64_t bit) {
    text_ += "mirror(" + pair(low) + ", " + pair(high) + ", " + tv::text(bit) + "u); ";
  }
  /// Vectors from `first` on, as a bitonic sequence is ordered from comparisons at `reach` on;
  /// elements of a vector lie `stride` vectors apart.
  void merge(int64_t first, int64_t count, int64_t reach) {
    for (; reach > 0; reach /= 2) {
      for (int64_t i = 0; i < count; ++i) {
        if ((i & reach) == 0) order(first + i, first + i + reach);
      }
    }
  }
  void merge_lanes(int64_t first, int64_t count, int64_t bit) {
    for (; bit > 0; bit /= 2) {
      for (int64_t i = first; i < first + count; ++i) {
        text_ += "cross(" + pair(i) + ", " + tv::text(bit) + "u); ";
      }
    }
  }
  std::pair<std::string, std::string> define() && { return {"NETWORK(k, at)", std::move(text_)}; }

 private:
  static std::string pair(int64_t i) { return "k[" + tv::text(i) + "], at[" + tv::text(i) + "]"; }
  std::string text_;
};

/// The define UNIFORM_GROUP. A line of workgroups that is folded may have almost twice as many.
void set_groups(const Graph& graph, Step& step) {
  step.defines.emplace_back("UNIFORM_GROUP", simd_uniform(graph, 2 * step.grid.groups[0]));
}

/// How the lines lie in blocks.
struct Blocks {
  int64_t lanes = 0, vectors = 0, elements = 0;  ///< of a block: elements = lanes * vectors
  int64_t longest = 0;                           ///< upper bound of a line
  Expr rows = 0, count = 0, of_line = 0;         ///< lines, their elements and blocks
  SortedLines sorted = {};
  DType dtype = DType::kOther;

  const Graph* graph = nullptr;

  Expr all() const { return rows * of_line; }
  /// A step of `kernel` on `groups` workgroups that changes keys and at, where lines are longer
  /// than `run`.
  Step change(const std::string& kernel, const Expr& groups, int64_t run, Network network) const {
    Step step{.kernel = kernel,
              .defines = {{"VECTORS", text(vectors) + "u"}, std::move(network).define()},
              .grid = Grid::flat_groups(groups * is_needed(count, run)),
              .local_size = {static_cast<uint32_t>(lanes), 1, 1},
              .subgroup_size = static_cast<uint32_t>(lanes),
              .uniform_table = true};
    set_groups(*graph, step);
    add_key(step, dtype, false);
    for (const auto& [name, value] : {std::pair{"keys", sorted.keys}, {"at", sorted.at}}) {
      Operand both = dst(name, value);
      both.read_write = true;
      step.operands.push_back(both);
    }
    return step;
  }
};

Blocks blocks_of(const NodeContext& c, Builder& b, const SortLines& lines) {
  Blocks blocks{.lanes = c.device.subgroup_size, .dtype = lines.dtype, .graph = &c.graph};
  blocks.longest = longest(c, lines);
  const int64_t most = div_up(std::max<int64_t>(blocks.longest, 1), blocks.lanes);
  for (blocks.vectors = 2; blocks.vectors < std::min(most, kMostVectors);) blocks.vectors *= 2;
  blocks.elements = blocks.lanes * blocks.vectors;
  blocks.rows = lines.lines();
  blocks.count = lines.split.size;
  blocks.of_line = ceil_div(lines.split.size, blocks.elements);
  // One more block, for what does not exist.
  const Shape shape = {blocks.all() * blocks.elements + blocks.elements};
  const DType key = lines.dtype == DType::kI64 ? DType::kI64 : DType::kI32;
  blocks.sorted = {.keys = b.scratch("block_keys", key, shape),
                   .at = b.scratch("block_at", DType::kI32, shape),
                   .pitch = blocks.of_line * blocks.elements};
  return blocks;
}

Network block_network(const Blocks& blocks) {
  Network n;
  const int64_t vectors = blocks.vectors;
  for (int64_t size = 2; size <= vectors; size *= 2) {
    for (int64_t i = 0; i < vectors; ++i) {
      const int64_t at = i % size;
      if (at < size / 2) n.order(i, i - at + size - 1 - at);
    }
    n.merge(0, vectors, size / 4);
  }
  for (int64_t bit = 1; bit < blocks.lanes; bit *= 2) {
    for (int64_t i = 0; i < vectors / 2; ++i) n.mirror(i, vectors - 1 - i, bit);
    n.merge_lanes(0, vectors, bit / 2);
    n.merge(0, vectors, vectors / 2);
  }
  return n;
}

Step sort_blocks(const NodeContext& c, const Builder& b, const SortLines& lines,
                 const Blocks& blocks) {
  Step step{.kernel = "sort_blocks",
            .params = {param("rows", blocks.rows), param("count", blocks.count),
                       param("inner", lines.split.inner), param("blocks", blocks.of_line)},
            .grid = Grid::flat_groups(blocks.all()),
            .local_size = {static_cast<uint32_t>(blocks.lanes), 1, 1},
            .subgroup_size = static_cast<uint32_t>(blocks.lanes),
            .uniform_table = true};
  const bool whole = lines.dtype == DType::kF32 && lines.split.inner == Expr(1) &&
                     is_dense(lines.x.shape, b.strides_of(lines.x.value)) &&
                     lines.split.size.bounds(c.graph.symbols).first >= blocks.lanes;
  step.defines = {{"VECTORS", text(blocks.vectors) + "u"}, {"WHOLE", flag(whole)}};
  step.defines.push_back(block_network(blocks).define());
  set_groups(c.graph, step);
  add_key(step, lines.dtype, lines.descending);
  step.operands = {src("x", lines.x.value), dst("keys", blocks.sorted.keys),
                   dst("at", blocks.sorted.at)};
  return step;
}

/// Compares blocks of spans of `span`, `step` of which apart from each other are held at once.
Step compare_blocks(const Blocks& blocks, int64_t span, int64_t held, bool mirrored, int64_t run) {
  Network n;
  const int64_t vectors = 2 * held;
  if (mirrored) {
    for (int64_t j = 0; j < held / 2; ++j) {
      n.order(2 * j, 2 * (held - 1 - j));
      n.order(2 * j + 1, 2 * (held - 1 - j) + 1);
    }
  }
  for (int64_t reach = mirrored ? vectors / 4 : vectors / 2; reach > 1; reach /= 2) {
    for (int64_t i = 0; i < vectors; ++i) {
      if ((i & reach) == 0) n.order(i, i + reach);
    }
  }
  const Expr spans = ceil_div(blocks.of_line, span);
  const int64_t apart = span / held;
  Step step = blocks.change("sort_across", blocks.rows * spans * (apart * blocks.vectors / 2), run,
                            std::move(n));
  step.defines.insert(step.defines.end(),
                      {{"HELD", text(held) + "u"}, {"MIRRORED", flag(mirrored)}});
  step.params = {param("rows", blocks.rows), param("blocks", blocks.of_line), param("spans", spans),
                 param("span", span), param("apart", apart)};
  return step;
}

/// Sorted blocks become sorted lines.
void merge_blocks(const Blocks& blocks, std::vector<Step>& steps) {
  for (int64_t span = 2; span / 2 * blocks.elements < blocks.longest; span *= 2) {
    const int64_t run = span / 2 * blocks.elements;
    for (int64_t left = span; left > 1;) {
      const int64_t held = std::min(left, kMostHeld);
      steps.push_back(compare_blocks(blocks, left, held, left == span, run));
      left /= held;
    }
    Network n;
    n.merge(0, blocks.vectors, blocks.vectors / 2);
    n.merge_lanes(0, blocks.vectors, blocks.lanes / 2);
    Step within = blocks.change("sort_within", blocks.all(), run, std::move(n));
    within.params = {param("total", blocks.all())};
    steps.push_back(std::move(within));
  }
}

/// The first `list` vectors of each block become those of the line's first block.
void choose_best(const Blocks& blocks, int64_t list, std::vector<Step>& steps) {
  const int64_t lists = blocks.vectors / list;
  for (int64_t apart = 1; apart * blocks.elements < blocks.longest; apart *= lists) {
    Network n;
    for (int64_t left = lists / 2; left > 0; left /= 2) {
      for (int64_t i = 0; i < left; ++i) {
        const int64_t to = i * list, from = (i + left) * list;
        for (int64_t v = 0; v < list; ++v) n.lower(to + v, from + list - 1 - v);
        n.merge(to, list, list / 2);
        n.merge_lanes(to, list, blocks.lanes / 2);
      }
    }
    const Expr groups = ceil_div(blocks.of_line, lists * apart);
    Step step =
        blocks.change("sort_best", blocks.rows * groups, apart * blocks.elements, std::move(n));
    step.defines.emplace_back("LIST", text(list) + "u");
    step.params = {param("rows", blocks.rows), param("blocks", blocks.of_line),
                   param("groups", groups), param("apart", apart)};
    steps.push_back(std::move(step));
  }
}

/// Vectors that hold what is wanted of a line, a power of two, if that is at most half of a block;
/// else 0.
int64_t list_of(const SortLines& lines, const Blocks& blocks) {
  const auto wanted = lines.limit.constant();
  if (!wanted) return 0;
  int64_t list = 1;
  while (list * blocks.lanes < *wanted) list *= 2;
  return 2 * list <= blocks.vectors ? list : 0;
}

}  // namespace

SimdSort sort_by_simd(const NodeContext& c, Builder& b, const SortLines& lines) {
  SimdSort out{.refusal = simd_refusal(c.device)};
  if (!out.refusal.empty()) return out;
  const Blocks blocks = blocks_of(c, b, lines);
  out.sorted = blocks.sorted;
  out.steps.push_back(sort_blocks(c, b, lines, blocks));
  if (const int64_t list = list_of(lines, blocks); list > 0) {
    choose_best(blocks, list, out.steps);
  } else {
    merge_blocks(blocks, out.steps);
  }
  return out;
}

std::optional<Step> emit_by_simd(const NodeContext& c, const SortLines& lines,
                                 const SortedLines& sorted, ValueId y, ValueId indices) {
  const int64_t wide = 2 * static_cast<int64_t>(c.device.subgroup_size);
  if (lines.split.inner != Expr(1)) return {};
  if (lines.limit.bounds(c.graph.symbols).first < wide) return {};
  const int64_t all = lines.limit.constant() ? div_up(*lines.limit.constant(), wide) : kMostEmitted;
  const int64_t pairs = std::min(all, kMostEmitted);
  const Expr parts = ceil_div(lines.limit, pairs * wide);
  const bool is64 = indices != kNoValue && c.graph.value(indices).dtype == DType::kI64;
  Step step{.kernel = "sort_emit_simd",
            .defines = {{"PAIRS", text(pairs) + "u"},
                        {"INDICES", flag(indices != kNoValue)},
                        {"INT64_INDICES", flag(is64)}},
            .operands = {src("x", lines.x.value), src("at", sorted.at), dst("y", y)},
            .params = {param("rows", lines.lines()), param("count", lines.split.size),
                       param("limit", lines.limit), param("pitch", sorted.pitch),
                       param("parts", parts), param("from", sorted.from)},
            .grid = Grid::flat_groups(lines.lines() * parts),
            .local_size = {c.device.subgroup_size, 1, 1},
            .subgroup_size = c.device.subgroup_size,
            .uniform_table = true,
            .simd_row = lines.limit};
  set_groups(c.graph, step);
  if (indices != kNoValue) step.operands.push_back(dst("idx", indices));
  return step;
}

}  // namespace tv
