#include "runtime/cuda/order.h"

#include <unistd.h>

#include <chrono>

#include "runtime/base/error.h"
#include "runtime/commands/pipelines.h"
#include "runtime/commands/recorder.h"
#include "runtime/cuda/increment_spirv.h"

namespace tv {
namespace {

using Clock = std::chrono::steady_clock;

// How long `enter` polls. Own work that still runs ends soon and costs no switch; other work on the
// stream is given a little longer than the two switches that a semaphore makes: less, and a copy
// that had to wait for one switch would be answered with the next.
constexpr auto kPollOwn = std::chrono::milliseconds(5);
constexpr auto kPollOther = std::chrono::microseconds(500);

SharedPipeline increment_pipeline(Device& device) {
  EngineSpec spec;
  spec.name = "counter";
  spec.modules = {kIncrementSpirv};
  spec.pipelines = {Pipeline{}};
  return create_pipeline(device, spec, 0);
}

}  // namespace

CudaOrder::CudaOrder(Device& device, const CudaApi& cuda, CudaOrderMode mode)
    : device_(device), cuda_(cuda), mode_(mode), increment_(increment_pipeline(device)) {
  open_counter();
  if (mode_ == CudaOrderMode::kAuto) {
    mode_ = CudaOrderMode::kCounter;
    if (!test_counter()) mode_ = CudaOrderMode::kSemaphores;
  }
  if (mode_ == CudaOrderMode::kSemaphores) {
    try {
      left_ = make_semaphore();
    } catch (const Error& error) {  // what was found before is lost with this object
      std::string text = error.what();
      for (const std::string& line : report_) text += "; " + line;
      throw Error(error.kind(), text);
    }
  }
  note(std::string("streams wait for ") + (by_counter() ? "the counter" : "semaphores"));
}

CudaOrder::~CudaOrder() {
  if (!vulkan_usable()) return;
  device_.settle();
  if (left_.cuda) cuda_.cuDestroyExternalSemaphore(left_.cuda);
  for (auto& [stream, state] : streams_) {
    if (state.entered.cuda) cuda_.cuDestroyExternalSemaphore(state.entered.cuda);
  }
}

void CudaOrder::check(CuResult result, const char* what) const {
  if (result == kCuSuccess) return;
  throw Error(ErrorKind::kDevice,
              std::string("[cuda] ") + what + " failed: " + cuda_result_name(cuda_, result));
}

void CudaOrder::open_counter() {
  counter_ = SharedBuffer(device_, cuda_, 64);
  run_once(device_, [&](VkCommandBuffer commands) {
    device_.api().vkCmdFillBuffer(commands, counter_.buffer(), 0, 64, 0);
  });
}

CudaOrder::SharedSemaphore CudaOrder::make_semaphore() {
  const DeviceApi& api = device_.api();
  if (!api.vkGetSemaphoreFdKHR) {
    throw Error(ErrorKind::kDevice,
                "[cuda] " + device_.profile().name + " cannot share semaphores");
  }
  SharedSemaphore made;
  made.vulkan = device_.make_timeline(/*exportable=*/true);
  VkSemaphoreGetFdInfoKHR info{};
  info.sType = VK_STRUCTURE_TYPE_SEMAPHORE_GET_FD_INFO_KHR;
  info.semaphore = made.vulkan.get();
  info.handleType = VK_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD_BIT;
  CuExternalSemaphoreDesc desc{};
  desc.type = kCuSemaphoreTimelineFd;
  device_.check(api.vkGetSemaphoreFdKHR(api.device, &info, &desc.handle.fd), "share semaphore");
  const CuResult result = cuda_.cuImportExternalSemaphore(&made.cuda, &desc);
  if (result != kCuSuccess) close(desc.handle.fd);
  check(result, "cuImportExternalSemaphore");
  return made;
}

void CudaOrder::record_begin(VkCommandBuffer commands) const {
  constexpr BarrierScope kWork = {
      VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT,
      VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_READ_BIT |
          VK_ACCESS_TRANSFER_WRITE_BIT};
  record_barrier(device_, commands, kWork, kWork);
}

void CudaOrder::record_end(VkCommandBuffer commands, BarrierScope before) const {
  if (!by_counter()) return;  // a semaphore's signal waits for all that is before it
  const DeviceApi& api = device_.api();
  record_barrier(device_, commands, before, kShaderAccess);
  const uint64_t address = counter_.address();
  api.vkCmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, increment_.get());
  api.vkCmdPushConstants(commands, device_.pipeline_layout(), VK_SHADER_STAGE_COMPUTE_BIT, 0,
                         sizeof(address), &address);
  api.vkCmdDispatch(commands, 1, 1, 1);
}

bool CudaOrder::idle(CuStream stream) {
  const CuResult result = cuda_.cuStreamQuery(stream);
  if (result != kCuNotReady) check(result, "cuStreamQuery");
  return result == kCuSuccess;
}

bool CudaOrder::poll(CuStream stream, uint64_t last_submission) {
  // Without semaphores to share there is nothing but to wait here.
  const bool endless = !device_.api().vkGetSemaphoreFdKHR;
  const auto start = Clock::now();
  while (!device_.finished(last_submission)) {
    if (!endless && Clock::now() - start > kPollOwn) return false;
  }
  const auto end = Clock::now() + kPollOther;
  do {
    if (idle(stream)) return true;
  } while (endless || Clock::now() < end);
  return false;
}

TimelineValue CudaOrder::signal_from(CuStream stream, StreamState& state) {
  SharedSemaphore& semaphore = state.entered;
  if (!semaphore.cuda) semaphore = make_semaphore();
  CuSemaphoreParams params{};
  params.fence_value = semaphore.value + 1;
  check(cuda_.cuSignalExternalSemaphoresAsync(&semaphore.cuda, &params, 1, stream),
        "cuSignalExternalSemaphoresAsync");
  return {semaphore.vulkan.get(), ++semaphore.value};
}

void CudaOrder::leave(CuStream stream, uint64_t number) {
  if (by_counter()) {
    check(cuda_.cuStreamWaitValue32(stream, counter_.cuda(), static_cast<uint32_t>(number),
                                    kCuStreamWaitGeq),
          "cuStreamWaitValue32");
    return;
  }
  CuSemaphoreParams params{};
  params.fence_value = number;
  check(cuda_.cuWaitExternalSemaphoresAsync(&left_.cuda, &params, 1, stream),
        "cuWaitExternalSemaphoresAsync");
}

uint64_t CudaOrder::submit(VkCommandBuffer commands, CuStream stream) {
  const SubmitBatch one{.commands = commands};
  return submit({&one, 1}, stream);
}

uint64_t CudaOrder::submit(std::span<const SubmitBatch> batches, CuStream stream) {
  uint64_t last = 0;
  {
    const std::lock_guard lock(mutex_);
    const auto known = streams_.find(stream);
    if (known != streams_.end()) last = known->second.last_submission;
  }
  // Polling is outside of the lock: other streams need not wait for it.
  const bool idle_now = idle(stream);
  const bool ready = idle_now || poll(stream, last);
  const std::lock_guard lock(mutex_);
  StreamState& state = streams_[stream];
  TimelineValue wait;
  if (!ready) wait = signal_from(stream, state);
  ++(idle_now ? counts_.idle : ready ? counts_.polled : counts_.semaphores);
  const uint64_t number = number_ + uint64_t{1};
  TimelineValue signal;
  if (!by_counter()) signal = {left_.vulkan.get(), left_.value + 1};
  state.last_submission = device_.submit(batches, wait, signal);
  number_ = static_cast<uint32_t>(number);
  if (!by_counter()) ++left_.value;
  leave(stream, by_counter() ? number : left_.value);
  return state.last_submission;
}

CudaOrder::Counts CudaOrder::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

// --- the self-test -------------------------------------------------------------------------------

bool CudaOrder::drained(CuStream stream) {
  const auto end = Clock::now() + std::chrono::milliseconds(500);
  while (Clock::now() < end) {
    if (idle(stream)) return true;
  }
  return false;
}

/// CUDA writes `value`, Vulkan copies it, CUDA reads the copy into `seen`, which it may still do
/// after a round that failed: each step sees the one before.
bool CudaOrder::test_round(CuStream stream, unsigned value, VkCommandBuffer commands,
                           SharedBuffer& words, unsigned& seen) {
  // Every other round CUDA's write is under way when the submission is made.
  check(cuda_.cuMemsetD32Async(words.cuda(), value, 1, stream), "cuMemsetD32Async");
  if (value % 2 == 0 && !drained(stream)) return false;
  submit(commands, stream);
  seen = 0;
  check(cuda_.cuMemcpyDtoHAsync(&seen, words.cuda() + 4, sizeof(seen), stream),
        "cuMemcpyDtoHAsync");
  if (!drained(stream)) {
    note("round " + std::to_string(value) + ": the stream does not see the counter");
    return false;
  }
  if (seen != value) {
    note("round " + std::to_string(value) + ": CUDA read " + std::to_string(seen));
  }
  return seen == value;
}

bool CudaOrder::test_counter() {
  constexpr unsigned kRounds = 16;
  const auto start = Clock::now();
  SharedBuffer words(device_, cuda_, 64);
  const OwnedCommandPool pool = device_.make_command_pool();
  const VkCommandBuffer commands = allocate_commands(device_, pool.get());
  begin_commands(device_, commands, /*resubmit=*/true);
  record_begin(commands);
  const VkBufferCopy copy{0, 4, 4};
  device_.api().vkCmdCopyBuffer(commands, words.buffer(), words.buffer(), 1, &copy);
  record_end(commands, kCopyWrites);
  end_commands(device_, commands);

  CuStream stream = nullptr, helper = nullptr;
  check(cuda_.cuStreamCreate(&stream, kCuStreamNonBlocking), "cuStreamCreate");
  check(cuda_.cuStreamCreate(&helper, kCuStreamNonBlocking), "cuStreamCreate");
  bool works = true;
  unsigned seen = 0;
  try {
    for (unsigned i = 1; works && i <= kRounds; ++i) {
      works = test_round(stream, i, commands, words, seen);
    }
  } catch (const Error& error) {
    note(error.what());
    works = false;
  }
  device_.wait_submitted();
  if (!works) {  // let a stream that still waits go on
    cuda_.cuMemsetD32Async(counter_.cuda(), number_, 1, helper);
    cuda_.cuStreamSynchronize(helper);
    cuda_.cuStreamSynchronize(stream);
  }
  cuda_.cuStreamDestroy(stream);
  cuda_.cuStreamDestroy(helper);
  streams_.clear();
  counts_ = {};
  const auto took = std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - start);
  note(std::string("counter in shared memory: ") + (works ? "works" : "does not work") + ", " +
       std::to_string(kRounds) + " rounds in " + std::to_string(took.count()) + " us");
  return works;
}

}  // namespace tv
