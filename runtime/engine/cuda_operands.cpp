#include "runtime/engine/cuda_operands.h"

#include <algorithm>

#include "runtime/base/error.h"

namespace tv {
namespace {

constexpr int64_t kStagingAlignment = 256;

}  // namespace

void CudaOperands::bind(std::span<const CudaTensor> inputs, std::span<const CudaTensor> outputs,
                        CudaLink& link, uint64_t last, std::vector<uint64_t>& bound) {
  bound.clear();
  staged_at_.clear();
  int64_t staged_bytes = 0;
  const auto bind_one = [&](const CudaTensor& tensor) {
    uint64_t address = 0;
    if (tensor.size_bytes > 0 && link.imports_memory()) {
      address = link.imports().find(address_of(tensor), tensor.size_bytes);
    }
    const bool staged = address == 0 && tensor.size_bytes > 0;
    bound.push_back(address);
    staged_at_.push_back(staged ? staged_bytes : -1);
    if (!staged) return;
    staged_bytes +=
        (tensor.size_bytes + kStagingAlignment - 1) / kStagingAlignment * kStagingAlignment;
  };
  for (const CudaTensor& tensor : inputs) bind_one(tensor);
  for (const CudaTensor& tensor : outputs) bind_one(tensor);
  if (staging_.size_bytes() < staged_bytes) {
    // What is on the stream may still copy from and to the old one; freeing it waits for that.
    device_.wait(last);
    staging_ = SharedBuffer(device_, link.cuda(), staged_bytes);
  }
  for (size_t i = 0; i < bound.size(); ++i) {
    if (staged_at_[i] >= 0) bound[i] = staging_.address() + static_cast<uint64_t>(staged_at_[i]);
  }
}

int CudaOperands::count_staged() const {
  return static_cast<int>(
      std::count_if(staged_at_.begin(), staged_at_.end(), [](int64_t at) { return at >= 0; }));
}

void CudaOperands::copy_in(std::span<const CudaTensor> tensors, size_t first_slot, CudaLink& link,
                           CuStream stream) {
  copy(tensors, first_slot, /*in=*/true, link, stream);
}

void CudaOperands::copy_out(std::span<const CudaTensor> tensors, size_t first_slot, CudaLink& link,
                            CuStream stream) {
  copy(tensors, first_slot, /*in=*/false, link, stream);
}

void CudaOperands::copy(std::span<const CudaTensor> tensors, size_t first_slot, bool in,
                        CudaLink& link, CuStream stream) {
  for (size_t i = 0; i < tensors.size(); ++i) {
    const int64_t at = staged_at_[first_slot + i];
    if (at < 0) continue;
    copied_out_ |= !in;
    const CuDevicePtr there = staging_.cuda() + static_cast<CuDevicePtr>(at);
    const CuDevicePtr tensor = address_of(tensors[i]);
    const CuResult result =
        link.cuda().cuMemcpyDtoDAsync(in ? there : tensor, in ? tensor : there,
                                      static_cast<size_t>(tensors[i].size_bytes), stream);
    if (result == kCuSuccess) continue;
    throw Error(ErrorKind::kDevice,
                "[cuda] cuMemcpyDtoDAsync failed: " + cuda_result_name(link.cuda(), result));
  }
}

}  // namespace tv
