#include "runtime/weight_upload.h"

#include <algorithm>
#include <cstring>

#include "runtime/recorder.h"

namespace tv {
namespace {

constexpr int64_t kStagingBytes = 32 << 20;

}  // namespace

WeightUpload::WeightUpload(Device& device) : device_(device) {}

void WeightUpload::add(const Allocation& dst, int64_t offset, const void* src, int64_t bytes) {
  if (dst.host() && device_.host_pointers()) {
    std::memcpy(static_cast<char*>(dst.host()) + offset, src, static_cast<size_t>(bytes));
    return;
  }
  if (!staging_) staging_ = Allocation(device_, kStagingBytes, MemoryUse::kUpload);
  for (int64_t done = 0; done < bytes;) {
    if (used_ == kStagingBytes) finish();
    const int64_t piece = std::min(kStagingBytes - used_, bytes - done);
    std::memcpy(static_cast<char*>(staging_.host()) + used_, static_cast<const char*>(src) + done,
                static_cast<size_t>(piece));
    pieces_.push_back({dst.buffer(),
                       {static_cast<VkDeviceSize>(used_), static_cast<VkDeviceSize>(offset + done),
                        static_cast<VkDeviceSize>(piece)}});
    used_ += piece;
    done += piece;
  }
}

void WeightUpload::finish() {
  if (pieces_.empty()) return;
  staging_.flush();
  run_once(device_, [&](VkCommandBuffer commands) {
    for (const Piece& p : pieces_) {
      device_.api().vkCmdCopyBuffer(commands, staging_.buffer(), p.dst, 1, &p.region);
    }
    record_barrier(device_, commands, kCopyWrites, kShaderAccess);
  });
  pieces_.clear();
  used_ = 0;
}

}  // namespace tv
