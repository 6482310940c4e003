#pragma once
// What a recording says of nodes, as a text and the numbers in it: equal for two executions that
// differ in sizes alone but for the numbers.

#include <functional>
#include <string>
#include <vector>

#include "python/bindings/recording/record.h"

namespace tv::script {

struct Trace {
  std::string text;
  std::vector<int64_t> numbers;  ///< every integer, in the order of the text
};

/// Whether a tensor without dimensions stands for a number that the program computes from sizes.
using IsNumber = std::function<bool(const torch::jit::Value*)>;

/// Appends the operators behind a node: their names, arguments and the sizes of their results.
/// Devices are left out. The node was recorded.
void trace(const torch::jit::Node* node, const Recording& recording, const IsNumber& is_number,
           Trace& trace);

/// Among Trace::numbers: any other will do.
inline constexpr int64_t kAnyNumber = -(int64_t{1} << 62);

/// Appends the sizes and promised strides of a tensor: any, of dimensions of size 1.
void trace(const ObservedTensor& observed, Trace& trace);

/// The strides that an engine gives to a result which is this tensor in eager mode: its own where
/// they are dense, else dense ones in the same order of dimensions; empty: row-major.
std::vector<int64_t> promised_strides(const ObservedTensor& observed);

}  // namespace tv::script
