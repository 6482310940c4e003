// Compiles what a driver leaves for the first dispatch.

#include <sys/mman.h>

#include <algorithm>

#include "runtime/error.h"
#include "runtime/recorder.h"

namespace tv {
namespace {

/// Zeroed pages that take no memory until they are touched.
class LazyPages {
 public:
  explicit LazyPages(size_t bytes) : bytes_(bytes) {
    pages_ = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (pages_ == MAP_FAILED) throw Error(ErrorKind::kDevice, "[warm-up] no address space is left");
  }
  ~LazyPages() { munmap(pages_, bytes_); }
  LazyPages(const LazyPages&) = delete;
  uint64_t address() const { return reinterpret_cast<uint64_t>(pages_); }

 private:
  void* pages_;
  size_t bytes_;
};

/// The first dispatch of each pipeline, its operands laid out one after another with room between.
struct WarmupProgram {
  EncodedProgram program;
  size_t scratch_bytes = 0;
};

/// Symbol values to warm up with; at least 1, so that no grid is empty.
std::vector<int64_t> typical_symbols(const EngineSpec& spec) {
  std::vector<int64_t> values;
  for (const Symbol& s : spec.symbols) values.push_back(std::max<int64_t>({s.min, s.opt, 1}));
  return values;
}

}  // namespace

void warm_pipelines(Device& device, const EngineSpec& spec,
                    const std::vector<OwnedPipeline>& pipelines) {
  if (!device.profile().is_cpu()) return;  // GPU drivers compile when a pipeline is made
  constexpr int64_t kRoom = 1 << 20;       // kernels may load past a range that is empty or short
  const std::vector<int64_t> symbols = typical_symbols(spec);
  EngineSpec firsts;
  firsts.pipelines = spec.pipelines;
  std::vector<bool> seen(spec.pipelines.size(), false);
  int64_t scratch_bytes = 0;
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
      scratch_bytes = std::max(scratch_bytes, at);
      d.grid = {Expr(1), Expr(1), Expr(1)};
      firsts.dispatches.push_back(std::move(d));
    }
  }
  if (firsts.dispatches.empty()) return;
  scratch_bytes += kRoom;

  const Placement place{};
  const auto& g = device.profile().max_grid;
  EncodedProgram program = encode({.spec = firsts,
                                   .program = firsts.dispatches,
                                   .symbols = symbols,
                                   .placements = {&place, 1},
                                   .max_grid = {g[0], g[1], g[2]},
                                   .modes = {.full_barriers = true}});
  LazyPages pages(device.host_pointers() ? static_cast<size_t>(scratch_bytes) : 1);
  Allocation buffer;
  if (!device.host_pointers()) buffer = Allocation(device, scratch_bytes, MemoryUse::kDevice);
  const uint64_t address = buffer ? buffer.address() : pages.address();
  patch_addresses(program, {&address, 1});
  Allocation blocks;
  if (const int64_t bytes = param_block_bytes(program)) {
    blocks = Allocation(device, bytes, MemoryUse::kUpload);
  }
  const OwnedCommandPool pool = device.make_command_pool();
  const OwnedFence fence = device.make_fence();
  const VkCommandBuffer commands = allocate_commands(device, pool.get());
  begin_commands(device, commands);
  if (buffer) {
    device.api().vkCmdFillBuffer(commands, buffer.buffer(), 0, VK_WHOLE_SIZE, 0);
    record_barrier(device, commands, kCopyWrites, kShaderAccess);
  }
  record_dispatches(device, commands, program, pipelines, blocks);
  end_commands(device, commands);
  device.submit(commands, fence.get());
  device.wait_and_reset(fence.get());
}

}  // namespace tv
