#pragma once

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace tv {

/// Calls task(0) … task(count - 1) from several threads, the caller's among them; rethrows the
/// first exception. `on_caller()` is called on the caller's thread after each of its tasks.
template <typename Task, typename OnCaller>
void for_each_parallel(size_t count, const Task& task, const OnCaller& on_caller) {
  std::atomic<size_t> next{0};
  std::mutex mutex;
  std::exception_ptr error;  // guarded by mutex
  const auto work = [&](bool is_caller) {
    try {
      for (size_t i = next++; i < count; i = next++) {
        task(i);
        if (is_caller) on_caller();
      }
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (!error) error = std::current_exception();
      next = count;
    }
  };
  const size_t wanted = std::min<size_t>(count, std::thread::hardware_concurrency());
  std::vector<std::thread> threads;
  try {
    threads.reserve(wanted);
    for (size_t i = 1; i < wanted; ++i) threads.emplace_back(work, false);
  } catch (const std::exception&) {  // no thread, or no memory for one: those there are do the work
  }
  work(true);
  for (std::thread& t : threads) t.join();
  if (error) std::rethrow_exception(error);
}

template <typename Task>
void for_each_parallel(size_t count, const Task& task) {
  for_each_parallel(count, task, [] {});
}

}  // namespace tv
