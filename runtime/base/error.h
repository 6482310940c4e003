#pragma once
// The one exception type of the project.

#include <stdexcept>
#include <string>

namespace tv {

/// Who has to act on an error.
enum class ErrorKind {
  kUser,         ///< the caller passed something wrong (ValueError in Python)
  kUnsupported,  ///< we can't do this; the caller falls back
  kDevice,       ///< driver, device loss, out of memory (RuntimeError; recoverable)
  kInternal,     ///< a bug in torch_vulkan (RuntimeError asking for a report)
};

/// Messages begin with the operator or component in brackets and say what was got and what is
/// wanted: `[aten::softmax] dim 3 is out of range for rank 2`.
class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}
  ErrorKind kind() const { return kind_; }

 private:
  ErrorKind kind_;
};

/// A kDevice error that a caller may recover from by other means: the device has no memory left.
class OutOfMemoryError : public Error {
 public:
  explicit OutOfMemoryError(const std::string& message) : Error(ErrorKind::kDevice, message) {}
};

/// A kUser error that a run found in the values of its inputs. Whoever called finds the same where
/// PyTorch computes: it refuses them, too.
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
