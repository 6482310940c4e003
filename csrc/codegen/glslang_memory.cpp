#include "csrc/codegen/glslang_memory.h"

#include <glslang/Public/ResourceLimits.h>
#include <glslang/Public/ShaderLang.h>
#include <sys/mman.h>

#include <mutex>
#include <new>
#include <string>

#include "runtime/base/error.h"

namespace tv {

namespace {

/// The tables of built-in functions take 28 MiB while they are made (glslang 12).
constexpr size_t kTablesBytes = size_t{64} << 20;

thread_local GlslangMemory* current = nullptr;

/// operator new's handler: nothing but the memory of a thread in glslang is its concern.
class Handler {
 public:
  Handler() : before_(std::set_new_handler(&on_failure)) { instance = this; }
  ~Handler() {  // the library is unloaded
    if (std::get_new_handler() == &on_failure) std::set_new_handler(before_);
  }

 private:
  static void on_failure() {
    if (current != nullptr && current->release()) return;
    if (instance->before_ == nullptr) throw std::bad_alloc();
    instance->before_();
  }
  static Handler* instance;
  const std::new_handler before_;
};
Handler* Handler::instance = nullptr;

/// Makes the tables that glslang keeps until exit, for the version and the target of our kernels.
void make_tables() {
  if (!glslang::InitializeProcess())
    throw Error(ErrorKind::kInternal, "[glslang] the compiler could not be initialised");
  glslang::TShader shader(EShLangCompute);
  const char* text = "#version 460\nlayout(local_size_x = 1) in;\nvoid main() {}\n";
  shader.setStrings(&text, 1);
  set_environment(shader);
  if (!shader.parse(GetDefaultResources(), 460, false, kGlslangMessages))
    throw Error(ErrorKind::kInternal,
                std::string("[glslang] the empty kernel does not compile: ") + shader.getInfoLog());
}

}  // namespace

void set_environment(glslang::TShader& shader) {
  shader.setEnvInput(glslang::EShSourceGlsl, EShLangCompute, glslang::EShClientVulkan, 100);
  shader.setEnvClient(glslang::EShClientVulkan, glslang::EShTargetVulkan_1_3);
  shader.setEnvTarget(glslang::EShTargetSpv, glslang::EShTargetSpv_1_6);
}

GlslangMemory::GlslangMemory(size_t bytes)
    : pages_(::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)),
      bytes_(bytes) {
  if (pages_ == MAP_FAILED)
    throw OutOfMemoryError("[glslang] out of memory: compiling a kernel may take " +
                           std::to_string(bytes >> 20) + " MiB");
  static Handler handler;
  current = this;
}

GlslangMemory::~GlslangMemory() {
  current = nullptr;
  release();
}

bool GlslangMemory::release() noexcept {
  if (pages_ == nullptr) return false;
  ::munmap(pages_, bytes_);
  pages_ = nullptr;
  return true;
}

void initialize_glslang() {
  enum class State : uint8_t { kNew, kReady, kBroken };
  static std::mutex mutex;
  static State state = State::kNew;  // guarded by mutex
  const std::lock_guard lock(mutex);
  if (state == State::kReady) return;
  if (state == State::kNew) {
    const GlslangMemory memory(kTablesBytes);
    state = State::kBroken;
    try {
      make_tables();
      state = State::kReady;
      return;
    } catch (const std::bad_alloc&) {  // others took what was given back
    }
  }
  throw OutOfMemoryError(
      "[glslang] memory ran out while the kernel compiler was starting, which cannot be done again "
      "in this process: start it anew");
}

}  // namespace tv
