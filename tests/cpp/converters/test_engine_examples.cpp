// Every converter's examples as engines on the device: a poisoned arena and full barriers give the
// same bits as a plain run, the hazard check passes, and it fails for each barrier left out.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <set>
#include <string>
#include <string_view>

#include "converters/kit/steps.h"
#include "csrc/compile/compile.h"
#include "csrc/converter.h"
#include "csrc/graph/two_four.h"
#include "runtime/base/error.h"
#include "tests/cpp/kit/runtime_fixture.h"
#include "tests/cpp/kit/sample_graphs.h"
#include "tests/cpp/kit/seed.h"
#include "tests/cpp/kit/weights.h"

namespace tv {
namespace {

using test::ScopedModes;

/// Bytes of small values that are valid for `dtype`: floats in [-1, 1), integers and booleans 0 or
/// 1 (they may be indices).
std::vector<uint8_t> sample(DType dtype, int64_t numel, uint32_t seed) {
  std::vector<uint8_t> bytes(static_cast<size_t>(numel * size_bytes(dtype)));
  uint32_t state = seed * 2654435761U + 1;
  for (int64_t i = 0; i < numel; ++i) {
    state = state * 1664525U + 1013904223U;
    const uint32_t random = state >> 8;
    const float real = static_cast<float>(random) / 8388608.0F - 1.0F;
    uint8_t* at = bytes.data() + i * size_bytes(dtype);
    if (dtype == DType::kF32) {
      std::memcpy(at, &real, 4);
    } else if (dtype == DType::kF16) {  // ±0.5 … ±1
      const auto half = static_cast<uint16_t>(0x3800U | (random & 0x83FFU));
      std::memcpy(at, &half, 2);
    } else if (dtype == DType::kBF16) {
      const auto half = static_cast<uint16_t>(0x3F00U | (random & 0x807FU));
      std::memcpy(at, &half, 2);
    } else if (!is_float(dtype)) {
      *at = static_cast<uint8_t>(random & 1);
    }
  }
  return bytes;
}

/// The same for an input, a matrix with the zeros of a 2:4 pattern where `sparse`.
std::vector<uint8_t> sample_input(const Binding& b, std::span<const int64_t> symbols, uint32_t seed,
                                  bool sparse) {
  std::vector<uint8_t> bytes = sample(b.dtype, product(b.shape).eval(symbols), seed);
  if (!sparse || b.shape.size() != 2) return bytes;
  return pruned_to_two_four({bytes, b.dtype, b.shape[0].eval(symbols), b.shape[1].eval(symbols)},
                            1);
}

/// One engine with its tensors at the symbols' typical values.
class Case {
 public:
  Case(const EngineSpec& spec, const std::shared_ptr<Device>& device, bool sparse = false)
      : engine_(Engine::create(device, spec)) {
    for (const Symbol& s : spec.symbols) symbols_.push_back(s.opt);
    uint32_t seed = 1;
    for (const Binding& b : spec.weights) {
      weight_data_.push_back(sample(b.dtype, product(b.shape).eval(symbols_), seed++));
    }
    for (const Binding& b : spec.inputs) {
      input_data_.push_back(sample_input(b, symbols_, seed++, sparse));
    }
    weights_ = engine_->prepare_weights(tensors(weight_data_));
  }

  /// The outputs, and the inputs that the engine writes to.
  std::vector<std::vector<uint8_t>> run() {
    std::vector<std::vector<uint8_t>> out, in = input_data_;
    for (const Binding& b : engine_->spec().outputs) {
      const int64_t bytes = product(b.shape).eval(symbols_) * size_bytes(b.dtype);
      out.emplace_back(static_cast<size_t>(bytes), uint8_t{0xCD});
    }
    engine_->run(*weights_, symbols_, tensors(in), tensors(out));
    for (size_t i = 0; i < in.size(); ++i) {
      if (engine_->spec().inputs[i].written) out.push_back(std::move(in[i]));
    }
    return out;
  }
  EngineImpl& impl() { return test::impl(engine_); }
  int64_t barriers() { return impl().barriers(symbols_); }

 private:
  static std::vector<HostTensor> tensors(std::vector<std::vector<uint8_t>>& data) {
    std::vector<HostTensor> list;
    for (auto& bytes : data) {
      list.push_back({bytes.data(), static_cast<int64_t>(bytes.size())});
    }
    return list;
  }

  std::shared_ptr<Engine> engine_;
  std::vector<int64_t> symbols_;
  std::vector<std::vector<uint8_t>> weight_data_, input_data_;
  std::shared_ptr<const WeightSet> weights_;
};

void check_case(Case& c) {
  const auto plain = c.run();
  EXPECT_EQ(c.run(), plain) << "two runs differ";
  for (const DebugModes& modes : {DebugModes{.poison_arena = true, .check_hazards = true},
                                  DebugModes{.full_barriers = true, .check_hazards = true}}) {
    const ScopedModes scoped(modes);
    EXPECT_EQ(c.run(), plain) << (modes.poison_arena ? "poisoned arena" : "full barriers");
  }
  for (int64_t k = 0; k < c.barriers(); ++k) {
    const ScopedModes scoped({.remove_barrier = k});
    c.run();
    EXPECT_FALSE(c.impl().faults_of_last_recording().empty()) << "barrier " << k;
  }
}

/// Calls `body` with the engine of an example; where its samples are no indices, with one that does
/// not check them, and where they have to be `sparse`, with such.
void with_example(const Graph& graph, Settings settings, const std::shared_ptr<Device>& device,
                  const std::function<void(Case&)>& body, bool sparse = false) {
  try {
    Case c(compile(Graph(graph), settings, profile(*device)), device, sparse);
    body(c);
  } catch (const Error& e) {
    if (!sparse && std::string_view(e.what()).starts_with("[sparse_weights]")) {
      with_example(graph, settings, device, body, true);
      return;
    }
    const bool refused = std::string_view(e.what()).starts_with("[check_indices]");
    if (!refused || !settings.check_indices) {
      ADD_FAILURE() << e.what();
      return;
    }
    settings.check_indices = false;
    with_example(graph, settings, device, body);
  }
}

/// Calls `body` with the engine of each example whose turn it is (kit/seed.h), another half of an
/// operator's for another `salt`. The number of engines.
int64_t with_examples(const Settings& settings, uint32_t salt,
                      const std::function<void(Case&)>& body) {
  const auto device = open_device("");
  int64_t engines = 0;
  for (const auto& [op, converter] : test::operators_with_examples()) {
    const std::vector<Graph> graphs = converter.examples();
    for (size_t example = 0; example < graphs.size(); ++example) {
      if (!test::has_turn(example, graphs.size(), salt)) continue;
      SCOPED_TRACE(std::string(op) + " example " + std::to_string(example) + ", " +
                   test::seed_text());
      with_example(graphs[example], settings, device, body);
      ++engines;
    }
  }
  return engines;
}

TEST(EngineExamples, PoisonBarriersAndHazardsAgree) {
  const int64_t engines = with_examples({}, 0, check_case);
  EXPECT_GT(engines, test::only_operator() != nullptr ? 0 : 10) << "the registry gave no examples";
}

TEST(EngineExamples, NoKernelTouchesMemoryOutsideItsOperands) {
  with_examples({.check_addresses = true}, 1, [](Case& c) { c.run(); });
}

TEST(EngineExamples, AnAccessOutsideItsOperandIsReported) {
  const auto device = open_device("");
  Graph graph = Registry::instance().find("tv::pointwise")->examples().front();
  EngineSpec spec = compile(std::move(graph), {.check_addresses = true}, profile(*device));
  ASSERT_EQ(spec.dispatches.size(), 1u);
  // All words but the last, the dispatch's number, are counts of elements here: allow fewer.
  std::vector<ParamWord>& words = spec.dispatches[0].words;
  ASSERT_GE(words.size(), 3u);
  for (size_t k = 1; k + 1 < words.size(); ++k) words[k] = Expr(100);
  try {
    Case(spec, device).run();
    FAIL() << "not reported";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::kInternal);
    const std::string what = e.what();
    EXPECT_NE(what.find("[address check]"), std::string::npos) << what;
    EXPECT_NE(what.find("\"pointwise\""), std::string::npos) << what;
  }
}

TEST(EngineExamples, NoPackingTouchesMemoryOutsideItsOperands) {
  const std::set<std::string> packing = {"tv::matmul", "aten::convolution"};
  if (test::only_operator() != nullptr && !packing.contains(test::only_operator()))
    GTEST_SKIP() << "is about products and convolutions";
  const auto device = open_device("");
  std::vector<Graph> graphs;
  for (const std::string& op : packing) {
    for (Graph& graph : Registry::instance().find(op)->examples()) {
      if (graph.symbols.empty()) graphs.push_back(std::move(graph));  // a weight has constant sizes
    }
  }
  for (const int64_t k : {64, 80, 77}) {  // blocks of the transposed weight, with and without zeros
    graphs.push_back(ExampleGraph("aten::linear")
                         .input("input", DType::kF32, {37, k})
                         .input("weight", DType::kF32, {53, k})
                         .none("bias")
                         .output(DType::kF32, {37, 53})
                         .graph());
  }
  for (Graph& graph : graphs) {
    SCOPED_TRACE(dump(graph));
    try {
      Case(compile(test::with_weights(std::move(graph), {1}), {.check_addresses = true},
                   profile(*device)),
           device)
          .run();
    } catch (const Error& e) {
      ADD_FAILURE() << e.what();
    }
  }
}

/// A product whose b is a weight: on CPU drivers packed by the weight program, read through
/// pointers.
Graph product_with_weight() {
  Graph graph = Registry::instance().find("tv::matmul")->examples().front();
  const ValueId b = graph.inputs.back();
  graph.inputs.pop_back();
  graph.weights.push_back(b);
  graph.value(b).kind = ValueKind::kWeight;
  return graph;
}

TEST(EngineExamples, TheWeightProgramIsCheckedToo) {
  const auto device = open_device("");
  EngineSpec spec = compile(product_with_weight(), {.check_addresses = true}, profile(*device));
  Case(spec, device).run();
  if (spec.weight_program.empty()) GTEST_SKIP() << "this device packs no weight";
  std::vector<ParamWord>& words = spec.weight_program[0].words;
  for (size_t k = 0; k + 1 < words.size(); ++k) {
    const Expr* e = std::get_if<Expr>(&words[k]);
    if (e && e->constant() == 64 * 53) words[k] = Expr(100);  // what b may touch
  }
  try {
    Case(spec, device).run();
    FAIL() << "not reported";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::kInternal);
    EXPECT_NE(std::string(e.what()).find("[address check]"), std::string::npos) << e.what();
  }
}

TEST(EngineExamples, PointersThatLeaveTheirOperandsAreReported) {
  const auto device = open_device("");
  if (!profile(*device).is_cpu()) GTEST_SKIP() << "its kernels take no pointers here";
  EngineSpec spec = compile(product_with_weight(), {.check_addresses = true}, profile(*device));
  const auto lane = std::ranges::find_if(
      spec.dispatches, [](const Dispatch& d) { return d.name.ends_with("/matmul_simd"); });
  if (lane == spec.dispatches.end()) GTEST_SKIP() << "no product by SIMD kernels";
  for (ParamWord& word : lane->words) {
    const Expr* e = std::get_if<Expr>(&word);
    if (e && e->constant() == 37 * 64) word = Expr(100);  // elements of a
  }
  try {
    Case(spec, device).run();
    FAIL() << "not reported";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("a pointer"), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace tv
