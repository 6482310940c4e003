#include "csrc/passes/multiply_quantised.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "csrc/graph/edit.h"
#include "csrc/graph/quantised.h"
#include "csrc/passes/quantised_pieces.h"
#include "csrc/rewriter.h"

namespace tv {
namespace {

/// False if it depends on a symbol, too.
bool is_one(const Node& node, const char* arg) {
  const Expr* e = node.has(arg) ? std::get_if<Expr>(&node.arg(arg).attr) : nullptr;
  return (e == nullptr || e->is_constant()) && (!node.has(arg) || node.number(arg) == 1);
}

bool swaps_dimensions(const Node& node) {
  const auto wrapped = [](int64_t dim) { return dim < 0 ? dim + 2 : dim; };
  if (node.op == "aten::t") return true;
  if (node.op == "aten::permute") return wrapped(node.integers("dims").at(0)) == 1;
  return node.op == "aten::transpose.int" &&
         wrapped(node.integer("dim0")) != wrapped(node.integer("dim1"));
}

bool keeps_values(const Node& node) {
  static const std::set<std::string, std::less<>> ops = {
      "aten::clone", "aten::contiguous", "aten::alias", "aten::detach", "aten::_to_copy"};
  return ops.contains(node.op);
}

/// x · weightᵀ + bias.
struct Product {
  ValueId x = kNoValue, weight = kNoValue, bias = kNoValue;
  bool transposed = false;  ///< the weight is [k, n], else [n, k]
};

/// The quantised constant that a weight is made of, [n, k].
struct QuantisedWeight {
  Quantised q;
  bool transposed = false;        ///< it is [k, n]
  Shape shape, blocks;            ///< that its parts are to be given; empty: they have them
  const Node* made_by = nullptr;  ///< the last node of what dequantises
};

struct Readers {
  int64_t products = 0, lookups = 0;
  std::string tensor;  ///< the quantised tensor's name
};

class QuantisedMultiplier {
 public:
  explicit QuantisedMultiplier(Graph graph)
      : graph_(std::move(graph)), constant_(constant_values(graph_)), made_by_(producers(graph_)) {}

  Graph run(std::vector<QuantisedFate>* fates) {
    nodes_ = graph_.nodes;
    for (const Node& node : nodes_) {
      if (!rewrite(node)) out_.push_back(node);
    }
    graph_.nodes = std::move(out_);
    replaced_.apply(graph_);
    if (fates) note(*fates);
    make_names_unique(graph_);
    return std::move(graph_);
  }

 private:
  bool is_constant(ValueId value) const {
    return value == kNoValue || constant_[static_cast<size_t>(value)];
  }

  const Node* maker(ValueId value) const {
    const int32_t index = made_by_[static_cast<size_t>(value)];
    return index < 0 ? nullptr : &nodes_[static_cast<size_t>(index)];
  }

  static std::optional<Product> product_of(const Node& node) {
    if (node.op == "aten::mm") {
      return Product{.x = node.input("self"), .weight = node.input("mat2"), .transposed = true};
    }
    if (node.op == "aten::linear") {
      return Product{node.input("input"), node.input("weight"), node.input("bias")};
    }
    if (node.op != "aten::addmm" || !is_one(node, "beta") || !is_one(node, "alpha")) {
      return std::nullopt;
    }
    return Product{node.input("mat1"), node.input("mat2"), node.input("self"), true};
  }

  std::optional<QuantisedWeight> packed(ValueId value) const {
    QuantisedWeight w;
    if (graph_.rank(value) != 2 || !is_float(graph_.value(value).dtype)) return std::nullopt;
    for (const Node* node = maker(value); node; node = maker(value)) {
      if (node->op == "tv::dequantize") {
        w.q = quantised_of(*node);
        w.made_by = node;
        const bool small = size_bytes(graph_.value(w.q.input).dtype) == 1;
        const bool constant =
            is_constant(w.q.input) && is_constant(w.q.scale) && is_constant(w.q.zero_point);
        return small && constant ? std::optional(w) : std::nullopt;
      }
      if (!swaps_dimensions(*node) && !keeps_values(*node)) {
        const auto pieces = quantised_pieces({graph_, nodes_, made_by_, constant_}, value);
        if (!pieces) return std::nullopt;
        w.q = pieces->q;
        w.shape = pieces->shape;
        w.blocks = pieces->blocks;
        w.made_by = node;
        return w;
      }
      w.transposed ^= swaps_dimensions(*node);
      value = node->input("self");
      const DType dtype = graph_.value(value).dtype;
      if (graph_.rank(value) != 2) return std::nullopt;
      if ((dtype == DType::kI8 || dtype == DType::kU8) && is_constant(value)) {
        w.q.input = value;  // integers as they are; whatever scales the product stays behind it
        w.made_by = node;
        return w;
      }
      if (!is_float(dtype)) return std::nullopt;
    }
    return std::nullopt;
  }

  bool rewrite(const Node& node) {
    if (node.op == "aten::embedding") return embed(node);
    const auto product = product_of(node);
    if (!product || product->x == kNoValue || is_constant(product->x)) return false;
    auto weight = packed(product->weight);
    if (!weight || !is_float(graph_.value(product->x).dtype)) return false;
    weight->transposed ^= product->transposed;
    // Two elements of a byte are neighbours along k.
    if (weight->transposed && weight->q.bits == 4) return false;
    multiply(node, *product, *weight);
    return true;
  }

  void multiply(const Node& node, const Product& product, const QuantisedWeight& weight) {
    Readers& readers = readers_[weight.made_by];
    ++readers.products;
    readers.tensor = graph_.value(weight.q.input).name;
    Rewriter rw(graph_, node, out_);
    Quantised q = weight.q;
    if (!weight.shape.empty()) {
      q.input = rw.reshape(q.input, weight.shape);
      for (ValueId* part : {&q.scale, &q.zero_point}) {
        if (*part != kNoValue) *part = rw.reshape(*part, weight.blocks);
      }
    }
    if (weight.transposed) {
      for (ValueId* part : {&q.input, &q.scale, &q.zero_point}) {
        if (*part != kNoValue) *part = rw.permute(*part, {1, 0});
      }
    }
    const Shape x_shape = graph_.value(product.x).shape;
    const Shape out_shape = graph_.value(node.outputs[0]).shape;
    const DType dtype = graph_.value(node.outputs[0]).dtype;
    const Expr rows = tv::product(std::span(x_shape).first(x_shape.size() - 1));
    const ValueId x = rw.reshape(product.x, {rows, x_shape.back()});
    std::vector<Arg> args = arguments_of(q);
    args.insert(args.begin(), tensor_arg("a", x));
    // 16-bit sums are rounded once, behind the bias.
    const DType sums = product.bias != kNoValue ? DType::kF32 : dtype;
    ValueId out = rw.add("tv::matmul_quantised", std::move(args), sums, {rows, out_shape.back()});
    if (product.bias != kNoValue) out = rw.pointwise("add", {out, product.bias}, sums);
    replaced_.add(node.outputs[0], rw.reshape(rw.cast(out, dtype), out_shape));
  }

  /// dequantize(table)[indices] as dequantize(table[indices]).
  bool embed(const Node& node) {
    const ValueId table = node.input("weight");
    const Node* made = table == kNoValue ? nullptr : maker(table);
    if (!made || made->op != "tv::dequantize" || !packed(table)) return false;
    ++readers_[made].lookups;
    Rewriter rw(graph_, node, out_);
    Quantised q = quantised_of(*made);
    const Shape out = graph_.value(node.outputs[0]).shape;
    for (ValueId* part : {&q.input, &q.scale, &q.zero_point}) {
      if (*part == kNoValue) continue;
      const Value whole = graph_.value(*part);
      Shape rows(out.begin(), out.end() - 1);
      if (whole.shape[0] == Expr(1)) {
        std::fill(rows.begin(), rows.end(), Expr(1));
        rows.push_back(whole.shape.back());
        *part = rw.reshape(*part, rows);
        continue;
      }
      rows.push_back(whole.shape.back());
      std::vector<Arg> args = node.args;
      for (Arg& arg : args) {
        if (arg.name == "weight") arg.values = {*part};
      }
      *part = rw.add(node.op, std::move(args), whole.dtype, rows);
    }
    const DType dtype = graph_.value(node.outputs[0]).dtype;
    replaced_.add(node.outputs[0], rw.add("tv::dequantize", arguments_of(q), dtype, out));
    return true;
  }

  /// The operators that still read the floats, behind views and casts.
  std::set<std::string> readers_of_floats(ValueId value) const {
    std::set<std::string> found;
    const auto returned = [&](const GraphOutput& output) { return output.value == value; };
    if (std::ranges::any_of(graph_.outputs, returned)) found.insert("the caller");
    for (const Node& node : graph_.nodes) {
      const std::vector<ValueId> reads = node.all_inputs();
      if (std::ranges::find(reads, value) == reads.end()) continue;
      if (swaps_dimensions(node) || keeps_values(node)) {
        found.merge(readers_of_floats(node.outputs[0]));
      } else {
        found.insert(node.op);
      }
    }
    return found;
  }

  void note(std::vector<QuantisedFate>& fates) const {
    for (const Node& node : nodes_) {
      const auto counts = readers_.find(&node);
      if (node.op != "tv::dequantize" && counts == readers_.end()) continue;
      Readers read = counts == readers_.end() ? Readers{} : counts->second;
      if (node.op == "tv::dequantize") read.tensor = graph_.value(node.input("input")).name;
      std::string fate;
      const auto add = [&](const std::string& part) { fate += (fate.empty() ? "" : "; ") + part; };
      const auto some = [](int64_t n, const std::string& what) {
        return std::to_string(n) + " " + what + (n == 1 ? "" : "s");
      };
      if (read.products > 0) add("read packed by " + some(read.products, "product"));
      if (read.lookups > 0) add("read packed by " + some(read.lookups, "embedding"));
      std::string ops;
      for (const std::string& op : readers_of_floats(node.outputs[0])) {
        ops += (ops.empty() ? "" : ", ") + op;
      }
      if (!ops.empty()) {
        add((constant_[static_cast<size_t>(node.outputs[0])]
                 ? "computed once for each set of weights and held as "
                 : "computed at each call as ") +
            type_text(graph_.value(node.outputs[0])) + ", for " + ops);
      }
      fates.push_back({read.tensor, node.source, node.module_path, fate.empty() ? "unused" : fate});
    }
  }

  Graph graph_;
  const std::vector<bool> constant_;
  const std::vector<int32_t> made_by_;
  std::vector<Node> nodes_;
  std::vector<Node> out_;
  Replacements replaced_;
  std::map<const Node*, Readers> readers_;
};

}  // namespace

Graph multiply_quantised(Graph graph, std::vector<QuantisedFate>* fates) {
  const bool some = std::ranges::any_of(graph.values, [](const Value& value) {
    return value.dtype == DType::kI8 || value.dtype == DType::kU8;
  });
  return some ? QuantisedMultiplier(std::move(graph)).run(fates) : graph;
}

}  // namespace tv
