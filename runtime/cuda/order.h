#pragma once
// Order between a CUDA stream and the Vulkan queue, without the host waiting for either.
//
// A GPU takes about 150 µs to switch between CUDA's context and Vulkan's. Semaphores that both
// share make it switch even where CUDA has nothing to run, so they are the second choice:
//
//   enter   the stream is idle: nothing to wait for. It is not, soon: the host polls. Else a shared
//           timeline semaphore, which the stream signals and the submission waits for.
//   submit  recordings end with a dispatch that increments a counter in shared memory.
//   leave   the stream waits until the counter has this submission's number.
//
// That the last step works is nowhere specified: it is tried out when the order is made, and where
// it fails the stream waits for a shared timeline semaphore instead.

#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "runtime/commands/recorder.h"
#include "runtime/cuda/memory.h"
#include "runtime/vulkan/device_impl.h"

namespace tv {

/// How `leave` is done, and whether `enter` may go without a semaphore.
enum class CudaOrderMode : uint8_t { kAuto, kCounter, kSemaphores };

class CudaOrder {
 public:
  /// Makes the shared counter and tests it unless `mode` says what to use. Throws Error(kDevice)
  /// if neither way works. CUDA's context is current here and in every call.
  CudaOrder(Device& device, const CudaApi& cuda, CudaOrderMode mode);
  ~CudaOrder();
  CudaOrder(const CudaOrder&) = delete;

  /// Records what the begin of a submission needs: earlier ones are done, and so the counter
  /// counts them in order.
  void record_begin(VkCommandBuffer commands) const;
  /// Records what the end needs; `before` is the last work that was recorded.
  void record_end(VkCommandBuffer commands, BarrierScope before = kShaderWrites) const;

  /// Submits `commands` (with record_begin and record_end) after the work that is on the stream;
  /// what is put on the stream from now on runs after it. Returns the submission's number.
  /// Thread-safe. Throws Error(kDevice).
  uint64_t submit(VkCommandBuffer commands, CuStream stream);
  /// The same of several: the first and the last that are not transfers have them.
  uint64_t submit(std::span<const SubmitBatch> batches, CuStream stream);

  /// True if streams wait for the counter.
  bool by_counter() const { return mode_ == CudaOrderMode::kCounter; }
  /// What the self-test found, one line a step.
  const std::vector<std::string>& report() const { return report_; }

  /// How calls entered so far.
  struct Counts {
    uint64_t idle = 0, polled = 0, semaphores = 0;
  };
  Counts counts() const;

 private:
  /// A semaphore that both interfaces know.
  struct SharedSemaphore {
    OwnedSemaphore vulkan;
    CuExternalSemaphore cuda = nullptr;
    uint64_t value = 0;  ///< of the last signal
  };
  struct StreamState {
    uint64_t last_submission = 0;
    SharedSemaphore entered;  // made at the first use
  };

  void open_counter();
  bool test_counter();
  bool test_round(CuStream stream, unsigned value, VkCommandBuffer commands, SharedBuffer& words,
                  unsigned& seen);
  bool drained(CuStream stream);
  SharedSemaphore make_semaphore();
  bool idle(CuStream stream);
  /// True if the stream became idle.
  bool poll(CuStream stream, uint64_t last_submission);
  TimelineValue signal_from(CuStream stream, StreamState& state);
  void leave(CuStream stream, uint64_t number);
  void check(CuResult result, const char* what) const;
  void note(const std::string& line) { report_.push_back(line); }

  Device& device_;
  const CudaApi& cuda_;
  CudaOrderMode mode_;
  SharedBuffer counter_;
  SharedPipeline increment_;
  SharedSemaphore left_;  ///< reaches n at the end of submission n (mode kSemaphores)
  mutable std::mutex mutex_;
  uint32_t number_ = 0;  ///< of the last submission here
  std::map<CuStream, StreamState> streams_;
  Counts counts_;
  std::vector<std::string> report_;
};

}  // namespace tv
