#include "csrc/cli/generate/decoder_state.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "runtime/base/error.h"

namespace tv::cli {
namespace {

Tensor ids_of(DType dtype, std::span<const int32_t> tokens) {
  if (dtype != DType::kI64 && dtype != DType::kI32) refuse_generation("the engine takes no tokens");
  Tensor ids(dtype, {1, static_cast<int64_t>(tokens.size())});
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (dtype == DType::kI32) {
      std::memcpy(ids.bytes.data() + i * sizeof(int32_t), &tokens[i], sizeof(int32_t));
    } else {
      const int64_t token = tokens[i];
      std::memcpy(ids.bytes.data() + i * sizeof(int64_t), &token, sizeof(int64_t));
    }
  }
  return ids;
}

}  // namespace

void DecoderState::clear() {
  if (used_) {
    for (auto& [name, held] : states_) held.first.clear();
  }
  steps_ = 0;
  used_ = false;
}

const DeviceTensor& DecoderState::state(const Binding& input, int64_t size_bytes) {
  auto found = states_.find(input.name);
  if (found == states_.end()) {
    found = states_
                .emplace(input.name,
                         std::pair(DeviceTensor(decoder_->device(), size_bytes), size_bytes))
                .first;
  }
  if (found->second.second != size_bytes) {
    refuse_generation("the engines disagree about the size of '" + input.name +
                      "'; save the model again");
  }
  return found->second.first;
}

std::span<float> DecoderState::run(const Network& network, std::span<const int32_t> tokens,
                                   uint32_t times) {
  const int64_t count = static_cast<int64_t>(tokens.size());
  const Bound bound = network.bind({{kTokensInput, {1, count}}});
  const EngineSpec& spec = bound.engine->spec();
  if (scores_.shape.empty()) scores_ = Tensor(DType::kF32, {1, info().vocabulary});
  std::vector<HostTensor> inputs;
  Tensor ids;
  for (size_t i = 0; i < spec.inputs.size(); ++i) {
    const Binding& input = spec.inputs[i];
    if (input.name == kTokensInput) {
      ids = ids_of(input.dtype, tokens);
      inputs.push_back(ids.host());
    } else if (!input.written) {
      refuse_generation("the engine takes more than tokens and state");
    } else if (input.name == kChosenInput) {
      if (chosen_.shape.empty()) chosen_ = Tensor(input.dtype, bound.input_shapes[i]);
      inputs.push_back(chosen_.host());
    } else {
      inputs.push_back(state(input, bytes_of(bound.input_shapes[i], input.dtype)).tensor());
    }
  }
  const HostTensor scores = scores_.host();
  used_ = true;
  const auto start = std::chrono::steady_clock::now();
  bound.engine->run(*bound.weights, bound.symbols, inputs, std::span(&scores, 1), times);
  run_s_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return {reinterpret_cast<float*>(scores_.bytes.data()), static_cast<size_t>(info().vocabulary)};
}

std::span<float> DecoderState::read_prompt(std::span<const int32_t> tokens) {
  std::span<float> scores;
  if (tokens.size() == 1 || info().chunk == 0) {
    for (const int32_t token : tokens) scores = step(token);
    return scores;
  }
  const std::shared_ptr<const Network> network = decoder_->prompt();
  for (size_t done = 0; done < tokens.size();) {
    const size_t left = tokens.size() - done;
    size_t count = std::min(left, static_cast<size_t>(info().chunk));
    if (left - count == 1) --count;  // the engine takes 2 or more
    scores = run(*network, tokens.subspan(done, count));
    done += count;
  }
  return scores;
}

std::span<float> DecoderState::step(int32_t token) {
  const std::span<float> scores = run(*decoder_->step(), std::span(&token, 1));
  ++steps_;
  return scores;
}

std::vector<int32_t> DecoderState::most_likely(int32_t token, int64_t count) {
  run(*decoder_->step(), std::span(&token, 1), static_cast<uint32_t>(count));
  if (chosen_.shape.empty())
    refuse_generation("the engine chooses no tokens; save the model again");
  std::vector<int32_t> tokens;
  for (int64_t i = 0; i < count; ++i) {
    tokens.push_back(static_cast<int32_t>(chosen_.integer(steps_ + i)));
    if (tokens.back() < 0) refuse_generation("the model gives scores that are no numbers (NaN)");
  }
  steps_ += count;
  return tokens;
}

}  // namespace tv::cli
