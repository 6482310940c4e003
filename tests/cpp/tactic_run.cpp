#include "tests/cpp/tactic_run.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstring>
#include <random>

#include "csrc/compile.h"
#include "csrc/lowering/tactics.h"

namespace tv::test {

namespace {

double from_half(uint16_t h) {
  const int exponent = h >> 10 & 31;
  const double fraction = h & 1023;
  double value = exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
  if (exponent == 31) value = fraction != 0 ? NAN : INFINITY;
  return (h & 0x8000) != 0 ? -value : value;
}

/// Nearest half of a number within its normal range; smaller ones become 0.
uint16_t to_half(float f) {
  const auto u = std::bit_cast<uint32_t>(f);
  const uint32_t a = u & 0x7fffffffU, sign = u >> 16 & 0x8000U;
  if (a >= 0x7f800000U) return static_cast<uint16_t>(sign | (a > 0x7f800000U ? 0x7e00U : 0x7c00U));
  if (a < 0x38800000U) return static_cast<uint16_t>(sign);
  return static_cast<uint16_t>(sign | ((a - 0x38000000U + 0xfffU + (a >> 13 & 1U)) >> 13));
}

HostTensor tensor(std::vector<uint8_t>& bytes) {
  return {bytes.data(), static_cast<int64_t>(bytes.size())};
}

std::vector<HostTensor> tensors(std::vector<std::vector<uint8_t>>& list) {
  std::vector<HostTensor> result;
  for (auto& bytes : list) result.push_back(tensor(bytes));
  return result;
}

}  // namespace

void store_number(std::vector<uint8_t>& bytes, int64_t index, double value, DType dtype) {
  uint8_t* at = bytes.data() + index * size_bytes(dtype);
  const auto f = static_cast<float>(value);
  if (dtype == DType::kF32) {
    std::memcpy(at, &f, 4);
  } else if (dtype == DType::kF16) {
    const uint16_t half = to_half(f);
    std::memcpy(at, &half, 2);
  } else if (dtype == DType::kBF16) {
    const auto u = std::bit_cast<uint32_t>(f);
    const auto half = static_cast<uint16_t>((u + 0x7fffU + (u >> 16 & 1U)) >> 16);
    std::memcpy(at, &half, 2);
  } else {
    std::memset(at, 0, static_cast<size_t>(size_bytes(dtype)));
    *at = value > 0 ? 1 : 0;
  }
}

double load_number(const std::vector<uint8_t>& bytes, int64_t index, DType dtype) {
  const uint8_t* at = bytes.data() + index * size_bytes(dtype);
  const auto as = [&]<typename T>(T value) {
    std::memcpy(&value, at, sizeof(T));
    return value;
  };
  switch (dtype) {
    case DType::kF32: return as(float{});
    case DType::kF16: return from_half(as(uint16_t{}));
    case DType::kBF16: return std::bit_cast<float>(static_cast<uint32_t>(as(uint16_t{})) << 16);
    case DType::kI64: return static_cast<double>(as(int64_t{}));
    case DType::kI32: return as(int32_t{});
    default: return as(int8_t{});
  }
}

TacticRun::TacticRun(Graph graph, std::shared_ptr<Device> device, DeviceProfile profile, double spread)
    : graph_(std::move(graph)), device_(std::move(device)), profile_(std::move(profile)) {
  for (const Symbol& symbol : graph_.symbols) symbols_.push_back(symbol.opt);
  std::mt19937 random(1);
  std::normal_distribution<double> normal;
  std::vector<double> pool(1000003);  // repeated in long inputs
  for (double& number : pool) number = normal(random) * spread;
  size_t next = 0;
  for (ValueId id : graph_.inputs) {
    const Value& value = graph_.value(id);
    const int64_t count = product(value.shape).eval(symbols_);
    auto& bytes = in_.emplace_back(static_cast<size_t>(count * size_bytes(value.dtype)));
    for (int64_t i = 0; i < count; ++i) {
      store_number(bytes, i, pool[next], value.dtype);
      next = (next + 1) % pool.size();
    }
  }
}

std::vector<TacticName> TacticRun::tactics() const {
  const Settings settings;
  ValueTable table(graph_);
  std::vector<TacticName> list;
  for (const Tactic& t : convert_node(graph_.nodes.at(0), table, profile_, settings).offered) {
    list.push_back({t.name, t.refusal});
  }
  return list;
}

EngineSpec TacticRun::compiled(const std::string& tactic) const {
  EngineSpec spec = compile(graph_, {.tactics = {tactic}}, profile_);
  spec.runs_on.clear();  // the profile may be that of a GPU, for a CPU driver
  spec.tuned_for.clear();
  return spec;
}

int64_t TacticRun::count_of(const Binding& binding) const {
  return product(binding.shape).eval(symbols_);
}

std::vector<std::vector<double>> TacticRun::inputs() const {
  std::vector<std::vector<double>> result;
  for (size_t k = 0; k < in_.size(); ++k) {
    const DType dtype = graph_.value(graph_.inputs[k]).dtype;
    auto& numbers = result.emplace_back();
    const auto count = static_cast<int64_t>(in_[k].size()) / size_bytes(dtype);
    for (int64_t i = 0; i < count; ++i) numbers.push_back(load_number(in_[k], i, dtype));
  }
  return result;
}

std::vector<std::vector<double>> TacticRun::outputs(const std::string& tactic) {
  const auto engine = Engine::create(device_, compiled(tactic));
  std::vector<std::vector<uint8_t>> out;
  for (const Binding& b : engine->spec().outputs) {
    out.emplace_back(static_cast<size_t>(count_of(b) * size_bytes(b.dtype)), uint8_t{0xff});
  }
  const auto weights = engine->prepare_weights(std::vector<HostTensor>{});
  engine->run(*weights, symbols_, tensors(in_), tensors(out));
  std::vector<std::vector<double>> result;
  for (size_t k = 0; k < out.size(); ++k) {
    const Binding& b = engine->spec().outputs[k];
    auto& numbers = result.emplace_back();
    for (int64_t i = 0; i < count_of(b); ++i) numbers.push_back(load_number(out[k], i, b.dtype));
  }
  return result;
}

double TacticRun::time_us(const std::string& tactic) {
  const EngineSpec spec = compiled(tactic);
  std::vector<std::vector<uint8_t>> out;
  for (const Binding& b : spec.outputs) {
    out.emplace_back(static_cast<size_t>(count_of(b) * size_bytes(b.dtype)));
  }
  const auto timed = [&](int repeats, int runs) {
    EngineSpec repeated = spec;
    for (int i = 1; i < repeats; ++i) {
      repeated.dispatches.insert(repeated.dispatches.end(), spec.dispatches.begin(),
                                 spec.dispatches.end());
    }
    const auto engine = Engine::create(device_, std::move(repeated));
    const auto weights = engine->prepare_weights(std::vector<HostTensor>{});
    double best = INFINITY;
    for (int i = 0; i <= runs; ++i) {
      const auto start = std::chrono::steady_clock::now();
      engine->run(*weights, symbols_, tensors(in_), tensors(out));
      const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - start;
      if (i > 0) best = std::min(best, took.count());
    }
    return best;
  };
  // Copies of inputs and outputs cancel out, and must not drown what is measured.
  const double one = timed(1, 6), guess = std::max(1.0, (timed(17, 6) - one) / 16);
  const int repeats = static_cast<int>(std::clamp(std::max(2000.0, one) / guess, 16.0, 800.0));
  return (timed(1 + repeats, 8) - one) / repeats;
}

double largest_error(const std::vector<double>& a, const std::vector<double>& b) {
  double error = 0, largest = 1e-30;
  for (size_t i = 0; i < b.size(); ++i) {
    if (std::isnan(a[i]) != std::isnan(b[i])) return INFINITY;
    if (std::isnan(b[i]) || a[i] == b[i]) continue;
    error = std::max(error, std::abs(a[i] - b[i]));
    if (std::isfinite(b[i])) largest = std::max(largest, std::abs(b[i]));
  }
  return error / largest;
}

}  // namespace tv::test
