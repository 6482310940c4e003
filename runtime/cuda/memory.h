#pragma once
// Memory that CUDA and a Vulkan device both reach.

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/cuda/api.h"
#include "runtime/vulkan/device_impl.h"

namespace tv {

/// Vulkan's memory, mapped into CUDA.
class SharedBuffer {
 public:
  SharedBuffer() = default;
  /// Throws Error(kDevice) naming the step that failed and its code. CUDA's context is current.
  SharedBuffer(Device& device, const CudaApi& cuda, int64_t size_bytes);
  SharedBuffer(SharedBuffer&& other) noexcept { *this = std::move(other); }
  SharedBuffer& operator=(SharedBuffer&& other) noexcept;
  ~SharedBuffer() { release(); }

  uint64_t address() const { return memory_.address(); }  ///< for shaders
  CuDevicePtr cuda() const { return mapped_; }
  VkBuffer buffer() const { return memory_.buffer(); }
  int64_t size_bytes() const { return memory_.size_bytes(); }
  explicit operator bool() const { return mapped_ != 0; }

 private:
  void release() noexcept;

  const CudaApi* cuda_ = nullptr;
  Allocation memory_;
  CuExternalMemory external_ = nullptr;
  CuDevicePtr mapped_ = 0;
};

/// CUDA's memory, imported into Vulkan: what cuMemCreate made with a POSIX file descriptor as its
/// handle, as torch's expandable segments do. Thread-safe; CUDA's context is current.
class CudaImports {
 public:
  CudaImports(Device& device, const CudaApi& cuda) : device_(device), cuda_(cuda) {}
  ~CudaImports();
  CudaImports(const CudaImports&) = delete;

  /// The device address of `size_bytes` bytes of CUDA's at `address`; imports them at the first
  /// use, and checks at each later one that the same memory is still mapped there. 0 if it
  /// cannot be shared; `why`, where given, then says why.
  uint64_t find(CuDevicePtr address, int64_t size_bytes, std::string* why = nullptr);
  /// Memory of Vulkan's for CUDA, which `find` knows; 0 if there is none left.
  CuDevicePtr allocate(int64_t size_bytes);
  /// Gives back what `allocate` gave, after all that was submitted; false for other addresses.
  bool free(CuDevicePtr address);
  /// Lets go of what CUDA no longer maps where it was imported.
  void sweep();
  size_t chunks() const;

 private:
  /// One allocation of cuMemCreate, mapped at [begin, end).
  struct Chunk {
    CuDevicePtr begin = 0, end = 0;
    CuHandle handle = 0;  ///< retained, so that no other allocation gets its value
    OwnedMemory memory;
    OwnedBuffer buffer;  // freed before the memory
    uint64_t address = 0;
  };
  using ChunkPtr = std::shared_ptr<Chunk>;
  /// Several chunks side by side, as one sparse buffer.
  struct Run {
    CuDevicePtr begin = 0, end = 0;
    std::vector<ChunkPtr> chunks;
    OwnedBuffer buffer;
    uint64_t address = 0;
  };

  ChunkPtr chunk_at(CuDevicePtr address, std::string* why);
  ChunkPtr import(CuDevicePtr address, CuHandle handle, std::string* why);
  uint64_t find_run(CuDevicePtr address, CuDevicePtr end, std::vector<ChunkPtr> chunks,
                    std::string* why);
  bool still_mapped(const Chunk& chunk) const;
  void drop(CuDevicePtr begin);
  void sweep_locked();
  CuHandle handle_at(CuDevicePtr address) const;

  Device& device_;
  const CudaApi& cuda_;
  mutable std::mutex mutex_;
  std::map<CuDevicePtr, ChunkPtr> chunks_;  // by begin
  std::vector<Run> runs_;
  std::map<CuDevicePtr, SharedBuffer> allocated_;
  uint64_t finds_ = 0;
};

}  // namespace tv
