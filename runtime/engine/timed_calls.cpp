#include "runtime/engine/timed_calls.h"

#include <chrono>

#include "runtime/engine/engine_impl.h"
#include "runtime/vulkan/process_state.h"

namespace tv {

using Clock = std::chrono::steady_clock;

struct TimedCalls::Impl {
  std::shared_ptr<EngineImpl> engine;
  Clock::time_point made = Clock::now();
  Context context;
};

TimedCalls::TimedCalls(std::shared_ptr<Engine> engine) {
  require_vulkan_usable();
  auto internals = std::static_pointer_cast<EngineImpl>(std::move(engine));
  const EngineParts& parts = internals->parts();
  impl_.reset(new Impl{.engine = std::move(internals), .context = Context(parts, /*timed=*/true)});
}
TimedCalls::~TimedCalls() = default;
TimedCalls::TimedCalls(TimedCalls&&) noexcept = default;

CallTimes TimedCalls::run(const WeightSet& weights, std::span<const int64_t> symbols,
                          std::span<const HostTensor> inputs, std::span<const HostTensor> outputs) {
  return run_on(weights, symbols, inputs, outputs);
}

CallTimes TimedCalls::run_pieces(const WeightSet& weights, std::span<const int64_t> symbols,
                                 std::span<const HostPieces> inputs,
                                 std::span<const HostPieces> outputs) {
  return run_on(weights, symbols, inputs, outputs);
}

CallTimes TimedCalls::run_on(const WeightSet& weights, std::span<const int64_t> symbols,
                             const HostTensors& inputs, const HostTensors& outputs) {
  require_vulkan_usable();
  impl_->engine->check_owner(weights);
  const std::chrono::duration<double, std::micro> start = Clock::now() - impl_->made;
  impl_->context.run(weights, symbols, inputs, outputs);
  CallTimes times = impl_->context.times();
  times.start_us = start.count();
  return times;
}

bool TimedCalls::device_clock() const { return impl_->context.device_clock(); }

}  // namespace tv
