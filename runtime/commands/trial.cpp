#include "runtime/commands/trial.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "runtime/base/error.h"
#include "runtime/commands/recorder.h"
#include "runtime/vulkan/timestamps.h"

namespace tv {
namespace {

constexpr int64_t kStagingBytes = 16 << 20;

using Clock = std::chrono::steady_clock;

double us_since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

int64_t group_count(const EncodedDispatch& d) { return int64_t{d.grid[0]} * d.grid[1] * d.grid[2]; }

/// The same dispatch with fewer workgroups: whole rows of the first dimensions.
EncodedDispatch cut(EncodedDispatch d, int64_t max_groups) {
  int64_t left = max_groups;
  for (uint32_t& size : d.grid) {
    size = static_cast<uint32_t>(std::clamp<int64_t>(left, 1, size));
    left /= size;
  }
  return d;
}

}  // namespace

struct TrialMemory::Impl {
  std::shared_ptr<Device> device;
  Allocation memory;
};

TrialMemory::TrialMemory(std::shared_ptr<Device> device, int64_t size_bytes)
    : impl_(std::make_unique<Impl>()) {
  impl_->memory = Allocation(*device, size_bytes, MemoryUse::kDevice);
  impl_->device = std::move(device);
}
TrialMemory::~TrialMemory() = default;
TrialMemory::TrialMemory(TrialMemory&&) noexcept = default;

uint64_t TrialMemory::address() const { return impl_->memory.address(); }
int64_t TrialMemory::size_bytes() const { return impl_->memory.size_bytes(); }

void TrialMemory::fill(std::span<const uint8_t> pattern) {
  const int64_t size = size_bytes(), period = static_cast<int64_t>(pattern.size());
  const auto write = [&](void* to, int64_t bytes) {
    for (int64_t at = 0; at < bytes; at += period) {
      std::memcpy(static_cast<char*>(to) + at, pattern.data(),
                  static_cast<size_t>(std::min(period, bytes - at)));
    }
  };
  if (void* host = impl_->memory.host()) {
    write(host, size);
    impl_->memory.flush();
    return;
  }
  Device& device = *impl_->device;
  const int64_t chunk = std::min(std::max<int64_t>(kStagingBytes / period, 1) * period, size);
  const Allocation staging(device, chunk, MemoryUse::kUpload);
  write(staging.host(), chunk);
  staging.flush();
  run_once(device, [&](VkCommandBuffer commands) {
    std::vector<VkBufferCopy> regions;
    for (int64_t at = 0; at < size; at += chunk) {
      regions.push_back({0, static_cast<VkDeviceSize>(at),
                         static_cast<VkDeviceSize>(std::min(chunk, size - at))});
    }
    device.api().vkCmdCopyBuffer(commands, staging.buffer(), impl_->memory.buffer(),
                                 static_cast<uint32_t>(regions.size()), regions.data());
    record_barrier(device, commands, kCopyWrites, kShaderAccess);
  });
}

std::vector<uint8_t> TrialMemory::read(int64_t bytes) const {
  std::vector<uint8_t> out(static_cast<size_t>(bytes));
  if (bytes == 0) return out;
  if (const void* host = impl_->memory.host()) {
    impl_->memory.invalidate();
    std::memcpy(out.data(), host, out.size());
    return out;
  }
  Device& device = *impl_->device;
  const Allocation staging(device, bytes, MemoryUse::kReadback);
  run_once(device, [&](VkCommandBuffer commands) {
    record_barrier(device, commands, kShaderWrites, kCopyReads);
    const VkBufferCopy region = {0, 0, static_cast<VkDeviceSize>(bytes)};
    device.api().vkCmdCopyBuffer(commands, impl_->memory.buffer(), staging.buffer(), 1, &region);
    record_barrier(device, commands, kCopyWrites, kHostReads);
  });
  staging.invalidate();
  std::memcpy(out.data(), staging.host(), out.size());
  return out;
}

struct Trial::Impl {
  std::shared_ptr<Device> device;
  EngineSpec spec;
  std::vector<SharedPipeline> pipelines;
  OwnedCommandPool pool;
  VkCommandBuffer commands = VK_NULL_HANDLE;
  Timestamps timestamps;
  EncodedProgram weight_program, program;
  Allocation param_blocks;
  bool disturbed = false;

  EncodedProgram encode_at(std::span<const Dispatch> dispatches, std::span<const int64_t> symbols,
                           std::span<const uint64_t> addresses) const {
    std::vector<Placement> placements;
    for (size_t b = 0; b < spec.buffers.size(); ++b) {
      placements.push_back({static_cast<uint32_t>(b), 0});
    }
    const DeviceProfile& limits = device->profile();
    EncodedProgram encoded = encode({.spec = spec,
                                     .program = dispatches,
                                     .symbols = symbols,
                                     .placements = placements,
                                     .max_grid = std::to_array(limits.max_grid),
                                     .modes = {},
                                     .max_iterations = limits.max_loop_iterations()});
    patch_addresses(encoded, addresses);
    return encoded;
  }

  void record(const EncodedProgram& encoded) {
    const int64_t bytes = param_block_bytes(encoded);
    if (bytes > param_blocks.size_bytes()) {
      param_blocks = Allocation(*device, bytes, MemoryUse::kUpload);
    }
    record_dispatches(*device, commands, encoded, pipelines, param_blocks);
  }

  /// Submits what `body` records and waits. µs by the host clock.
  template <typename Body>
  double submit(const Body& body) {
    begin_commands(*device, commands);
    body();
    end_commands(*device, commands);
    device->wait_submitted();  // what others began before is not timed
    const uint64_t before = device->submitted();
    const auto start = Clock::now();
    const uint64_t own = device->submit(commands);
    device->wait(own);
    const double us = us_since(start);
    disturbed = disturbed || own != before + 1 || device->submitted() != own;
    return us;
  }

  void barrier() { record_barrier(*device, commands, kShaderWrites, kShaderAccess); }
};

Trial::Trial(std::shared_ptr<Device> device, EngineSpec spec) : impl_(std::make_unique<Impl>()) {
  impl_->device = std::move(device);
  impl_->spec = std::move(spec);
  Device& d = *impl_->device;
  // Few of the kernels that are tried are used later: they push no engine's out of the cache.
  impl_->pipelines = create_pipelines(d, impl_->spec, {}, WhenUnused::kDestroy);
  impl_->pool = d.make_command_pool();
  impl_->commands = allocate_commands(d, impl_->pool.get());
  impl_->timestamps = Timestamps(d, static_cast<uint32_t>(impl_->spec.dispatches.size()) + 2);
}
Trial::~Trial() = default;

void Trial::bind(std::span<const int64_t> symbols, std::span<const uint64_t> addresses) {
  impl_->weight_program = impl_->encode_at(impl_->spec.weight_program, symbols, addresses);
  impl_->program = impl_->encode_at(impl_->spec.dispatches, symbols, addresses);
}

void Trial::run_weight_program() {
  if (impl_->weight_program.dispatches.empty()) return;
  impl_->submit([&] { impl_->record(impl_->weight_program); });
}

std::vector<int64_t> Trial::groups() const {
  std::vector<int64_t> groups(impl_->spec.dispatches.size(), 0);
  for (const EncodedDispatch& d : impl_->program.dispatches) groups[d.dispatch] = group_count(d);
  return groups;
}

std::vector<double> Trial::run_steps(int64_t max_groups) {
  Impl& t = *impl_;
  t.disturbed = false;
  std::vector<double> us(t.spec.dispatches.size(), 0);
  EncodedProgram one = t.program;
  const auto take = [&](const EncodedDispatch& d) {
    one.dispatches = {cut(d, max_groups)};
    one.dispatches[0].barrier_before = false;
  };
  if (!t.timestamps.active()) {
    for (const EncodedDispatch& d : t.program.dispatches) {
      take(d);
      us[d.dispatch] = t.submit([&] { t.record(one); });
    }
    return us;
  }
  t.submit([&] {
    t.timestamps.reset(t.commands);
    t.barrier();
    t.timestamps.write(t.commands, 0);
    uint32_t mark = 0;
    for (const EncodedDispatch& d : t.program.dispatches) {
      take(d);
      t.record(one);
      t.barrier();
      t.timestamps.write(t.commands, ++mark);
    }
  });
  const std::vector<double> marks =
      t.timestamps.read_us(static_cast<uint32_t>(t.program.dispatches.size()) + 1);
  for (size_t i = 0; i < t.program.dispatches.size(); ++i) {
    us[t.program.dispatches[i].dispatch] = marks[i + 1] - marks[i];
  }
  return us;
}

bool Trial::disturbed() const { return impl_->disturbed; }

double Trial::run(int times) {
  Impl& t = *impl_;
  t.disturbed = false;
  const bool timestamps = t.timestamps.active();
  const double host_us = t.submit([&] {
    if (timestamps) {
      t.timestamps.reset(t.commands);
      t.barrier();
      t.timestamps.write(t.commands, 0);
    }
    for (int i = 0; i < times; ++i) {
      t.record(t.program);
      t.barrier();
    }
    if (timestamps) t.timestamps.write(t.commands, 1);
  });
  if (!timestamps) return host_us / times;
  const std::vector<double> marks = t.timestamps.read_us(2);
  return (marks[1] - marks[0]) / times;
}

}  // namespace tv
