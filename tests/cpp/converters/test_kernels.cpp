// Every converter's examples × every tactic that applies × a CPU and GPUs with and without matrix
// units: the kernels compile, pass spirv-val and can be guarded (runtime/spirv/guard.h), and
// together they cover every template in converters/.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <set>

#include "csrc/builder.h"
#include "csrc/codegen/bfloat16.h"
#include "csrc/codegen/glsl_compiler.h"
#include "csrc/codegen/kernel.h"
#include "csrc/codegen/kernel_source.h"
#include "csrc/converter.h"
#include "csrc/lowering/requests.h"
#include "csrc/lowering/tactics.h"
#include "csrc/partition/unsupported.h"
#include "csrc/passes/layouts/choose_layouts.h"
#include "csrc/passes/simplify/canonicalise.h"
#include "csrc/passes/simplify/truncate.h"
#include "csrc/passes/write/write_in_place.h"
#include "runtime/base/error.h"
#include "runtime/spirv/guard.h"
#include "tests/cpp/kit/sample_graphs.h"
#include "tests/cpp/kit/spirv_check.h"
#include "tests/cpp/kit/weights.h"
#include "workloads/tactic_tools.h"

namespace tv {
namespace {

DeviceProfile cpu_profile() {
  DeviceProfile p = DeviceProfile::builtin_default();
  p.name = "CPU";
  p.type = DeviceType::kCpu;
  p.subgroup_size = p.min_subgroup_size = p.max_subgroup_size = 16;
  p.host_pointers = true;
  return p;
}

/// A GPU with every matrix shape that kernels ask for.
DeviceProfile matrix_profile() {
  DeviceProfile p = DeviceProfile::builtin_default();
  p.name = "GPU with matrix units";
  p.float16_controls = true;
  p.compute_units = 132;
  p.max_shared_bytes = 49152;
  for (const char* input : {"float16", "bfloat16"}) {
    for (const uint32_t n : {16, 8}) {
      p.coop_matrices.push_back({16, n, 16, input, input, "float32", "float32"});
    }
  }
  p.coop_matrices.push_back({16, 16, 32, "int8", "int8", "int32", "int32"});
  return p;
}

/// Whether a template's text, or what it includes, needs what the linked glslang does not have.
bool is_too_new(const std::string& text) {
  if (glslang_major() >= 14) return false;
  // A template that only their kernels launch names matrix.glsl.
  if (text.find("coopmat") != text.npos || text.find("matrix.glsl") != text.npos) return true;
  static const std::regex include("#include \"([^\"]+)\"");
  for (std::sregex_iterator it(text.begin(), text.end(), include), end; it != end; ++it) {
    const auto file = kernel_sources().find((*it)[1].str());
    if (file != kernel_sources().end() && is_too_new(file->second)) return true;
  }
  return false;
}

/// What kernel texts of all examples say, each compiled once.
class Kernels {
 public:
  /// Problems of the kernels that `graph` takes on `device`, all tactics; "" where there is none.
  std::string problems(Graph graph, const DeviceProfile& device, const Settings& settings) {
    graph = canonicalise(std::move(graph), settings, device);
    graph = choose_layouts(std::move(graph), settings, device);
    graph = write_in_place(std::move(graph), settings, device);
    ValueTable table(graph);
    std::string text;
    for (const Node& node : graph.nodes) text += problems_of_node(node, table, device, settings);
    return text;
  }

  const std::set<std::string>& templates() const { return templates_; }
  size_t count() const { return compiled_.size(); }

 private:
  std::string problems_of_node(const Node& node, ValueTable& table, const DeviceProfile& device,
                               const Settings& settings) {
    std::string text;
    for (const Tactic& tactic : convert_node(node, table, device, settings).candidates) {
      if (!test::is_tactic_name(tactic.name))
        text += tactic.name + ": no name as in docs/kernels.md (workloads/tactic_tools.cpp)\n";
      if (!tactic.refusal.empty()) continue;
      for (const Step& step : tactic.steps) {
        templates_.insert(step.kernel + ".comp");
        const auto kernel =
            generate_kernel(make_request(node, step, table).kernel, settings, device);
        if (!compiled_.insert(kernel.glsl).second) continue;
        const std::string problem = compile_problem(step.kernel, kernel.glsl, settings, device);
        if (!problem.empty()) text += tactic.name + ": " + problem + "\n";
      }
    }
    return text;
  }

  static GuardRequest guard_request(const DeviceProfile& device) {
    GuardRequest request{.ranges = 8};
    request.limits.shared_bytes = device.max_shared_bytes;
    request.limits.invocations = static_cast<uint64_t>(device.max_workgroup_invocations);
    return request;
  }

  /// As where the engine is not trusted: kernels on matrix units are refused there.
  static std::string guard_problem(const std::vector<uint32_t>& words, const std::string& glsl,
                                   const DeviceProfile& device) {
    const bool matrices = glsl.find("GL_KHR_cooperative_matrix") != std::string::npos;
    try {
      guard_spirv(words, guard_request(device));
    } catch (const Error& error) {
      return matrices ? "" : error.what();
    }
    return matrices ? "matrices are no longer refused" : "";
  }

  static std::string compile_problem(const std::string& name, const std::string& glsl,
                                     const Settings& settings, const DeviceProfile& device) {
    try {
      const std::vector<uint32_t> words = compile_kernel(name, glsl, settings);
      if (const std::string problem = guard_problem(words, glsl, device); !problem.empty()) {
        return problem;
      }
      // Validators of 2024 do not know bfloat16; the text's float16 twin is validated.
      if (glsl.find(kBfloat16Pragma) != std::string::npos) return "";
      const std::string problem = spirv_problem(words);
      return problem.empty() ? "" : name + ": " + problem + numbered(glsl);
    } catch (const std::exception& e) {
      return e.what();
    }
  }

  std::set<std::string> templates_, compiled_;
};

/// Permits what a setting does not by default.
const Settings kEverything{.allow_transformed_convolutions = true};

TEST(Kernels, EveryExampleOfEveryConverterCompilesForEachTacticAndDevice) {
  Kernels kernels;
  size_t converters = 0;
  for (const auto& [op, converter] : Registry::instance().all()) {
    if (!converter.convert || op.starts_with("test::")) continue;
    EXPECT_TRUE(converter.examples) << op << " has no examples";
  }
  for (const auto& [op, converter] : test::operators_with_examples()) {
    if (!converter.convert || op.starts_with("test::")) continue;
    ++converters;
    const std::vector<Graph> examples = converter.examples();
    ASSERT_FALSE(examples.empty()) << op << " has no examples";
    for (size_t k = 0; k < examples.size(); ++k) {
      for (const DeviceProfile& device :
           {cpu_profile(), DeviceProfile::builtin_default(), matrix_profile()}) {
        SCOPED_TRACE(std::string(op) + ", example " + std::to_string(k) + ", " + device.name);
        std::string problems;
        ASSERT_NO_THROW(problems = kernels.problems(examples[k], device, kEverything))
            << op << ", example " << k << ", " << device.name;
        EXPECT_EQ(problems, "");
      }
      // Of constants kernels ask more: whether zero points are none.
      if (op != "tv::matmul_integer") continue;
      std::set<size_t> weights;
      for (size_t i = 1; i < examples[k].inputs.size(); ++i) weights.insert(i);
      const Graph graph = test::with_weights(examples[k], weights);
      EXPECT_EQ(kernels.problems(graph, matrix_profile(), {}), "");
    }
  }
  EXPECT_GT(converters, 0u);
  RecordProperty("kernels", static_cast<int>(kernels.count()));
  if (test::only_operator() != nullptr) return;
  for (const auto& [file, text] : kernel_sources()) {
    if (!file.ends_with(".comp") || is_too_new(text)) continue;
    EXPECT_TRUE(kernels.templates().contains(file)) << file << " is compiled by no example";
  }
}

TEST(Kernels, NamesOfTacticsFollowTheirGrammar) {
  for (const char* name :
       {"matmul_reference", "pool3d", "matmul_simt_128x128_8x8", "copy_vec4", "softmax_invocation",
        "matmul_shared_bf16x3_64x128x32_w64x32_ring2_stage1", "reduce_sum_subgroup16_split",
        "conv_matrix_f16_16x16_w16x16x18_s4", "attention_flash_8x16_32", "matmul_rows_2x4_kept8",
        "matmul_rows_1x4_kept8_unit4", "matmul_rows_1x2_w1x2x4_kept8"}) {
    EXPECT_TRUE(test::is_tactic_name(name)) << name;
  }
  for (const char* name :
       {"Matmul", "a_simt", "row_l1", "matmul__simt", "matmul_k4_64x64", "matmul_shared_64x64_f16",
        "conv_tiled_64x64_q3", "reduce_sum_16group", ""}) {
    EXPECT_FALSE(test::is_tactic_name(name)) << name;
  }
}

/// A tactic's name with N for each number.
std::string without_numbers(const std::string& name) {
  return std::regex_replace(name, std::regex("\\d+|N"), "N");
}

std::string an_example(const std::string& name) {
  return std::regex_replace(name, std::regex("N"), "4");
}

/// Candidates of examples on a CPU and on GPUs, refused or not, without numbers.
std::set<std::string> candidate_names() {
  std::set<std::string> names;
  for (const auto& [op, converter] : test::operators_with_examples()) {
    if (!converter.convert || op.starts_with("test::")) continue;
    for (const Graph& example : converter.examples()) {
      for (const DeviceProfile& device :
           {cpu_profile(), DeviceProfile::builtin_default(), matrix_profile()}) {
        const Settings settings;
        const Graph graph =
            choose_layouts(canonicalise(example, settings, device), settings, device);
        ValueTable table(graph);
        for (const Node& node : graph.nodes) {
          for (const Tactic& tactic : convert_node(node, table, device, settings).candidates) {
            names.insert(without_numbers(tactic.name));
          }
        }
      }
    }
  }
  return names;
}

/// The folder docs/ above this program, which is built inside of the repository.
std::filesystem::path pages() {
  std::filesystem::path folder = std::filesystem::read_symlink("/proc/self/exe");
  while (folder.has_relative_path() && !exists(folder / "docs" / "kernels.md")) {
    folder = folder.parent_path();
  }
  return folder / "docs";
}

std::string text_of(const std::filesystem::path& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// What stands in backticks between two texts of a page: single words, N in them for a number.
std::set<std::string> words_between(const std::string& page, const std::string& from,
                                    const std::string& to) {
  const size_t begin = page.find(from);
  if (begin == std::string::npos) return {};
  const std::string text = page.substr(begin, page.find(to, begin) - begin);
  std::set<std::string> found;
  static const std::regex word("`([a-z0-9]+N?)`");
  for (std::sregex_iterator it(text.begin(), text.end(), word), end; it != end; ++it) {
    found.insert((*it)[1]);
  }
  return found;
}

TEST(Kernels, ThePageHasTheGrammarOfTactics) {
  const std::string page = text_of(pages() / "kernels.md");
  EXPECT_EQ(words_between(page, "| option |", "\n"),
            std::set<std::string>(test::kTacticOptions.begin(), test::kTacticOptions.end()));
  std::set<std::string> with_digits(test::kWordsWithDigits.begin(), test::kWordsWithDigits.end());
  with_digits.insert("3d");
  EXPECT_EQ(words_between(page, "without digits, except", ":"), with_digits);
}

/// Words in backticks of a page that begin as a tactic's name does and have a tile: whole names,
/// and beginnings, which end in `_` or an ellipsis.
std::set<std::string> tactics_of_page(const std::string& text,
                                      const std::set<std::string>& candidates) {
  std::set<std::string> found;
  static const std::regex word("`([a-z][a-z0-9]*_([a-z0-9]+_)*[\\dN][a-z0-9_N]*)(\xe2\x80\xa6)?`");
  for (std::sregex_iterator it(text.begin(), text.end(), word), end; it != end; ++it) {
    const std::string name = (*it)[1], family = name.substr(0, name.find('_') + 1);
    const auto first = candidates.lower_bound(family);
    if (first != candidates.end() && first->starts_with(family)) found.insert(name);
  }
  return found;
}

TEST(Kernels, ATacticOfAnotherGrammarIsNoCandidate) {
  EXPECT_EQ(test::candidate_of("matmul_matrix_f16x3_128x64_ring2", "no").refusal, "no");
  for (const char* name : {"", "matmul-64", "Matmul_64x64", "matmul_64x64x64x64", "matmul_64_x"}) {
    EXPECT_THROW(test::candidate_of(name, ""), Error) << name;
  }
}

TEST(Kernels, TacticsThatPagesNameExist) {
  if (test::only_operator() != nullptr) GTEST_SKIP() << "needs every operator's tactics";
  const std::set<std::string> candidates = candidate_names();
  size_t named = 0;
  for (const auto& file : std::filesystem::directory_iterator(pages())) {
    const std::string stem = file.path().stem();
    if (file.path().extension() != ".md" || stem == "accuracy" || stem == "operators") {
      continue;  // generated, and about operators, some of which are named alike
    }
    for (const std::string& name : tactics_of_page(text_of(file.path()), candidates)) {
      ++named;
      EXPECT_TRUE(name.ends_with('_') || test::is_tactic_name(an_example(name)))
          << file.path() << ": " << name;
      const std::string kind = without_numbers(name);
      const auto at = candidates.lower_bound(kind);
      EXPECT_TRUE(at != candidates.end() && at->starts_with(kind) &&
                  (name.ends_with('_') || *at == kind || at->substr(kind.size(), 1) == "_"))
          << file.path() << ": no tactic is named as " << name;
    }
  }
  EXPECT_GE(named, 4U);
}

TEST(Kernels, DebugBuildsCheckEveryAddressAndCompile) {
  Kernels kernels;
  Settings settings = kEverything;
  settings.check_addresses = true;
  for (const auto& [op, converter] : test::operators_with_examples()) {
    if (!converter.convert) continue;
    // Checks do not depend on sizes: the first example of each converter has every accessor.
    SCOPED_TRACE(op);
    const std::vector<Graph> examples = converter.examples();
    if (examples.empty()) continue;
    EXPECT_EQ(kernels.problems(examples.front(), cpu_profile(), settings), "");
  }
}

/// Graphs that name a 64-bit type: what truncate_long_and_double computes in 32 bits.
bool has_64_bits(const Graph& graph) {
  return std::ranges::any_of(graph.values, [](const Value& value) {
    return value.dtype == DType::kI64 || value.dtype == DType::kF64;
  });
}

TEST(Kernels, EveryExampleCompilesWithItsLongsTruncated) {
  Kernels kernels;
  const Settings settings{.truncate_long_and_double = true};
  size_t truncated = 0;
  for (const auto& [op, converter] : test::operators_with_examples()) {
    if (op.starts_with("test::")) continue;
    const std::vector<Graph> examples = converter.examples();
    for (size_t k = 0; k < examples.size(); ++k) {
      if (!has_64_bits(examples[k])) continue;
      Graph graph = truncate_long_and_double(examples[k]);
      // An operator may refuse it, with a reason; what it takes must build.
      const NodeContext node{graph, graph.nodes.front(), cpu_profile(), settings};
      if (!unsupported(node).empty()) continue;
      ++truncated;
      SCOPED_TRACE(std::string(op) + ", example " + std::to_string(k));
      std::string problems;
      ASSERT_NO_THROW(problems = kernels.problems(std::move(graph), cpu_profile(), settings));
      EXPECT_EQ(problems, "");
    }
  }
  // An operator alone may have no example of 64 bits.
  EXPECT_TRUE(truncated > 0 || test::only_operator() != nullptr);
}

TEST(Registry, HoldsTheOperatorsOfEveryKind) {
  const auto& all = Registry::instance().all();
  EXPECT_GT(all.size(), 200u);
  size_t expanded = 0, pointwise = 0, views = 0, converted = 0;
  for (const auto& [op, converter] : all) {
    expanded += converter.expand != nullptr;
    pointwise += converter.pointwise != nullptr;
    views += converter.view != nullptr;
    converted += converter.convert != nullptr;
    if (op.starts_with("t::") || op.starts_with("test::")) continue;  // of other tests
    // One that always refuses is there for its reason.
    EXPECT_TRUE(converter.expand || converter.pointwise || converter.view || converter.convert ||
                converter.unsupported)
        << op << " has no way to become kernels";
  }
  EXPECT_GT(pointwise, 100u);
  EXPECT_GT(expanded, 0u);
  EXPECT_GT(views, 0u);
  EXPECT_GT(converted, 0u);
}

}  // namespace
}  // namespace tv
