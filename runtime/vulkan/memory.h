#pragma once
// Device memory: one allocation with its address.

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>

#include "runtime/vulkan/device_memory.h"
#include "runtime/vulkan/handle.h"

namespace tv {

class Device;

enum class MemoryUse : uint8_t {
  kDevice,    ///< fast for the device; not mapped on a discrete GPU
  kArena,     ///< as kDevice, counted apart: activations
  kWeights,   ///< as kDevice, counted apart: weights
  kUpload,    ///< written by the host in order, read by the device
  kReadback,  ///< written by the device, read by the host
  kParams,    ///< written by the host once, read by the device often: on the device where it can be
  kShared,    ///< as kDevice, and `export_fd` hands it to other interfaces
  kSlots,     ///< as kDevice: weights pass through it. With kHostWeights always a buffer
  kHostWeights,  ///< written by the host, read by both queues; not the device's own if it can be
};

/// Bytes of a device's allocations. Thread-safe.
class MemoryCounter {
 public:
  void add(MemoryUse use, int64_t bytes) noexcept;
  DeviceMemory now() const;
  /// Excluding host-visible memory.
  int64_t on_device() const;
  void reset_peak();

 private:
  std::array<std::atomic<int64_t>, 9> held_{};  ///< by MemoryUse
  std::atomic<int64_t> all_{0}, peak_{0};
};

/// Owns memory that shaders reach by address. On a host-pointer device it is mostly anonymous
/// memory of the process, elsewhere a buffer with memory of its own. Starts at a page's border.
/// Movable.
class Allocation {
 public:
  Allocation() = default;
  /// Where there is too little memory, what no call uses now is freed first. Throws
  /// OutOfMemoryError with the sizes, or Error(kDevice). `device` must outlive it.
  Allocation(Device& device, int64_t size_bytes, MemoryUse use);
  Allocation(Allocation&& other) noexcept;
  Allocation& operator=(Allocation&& other) noexcept;
  ~Allocation();

  int64_t size_bytes() const { return size_bytes_; }
  uint64_t address() const { return address_; }
  /// Null where the host cannot reach it.
  void* host() const { return host_; }
  VkBuffer buffer() const { return buffer_.get(); }  ///< null where it is the process's memory
  void flush() const;  ///< makes the host's writes visible to the device
  void flush(int64_t offset, int64_t bytes) const;  ///< those of a part
  void invalidate() const;  ///< makes the device's writes visible to the host
  /// A new file descriptor of kShared memory, the caller's to close. Throws Error(kDevice).
  int export_fd(Device& device) const;
  int64_t memory_bytes() const { return memory_bytes_; }  ///< of the memory behind the buffer
  explicit operator bool() const { return address_ != 0; }

 private:
  void allocate(Device& device);
  void allocate_pages(Device& device);
  void allocate_buffer(Device& device);
  void release() noexcept;

  const DeviceApi* api_ = nullptr;
  MemoryCounter* counter_ = nullptr;  ///< that knows of it
  MemoryUse use_ = MemoryUse::kDevice;
  int64_t size_bytes_ = 0, memory_bytes_ = 0;
  uint64_t address_ = 0;
  void* host_ = nullptr;
  bool mapped_pages_ = false;  ///< host_ came from mmap
  bool coherent_ = true;
  OwnedMemory memory_;  // freed after the buffer
  OwnedBuffer buffer_;
};

/// Bytes of the device's largest heap that the process may still take, without what other processes
/// and interfaces hold; an estimate of this moment. None where the driver gives none
/// (VK_EXT_memory_budget).
std::optional<uint64_t> free_memory_bytes(const Device& device);

/// Whether the device has memory of its own, which the host's weights can be kept out of.
bool has_own_memory(const Device& device);

/// The first memory type with all of `must` and, if there is one, all of `wish`. Throws
/// Error(kDevice).
uint32_t memory_type(const Device& device, uint32_t allowed, VkMemoryPropertyFlags must,
                     VkMemoryPropertyFlags wish);

}  // namespace tv
