#pragma once
// The sections of the report, in trtexec's layout.

#include "csrc/cli/bench/bench.h"
#include "csrc/cli/flags/options.h"
#include "csrc/cli/models/network.h"
#include "runtime/vulkan/device_memory.h"

namespace tv::cli {

void report_options(const Options& options);
void report_device(const DeviceProfile& device);
/// Bindings, layers and memory of what is going to run.
void report_network(const Network& network, const Bound& bound);
/// Averages on the way and the summary.
void report_times(const BenchResult& result, const Options& options);
/// The most that the process held on the device, and what it holds.
void report_memory(const DeviceMemory& memory);
void report_outputs(const EngineSpec& spec, const std::vector<Tensor>& outputs);
void report_refit(const EngineSpec& spec);
/// The devices of this machine, best first.
void list_all_devices();

}  // namespace tv::cli
