#pragma once
// What kernels built with address checks (Settings::check_addresses) report.

#include <span>

#include "runtime/engine_spec.h"
#include "runtime/vk_memory.h"

namespace tv {

/// Memory for the kCheck buffer of `spec`; none where it has none.
Allocation make_check_buffer(Device& device, const EngineSpec& spec);
/// Before a run.
void clear_check(const Allocation& buffer);
/// After it: throws Error(kInternal) naming the dispatch of `program` and the operand that it left.
void throw_check_report(const Allocation& buffer, std::span<const Dispatch> program);

}  // namespace tv
