// Graphs through every pass, code generation and a Vulkan device.

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "csrc/compile/compile.h"
#include "runtime/base/error.h"
#include "runtime/engine/engine.h"
#include "runtime/vulkan/device.h"
#include "tests/cpp/kit/graph_eval.h"

namespace tv {
namespace {

using test::GraphMaker;
using Floats = std::vector<float>;

HostTensor host(Floats& v) { return {v.data(), static_cast<int64_t>(v.size() * sizeof(float))}; }

class Compile : public testing::Test {
 protected:
  EngineSpec compiled(const Settings& settings = {}) {
    g.graph.name = "test";
    device = open_device("");
    EngineSpec spec = compile(g.graph, settings, profile(*device));
    validate(spec);
    return spec;
  }

  std::vector<Floats> run(const EngineSpec& spec, std::vector<Floats> inputs,
                          std::vector<Floats> weights = {}, std::vector<int64_t> symbols = {}) {
    const auto engine = Engine::create(device, spec);
    std::vector<HostTensor> in, out, held;
    std::vector<Floats> outputs;
    for (const Binding& b : spec.outputs) {
      outputs.emplace_back(static_cast<size_t>(product(b.shape).eval(symbols)), NAN);
    }
    for (Floats& v : inputs) in.push_back(host(v));
    for (Floats& v : outputs) out.push_back(host(v));
    for (Floats& v : weights) held.push_back(host(v));
    engine->run(*engine->prepare_weights(held), symbols, in, out);
    return outputs;
  }

  ValueId softmax(ValueId x) {
    return g.op(
        "aten::_softmax",
        {tensor_arg("self", x), attr_arg("dim", Expr(-1)), attr_arg("half_to_float", false)},
        g.graph.value(x).shape);
  }

  GraphMaker g;
  std::shared_ptr<Device> device;
};

Floats softmax_of(const Floats& x, size_t row) {
  Floats y(x.size());
  for (size_t r = 0; r < x.size(); r += row) {
    double sum = 0;
    for (size_t i = 0; i < row; ++i) sum += std::exp(static_cast<double>(x[r + i]));
    for (size_t i = 0; i < row; ++i) {
      y[r + i] = static_cast<float>(std::exp(static_cast<double>(x[r + i])) / sum);
    }
  }
  return y;
}

Floats ramp(size_t n, float scale) {
  Floats v(n);
  for (size_t i = 0; i < n; ++i)
    v[i] = scale * static_cast<float>(static_cast<int>(i * 7 % 11) - 5);
  return v;
}

void expect_near(const Floats& got, const Floats& want) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_NEAR(got[i], want[i], 1e-5f + 1e-5f * std::abs(want[i])) << "element " << i;
  }
}

TEST_F(Compile, SymbolicRows) {
  g.graph.symbols = {{"n", 1, 8, 64}};
  g.output(softmax(g.input({Expr::symbol(0), 5})));
  const EngineSpec spec = compiled();
  EXPECT_EQ(spec.dispatches.size(), 1u);
  for (const int64_t n : {1, 7, 64}) {
    const Floats x = ramp(static_cast<size_t>(n) * 5, 0.3f);
    expect_near(run(spec, {x}, {}, {n})[0], softmax_of(x, 5));
  }
}

TEST_F(Compile, WeightsAreComputedOnce) {
  const ValueId x = g.input({3, 5}), w = g.weight({2, 5});
  const ValueId parts[] = {softmax(x), softmax(softmax(w))};
  g.output(g.op("aten::cat",
                {tensor_list_arg("tensors", {parts[0], parts[1]}), attr_arg("dim", Expr(0))},
                {5, 5}));
  const EngineSpec spec = compiled();
  EXPECT_EQ(spec.weight_program.size(), 2u);
  const Floats xs = ramp(15, 0.5f), ws = ramp(10, 0.2f);
  Floats want = softmax_of(xs, 5);
  for (float v : softmax_of(softmax_of(ws, 5), 5)) want.push_back(v);
  expect_near(run(spec, {xs}, {ws})[0], want);
}

TEST_F(Compile, EqualKernelsAreOneModule) {
  g.output(softmax(g.input({3, 5})));
  g.output(softmax(g.input({7, 6})));
  const EngineSpec spec = compiled();
  EXPECT_EQ(spec.dispatches.size(), 2u);
  EXPECT_EQ(spec.modules.size(), 1u);
}

TEST_F(Compile, SameGraphSameBytes) {
  g.output(softmax(g.input({3, 5})));
  EXPECT_EQ(compiled(), compiled());
}

TEST_F(Compile, DebugDump) {
  const auto dir = std::filesystem::temp_directory_path() / ("tv_dump_" + std::to_string(getpid()));
  g.output(softmax(g.input({3, 5})));
  Settings settings;
  settings.debug_dir = dir.string();
  compiled(settings);
  compiled(settings);
  std::set<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(dir / "test")) {
    files.insert(entry.path().filename());
  }
  std::ifstream tactics(dir / "test" / "tactics.txt");
  std::stringstream text;
  text << tactics.rdbuf();
  EXPECT_EQ(text.str().rfind("n0 (aten::_softmax)\n", 0), 0u) << text.str();
  EXPECT_NE(text.str().find("  * softmax"), std::string::npos) << text.str();
  EXPECT_TRUE(files.count("dispatches.txt"));
  int number = 0;
  for (const char* pass : {"import",
                           "translate",
                           "whole_products",
                           "recognise_attention",
                           "group_heads",
                           "recognise_mask",
                           "recognise_rms_norm",
                           "recognise_rotary",
                           "quantise_calibrated",
                           "recognise_linear",
                           "move_integers",
                           "merge_integer_products",
                           "multiply_integers",
                           "quantise_early",
                           "multiply_quantised",
                           "hoist_scales",
                           "fold_padding",
                           "fold_batch_norm",
                           "merge_matmuls",
                           "multiply_sparse",
                           "canonicalise",
                           "fold",
                           "simplify",
                           "gather_siblings",
                           "move_windows",
                           "choose_layouts",
                           "fuse",
                           "fuse_products",
                           "fuse_rotary",
                           "place_outputs"}) {
    const std::string digits = std::to_string(1000 + number++).substr(1);
    EXPECT_TRUE(files.count(digits + "_" + pass + ".graph")) << pass;
  }
  EXPECT_TRUE(files.count("000_softmax.comp"));
  EXPECT_TRUE(std::filesystem::exists(dir / "test.1" / "tactics.txt"));
  std::filesystem::remove_all(dir);
}

}  // namespace
}  // namespace tv
