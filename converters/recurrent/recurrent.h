#pragma once
// What expansions into tv::recurrent ask.

#include <string>

#include "csrc/converter.h"

namespace tv {

/// "" if the device runs tv::recurrent of a kind ("LSTM", "GRU", "TANH", "RELU" …) with so many
/// hidden units, else the reason.
std::string recurrent_refusal(const NodeContext& context, const std::string& kind,
                              const Expr& size);

/// "" unless the device is a CPU, whose workgroups' invocations take turns, and so many units would
/// run in a loop there, many times as long as what others have for them takes.
std::string slow_loop_refusal(const NodeContext& context, const std::string& kind, const Expr& size,
                              const Expr& steps);

}  // namespace tv
