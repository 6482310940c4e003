#pragma once

#include "runtime/base/error.h"

namespace tv {

/// A kDevice error that a caller may recover from by other means: the device is gone, whatever it
/// was given. Opening it anew may work.
class DeviceLostError : public Error {
 public:
  explicit DeviceLostError(const std::string& message) : Error(ErrorKind::kDevice, message) {}
};

}  // namespace tv
