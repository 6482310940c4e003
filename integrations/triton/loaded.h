#pragma once
// What a model has on a device: loaded again after the device was lost, once for all instances.

#include <memory>
#include <mutex>
#include <string>

#include "runtime/base/error.h"

namespace tv::triton {

/// Thread-safe.
template <typename T>
class Loaded {
 public:
  void set(std::shared_ptr<T> value) {
    const std::lock_guard lock(mutex_);
    value_ = std::move(value);
  }

  std::shared_ptr<T> get() const {
    const std::lock_guard lock(mutex_);
    return value_;
  }

  /// After the device was lost under `lost`: `load` makes what takes its place, unless another
  /// instance has done it. Throws what it throws, and Error(kDevice) where the device was lost
  /// three times and nothing worked in between.
  template <typename Load>
  void recover(const std::shared_ptr<T>& lost, const Load& load) {
    const std::lock_guard lock(mutex_);
    if (value_ != lost) return;
    if (++losses_ > kLosses) {
      throw Error(ErrorKind::kDevice,
                  "the device was lost " + std::to_string(kLosses) +
                      " times without a batch in between; load the model again");
    }
    value_ = load();
  }

  /// A batch ran.
  void worked() {
    const std::lock_guard lock(mutex_);
    losses_ = 0;
  }

 private:
  static constexpr int kLosses = 3;

  mutable std::mutex mutex_;
  std::shared_ptr<T> value_;
  int losses_ = 0;
};

}  // namespace tv::triton
