#pragma once
// What kernels built with address checks or checks of values (Settings::check_addresses,
// check_indices) report.

#include <span>

#include "runtime/spec/engine_spec.h"
#include "runtime/vulkan/memory.h"

namespace tv {

/// Memory for the kCheck buffer of `spec`; none if it has none.
Allocation make_check_buffer(Device& device, const EngineSpec& spec);
/// Before a run.
void clear_check(const Allocation& buffer);
/// After it: throws, naming the dispatch of `program`, Error(kInternal) with the operand that it
/// left, BadValueError, or Error(kUnsupported) for a weight that is not sparse as it has to be.
/// `writes`: it changes arguments of the call, which the message says.
void throw_check_report(const Allocation& buffer, std::span<const Dispatch> program,
                        bool writes = false);

/// Whether a call changes some of its inputs.
bool writes_arguments(const EngineSpec& spec);
/// Whether a call waits for what kernels report, wherever its tensors are.
bool waits_for_check(const EngineSpec& spec);

}  // namespace tv
