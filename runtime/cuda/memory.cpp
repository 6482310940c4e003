#include "runtime/cuda/memory.h"

#include <unistd.h>

#include <algorithm>

#include "runtime/base/error.h"

namespace tv {
namespace {

// cuMemCreate's granularity on every GPU so far; smaller steps would only be slower.
constexpr CuDevicePtr kGranularity = 2 << 20;
constexpr uint64_t kFindsBetweenSweeps = 1024;

void check_cuda(const CudaApi& cuda, CuResult result, const char* what) {
  if (result == kCuSuccess) return;
  throw Error(ErrorKind::kDevice,
              std::string("[cuda] ") + what + " failed: " + cuda_result_name(cuda, result));
}

VkBufferCreateInfo buffer_info(const VkExternalMemoryBufferCreateInfo& external, VkDeviceSize size,
                               VkBufferCreateFlags flags) {
  VkBufferCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO;
  info.pNext = &external;
  info.flags = flags;
  info.size = size;
  info.usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT |
               VK_BUFFER_USAGE_TRANSFER_DST_BIT | VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT;
  return info;
}

OwnedBuffer external_buffer(const DeviceApi& api, VkDeviceSize size, VkBufferCreateFlags flags,
                            VkResult& result) {
  VkExternalMemoryBufferCreateInfo external{};
  external.sType = VK_STRUCTURE_TYPE_EXTERNAL_MEMORY_BUFFER_CREATE_INFO;
  external.handleTypes = VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT;
  const VkBufferCreateInfo info = buffer_info(external, size, flags);
  VkBuffer buffer = VK_NULL_HANDLE;
  result = api.vkCreateBuffer(api.device, &info, nullptr, &buffer);
  return {api, buffer};
}

uint64_t address_of(const DeviceApi& api, VkBuffer buffer) {
  VkBufferDeviceAddressInfo query{};
  query.sType = VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO;
  query.buffer = buffer;
  return api.vkGetBufferDeviceAddress(api.device, &query);
}

void explain(std::string* why, const std::string& text) {
  if (why) *why = text;
}

/// Takes `fd`, also where it fails.
OwnedMemory import_fd(const DeviceApi& api, int fd, VkDeviceSize size, uint32_t type,
                      VkResult& result) {
  VkImportMemoryFdInfoKHR source{};
  source.sType = VK_STRUCTURE_TYPE_IMPORT_MEMORY_FD_INFO_KHR;
  source.handleType = VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT;
  source.fd = fd;
  VkMemoryAllocateFlagsInfo flags{};
  flags.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO;
  flags.pNext = &source;
  flags.flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT;
  VkMemoryAllocateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO;
  info.pNext = &flags;
  info.allocationSize = size;
  info.memoryTypeIndex = type;
  VkDeviceMemory memory = VK_NULL_HANDLE;
  result = api.vkAllocateMemory(api.device, &info, nullptr, &memory);
  if (result != VK_SUCCESS) close(fd);
  return {api, memory};
}

}  // namespace

SharedBuffer::SharedBuffer(Device& device, const CudaApi& cuda, int64_t size_bytes)
    : cuda_(&cuda), memory_(device, size_bytes, MemoryUse::kShared) {
  CuExternalMemoryDesc desc{};
  desc.type = kCuMemoryOpaqueFd;
  desc.handle.fd = memory_.export_fd(device);
  desc.size = static_cast<unsigned long long>(memory_.memory_bytes());
  const CuResult imported = cuda.cuImportExternalMemory(&external_, &desc);
  if (imported != kCuSuccess) close(desc.handle.fd);  // CUDA owns it otherwise
  check_cuda(cuda, imported, "cuImportExternalMemory");
  CuExternalBufferDesc part{};
  part.size = static_cast<unsigned long long>(memory_.size_bytes());
  const CuResult mapped = cuda.cuExternalMemoryGetMappedBuffer(&mapped_, external_, &part);
  if (mapped != kCuSuccess) release();
  check_cuda(cuda, mapped, "cuExternalMemoryGetMappedBuffer");
}

SharedBuffer& SharedBuffer::operator=(SharedBuffer&& other) noexcept {
  if (this == &other) return *this;
  release();
  cuda_ = other.cuda_;
  memory_ = std::move(other.memory_);
  external_ = std::exchange(other.external_, nullptr);
  mapped_ = std::exchange(other.mapped_, 0);
  return *this;
}

void SharedBuffer::release() noexcept {
  if (mapped_ && vulkan_usable()) cuda_->cuMemFree(mapped_);
  if (external_ && vulkan_usable()) cuda_->cuDestroyExternalMemory(external_);
  mapped_ = 0;
  external_ = nullptr;
}

CudaImports::~CudaImports() {
  runs_.clear();
  for (const auto& [begin, chunk] : chunks_) {
    if (vulkan_usable()) cuda_.cuMemRelease(chunk->handle);
  }
}

CuHandle CudaImports::handle_at(CuDevicePtr address) const {
  CuHandle handle = 0;
  void* pointer = reinterpret_cast<void*>(static_cast<uintptr_t>(address));
  return cuda_.cuMemRetainAllocationHandle(&handle, pointer) == kCuSuccess ? handle : 0;
}

bool CudaImports::still_mapped(const Chunk& chunk) const {
  const CuHandle handle = handle_at(chunk.begin);
  if (handle != 0) cuda_.cuMemRelease(handle);
  return handle == chunk.handle;
}

uint64_t CudaImports::find(CuDevicePtr address, int64_t size_bytes, std::string* why) {
  const std::lock_guard lock(mutex_);
  if (++finds_ % kFindsBetweenSweeps == 0) sweep_locked();
  const CuDevicePtr end = address + static_cast<CuDevicePtr>(std::max<int64_t>(size_bytes, 1));
  const auto own = allocated_.upper_bound(address);
  if (own != allocated_.begin()) {
    const auto& [begin, memory] = *std::prev(own);
    if (end <= begin + static_cast<CuDevicePtr>(memory.size_bytes())) {
      return memory.address() + (address - begin);
    }
  }
  std::vector<ChunkPtr> touched;
  for (CuDevicePtr at = address; at < end;) {
    ChunkPtr chunk = chunk_at(at, why);
    if (!chunk) return 0;
    at = chunk->end;
    if (touched.empty() && at >= end) return chunk->address + (address - chunk->begin);
    touched.push_back(std::move(chunk));
  }
  return find_run(address, end, std::move(touched), why);
}

CudaImports::ChunkPtr CudaImports::chunk_at(CuDevicePtr address, std::string* why) {
  auto after = chunks_.upper_bound(address);
  if (after != chunks_.begin()) {
    const ChunkPtr known = std::prev(after)->second;
    if (address < known->end) {
      if (still_mapped(*known)) return known;
      drop(known->begin);
    }
  }
  const CuHandle handle = handle_at(address);
  if (handle == 0) {
    explain(why, "it was not made by cuMemCreate");
    return nullptr;
  }
  sweep_locked();  // what lay here before must not overlap the new chunk
  const ChunkPtr made = import(address, handle, why);
  if (!made) cuda_.cuMemRelease(handle);
  return made;
}

CudaImports::ChunkPtr CudaImports::import(CuDevicePtr address, CuHandle handle, std::string* why) {
  const auto same = [&](CuDevicePtr at) {
    const CuHandle other = handle_at(at);
    if (other != 0) cuda_.cuMemRelease(other);
    return other == handle;
  };
  auto chunk = std::make_shared<Chunk>();
  chunk->handle = handle;
  chunk->begin = address / kGranularity * kGranularity;
  while (chunk->begin >= kGranularity && same(chunk->begin - kGranularity)) {
    chunk->begin -= kGranularity;
  }
  chunk->end = address / kGranularity * kGranularity + kGranularity;
  while (same(chunk->end)) chunk->end += kGranularity;

  int fd = -1;
  const CuResult exported = cuda_.cuMemExportToShareableHandle(&fd, handle, kCuHandlePosixFd, 0);
  if (exported != kCuSuccess) {
    explain(why, "cuMemExportToShareableHandle failed: " + cuda_result_name(cuda_, exported));
    return nullptr;
  }
  const DeviceApi& api = device_.api();
  VkResult result = VK_SUCCESS;
  const VkDeviceSize size = chunk->end - chunk->begin;
  chunk->buffer = external_buffer(api, size, 0, result);
  if (result != VK_SUCCESS) {
    close(fd);
    explain(why, "vkCreateBuffer failed: " + result_name(result));
    return nullptr;
  }
  VkMemoryRequirements needs{};
  api.vkGetBufferMemoryRequirements(api.device, chunk->buffer.get(), &needs);
  const uint32_t type =
      memory_type(device_, needs.memoryTypeBits, VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT, 0);
  chunk->memory = import_fd(api, fd, size, type, result);
  if (result == VK_SUCCESS) {
    result = api.vkBindBufferMemory(api.device, chunk->buffer.get(), chunk->memory.get(), 0);
  }
  if (result != VK_SUCCESS) {
    explain(why, "Vulkan cannot import it: " + result_name(result));
    return nullptr;
  }
  chunk->address = address_of(api, chunk->buffer.get());
  chunks_[chunk->begin] = chunk;
  return chunk;
}

uint64_t CudaImports::find_run(CuDevicePtr address, CuDevicePtr end, std::vector<ChunkPtr> chunks,
                               std::string* why) {
  for (const Run& run : runs_) {
    if (run.begin <= address && end <= run.end) return run.address + (address - run.begin);
  }
  if (!device_.sparse_binding()) {
    explain(why, "it lies in several pieces, and the device has no sparse buffers");
    return 0;
  }
  const DeviceApi& api = device_.api();
  Run run;
  run.begin = chunks.front()->begin;
  run.end = chunks.back()->end;
  VkResult result = VK_SUCCESS;
  run.buffer =
      external_buffer(api, run.end - run.begin, VK_BUFFER_CREATE_SPARSE_BINDING_BIT, result);
  if (result != VK_SUCCESS) {
    explain(why, "vkCreateBuffer (sparse) failed: " + result_name(result));
    return 0;
  }
  std::vector<VkSparseMemoryBind> binds;
  for (const ChunkPtr& chunk : chunks) {
    VkSparseMemoryBind bind{};
    bind.resourceOffset = chunk->begin - run.begin;
    bind.size = chunk->end - chunk->begin;
    bind.memory = chunk->memory.get();
    binds.push_back(bind);
  }
  device_.bind_sparse(run.buffer.get(), binds);
  run.address = address_of(api, run.buffer.get());
  run.chunks = std::move(chunks);
  runs_.push_back(std::move(run));
  return runs_.back().address + (address - runs_.back().begin);
}

void CudaImports::drop(CuDevicePtr begin) {
  device_.wait_submitted();  // what runs may still read it
  const ChunkPtr gone = chunks_.at(begin);
  std::erase_if(runs_, [&](const Run& run) {
    return std::find(run.chunks.begin(), run.chunks.end(), gone) != run.chunks.end();
  });
  cuda_.cuMemRelease(gone->handle);
  chunks_.erase(begin);
}

CuDevicePtr CudaImports::allocate(int64_t size_bytes) {
  try {
    SharedBuffer memory(device_, cuda_, size_bytes);
    const std::lock_guard lock(mutex_);
    const CuDevicePtr address = memory.cuda();
    allocated_[address] = std::move(memory);
    return address;
  } catch (const Error&) {
    return 0;  // torch frees what it can and asks again
  }
}

bool CudaImports::free(CuDevicePtr address) {
  const std::lock_guard lock(mutex_);
  const auto found = allocated_.find(address);
  if (found == allocated_.end()) return false;
  device_.wait_submitted();
  allocated_.erase(found);
  return true;
}

void CudaImports::sweep() {
  const std::lock_guard lock(mutex_);
  sweep_locked();
}

void CudaImports::sweep_locked() {
  std::vector<CuDevicePtr> gone;
  for (const auto& [begin, chunk] : chunks_) {
    if (!still_mapped(*chunk)) gone.push_back(begin);
  }
  for (const CuDevicePtr begin : gone) drop(begin);
}

size_t CudaImports::chunks() const {
  const std::lock_guard lock(mutex_);
  return chunks_.size();
}

}  // namespace tv
