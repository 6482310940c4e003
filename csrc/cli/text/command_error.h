#pragma once

#include <stdexcept>
#include <string>

namespace tv::cli {

/// A bad command line: exit status 2. The message names the flag.
class CommandError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace tv::cli
