#include "csrc/builder.h"

namespace tv {

Operand src(std::string name, ValueId value) { return {.name = std::move(name), .value = value}; }

Operand dst(std::string name, ValueId value) {
  return {.name = std::move(name), .value = value, .write = true};
}

}  // namespace tv
