#include "csrc/passes/fuse/fuse.h"

#include <algorithm>
#include <set>

#include "csrc/codegen/pointwise_table.h"
#include "csrc/converter.h"
#include "csrc/passes/fuse/fusion_graph.h"
#include "csrc/passes/kit/program_builder.h"

namespace tv {

namespace {

/// Bounds on one program: each input costs an address and its strides among the parameters, each
/// instruction registers (and, on a CPU driver, LLVM's time).
struct Limits {
  size_t inputs = 8, instrs = 64, results = 4;
  bool loops = true;  ///< functions with loops in prologues and epilogues
};

/// Behind an epilogue that makes bytes, on a GPU: a tensor less is written and read again. Most of
/// the inputs are scales and zero points, which are single numbers.
constexpr Limits kBehindBytes = {.inputs = 16, .instrs = 64};

/// One invocation computes numbers: addresses are all that they cost.
constexpr Limits kNumbers = {.inputs = 48, .instrs = 96, .results = 48};

bool is_pointwise(const Node& node) { return node.op == "tv::pointwise"; }

const Shape& domain(FusionGraph& g, const Node& node) { return g.value(node.outputs.at(0)).shape; }

bool same_count(const Shape& a, const Shape& b) { return product(a) == product(b); }

class Fuser {
 public:
  Fuser(Graph graph, const DeviceProfile& device) : g_(std::move(graph)), is_cpu_(device.is_cpu()) {
    if (is_cpu_) limits_ = {.instrs = 48, .loops = false};
  }

  Graph run() {
    copy_dequantising();
    // Of a chain too long for one program the parts are those between integers, which take the
    // fewest bytes: as many as fit into an epilogue, then as many as fit into a program.
    merge_chains(false);
    attach_epilogues();
    merge_chains(true);
    attach_epilogues();
    attach_prologues();
    merge_shared();
    merge_numbers();
    return g_.take();
  }

 private:
  using Ref = ProgramBuilder::Ref;

  // --- tv::pointwise into tv::pointwise ---------------------------------------------------------

  /// What makes floats of bytes becomes a part of each program that reads them.
  void copy_dequantising() {
    for (int32_t p = 0; p < g_.size(); ++p) {
      if (!g_.alive(p) || !makes_floats_of_bytes(g_.node(p))) continue;
      const std::set<int32_t> readers = g_.readers(g_.node(p).outputs[0]);
      if (readers.size() < 2) continue;
      for (const int32_t c : readers) {
        if (is_pointwise(g_.node(c))) merge(p, c, Producer::kCopied);
      }
    }
  }

  bool is_bytes(ValueId v) const { return is_integer(g_.value(v).dtype) && bytes_of(v) == 1; }
  int64_t bytes_of(ValueId v) const { return size_bytes(g_.value(v).dtype); }

  bool makes_floats_of_bytes(const Node& node) {
    if (!is_little(node) || node.outputs.size() != 1) return false;
    return is_float(g_.value(node.outputs[0]).dtype) &&
           std::ranges::any_of(node.inputs("inputs"), [&](ValueId input) {
             return is_bytes(input) && is_whole(node, input);
           });
  }

  /// Merges producers whose results only one pointwise node reads into that node; `of_bytes`: those
  /// of 8-bit integers, too.
  void merge_chains(bool of_bytes) {
    for (int32_t c = 0; c < g_.size(); ++c) {
      if (!g_.alive(c) || !is_pointwise(g_.node(c))) continue;
      for (bool again = true; again;) {
        again = false;
        for (ValueId input : g_.node(c).inputs("inputs")) {
          const int32_t p = g_.producer(g_.base_of(input));
          if (p < 0 || !only_reader(p, c)) continue;
          if (!of_bytes && is_bytes(g_.base_of(input))) continue;
          if (!merge(p, c, Producer::kGoes)) continue;
          again = true;
          break;
        }
      }
    }
  }

  /// Merges a producer with one of several readers; the program then writes both results.
  void merge_shared() {
    for (int32_t c = 0; c < g_.size(); ++c) {
      if (!g_.alive(c) || !is_pointwise(g_.node(c))) continue;
      for (bool again = true; again;) {
        again = false;
        for (ValueId input : g_.node(c).inputs("inputs")) {
          const int32_t p = g_.producer(g_.base_of(input));
          if (p < 0 || !merge(p, c, Producer::kKept)) continue;
          again = true;
          break;
        }
      }
    }
  }

  /// Programs of one element that read inputs alone, as counters and positions of a cache's layers
  /// are, become one where the first of them is.
  void merge_numbers() {
    int32_t first = -1;
    for (int32_t n = 0; n < g_.size(); ++n) {
      if (!g_.alive(n) || !is_number_of_inputs(n)) continue;
      if (first < 0 || !merge_number(first, n)) first = n;
    }
  }

  bool is_number_of_inputs(int32_t n) {
    Node& node = g_.node(n);
    if (!is_pointwise(node) || g_.is_constant(n)) return false;
    if (!(product(domain(g_, node)) == Expr(1))) return false;
    return std::ranges::all_of(node.all_inputs(), [&](ValueId input) {
      const int32_t p = g_.producer(g_.base_of(input));
      return p < 0 || g_.is_constant(p);
    });
  }

  bool merge_number(int32_t first, int32_t n) {
    Node &one = g_.node(first), &other = g_.node(n);
    for (ValueId input : other.all_inputs()) {
      if (g_.producer(g_.base_of(input)) >= first) return false;
    }
    ProgramBuilder builder;
    std::vector<Ref> results = builder.append(*one.program, input_refs(builder, one));
    for (const Ref& ref : builder.append(*other.program, input_refs(builder, other))) {
      results.push_back(ref);
    }
    ProgramBuilder::Built built = builder.build(results);
    if (!within(built, kNumbers) || results.size() > kNumbers.results) return false;
    Node merged = one;
    merged.name = joined_name(one, other);
    merged.fused_ops = joined_ops(one, other);
    merged.program = std::move(built.program);
    merged.args = {tensor_list_arg("inputs", std::move(built.inputs))};
    merged.outputs.insert(merged.outputs.end(), other.outputs.begin(), other.outputs.end());
    g_.replace(first, std::move(merged), n);
    return true;
  }

  bool only_reader(int32_t p, int32_t c) {
    for (ValueId output : g_.node(p).outputs) {
      if (output == kNoValue) continue;
      if (g_.is_output(output)) return false;
      const auto& readers = g_.readers(output);
      if (readers.size() > 1 || (readers.size() == 1 && *readers.begin() != c)) return false;
    }
    return true;
  }

  /// What becomes of a producer that is merged into a reader: it is no more, its results are the
  /// reader's, or it stays for other readers.
  enum class Producer : uint8_t { kGoes, kKept, kCopied };

  /// Pointwise p into pointwise c, where c reads p's results element by element.
  bool merge(int32_t p, int32_t c, Producer then) {
    const bool keep = then == Producer::kKept;
    Node& producer = g_.node(p);
    Node& consumer = g_.node(c);
    if (!is_pointwise(producer) || g_.is_constant(p) != g_.is_constant(c)) return false;
    if (!same_count(domain(g_, producer), domain(g_, consumer))) return false;
    if (!reads_in_order(p, c)) return false;
    // p moves to c's place: nobody may need its results before.
    if (keep && first_reader(producer) < c) return false;

    ProgramBuilder builder;
    const std::vector<Ref> produced =
        builder.append(*producer.program, input_refs(builder, producer));
    std::vector<Ref> operands;
    const auto& inputs = consumer.inputs("inputs");
    for (size_t k = 0; k < inputs.size(); ++k) {
      const int32_t made = output_index(producer, g_.base_of(inputs[k]));
      operands.push_back(made >= 0 ? produced[static_cast<size_t>(made)]
                                   : builder.input(inputs[k], consumer.program->inputs[k]));
    }
    std::vector<Ref> results = builder.append(*consumer.program, operands);
    std::vector<ValueId> outputs = consumer.outputs;
    for (size_t i = 0; keep && i < producer.outputs.size(); ++i) {
      if (!needed_without(producer.outputs[i], c)) continue;
      results.push_back(produced[i]);
      outputs.push_back(producer.outputs[i]);
    }
    ProgramBuilder::Built built = builder.build(results);
    if (!within(built, limits_) || results.size() > limits_.results) return false;

    Node merged = consumer;
    merged.name = joined_name(producer, consumer);
    merged.fused_ops = joined_ops(producer, consumer);
    if (merged.module_path.empty()) merged.module_path = producer.module_path;
    merged.program = std::move(built.program);
    merged.args = {tensor_list_arg("inputs", std::move(built.inputs))};
    merged.outputs = std::move(outputs);
    if (then == Producer::kCopied) {
      g_.replace_by_copy(c, std::move(merged), p);
    } else {
      g_.replace(c, std::move(merged), p);
    }
    return true;
  }

  /// True where each of c's inputs that lies in p's results is the whole of one, in order.
  bool reads_in_order(int32_t p, int32_t c) {
    bool any = false;
    for (ValueId input : g_.node(c).all_inputs()) {
      if (output_index(g_.node(p), g_.base_of(input)) < 0) continue;
      if (!g_.covers_storage(input)) return false;
      any = true;
    }
    return any;
  }

  int32_t first_reader(const Node& node) {
    int32_t first = g_.size();
    for (ValueId output : node.outputs) {
      if (output != kNoValue && !g_.readers(output).empty()) {
        first = std::min(first, *g_.readers(output).begin());
      }
    }
    return first;
  }

  bool needed_without(ValueId output, int32_t reader) {
    if (output == kNoValue) return false;
    const auto& readers = g_.readers(output);
    return g_.is_output(output) || readers.size() > 1 ||
           (readers.size() == 1 && *readers.begin() != reader);
  }

  static int32_t output_index(const Node& node, ValueId base) {
    const auto it = std::find(node.outputs.begin(), node.outputs.end(), base);
    return it == node.outputs.end() ? -1 : static_cast<int32_t>(it - node.outputs.begin());
  }

  std::vector<Ref> input_refs(ProgramBuilder& builder, const Node& node) {
    const Shape shape = domain(g_, node);  // a copy: broadcast_to adds values
    std::vector<Ref> refs;
    const std::vector<ValueId> inputs = node.inputs("inputs");
    for (size_t k = 0; k < inputs.size(); ++k) {
      refs.push_back(builder.input(g_.broadcast_to(inputs[k], shape), node.program->inputs[k]));
    }
    return refs;
  }

  static bool within(const ProgramBuilder::Built& built, const Limits& limits) {
    return built.inputs.size() <= limits.inputs && built.program->instrs.size() <= limits.instrs;
  }

  /// Whoever computes a program for elements that are padding, or leaves some out, would find other
  /// divisors of 0 than are there.
  static bool finds_faults(const ProgramBuilder::Built& built) {
    return may_divide_by_zero(*built.program);
  }

  /// A program with loops, computed for each element of a row, could pass a CPU driver's limit.
  bool loops_too_much(const ProgramBuilder::Built& built) const {
    return !limits_.loops && pointwise_iterations(*built.program) > 0;
  }

  // --- tv::pointwise behind an anchor -----------------------------------------------------------

  void attach_epilogues() {
    for (int32_t t = 0; t < g_.size(); ++t) {
      if (!g_.alive(t) || !is_pointwise(g_.node(t))) continue;
      // The anchor that runs last: its place is the nearest, so its inputs live shortest.
      std::vector<int32_t> anchors;
      for (ValueId input : g_.node(t).all_inputs()) {
        const int32_t a = g_.producer(g_.base_of(input));
        if (a >= 0) anchors.push_back(a);
      }
      std::sort(anchors.rbegin(), anchors.rend());
      for (int32_t a : anchors) {
        if (attach_epilogue(a, t)) break;
      }
    }
  }

  bool attach_epilogue(int32_t a, int32_t t) {
    const Node& anchor = g_.node(a);
    const Node& epilogue = g_.node(t);
    const Converter* converter = Registry::instance().find(anchor.op);
    if (!converter || !converter->epilogue || epilogue.outputs.size() != 1) return false;
    if (g_.is_constant(a) && !g_.is_constant(t)) return false;
    const ValueId result = anchor.outputs.at(0);
    if (anchor.epilogue && !is_bytes(result)) return false;
    for (size_t i = 1; i < anchor.outputs.size(); ++i) {
      const ValueId other = anchor.outputs[i];
      if (other != kNoValue && (g_.is_output(other) || !g_.readers(other).empty())) return false;
    }
    if (!only_reader(a, t) || !reads_in_order(a, t)) return false;
    const Shape epilogue_shape = domain(g_, epilogue);
    if (!same_count(epilogue_shape, g_.value(result).shape)) return false;

    ProgramBuilder builder;
    const DType own_result_dtype =
        anchor.epilogue ? anchor.own_result_dtype : g_.value(result).dtype;
    const Ref computed = computed_by(builder, anchor, own_result_dtype);
    std::vector<Ref> operands;
    const std::vector<ValueId> inputs = epilogue.inputs("inputs");
    for (size_t k = 0; k < inputs.size(); ++k) {
      operands.push_back(g_.base_of(inputs[k]) == result
                             ? computed
                             : builder.input(g_.broadcast_to(inputs[k], epilogue_shape),
                                             epilogue.program->inputs[k]));
    }
    ProgramBuilder::Built built =
        builder.build(builder.append(*epilogue.program, operands), result);
    if (!within(built, epilogue_limits(anchor))) return false;
    if (loops_too_much(built) || finds_faults(built)) return false;

    Node fused = anchor;
    fused.name = joined_name(anchor, epilogue);
    fused.fused_ops = joined_ops(anchor, epilogue);
    fused.epilogue = std::move(built.program);
    fused.epilogue_inputs.assign(built.inputs.begin() + 1, built.inputs.end());
    fused.own_result_dtype = own_result_dtype;
    const ValueId stored = epilogue.outputs[0];
    const bool same_shape = g_.value(stored).shape == g_.value(result).shape;
    if (same_shape) fused.outputs[0] = stored;
    g_.replace(t, std::move(fused), a);
    if (!same_shape) {
      // The anchor keeps the shape that its converter works on; the epilogue's is a view of it.
      g_.graph().value(result).dtype = g_.value(stored).dtype;
      g_.rebase(stored, result);
    }
    return true;
  }

  Limits epilogue_limits(const Node& anchor) const {
    if (anchor.epilogue && !is_cpu_) return kBehindBytes;
    return {.inputs = limits_.inputs - 1, .instrs = limits_.instrs / 2};
  }

  /// What an anchor stores, as a program computes it of what its operator gives, input 0.
  static Ref computed_by(ProgramBuilder& builder, const Node& anchor, DType dtype) {
    const Ref own = builder.input(anchor.outputs.at(0), dtype);
    if (!anchor.epilogue) return own;
    std::vector<Ref> operands = {own};
    for (size_t k = 0; k < anchor.epilogue_inputs.size(); ++k) {
      operands.push_back(builder.input(anchor.epilogue_inputs[k], anchor.epilogue->inputs[k + 1]));
    }
    return builder.append(*anchor.epilogue, operands).at(0);
  }

  // --- tv::pointwise before an anchor -----------------------------------------------------------

  void attach_prologues() {
    for (int32_t r = 0; r < g_.size(); ++r) {
      if (!g_.alive(r)) continue;
      const Converter* converter = Registry::instance().find(g_.node(r).op);
      if (!converter || converter->prologue_arg.empty() || g_.node(r).prologue) continue;
      const ValueId read = g_.node(r).input(converter->prologue_arg);
      const int32_t h = read == kNoValue ? -1 : g_.producer(g_.base_of(read));
      if (h < 0) continue;
      // Windows overlap: elements are read more than once.
      if (converter->moves == Moves::kMeans && !is_little(g_.node(h))) continue;
      attach_prologue(h, r, converter->prologue_arg);
    }
  }

  /// Whether a program may be computed again and again: a few instructions that make numbers of
  /// bytes, as dequantising is.
  bool is_little(const Node& node) {
    constexpr size_t kFew = 4;
    if (!is_pointwise(node) || node.program->instrs.size() > kFew) return false;
    return std::ranges::all_of(node.inputs("inputs"), [&](ValueId input) {
      return bytes_of(input) == 1 || !is_whole(node, input);
    });
  }

  /// Whether an input has as many elements as a node's results: others are read over and over.
  bool is_whole(const Node& node, ValueId input) {
    return product(g_.value(g_.base_of(input)).shape) == product(domain(g_, node));
  }

  bool attach_prologue(int32_t h, int32_t r, const std::string& arg) {
    const Node& prologue = g_.node(h);
    const Node& reader = g_.node(r);
    const ValueId read = reader.input(arg);
    if (!is_pointwise(prologue) || prologue.outputs.size() != 1) return false;
    const bool shared = !only_reader(h, r);
    if (shared && (g_.is_output(prologue.outputs[0]) || !makes_floats_of_bytes(prologue))) {
      return false;
    }
    if (g_.is_constant(h) != g_.is_constant(r) || !g_.covers_storage(read)) return false;
    if (g_.reads(r, prologue.outputs[0]) != 1) return false;

    ProgramBuilder builder;
    const std::vector<Ref> operands = input_refs(builder, prologue);
    ProgramBuilder::Built built = builder.build(builder.append(*prologue.program, operands));
    if (!within(built, {limits_.inputs - 2, limits_.instrs / 2})) return false;
    if (loops_too_much(built) || finds_faults(built)) return false;

    Node fused = reader;
    fused.name = joined_name(prologue, reader);
    fused.fused_ops = joined_ops(prologue, reader);
    fused.prologue = std::move(built.program);
    fused.prologue_arg = arg;
    fused.prologue_inputs = std::move(built.inputs);
    fused.prologue_shape = domain(g_, prologue);
    if (!shared) {
      g_.replace(r, std::move(fused), h);
      // Computed in row-major order, whatever it was a view of.
      g_.graph().value(read).view.reset();
      return true;
    }
    const ValueId own = g_.add_like(read, "_read");
    for (Arg& given : fused.args) std::ranges::replace(given.values, read, own);
    g_.replace_by_copy(r, std::move(fused), h);
    return true;
  }

  // --- names ------------------------------------------------------------------------------------

  static std::string joined_name(const Node& first, const Node& second) {
    const std::string name = first.name + "+" + second.name;
    return name.size() <= 96 ? name : second.name;
  }

  static std::vector<std::string> joined_ops(const Node& first, const Node& second) {
    const auto ops = [](const Node& n) {
      return n.fused_ops.empty() ? std::vector<std::string>{n.op} : n.fused_ops;
    };
    std::vector<std::string> all = ops(first);
    for (std::string& op : ops(second)) all.push_back(std::move(op));
    return all;
  }

  FusionGraph g_;
  const bool is_cpu_;
  Limits limits_;
};

}  // namespace

Graph fuse(Graph graph, const DeviceProfile& device) {
  return Fuser(std::move(graph), device).run();
}

}  // namespace tv
