#include "tests/cpp/kit/matrix_engines.h"

#include <algorithm>
#include <regex>

#include "csrc/codegen/glsl_compiler.h"
#include "csrc/codegen/kernel.h"
#include "csrc/compile/compile.h"
#include "csrc/cost_model.h"
#include "runtime/base/error.h"
#include "runtime/store/store.h"

namespace tv::test {

namespace {

constexpr int kFirstKhr = 14;
constexpr uint64_t kStoreBytes = uint64_t{256} << 20;

/// A kernel's text with GL_NV_cooperative_matrix in place of GL_KHR_cooperative_matrix.
std::string with_older_extension(const std::string& glsl) {
  static const std::regex extension("#extension GL_KHR_cooperative_matrix : require");
  static const std::regex type("coopmat<(\\w+), (\\w+), (\\w+), (\\w+), \\w+>");
  constexpr const char* kNames =
      "#extension GL_NV_cooperative_matrix : require\n"
      "#extension GL_NV_integer_cooperative_matrix : require\n"
      "#define coopMatLoad coopMatLoadNV\n"
      "#define coopMatStore coopMatStoreNV\n"
      "#define coopMatMulAdd coopMatMulAddNV\n"
      "#define gl_CooperativeMatrixLayoutRowMajor false\n"
      "#define gl_CooperativeMatrixLayoutColumnMajor true\n";
  std::string text = std::regex_replace(glsl, extension, kNames);
  text = std::regex_replace(text, type, "coopmatNV<$1, $2, $3, $4>");
  for (const auto& [name, older] : {std::pair("float16_t", "fcoopmatNV<16,"),
                                    {"float", "fcoopmatNV<32,"},
                                    {"int8_t", "icoopmatNV<8,"},
                                    {"int", "icoopmatNV<32,"}}) {
    text = std::regex_replace(text, std::regex("\\bcoopmatNV<" + std::string(name) + ","), older);
  }
  return text;
}

/// Picks a tactic, and puts the modules of its kernels where the compiler finds them, should it
/// have no glslang for them.
class OneTactic : public CostModel {
 public:
  OneTactic(std::string op, std::string tactic, const Settings& settings)
      : op_(std::move(op)), tactic_(std::move(tactic)), settings_(settings) {}

  TacticChoice choose(const TacticProblem& problem, size_t rule, const Progress&) override {
    if (problem.op != op_ || !candidates.empty()) return {.candidate = rule};
    size_t chosen = rule;
    for (size_t i = 0; i < problem.candidates.size(); ++i) {
      candidates.push_back(candidate_of(problem.candidates[i].name, problem.candidates[i].refusal));
      if (candidates.back().name == tactic_) chosen = i;
    }
    kernels = problem.program(chosen).kernels;
    if (glslang_major() < kFirstKhr) {
      for (const auto& kernel : kernels) keep_module(kernel);
    }
    return {.candidate = chosen};
  }

  std::vector<CandidateTactic> candidates;
  std::vector<TacticProgram::Kernel> kernels;  ///< of the one that was picked

 private:
  void keep_module(const TacticProgram::Kernel& kernel) const {
    const std::vector<uint32_t> words = matrix_module(kernel.name, kernel.glsl, settings_);
    const Store store(settings_.cache_dir, "spirv", kStoreBytes);
    // As compile_kernel looks for it.
    store.put("spirv 1.6\nglslang " + glslang_version() + "\n" + kernel.glsl,
              {reinterpret_cast<const uint8_t*>(words.data()), words.size() * sizeof(uint32_t)});
  }

  const std::string op_, tactic_;
  const Settings& settings_;
};

/// Compiles the kernels that have the text again, with the edit.
void put_in(const KernelEdit& edit, const std::vector<TacticProgram::Kernel>& kernels,
            const Settings& settings, EngineSpec& spec) {
  size_t edited = 0;
  for (size_t i = 0; i < kernels.size(); ++i) {
    std::string text = kernels[i].glsl;
    const size_t at = text.find(edit.from);
    if (at == text.npos) continue;
    text.replace(at, edit.from.size(), edit.to);
    spec.modules.at(i) = matrix_module(kernels[i].name, text, settings);
    ++edited;
  }
  if (edited == 0 || spec.modules.size() != kernels.size()) {
    throw Error(ErrorKind::kInternal, "[test] no kernel has the text: " + edit.from);
  }
}

}  // namespace

DeviceProfile h200_profile() {
  DeviceProfile p = DeviceProfile::builtin_default();
  p.name = "NVIDIA H200";
  p.vendor_id = 0x10de;
  p.float16_controls = p.float64 = true;
  p.compute_units = 132;
  p.max_shared_bytes = 49152;
  p.memory_bytes = uint64_t{139} << 30;
  for (const char* input : {"float16", "bfloat16"}) {
    for (const uint32_t n : {16, 8}) {
      p.coop_matrices.push_back({16, n, 16, input, input, "float32", "float32"});
    }
  }
  p.coop_matrices.push_back({16, 16, 32, "int8", "int8", "int32", "int32"});
  return p;
}

std::vector<uint32_t> matrix_module(const std::string& name, const std::string& glsl,
                                    const Settings& settings) {
  const bool older = glslang_major() < kFirstKhr;
  return compile_kernel(name, older ? with_older_extension(glsl) : glsl, settings);
}

bool is_interpreted(const CandidateTactic& tactic) {
  return tactic.refusal.empty() || (glslang_major() < kFirstKhr &&
                                    tactic.refusal.ends_with("has no GL_KHR_cooperative_matrix"));
}

EngineSpec engine_with_tactic(const Graph& graph, const std::string& op, const std::string& tactic,
                              Settings settings, const DeviceProfile& profile,
                              const std::filesystem::path& cache, const KernelEdit& edit) {
  settings.cache_dir = cache;
  OneTactic costs(op, tactic, settings);
  EngineSpec spec = compile(graph, settings, profile, nullptr, &costs);
  const bool used =
      std::ranges::any_of(spec.dispatches, [&](const Dispatch& d) { return d.tactic == tactic; });
  if (!used) throw Error(ErrorKind::kInternal, "[test] the engine does not use " + tactic);
  if (!edit.from.empty()) put_in(edit, costs.kernels, settings, spec);
  return spec;
}

std::vector<CandidateTactic> interpreted_tactics(const Graph& graph, const std::string& op,
                                                 const Settings& settings,
                                                 const DeviceProfile& profile) {
  OneTactic costs(op, "", settings);
  compile(graph, settings, profile, nullptr, &costs);
  std::erase_if(costs.candidates, [](const CandidateTactic& t) { return !is_interpreted(t); });
  return std::move(costs.candidates);
}

}  // namespace tv::test
