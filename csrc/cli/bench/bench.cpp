#include "csrc/cli/bench/bench.h"

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstring>
#include <exception>
#include <mutex>
#include <thread>

namespace tv::cli {
namespace {

using Clock = std::chrono::steady_clock;

double ms_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double, std::milli>(to - from).count();
}

std::vector<Tensor> copied(const std::vector<Tensor>& tensors) {
  std::vector<Tensor> copies;
  for (const Tensor& tensor : tensors) {
    copies.emplace_back(tensor.dtype, tensor.shape);
    std::memcpy(copies.back().bytes.data(), tensor.bytes.data(),
                static_cast<size_t>(tensor.bytes.size_bytes()));
  }
  return copies;
}

/// What one thread has for itself.
struct Stream {
  Stream(const RunInputs& from, size_t number)
      : given(from.tensors),
        number(number),
        inputs(copied(from.tensors)),
        outputs(make_outputs(from.bound)),
        input_memory(host_tensors(inputs)),
        output_memory(host_tensors(outputs)),
        calls(from.bound.engine) {}

  /// Each call begins with the state that was given, which an engine may leave changed.
  CallTimes run(const Bound& bound) {
    const auto& bindings = bound.engine->spec().inputs;
    for (size_t i = 0; i < bindings.size(); ++i) {
      if (!bindings[i].written) continue;
      std::memcpy(inputs[i].bytes.data(), given[i].bytes.data(),
                  static_cast<size_t>(given[i].bytes.size_bytes()));
    }
    return calls.run(*bound.weights, bound.symbols, input_memory, output_memory);
  }

  const std::vector<Tensor>& given;
  size_t number;
  std::vector<Tensor> inputs, outputs;
  std::vector<HostTensor> input_memory, output_memory;
  TimedCalls calls;
  std::vector<TimedCall> timed;
  double first_call_ms = 0;
  int64_t warm_up_calls = 0;
};

void warm_up(Stream& stream, const Bound& bound, const Options& options) {
  const auto start = Clock::now();
  stream.first_call_ms = stream.run(bound).host_us / 1e3;
  for (stream.warm_up_calls = 1;
       ms_between(start, Clock::now()) < static_cast<double>(options.warm_up_ms);
       ++stream.warm_up_calls) {
    stream.run(bound);
  }
}

void measure(Stream& stream, const Bound& bound, const Options& options, Clock::time_point start,
             std::atomic<int64_t>& made) {
  const double want_ms = options.duration_s * 1e3;
  const auto pause = std::chrono::milliseconds(options.idle_ms);
  for (bool first = true;; first = false) {
    // A call is counted before it is made, so that N iterations are N calls.
    const bool enough_time = ms_between(start, Clock::now()) >= want_ms;
    if (made.fetch_add(1) >= options.iterations && enough_time) return;
    if (!first && options.idle_ms > 0) std::this_thread::sleep_for(pause);
    const double start_ms = ms_between(start, Clock::now());
    stream.timed.push_back({stream.number, start_ms, stream.run(bound)});
  }
}

}  // namespace

BenchResult run_bench(const RunInputs& inputs, const Options& options) {
  const auto count = static_cast<size_t>(options.streams);
  std::vector<std::unique_ptr<Stream>> streams;
  for (size_t i = 0; i < count; ++i) streams.push_back(std::make_unique<Stream>(inputs, i));
  std::exception_ptr failure;
  std::mutex mutex;
  std::atomic<int64_t> made{0};
  Clock::time_point start;
  std::barrier together(static_cast<std::ptrdiff_t>(count),
                        [&]() noexcept { start = Clock::now(); });
  const auto work = [&](Stream& stream) {
    const auto guarded = [&](const auto& part) {
      try {
        part();
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!failure) failure = std::current_exception();
        made = options.iterations;
      }
    };
    guarded([&] { warm_up(stream, inputs.bound, options); });
    together.arrive_and_wait();
    {
      const std::lock_guard lock(mutex);
      if (failure) return;
    }
    guarded([&] { measure(stream, inputs.bound, options, start, made); });
  };
  std::vector<std::thread> threads;
  try {
    threads.reserve(count);
    for (size_t i = 1; i < count; ++i) threads.emplace_back(work, std::ref(*streams[i]));
  } catch (...) {  // no thread, or no memory for one: nobody waits for those that are missing
    const std::lock_guard lock(mutex);
    failure = std::current_exception();
    for (size_t i = threads.size() + 1; i < count; ++i) together.arrive_and_drop();
  }
  work(*streams[0]);
  for (std::thread& thread : threads) thread.join();
  if (failure) std::rethrow_exception(failure);

  BenchResult result{.first_call_ms = streams[0]->first_call_ms,
                     .device_clock = streams[0]->calls.device_clock()};
  for (const auto& stream : streams) {
    result.warm_up_calls += stream->warm_up_calls;
    result.calls.insert(result.calls.end(), stream->timed.begin(), stream->timed.end());
  }
  std::stable_sort(result.calls.begin(), result.calls.end(),
                   [](auto& a, auto& b) { return a.start_ms < b.start_ms; });
  for (const TimedCall& call : result.calls) {
    result.wall_ms = std::max(result.wall_ms, call.start_ms + call.times.host_us / 1e3);
  }
  const EngineSpec& spec = inputs.bound.engine->spec();
  for (size_t i = 0; i < spec.outputs.size(); ++i) {
    result.outputs.push_back(
        row_major(streams[0]->outputs[i], spec.outputs[i], inputs.bound.symbols));
  }
  return result;
}

}  // namespace tv::cli
