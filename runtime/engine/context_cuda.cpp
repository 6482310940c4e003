// An execution context on CUDA tensors.

#include <algorithm>

#include "runtime/base/error.h"
#include "runtime/engine/check_report.h"
#include "runtime/engine/context.h"
#include "runtime/engine/tensor_check.h"

namespace tv {
namespace {

constexpr int64_t kStagingAlignment = 256;
constexpr size_t kMaxAddressSets = 4;  // recordings that differ in addresses alone

uint64_t address_of(const CudaTensor& tensor) { return reinterpret_cast<uint64_t>(tensor.data); }

/// Addresses of CUDA's, because one memory may have several of Vulkan's.
bool output_overlaps(const EngineSpec& spec, std::span<const CudaTensor> inputs,
                     std::span<const CudaTensor> outputs) {
  const auto overlap = [](const CudaTensor& a, const CudaTensor& b) {
    return address_of(a) < address_of(b) + static_cast<uint64_t>(b.size_bytes) &&
           address_of(b) < address_of(a) + static_cast<uint64_t>(a.size_bytes);
  };
  for (size_t i = 0; i < inputs.size(); ++i) {
    for (size_t other = 0; spec.inputs[i].written && other < inputs.size(); ++other) {
      if (other != i && overlap(inputs[i], inputs[other])) return true;
    }
  }
  for (size_t o = 0; o < outputs.size(); ++o) {
    for (const CudaTensor& input : inputs) {
      if (overlap(outputs[o], input)) return true;
    }
    for (size_t other = 0; other < o; ++other) {
      if (overlap(outputs[o], outputs[other])) return true;
    }
  }
  return false;
}

}  // namespace

int Context::run_on_cuda(const std::shared_ptr<const WeightSet>& weights,
                         std::span<const int64_t> symbols, std::span<const CudaTensor> inputs,
                         std::span<const CudaTensor> outputs, CudaLink& link) {
  started_ = std::chrono::steady_clock::now();
  Recording& any = recording_for(symbols, /*on_cuda=*/true);
  const EngineSpec& spec = parts_.spec;
  check_tensors<CudaTensor>(spec, spec.inputs, "input", inputs, any.plan.input_bytes);
  check_tensors<CudaTensor>(spec, spec.outputs, "output", outputs, any.plan.output_bytes);
  last_ = &any;
  if (any.plan.program.dispatches.empty()) return 0;
  reserve_arena(any.plan.activation_bytes);
  bind_cuda(inputs, outputs, link);
  Recording& recording = recording_of_bound(any);
  last_ = &recording;
  const bool overlap = output_overlaps(spec, inputs, outputs);
  if (recording.weights_id != weights->id() || recording.arena_generation != arena_generation_ ||
      recording.external_overlap != overlap || recording.bound != bound_) {
    record(recording, *weights, overlap, &link);
  }
  // What the last call on this context found, where it is over by now: no call waits to say it
  // at once.
  if (check_ && device_.finished(submission_)) take_check_report();
  if (guard_) clear_guard(guard_);  // the last call has waited
  copy_staged(inputs, 0, /*to_staging=*/true, link);
  if (using_ != weights) {
    device_.wait(submission_);  // the last call reads what `using_` may free
    using_ = weights;
  }
  try {
    submission_ = link.order().submit(recording.commands, static_cast<CuStream>(key_.stream));
  } catch (const std::exception& error) {
    bool in_place = false;
    for (size_t i = 0; i < inputs.size(); ++i) {
      in_place |= spec.inputs[i].written && staged_at_[i] < 0;
    }
    if (in_place) refuse_to_repeat(error);
    throw;
  }
  recording.submission = submission_;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (is_written(i)) copy_staged(inputs.subspan(i, 1), i, /*to_staging=*/false, link);
  }
  copy_staged(outputs, inputs.size(), /*to_staging=*/false, link);
  if (guard_) {
    device_.wait(submission_);
    throw_guard_report(guard_, spec.dispatches);
  }
  if (waits_for_check(spec)) {
    device_.wait(submission_);
    take_check_report();
  }
  return static_cast<int>(
      std::count_if(staged_at_.begin(), staged_at_.end(), [](int64_t at) { return at >= 0; }));
}

void Context::take_check_report() {
  try {
    throw_check_report(check_, parts_.spec.dispatches);
  } catch (const Error&) {
    clear_check(check_);
    throw;
  }
}

void Context::bind_cuda(std::span<const CudaTensor> inputs, std::span<const CudaTensor> outputs,
                        CudaLink& link) {
  bound_.clear();
  staged_at_.clear();
  int64_t staged_bytes = 0;
  const auto bind_one = [&](const CudaTensor& tensor) {
    uint64_t address = 0;
    if (tensor.size_bytes > 0 && link.imports_memory()) {
      address = link.imports().find(address_of(tensor), tensor.size_bytes);
    }
    const bool staged = address == 0 && tensor.size_bytes > 0;
    bound_.push_back(address);
    staged_at_.push_back(staged ? staged_bytes : -1);
    if (!staged) return;
    staged_bytes += (tensor.size_bytes + kStagingAlignment - 1) / kStagingAlignment *
                    kStagingAlignment;
  };
  for (const CudaTensor& tensor : inputs) bind_one(tensor);
  for (const CudaTensor& tensor : outputs) bind_one(tensor);
  if (staging_.size_bytes() < staged_bytes) {
    // What is on the stream may still copy from and to the old one; freeing it waits for that.
    device_.wait(submission_);
    staging_ = SharedBuffer(device_, link.cuda(), staged_bytes);
  }
  for (size_t i = 0; i < bound_.size(); ++i) {
    if (staged_at_[i] >= 0) bound_[i] = staging_.address() + static_cast<uint64_t>(staged_at_[i]);
  }
}

void Context::copy_staged(std::span<const CudaTensor> tensors, size_t first_slot, bool to_staging,
                          CudaLink& link) {
  for (size_t i = 0; i < tensors.size(); ++i) {
    const int64_t at = staged_at_[first_slot + i];
    if (at < 0) continue;
    staged_outputs_ |= !to_staging;
    const CuDevicePtr there = staging_.cuda() + static_cast<CuDevicePtr>(at);
    const CuDevicePtr tensor = address_of(tensors[i]);
    const CuResult result = link.cuda().cuMemcpyDtoDAsync(
        to_staging ? there : tensor, to_staging ? tensor : there,
        static_cast<size_t>(tensors[i].size_bytes), static_cast<CuStream>(key_.stream));
    if (result == kCuSuccess) continue;
    throw Error(ErrorKind::kDevice,
                "[cuda] cuMemcpyDtoDAsync failed: " + cuda_result_name(link.cuda(), result));
  }
}

Context::Recording& Context::recording_of_bound(Recording& any) {
  if (any.bound == bound_ || any.bound.empty()) return any;
  Recording* oldest = &any;
  size_t alike = 0;
  for (const auto& r : recordings_) {
    if (!r->on_cuda || r->plan.symbols != any.plan.symbols ||
        r->debug_generation != any.debug_generation) {
      continue;
    }
    ++alike;
    if (r->bound == bound_) {
      r->last_used = clock_;
      return *r;
    }
    if (r->last_used < oldest->last_used) oldest = r.get();
  }
  if (alike >= kMaxAddressSets) {
    oldest->last_used = clock_;
    return *oldest;
  }
  auto fresh = std::make_unique<Recording>();
  fresh->plan = any.plan;
  fresh->debug_generation = any.debug_generation;
  fresh->on_cuda = true;
  fresh->external_overlap = any.external_overlap;
  return add_recording(std::move(fresh));
}

}  // namespace tv
