#include "csrc/codegen/glsl_compiler.h"

#include <glslang/Public/ResourceLimits.h>
#include <glslang/Public/ShaderLang.h>
#include <glslang/SPIRV/GlslangToSpv.h>
#include <glslang/build_info.h>

#include <cstring>
#include <map>
#include <mutex>
#include <regex>
#include <set>
#include <shared_mutex>
#include <sstream>
#include <unordered_map>

#include "csrc/codegen/bfloat16.h"
#include "csrc/codegen/glslang_memory.h"
#include "csrc/codegen/kernel.h"
#include "csrc/counters.h"
#include "csrc/user_code.h"
#include "runtime/base/error.h"
#include "runtime/store/store.h"

namespace tv {

namespace {

constexpr uint64_t kMaxCacheBytes = 256ull << 20;
constexpr size_t kCompilerBytes = size_t{32} << 20;  // several times what a kernel takes
constexpr uint32_t kSpirvMagic = 0x07230203;

std::vector<std::string> split_lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

/// The lines of a user's own text (csrc/user_code.h), which stand behind `#line 1 1`.
std::vector<std::string> user_lines(const std::string& source) {
  std::vector<std::string> lines;
  size_t at = std::string::npos;  // the next line of the text; npos outside of it
  static const std::regex marker("#line ([0-9]+) 1");
  for (const std::string& line : split_lines(source)) {
    std::smatch found;
    if (std::regex_match(line, found, marker)) {
      at = std::stoul(found[1]) - 1;
    } else if (at != std::string::npos) {
      if (lines.size() <= at) lines.resize(at + 1);
      lines[at++] = line;
    }
  }
  return lines;
}

/// The lines that the log's "ERROR: 0:123:" name, with two of context each.
std::string offending_lines(const std::vector<std::string>& lines, const std::string& log) {
  static const std::regex where("(?:ERROR: [^:\n]*:|line )([0-9]+):");
  std::set<size_t> wanted;
  for (std::sregex_iterator it(log.begin(), log.end(), where), end; it != end; ++it) {
    const size_t line = std::stoul((*it)[1]);
    for (size_t k = line > 2 ? line - 2 : 1; k <= line + 2 && k <= lines.size(); ++k)
      wanted.insert(k);
  }
  std::string text;
  for (size_t k : wanted) text += std::to_string(k) + " | " + lines[k - 1] + "\n";
  return text;
}

std::vector<uint32_t> compile_glsl(const std::string& name, const std::string& source) {
  initialize_glslang();
  const GlslangMemory memory(kCompilerBytes);
  ++build_counters().glslang;
  glslang::TShader shader(EShLangCompute);
  const char* text = source.c_str();
  const int length = static_cast<int>(source.size());
  shader.setStringsWithLengths(&text, &length, 1);
  set_environment(shader);

  const auto fail = [&](const std::string& stage, const std::string& log) {
    if (find_user_kernel(name) != nullptr) {
      static const std::regex own("ERROR: 1:([0-9]+):");
      const std::string said = std::regex_replace(log, own, "line $1:");
      throw Error(ErrorKind::kUser, "[" + name + "] the shader does not " + stage + ":\n" + said +
                                        offending_lines(user_lines(source), said));
    }
    throw Error(ErrorKind::kInternal, "[glslang] kernel " + name + " does not " + stage + ":\n" +
                                          log + offending_lines(split_lines(source), log));
  };
  if (!shader.parse(GetDefaultResources(), 460, false, kGlslangMessages)) {
    fail("compile", shader.getInfoLog());
  }
  glslang::TProgram program;
  program.addShader(&shader);
  if (!program.link(kGlslangMessages)) fail("link", program.getInfoLog());

  glslang::SpvOptions options;  // the driver optimises; spirv-opt made nothing faster
  std::vector<uint32_t> words;
  glslang::GlslangToSpv(*program.getIntermediate(EShLangCompute), words, &options);
  if (words.empty()) fail("give SPIR-V", "");
  return source.find(kBfloat16Pragma) == std::string::npos ? words : to_bfloat16(words);
}

std::string cache_key(const std::string& source) {
  return "spirv 1.6\nglslang " + glslang_version() + "\n" + source;
}

std::optional<std::vector<uint32_t>> from_bytes(const std::vector<uint8_t>& bytes) {
  if (bytes.size() < 20 || bytes.size() % 4 != 0) return std::nullopt;
  std::vector<uint32_t> words(bytes.size() / 4);
  std::memcpy(words.data(), bytes.data(), bytes.size());
  if (words[0] != kSpirvMagic) return std::nullopt;
  return words;
}

/// Modules compiled by this process, by source.
class ModuleCache {
 public:
  std::optional<std::vector<uint32_t>> find(const std::string& source) const {
    std::shared_lock lock(mutex_);
    const auto it = modules_.find(source);
    if (it == modules_.end()) return std::nullopt;
    return it->second;
  }
  void insert(const std::string& source, const std::vector<uint32_t>& words) {
    std::unique_lock lock(mutex_);
    modules_.emplace(source, words);
  }

 private:
  mutable std::shared_mutex mutex_;
  std::unordered_map<std::string, std::vector<uint32_t>> modules_;
};

ModuleCache& module_cache() {
  static ModuleCache cache;
  return cache;
}

/// One store a directory: it counts what it wrote and tells a failure once.
const Store& spirv_store(const std::string& dir) {
  static std::mutex mutex;
  static std::map<std::string, Store> stores;
  const std::lock_guard lock(mutex);
  return stores.try_emplace(dir, dir, "spirv", kMaxCacheBytes).first->second;
}

}  // namespace

std::string numbered(const std::string& source) {
  std::string text;
  size_t number = 0;
  for (const std::string& line : split_lines(source)) {
    text += std::to_string(++number) + " | " + line + "\n";
  }
  return text;
}

std::string glslang_version() {
  return std::to_string(GLSLANG_VERSION_MAJOR) + "." + std::to_string(GLSLANG_VERSION_MINOR) + "." +
         std::to_string(GLSLANG_VERSION_PATCH);
}

int glslang_major() { return GLSLANG_VERSION_MAJOR; }

std::vector<uint32_t> compile_kernel(const std::string& name, const std::string& glsl,
                                     const Settings& settings) {
  if (auto words = module_cache().find(glsl)) return *words;

  const Store& store = spirv_store(settings.cache_dir);
  const std::string key = cache_key(glsl);
  if (const auto bytes = store.get(key)) {
    if (auto words = from_bytes(*bytes)) {
      module_cache().insert(glsl, *words);
      return *words;
    }
  }
  std::vector<uint32_t> words = compile_glsl(name, glsl);
  store.put(key, {reinterpret_cast<const uint8_t*>(words.data()), words.size() * 4});
  module_cache().insert(glsl, words);
  return words;
}

}  // namespace tv
