#include "runtime/vulkan/memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <utility>

#include "runtime/base/debug.h"
#include "runtime/base/error.h"
#include "runtime/vulkan/device_impl.h"

namespace tv {
namespace {

std::string mebibytes(uint64_t bytes) {
  return std::to_string((bytes + (1 << 20) - 1) >> 20) + " MiB";
}

[[noreturn]] void out_of_memory(const Device& device, uint64_t bytes, const std::string& why) {
  // Where buffers are the process's own pages, its limits are nearer than the machine's.
  const auto free = device.host_pointers() ? std::nullopt : free_memory_bytes(device);
  throw OutOfMemoryError("[memory] " + device.profile().name + " is out of memory: it has no " +
                         mebibytes(bytes) + " left (" + why + "; its memory is " +
                         mebibytes(device.profile().memory_bytes) +
                         (free ? ", of which " + mebibytes(*free) + " are free" : "") + ")");
}

/// Memory that weights pass through or come from is copied by queues, so it is a buffer everywhere.
bool is_streamed(MemoryUse use) {
  return use == MemoryUse::kSlots || use == MemoryUse::kHostWeights;
}

/// Where the host keeps weights: not in what a GPU shows the host of its own memory.
uint32_t host_weights_type(const Device& device, uint32_t allowed) {
  constexpr VkMemoryPropertyFlags kWanted =
      VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
  const VkPhysicalDeviceMemoryProperties& memory = device.physical().memory;
  for (uint32_t i = 0; i < memory.memoryTypeCount; ++i) {
    const VkMemoryPropertyFlags flags = memory.memoryTypes[i].propertyFlags;
    const bool own = flags & VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT;
    if (((allowed >> i) & 1) && !own && (flags & kWanted) == kWanted) return i;
  }
  return memory_type(device, allowed, VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT,
                     VK_MEMORY_PROPERTY_HOST_COHERENT_BIT);
}

bool is_on_host(MemoryUse use) {
  return use == MemoryUse::kUpload || use == MemoryUse::kReadback || use == MemoryUse::kParams ||
         use == MemoryUse::kHostWeights;
}

uint32_t type_for(const Device& device, uint32_t allowed, MemoryUse use) {
  if (use == MemoryUse::kHostWeights) return host_weights_type(device, allowed);
  const bool on_host = is_on_host(use);
  return memory_type(
      device, allowed,
      on_host ? VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT : VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT,
      use == MemoryUse::kReadback ? VK_MEMORY_PROPERTY_HOST_CACHED_BIT
      : use == MemoryUse::kParams
          ? VK_MEMORY_PROPERTY_HOST_COHERENT_BIT | VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT
      : on_host ? VK_MEMORY_PROPERTY_HOST_COHERENT_BIT
                : 0);
}

/// The limit that tests set.
void check_limit(const Device& device, int64_t bytes, MemoryUse use) {
  const int64_t limit = debug_modes().device_bytes;
  if (limit < 0 || is_on_host(use)) return;
  if (device.memory().on_device() + bytes > limit) {
    out_of_memory(device, static_cast<uint64_t>(bytes), "the limit that was set");
  }
}

OwnedBuffer create_buffer(const Device& device, int64_t size_bytes, MemoryUse use) {
  VkBufferCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO;
  info.size = static_cast<VkDeviceSize>(size_bytes + 3) & ~VkDeviceSize{3};
  info.usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT |
               VK_BUFFER_USAGE_TRANSFER_DST_BIT | VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT;
  VkExternalMemoryBufferCreateInfo shared{};
  shared.sType = VK_STRUCTURE_TYPE_EXTERNAL_MEMORY_BUFFER_CREATE_INFO;
  shared.handleTypes = VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT;
  if (use == MemoryUse::kShared) info.pNext = &shared;
  const uint32_t families[] = {device.physical().queue_family,
                               device.physical().transfer_family.value_or(0)};
  if (is_streamed(use) && device.physical().transfer_family) {
    info.sharingMode = VK_SHARING_MODE_CONCURRENT;
    info.queueFamilyIndexCount = 2;
    info.pQueueFamilyIndices = families;
  }
  if (info.size > device.physical().max_buffer_bytes) {
    out_of_memory(device, info.size, "larger than any buffer there may be");
  }
  const DeviceApi& api = device.api();
  VkBuffer buffer = VK_NULL_HANDLE;
  const VkResult result = api.vkCreateBuffer(api.device, &info, nullptr, &buffer);
  if (result != VK_SUCCESS) out_of_memory(device, info.size, result_name(result));
  return OwnedBuffer(api, buffer);
}

/// `type`: an index among the device's memory types.
OwnedMemory allocate_memory(Device& device, VkDeviceSize size, uint32_t type, MemoryUse use) {
  VkMemoryAllocateFlagsInfo flags{};
  flags.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO;
  flags.flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT;
  VkExportMemoryAllocateInfo exported{};
  exported.sType = VK_STRUCTURE_TYPE_EXPORT_MEMORY_ALLOCATE_INFO;
  exported.handleTypes = VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT;
  if (use == MemoryUse::kShared) flags.pNext = &exported;
  VkMemoryAllocateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO;
  info.pNext = &flags;
  info.allocationSize = size;
  info.memoryTypeIndex = type;
  const DeviceApi& api = device.api();
  VkDeviceMemory memory = VK_NULL_HANDLE;
  const VkResult result = api.vkAllocateMemory(api.device, &info, nullptr, &memory);
  if (result == VK_ERROR_DEVICE_LOST) device.check(result, "memory");
  if (result != VK_SUCCESS) out_of_memory(device, size, result_name(result));
  return OwnedMemory(api, memory);
}

}  // namespace

bool has_own_memory(const Device& device) {
  if (debug_modes().device_bytes >= 0) return true;  // as if it had
  return device.profile().type == DeviceType::kDiscrete;
}

uint32_t memory_type(const Device& device, uint32_t allowed, VkMemoryPropertyFlags must,
                     VkMemoryPropertyFlags wish) {
  const VkPhysicalDeviceMemoryProperties& memory = device.physical().memory;
  for (const VkMemoryPropertyFlags flags : {must | wish, must}) {
    for (uint32_t i = 0; i < memory.memoryTypeCount; ++i) {
      const bool fits = (allowed >> i) & 1;
      if (fits && (memory.memoryTypes[i].propertyFlags & flags) == flags) return i;
    }
  }
  throw Error(ErrorKind::kDevice, "[memory] " + device.profile().name +
                                      " has no memory type with properties " +
                                      std::to_string(must));
}

std::optional<uint64_t> free_memory_bytes(const Device& device) {
  if (const int64_t limit = debug_modes().device_bytes; limit >= 0)
    return static_cast<uint64_t>(std::max<int64_t>(limit - device.memory().on_device(), 0));
  if (!device.physical().memory_budget) return {};
  VkPhysicalDeviceMemoryBudgetPropertiesEXT budget{};
  budget.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT;
  VkPhysicalDeviceMemoryProperties2 now{};
  now.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2;
  now.pNext = &budget;
  Instance::get().api().vkGetPhysicalDeviceMemoryProperties2(device.physical().handle, &now);
  const VkPhysicalDeviceMemoryProperties& memory = now.memoryProperties;
  std::optional<uint32_t> largest;
  for (uint32_t i = 0; i < memory.memoryHeapCount; ++i) {
    const VkMemoryHeap& heap = memory.memoryHeaps[i];
    const bool larger = !largest || heap.size > memory.memoryHeaps[*largest].size;
    if ((heap.flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT) && larger) largest = i;
  }
  if (!largest) return {};
  const uint64_t all = std::min(budget.heapBudget[*largest], memory.memoryHeaps[*largest].size);
  return all - std::min(all, budget.heapUsage[*largest]);
}

void MemoryCounter::add(MemoryUse use, int64_t bytes) noexcept {
  held_[static_cast<size_t>(use)] += bytes;
  if (use == MemoryUse::kHostWeights) return;
  const int64_t all = all_ += bytes;
  int64_t peak = peak_;
  while (all > peak && !peak_.compare_exchange_weak(peak, all)) {
  }
}

DeviceMemory MemoryCounter::now() const {
  const auto of = [&](MemoryUse use) { return held_[static_cast<size_t>(use)].load(); };
  return {.arenas = of(MemoryUse::kArena),
          .weights = of(MemoryUse::kWeights),
          .slots = of(MemoryUse::kSlots),
          .staging = of(MemoryUse::kUpload) + of(MemoryUse::kReadback),
          .shared = of(MemoryUse::kShared),
          .other = of(MemoryUse::kDevice) + of(MemoryUse::kParams),
          .peak = peak_,
          .host_weights = of(MemoryUse::kHostWeights)};
}

int64_t MemoryCounter::on_device() const {
  int64_t bytes = 0;
  for (size_t use = 0; use < held_.size(); ++use) {
    if (!is_on_host(static_cast<MemoryUse>(use))) bytes += held_[use];
  }
  return bytes;
}

void MemoryCounter::reset_peak() { peak_ = all_.load(); }

DeviceMemory memory_in_use(const Device& device) { return device.memory().now(); }

void reset_peak_memory(Device& device) { device.memory().reset_peak(); }

void release_memory(Device& device) { device.free_idle_scratch(); }

Allocation::Allocation(Device& device, int64_t size_bytes, MemoryUse use)
    : api_(&device.api()), use_(use), size_bytes_(std::max<int64_t>(size_bytes, 16)) {
  try {
    allocate(device);
  } catch (const OutOfMemoryError&) {
    if (device.lost() || !device.free_idle_scratch()) throw;
    release();
    allocate(device);
  }
  counter_ = &device.memory();
  counter_->add(use_, size_bytes_);
}

void Allocation::allocate(Device& device) {
  check_limit(device, size_bytes_, use_);
  device.host_pointers() && !is_streamed(use_) ? allocate_pages(device) : allocate_buffer(device);
}

void Allocation::allocate_pages(Device& device) {
  void* pages = mmap(nullptr, static_cast<size_t>(size_bytes_), PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) {
    out_of_memory(device, static_cast<uint64_t>(size_bytes_), "mmap failed");
  }
  constexpr int64_t kHugePage = 2 << 20;
  if (size_bytes_ >= 2 * kHugePage) madvise(pages, static_cast<size_t>(size_bytes_), MADV_HUGEPAGE);
  host_ = pages;
  mapped_pages_ = true;
  address_ = reinterpret_cast<uint64_t>(pages);
}

void Allocation::allocate_buffer(Device& device) {
  buffer_ = create_buffer(device, size_bytes_, use_);
  VkMemoryRequirements needs{};
  api_->vkGetBufferMemoryRequirements(api_->device, buffer_.get(), &needs);
  const uint32_t type = type_for(device, needs.memoryTypeBits, use_);
  memory_ = allocate_memory(device, needs.size, type, use_);
  memory_bytes_ = static_cast<int64_t>(needs.size);
  device.check(api_->vkBindBufferMemory(api_->device, buffer_.get(), memory_.get(), 0), "memory");

  VkBufferDeviceAddressInfo query{};
  query.sType = VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO;
  query.buffer = buffer_.get();
  address_ = api_->vkGetBufferDeviceAddress(api_->device, &query);
  if (is_on_host(use_)) {
    device.check(api_->vkMapMemory(api_->device, memory_.get(), 0, VK_WHOLE_SIZE, 0, &host_),
                 "memory");
    coherent_ = device.physical().memory.memoryTypes[type].propertyFlags &
                VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
  }
}

Allocation::Allocation(Allocation&& other) noexcept { *this = std::move(other); }

Allocation& Allocation::operator=(Allocation&& other) noexcept {
  if (this == &other) return *this;
  release();
  api_ = other.api_;
  counter_ = std::exchange(other.counter_, nullptr);
  use_ = other.use_;
  size_bytes_ = std::exchange(other.size_bytes_, 0);
  memory_bytes_ = std::exchange(other.memory_bytes_, 0);
  address_ = std::exchange(other.address_, 0);
  host_ = std::exchange(other.host_, nullptr);
  mapped_pages_ = std::exchange(other.mapped_pages_, false);
  coherent_ = other.coherent_;
  memory_ = std::move(other.memory_);
  buffer_ = std::move(other.buffer_);
  return *this;
}

Allocation::~Allocation() { release(); }

void Allocation::release() noexcept {
  if (counter_) counter_->add(use_, -size_bytes_);
  counter_ = nullptr;
  if (mapped_pages_) munmap(host_, static_cast<size_t>(size_bytes_));
  mapped_pages_ = false;
  host_ = nullptr;
  address_ = 0;
  buffer_.reset();
  memory_.reset();
}

int Allocation::export_fd(Device& device) const {
  if (!api_->vkGetMemoryFdKHR || !memory_) {
    throw Error(ErrorKind::kDevice, "[memory] " + device.profile().name + " cannot share memory");
  }
  VkMemoryGetFdInfoKHR info{};
  info.sType = VK_STRUCTURE_TYPE_MEMORY_GET_FD_INFO_KHR;
  info.memory = memory_.get();
  info.handleType = VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT;
  int fd = -1;
  device.check(api_->vkGetMemoryFdKHR(api_->device, &info, &fd), "share memory");
  return fd;
}

void Allocation::flush() const { flush(0, size_bytes_); }

void Allocation::flush(int64_t offset, int64_t bytes) const {
  if (coherent_ || bytes == 0) return;
  constexpr int64_t kAtom = 256;  // the most that nonCoherentAtomSize may be
  VkMappedMemoryRange range{};
  range.sType = VK_STRUCTURE_TYPE_MAPPED_MEMORY_RANGE;
  range.memory = memory_.get();
  range.offset = static_cast<VkDeviceSize>(offset / kAtom * kAtom);
  const int64_t end = (offset + bytes + kAtom - 1) / kAtom * kAtom;
  range.size = end < memory_bytes_ ? static_cast<VkDeviceSize>(end) - range.offset : VK_WHOLE_SIZE;
  api_->vkFlushMappedMemoryRanges(api_->device, 1, &range);
}

void Allocation::invalidate() const {
  if (coherent_) return;
  VkMappedMemoryRange range{};
  range.sType = VK_STRUCTURE_TYPE_MAPPED_MEMORY_RANGE;
  range.memory = memory_.get();
  range.size = VK_WHOLE_SIZE;
  api_->vkInvalidateMappedMemoryRanges(api_->device, 1, &range);
}

}  // namespace tv
