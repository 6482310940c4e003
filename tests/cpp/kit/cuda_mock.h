#pragma once
// A CUDA driver on the host, over memory that a CPU's Vulkan driver exports: streams are queues of
// steps that run when they are asked about, device pointers are host pointers.

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "runtime/commands/recorder.h"
#include "runtime/cuda/api.h"
#include "runtime/vulkan/device_impl.h"

namespace tv::test {

class CudaMock {
 public:
  /// How the mock deviates from a driver that works.
  struct Faults {
    bool counter_ignored = false;  ///< cuStreamWaitValue32 does not wait: copies come too early
    bool counter_never = false;    ///< cuStreamWaitValue32 never ends by itself
    bool capturing = false;
    bool other_uuid = false;
    bool no_export = false;  ///< cuMemExportToShareableHandle fails
  };

  /// `device` exports memory; its files hold the bytes `data_offset` into them.
  explicit CudaMock(Device& device) : device_(device) {
    now = this;
    find_data_offset();
    fill();
  }
  ~CudaMock() {
    for (auto& [begin, chunk] : chunks_) munmap(reinterpret_cast<void*>(begin), chunk.bytes);
    for (auto& memory : external_) munmap(memory->mapped, memory->bytes);
    now = nullptr;
  }

  Faults faults;
  CudaApi api;
  std::map<std::string, int> calls;  ///< of functions that tests count

  /// What cuMemCreate and cuMemMap make, in steps of 2 MiB; `at` 0: somewhere.
  char* map_chunk(size_t bytes, uintptr_t at = 0) {
    if (at == 0) at = reserve(bytes);
    Chunk chunk;
    chunk.memory = Allocation(device_, static_cast<int64_t>(bytes), MemoryUse::kShared);
    chunk.fd = chunk.memory.export_fd(device_);
    chunk.bytes = bytes;
    chunk.handle = ++last_handle_;
    void* got = mmap(reinterpret_cast<void*>(at), bytes, PROT_READ | PROT_WRITE,
                     MAP_SHARED | MAP_FIXED, chunk.fd, data_offset_);
    chunks_[at] = std::move(chunk);
    return static_cast<char*>(got);
  }
  void unmap_chunk(void* begin) {
    Chunk& chunk = chunks_.at(reinterpret_cast<uintptr_t>(begin));
    mmap(begin, chunk.bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    close(chunk.fd);
    chunks_.erase(reinterpret_cast<uintptr_t>(begin));
  }
  /// Handles that are retained and not released.
  int64_t retained() const { return retained_; }

  CuStream stream(size_t number) { return reinterpret_cast<CuStream>(8 * (number + 1)); }
  /// Puts host work on a stream.
  void enqueue(CuStream stream, std::function<void()> work) {
    streams_[stream].push_back([work] {
      work();
      return true;
    });
  }
  /// A step that ends when `ready` says so.
  void enqueue_wait(CuStream stream, std::function<bool()> ready) {
    streams_[stream].push_back(std::move(ready));
  }
  bool pump(CuStream stream) {
    auto& steps = streams_[stream];
    while (!steps.empty() && steps.front()()) steps.pop_front();
    return steps.empty();
  }
  void drain(CuStream stream) {
    while (!pump(stream)) {
    }
  }

 private:
  struct Chunk {
    Allocation memory;
    int fd = -1;
    size_t bytes = 0;
    CuHandle handle = 0;
  };
  struct External {
    void* mapped = nullptr;
    size_t bytes = 0;
  };

  static uintptr_t reserve(size_t bytes) {
    constexpr uintptr_t kStep = 2 << 20;
    void* space = mmap(nullptr, bytes + 4 * kStep, PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    // Unmapped neighbours on both sides, as in an address space of its own.
    return (reinterpret_cast<uintptr_t>(space) + 2 * kStep - 1) / kStep * kStep;
  }

  void find_data_offset() {
    constexpr size_t kBytes = 8192;
    Allocation probe(device_, kBytes, MemoryUse::kShared);
    const int fd = probe.export_fd(device_);
    run_once(device_, [&](VkCommandBuffer commands) {
      device_.api().vkCmdFillBuffer(commands, probe.buffer(), 0, kBytes, 0x5AFE5AFE);
    });
    const off_t size = lseek(fd, 0, SEEK_END);
    std::vector<uint32_t> words(static_cast<size_t>(size) / 4);
    if (pread(fd, words.data(), words.size() * 4, 0) > 0) {
      for (size_t i = 0; i < words.size(); i += 1024) {
        if (words[i] != 0x5AFE5AFE) continue;
        data_offset_ = static_cast<off_t>(i * 4);
        break;
      }
    }
    close(fd);
  }

  const Chunk* chunk_of(CuDevicePtr address) const {
    auto after = chunks_.upper_bound(address);
    if (after == chunks_.begin()) return nullptr;
    const auto& [begin, chunk] = *std::prev(after);
    return address < begin + chunk.bytes ? &chunk : nullptr;
  }

  void fill() {
    api.cuInit = [](unsigned) { return kCuSuccess; };
    api.cuGetErrorName = [](CuResult, const char** name) {
      *name = "CUDA_ERROR_OF_THE_MOCK";
      return kCuSuccess;
    };
    api.cuDeviceGetCount = [](int* count) { return *count = 1, kCuSuccess; };
    api.cuDeviceGet = [](CuDevice* device, int) { return *device = 0, kCuSuccess; };
    api.cuDeviceGetUuid = [](CuUuid* uuid, CuDevice) {
      const std::string text = now->device_.profile().uuid;
      for (size_t i = 0; i < 16; ++i) {
        uuid->bytes[i] = static_cast<unsigned char>(std::stoi(text.substr(2 * i, 2), nullptr, 16));
      }
      if (now->faults.other_uuid) uuid->bytes[0] ^= 1;
      return kCuSuccess;
    };
    api.cuDevicePrimaryCtxRetain = [](CuContext* context, CuDevice) {
      return *context = reinterpret_cast<CuContext>(16), kCuSuccess;
    };
    api.cuCtxGetCurrent = [](CuContext* context) { return *context = nullptr, kCuSuccess; };
    api.cuCtxPushCurrent = [](CuContext) { return ++now->calls["push"], kCuSuccess; };
    api.cuCtxPopCurrent = [](CuContext*) { return ++now->calls["pop"], kCuSuccess; };
    fill_streams();
    fill_memory();
  }

  void fill_streams() {
    api.cuStreamCreate = [](CuStream* stream, unsigned) {
      static size_t made = 100;
      return *stream = now->stream(made++), kCuSuccess;
    };
    api.cuStreamDestroy = [](CuStream) { return kCuSuccess; };
    api.cuStreamQuery = [](CuStream stream) {
      return now->pump(stream) ? kCuSuccess : kCuNotReady;
    };
    api.cuStreamSynchronize = [](CuStream stream) { return now->drain(stream), kCuSuccess; };
    api.cuStreamIsCapturing = [](CuStream, int* status) {
      return *status = now->faults.capturing, kCuSuccess;
    };
    api.cuStreamWaitValue32 = [](CuStream stream, CuDevicePtr at, uint32_t value, unsigned) {
      ++now->calls["wait"];
      if (now->faults.counter_ignored) return kCuSuccess;
      const auto* word = reinterpret_cast<const volatile uint32_t*>(at);
      const bool never = now->faults.counter_never;
      now->enqueue_wait(stream, [word, value, never] {
        const bool rescued = *word == value && now->calls["memset"] > 0 && now->released_;
        return never ? rescued : static_cast<int32_t>(*word - value) >= 0;
      });
      return kCuSuccess;
    };
    api.cuMemcpyDtoDAsync = [](CuDevicePtr dst, CuDevicePtr src, size_t bytes, CuStream stream) {
      ++now->calls["copy"];
      now->enqueue(stream, [=] {
        std::memcpy(reinterpret_cast<void*>(dst), reinterpret_cast<void*>(src), bytes);
      });
      return kCuSuccess;
    };
    api.cuMemcpyDtoHAsync = [](void* dst, CuDevicePtr src, size_t bytes, CuStream stream) {
      if (now->faults.counter_ignored) {  // read before Vulkan wrote
        std::memset(dst, 0, bytes);
        return kCuSuccess;
      }
      now->enqueue(stream, [=] { std::memcpy(dst, reinterpret_cast<void*>(src), bytes); });
      return kCuSuccess;
    };
    api.cuMemsetD32Async = [](CuDevicePtr at, unsigned value, size_t count, CuStream stream) {
      ++now->calls["memset"];
      now->released_ |= count == 1 && now->calls["wait"] > 0;
      now->enqueue(stream, [=] {
        for (size_t i = 0; i < count; ++i) reinterpret_cast<uint32_t*>(at)[i] = value;
      });
      return kCuSuccess;
    };
    api.cuImportExternalSemaphore = [](CuExternalSemaphore*, const CuExternalSemaphoreDesc*) {
      return 999;
    };
  }

  void fill_memory() {
    api.cuMemRetainAllocationHandle = [](CuHandle* handle, void* address) {
      const Chunk* chunk = now->chunk_of(reinterpret_cast<uintptr_t>(address));
      if (!chunk) return 1;
      *handle = chunk->handle;
      ++now->retained_;
      return kCuSuccess;
    };
    api.cuMemRelease = [](CuHandle) { return --now->retained_, kCuSuccess; };
    api.cuMemExportToShareableHandle = [](void* fd, CuHandle handle, int, unsigned long long) {
      for (const auto& [begin, chunk] : now->chunks_) {
        if (chunk.handle != handle || now->faults.no_export) continue;
        *static_cast<int*>(fd) = dup(chunk.fd);
        return kCuSuccess;
      }
      return 801;
    };
    api.cuImportExternalMemory = [](CuExternalMemory* memory, const CuExternalMemoryDesc* desc) {
      auto made = std::make_unique<External>();
      made->bytes = desc->size;
      made->mapped = mmap(nullptr, desc->size, PROT_READ | PROT_WRITE, MAP_SHARED, desc->handle.fd,
                          now->data_offset_);
      close(desc->handle.fd);
      *memory = reinterpret_cast<CuExternalMemory>(made.get());
      now->external_.push_back(std::move(made));
      return kCuSuccess;
    };
    api.cuExternalMemoryGetMappedBuffer = [](CuDevicePtr* address, CuExternalMemory memory,
                                             const CuExternalBufferDesc* part) {
      *address =
          reinterpret_cast<CuDevicePtr>(reinterpret_cast<External*>(memory)->mapped) + part->offset;
      return kCuSuccess;
    };
    api.cuMemFree = [](CuDevicePtr) { return ++now->calls["free"], kCuSuccess; };
    api.cuDestroyExternalMemory = [](CuExternalMemory) { return kCuSuccess; };
    api.cuDestroyExternalSemaphore = [](CuExternalSemaphore) { return kCuSuccess; };
  }

  static inline CudaMock* now = nullptr;
  Device& device_;
  off_t data_offset_ = 0;
  bool released_ = false;
  int64_t retained_ = 0;
  CuHandle last_handle_ = 0;
  std::map<uintptr_t, Chunk> chunks_;
  std::vector<std::unique_ptr<External>> external_;
  std::map<CuStream, std::deque<std::function<bool()>>> streams_;
};

}  // namespace tv::test
