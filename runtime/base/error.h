#pragma once
// The one exception type of the project.

#include <stdexcept>
#include <string>

namespace tv {

/// Who can act on an error.
enum class ErrorKind {
  kUser,         ///< the caller passed something invalid (ValueError in Python)
  kUnsupported,  ///< not supported here; the caller falls back
  kDevice,       ///< driver, device loss, out of memory (RuntimeError; recoverable)
  kInternal,     ///< a bug in torch_vulkan (RuntimeError asking for a report)
};

/// Messages begin with the operator or component in brackets and say what was got and what is
/// expected: `[aten::softmax] dim 3 is out of range for rank 2`.
class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}
  ErrorKind kind() const { return kind_; }

 private:
  ErrorKind kind_;
};

/// A kDevice error after which the caller can compute in another way: the device or the host has
/// too little memory (torch.OutOfMemoryError in Python).
class OutOfMemoryError : public Error {
 public:
  explicit OutOfMemoryError(const std::string& message) : Error(ErrorKind::kDevice, message) {}
};

/// A kUser error in the values of the inputs, found by a run: an index out of range, or a division
/// of integers by 0. PyTorch refuses the same values.
class BadValueError : public Error {
 public:
  enum class What { kIndex, kDivisor };
  BadValueError(What what, const std::string& message)
      : Error(ErrorKind::kUser, message), what_(what) {}
  What reason() const { return what_; }

 private:
  What what_;
};

}  // namespace tv
