// What each dispatch of an engine takes, by the device's own clock.

#include <algorithm>
#include <numeric>

#include "runtime/engine/context.h"
#include "runtime/engine/tensor_check.h"

namespace tv {
namespace {

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

double mean(const std::vector<double>& values) {
  if (values.empty()) return 0;
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

int64_t operand_bytes(const Dispatch& dispatch, std::span<const int64_t> symbols) {
  int64_t bytes = 0;
  for (const OperandRange& operand : dispatch.operands) {
    bytes += std::max<int64_t>(operand.size_bytes.eval(symbols), 0);
  }
  return bytes;
}

}  // namespace

std::vector<DispatchTime> Context::profile(const WeightSet& weights,
                                           std::span<const int64_t> symbols,
                                           std::span<const HostTensor> inputs,
                                           std::span<const HostTensor> outputs, int runs) {
  const EngineSpec& spec = parts_.spec;
  ShapePlan plan = plan_shape(parts_, symbols);
  check_tensors<HostTensor>(spec, spec.inputs, "input", inputs, plan.input_bytes);
  check_tensors<HostTensor>(spec, spec.outputs, "output", outputs, plan.output_bytes);
  DebugModes modes = debug_modes();
  modes.full_barriers = true;
  plan.program = encoded(plan, modes);
  reserve_arena(plan.arena_bytes);
  if (!device_.host_pointers()) reserve_staging(plan);
  bind(inputs, outputs, plan);
  patch_addresses(plan.program, addresses_of(plan, weights));
  Allocation blocks;
  if (const int64_t bytes = param_block_bytes(plan.program)) {
    blocks = Allocation(device_, bytes, MemoryUse::kParams);
  }
  if (guard_) {
    clear_guard(guard_);
    patch_guards(plan.program, blocks.address(), guard_);
  }
  const auto queries = static_cast<uint32_t>(plan.program.dispatches.size()) + 1;
  const OwnedQueryPool timestamps = device_.make_timestamps(queries);
  const VkCommandBuffer commands = allocate_commands(device_, pool_.get());
  begin_commands(device_, commands);
  device_.api().vkCmdResetQueryPool(commands, timestamps.get(), 0, queries);
  copy_in(commands, plan, /*staged_inputs=*/true);
  record_dispatches(device_, commands, plan.program, parts_.pipelines, blocks, timestamps.get());
  copy_out(commands, plan);
  end_commands(device_, commands);

  std::vector<std::vector<double>> samples(spec.dispatches.size());
  std::vector<uint64_t> ticks(queries);
  const double us_per_tick = static_cast<double>(device_.physical().timestamp_period_ns) / 1e3;
  for (int run = 0; run < runs; ++run) {
    submission_ = device_.submit(commands);
    device_.wait(submission_);
    device_.check(device_.api().vkGetQueryPoolResults(
                      device_.api().device, timestamps.get(), 0, queries, queries * 8, ticks.data(),
                      8, VK_QUERY_RESULT_64_BIT | VK_QUERY_RESULT_WAIT_BIT),
                  "profile");
    for (size_t i = 0; i < plan.program.dispatches.size(); ++i) {
      samples[plan.program.dispatches[i].dispatch].push_back(
          static_cast<double>(ticks[i + 1] - ticks[i]) * us_per_tick);
    }
  }
  if (guard_) throw_guard_report(guard_, spec.dispatches);
  read_results(inputs, outputs, plan);
  std::vector<DispatchTime> times(spec.dispatches.size());
  for (size_t d = 0; d < times.size(); ++d) {
    times[d] = {median(samples[d]), mean(samples[d]), operand_bytes(spec.dispatches[d], symbols)};
  }
  return times;
}

}  // namespace tv
