#include "runtime/engine/weight_upload.h"

#include <algorithm>
#include <cstring>

#include "runtime/base/error.h"
#include "runtime/commands/recorder.h"

namespace tv {
namespace {

constexpr int64_t kMostStagingBytes = 32 << 20;

}  // namespace

WeightUpload::WeightUpload(Device& device, WeightSource source, int64_t most)
    : device_(device), staging_bytes_(std::clamp<int64_t>(most, 1, kMostStagingBytes)) {
  if (!source.on_cuda) return;
  link_ = source.link ? source.link : cuda_link(device);
  stream_ = static_cast<CuStream>(source.stream);
  if (!link_) throw Error(ErrorKind::kDevice, "[weights] CUDA's memory is not to be reached");
}

void WeightUpload::make_staging() {
  if (link_ && !shared_) {
    const CudaScope scope(link_->cuda(), link_->context());
    shared_ = SharedBuffer(device_, link_->cuda(), staging_bytes_);
  } else if (!link_ && !staging_) {
    staging_ = Allocation(device_, staging_bytes_, MemoryUse::kUpload);
  }
}

void WeightUpload::read(const void* src, int64_t bytes) {
  if (!link_) {
    std::memcpy(static_cast<char*>(staging_.host()) + used_, src, static_cast<size_t>(bytes));
    return;
  }
  const CudaScope scope(link_->cuda(), link_->context());
  const CuResult result = link_->cuda().cuMemcpyDtoDAsync(
      shared_.cuda() + static_cast<CuDevicePtr>(used_), reinterpret_cast<CuDevicePtr>(src),
      static_cast<size_t>(bytes), stream_);
  if (result == kCuSuccess) return;
  throw Error(ErrorKind::kDevice,
              "[weights] cuMemcpyDtoDAsync failed: " + cuda_result_name(link_->cuda(), result));
}

void WeightUpload::add(const Allocation& dst, int64_t offset, const void* src, int64_t bytes) {
  if (!link_ && dst.host()) {
    std::memcpy(static_cast<char*>(dst.host()) + offset, src, static_cast<size_t>(bytes));
    dst.flush(offset, bytes);
    return;
  }
  make_staging();
  for (int64_t done = 0; done < bytes;) {
    if (used_ == staging_bytes_) finish();
    const int64_t piece = std::min(staging_bytes_ - used_, bytes - done);
    read(static_cast<const char*>(src) + done, piece);
    pieces_.push_back({dst.buffer(),
                       {static_cast<VkDeviceSize>(used_), static_cast<VkDeviceSize>(offset + done),
                        static_cast<VkDeviceSize>(piece)}});
    used_ += piece;
    done += piece;
  }
}

void WeightUpload::finish() {
  if (pieces_.empty()) return;
  if (link_) {
    const CudaScope scope(link_->cuda(), link_->context());
    const CuResult result = link_->cuda().cuStreamSynchronize(stream_);
    if (result != kCuSuccess) {
      throw Error(ErrorKind::kDevice,
                  "[weights] CUDA failed: " + cuda_result_name(link_->cuda(), result));
    }
  } else {
    staging_.flush();
  }
  const VkBuffer staging = link_ ? shared_.buffer() : staging_.buffer();
  run_once(device_, [&](VkCommandBuffer commands) {
    for (const Piece& p : pieces_) {
      device_.api().vkCmdCopyBuffer(commands, staging, p.dst, 1, &p.region);
    }
    record_barrier(device_, commands, kCopyWrites, kShaderAccess);
  });
  pieces_.clear();
  used_ = 0;
}

}  // namespace tv
