// Compiles what a driver leaves for the first dispatch.

#include <sys/mman.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <optional>
#include <string>
#include <thread>

#include "runtime/base/error.h"
#include "runtime/base/log.h"
#include "runtime/base/room.h"
#include "runtime/commands/recorder.h"
#include "runtime/vulkan/driver_room.h"

namespace tv {
namespace {

/// Zeroed memory at a device address. On a host-pointer device its pages exist once touched.
class Scratch {
 public:
  Scratch(Device& device, int64_t bytes) : bytes_(static_cast<size_t>(bytes)) {
    if (!device.host_pointers()) {
      buffer_ = Allocation(device, bytes, MemoryUse::kDevice);
      return;
    }
    pages_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (pages_ == MAP_FAILED) throw Error(ErrorKind::kDevice, "[warm-up] no address space is left");
  }
  ~Scratch() {
    if (pages_) munmap(pages_, bytes_);
  }
  Scratch(const Scratch&) = delete;

  uint64_t address() const {
    return pages_ ? reinterpret_cast<uint64_t>(pages_) : buffer_.address();
  }
  /// Zeroes what runs before have written: kernels trust the numbers that the engine's own kernels
  /// make.
  void record_clear(Device& device, VkCommandBuffer commands) const {
    if (pages_) {
      madvise(pages_, bytes_, MADV_DONTNEED);
      return;
    }
    device.api().vkCmdFillBuffer(commands, buffer_.buffer(), 0, VK_WHOLE_SIZE, 0);
    record_barrier(device, commands, kCopyWrites, kShaderAccess);
  }

 private:
  size_t bytes_;
  void* pages_ = nullptr;
  Allocation buffer_;
};

/// One workgroup of the first dispatch of a pipeline, its operands laid out one after another.
struct WarmupPlan {
  std::vector<EncodedProgram> programs;  ///< one dispatch each
  std::vector<uint32_t> pipelines;       ///< of each program
  std::vector<std::string> names;        ///< of each program, for the log
  int64_t scratch_bytes = 0;
  bool guarded = false;
};

/// Of the pipelines that are not warm.
WarmupPlan plan_warmup(const EngineSpec& spec, const std::vector<SharedPipeline>& pipelines,
                       const DeviceProfile& profile, const GuardPlan& guard) {
  constexpr int64_t kRoom = 1 << 20;  // kernels may load past a range that is empty or short
  std::vector<int64_t> symbols;
  for (const Symbol& s : spec.symbols) symbols.push_back(std::max<int64_t>({s.min, s.opt, 1}));
  WarmupPlan plan;
  plan.guarded = guard.on();
  std::vector<bool> seen;
  for (const SharedPipeline& pipeline : pipelines) seen.push_back(pipeline.warm());
  EngineSpec one;
  one.pipelines = spec.pipelines;
  for (const auto* program : {&spec.weight_program, &spec.dispatches}) {
    for (const Dispatch& dispatch : *program) {
      if (seen[dispatch.pipeline]) continue;
      seen[dispatch.pipeline] = true;
      Dispatch d = dispatch;
      int64_t at = 0;
      for (OperandRange& operand : d.operands) {
        const int64_t size = std::max<int64_t>(operand.size_bytes.eval(symbols), 0);
        operand = {0, Expr(at), Expr(size), operand.read, operand.write};
        at += (size + 2 * kRoom - 1) / kRoom * kRoom;
      }
      plan.scratch_bytes = std::max(plan.scratch_bytes, at + kRoom);
      d.grid = {Expr(1), Expr(1), Expr(1)};
      one.dispatches = {std::move(d)};
      const Placement place{};
      plan.programs.push_back(
          encode({.spec = one,
                  .program = one.dispatches,
                  .symbols = symbols,
                  .placements = {&place, 1},
                  .max_grid = {profile.max_grid[0], profile.max_grid[1], profile.max_grid[2]},
                  .modes = {},
                  .guard_ranges = guard.ranges}));
      plan.pipelines.push_back(dispatch.pipeline);
      plan.names.push_back(dispatch.name + " by " + dispatch.tactic);
    }
  }
  return plan;
}

/// What all threads of the process have computed: unlike the clock on the wall it does not run
/// while others have the CPU.
std::chrono::nanoseconds cpu_time() {
  timespec now = {};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

/// Runs programs of a plan on one device.
class Warmer {
 public:
  Warmer(Device& device, const WarmupPlan& plan)
      : device_(device),
        plan_(plan),
        scratch_(device, plan.scratch_bytes),
        guard_(make_guard_memory(device, plan.guarded, 1)),
        pool_(device.make_command_pool()),
        commands_(allocate_commands(device, pool_.get())) {}

  /// Returns whether the driver compiled, for longer than it takes to read from its cache and to
  /// make the pipeline once more, for a helper's device.
  bool run(size_t i, const std::vector<SharedPipeline>& pipelines) {
    require_pipeline_room();
    constexpr auto kCompiled = std::chrono::milliseconds(60);
    const auto start = cpu_time();
    EncodedProgram program = plan_.programs[i];
    const uint64_t address = scratch_.address();
    patch_addresses(program, {&address, 1});
    Allocation blocks;
    if (const int64_t bytes = param_block_bytes(program)) {
      blocks = Allocation(device_, bytes, MemoryUse::kUpload);
    }
    if (plan_.guarded) patch_guards(program, blocks.address(), guard_);
    begin_commands(device_, commands_);
    scratch_.record_clear(device_, commands_);
    record_dispatches(device_, commands_, program, pipelines, blocks);
    end_commands(device_, commands_);
    device_.wait(device_.submit(commands_));
    pipelines[plan_.pipelines[i]].set_warm();
    const auto time = cpu_time() - start;
    if (log_enabled(LogLevel::kDebug)) {
      const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(time).count();
      log(LogLevel::kDebug, "[driver] " + plan_.names[i] + ": " + std::to_string(ms) + " ms");
    }
    return time > kCompiled;
  }

 private:
  Device& device_;
  const WarmupPlan& plan_;
  Scratch scratch_;
  GuardMemory guard_;
  OwnedCommandPool pool_;
  VkCommandBuffer commands_;
};

/// Threads that compile pipelines on devices of their own: what they make stays in the driver's
/// disk cache, where the engine's device finds it. (lavapipe compiles in a device's queue thread.)
class Helpers {
 public:
  Helpers(const Device& device, const EngineSpec& spec, const WarmupPlan& plan,
          const GuardPlan& guard, std::atomic<size_t>& next) {
    constexpr unsigned kMost = 3;
    const unsigned cores = std::thread::hardware_concurrency();
    const unsigned count = std::min(cores, kMost + 1);
    const auto work = [&device, &spec, &plan, &guard, &next] {
      try {
        Device own(device.physical());
        Warmer warmer(own, plan);
        std::vector<SharedPipeline> pipelines(spec.pipelines.size());
        for (size_t i = next++; i < plan.programs.size(); i = next++) {
          const uint32_t p = plan.pipelines[i];
          pipelines[p] = create_pipeline(own, spec, p, guard);
          warmer.run(i, pipelines);
        }
      } catch (const std::exception&) {
        // The engine's device compiles the same pipelines next and reports what is wrong.
      }
    };
    const size_t device_bytes = opening_bytes(device.profile()) + 2 * kPipelineBytes;
    try {
      require_room(count * device_bytes, "helping the driver's compiler");
      threads_.reserve(kMost);
      for (unsigned i = 1; i < count; ++i) threads_.emplace_back(work);
    } catch (const std::exception&) {  // no thread, or no memory for one: it takes longer
    }
  }
  ~Helpers() {
    for (std::thread& t : threads_) t.join();
  }
  Helpers(const Helpers&) = delete;

 private:
  std::vector<std::thread> threads_;
};

}  // namespace

void warm_pipelines(Device& device, const EngineSpec& spec,
                    const std::vector<SharedPipeline>& pipelines, const GuardPlan& guard) {
  if (!device.profile().is_cpu()) return;  // GPU drivers compile when a pipeline is made
  const WarmupPlan plan = plan_warmup(spec, pipelines, device.profile(), guard);
  if (plan.programs.empty()) return;
  std::vector<bool> warm(plan.programs.size(), false);
  std::atomic<size_t> next{0};
  Warmer warmer(device, plan);
  {
    std::optional<Helpers> helpers;
    for (size_t i = next++; i < plan.programs.size(); i = next++) {
      const bool compiled = warmer.run(i, pipelines);
      warm[i] = true;
      if (compiled && !helpers && next + 1 < plan.programs.size()) {
        helpers.emplace(device, spec, plan, guard, next);
      }
    }
  }
  for (size_t i = 0; i < plan.programs.size(); ++i) {
    if (!warm[i]) warmer.run(i, pipelines);
  }
}

}  // namespace tv
