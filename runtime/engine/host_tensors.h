#pragma once
// The inputs or outputs of a call, in host memory.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/spec/tensor.h"

namespace tv {

/// A tensor whose bytes lie in several places, in their order: the rows that requests of a batch
/// have brought, or will take.
using HostPieces = std::vector<HostTensor>;

/// Tensors that are each in one piece, which kernels may use in place, or all in pieces, which are
/// copied: their addresses are others in each call, and commands are recorded for addresses. A view
/// of what the caller keeps.
class HostTensors {
 public:
  HostTensors(std::span<const HostTensor> whole) : whole_(whole) {}  // NOLINT: spans convert
  HostTensors(std::span<const HostPieces> pieces) : pieces_(pieces), in_pieces_(true) {}  // NOLINT

  size_t size() const { return in_pieces_ ? pieces_.size() : whole_.size(); }
  bool in_pieces() const { return in_pieces_; }
  std::span<const HostTensor> operator[](size_t i) const {
    return in_pieces_ ? std::span<const HostTensor>(pieces_[i]) : whole_.subspan(i, 1);
  }
  int64_t size_bytes(size_t i) const {
    int64_t size = 0;
    for (const HostTensor& piece : (*this)[i]) size += piece.size_bytes;
    return size;
  }
  /// The tensor in one piece; of tensors in pieces only one without bytes.
  HostTensor whole(size_t i) const { return in_pieces_ ? HostTensor{} : whole_[i]; }

 private:
  std::span<const HostTensor> whole_;
  std::span<const HostPieces> pieces_;
  bool in_pieces_ = false;
};

}  // namespace tv
