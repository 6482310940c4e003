#include "workloads/tactic_run.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <random>

namespace tv::test {

namespace {

std::vector<HostTensor> tensors(std::vector<std::vector<uint8_t>>& list) {
  std::vector<HostTensor> result;
  for (auto& bytes : list) result.push_back(host_tensor(bytes));
  return result;
}

}  // namespace

TacticRun::TacticRun(Graph graph, std::shared_ptr<Device> device, DeviceProfile profile,
                     double spread)
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
      const bool is_byte = value.dtype == DType::kI8 || value.dtype == DType::kU8;
      if (is_byte && spread > 1) {
        bytes[static_cast<size_t>(i)] = static_cast<uint8_t>(std::lround(pool[next]));
      } else {
        store_number(bytes, i, pool[next], value.dtype);
      }
      next = (next + 1) % pool.size();
    }
  }
}

std::vector<CandidateTactic> TacticRun::tactics() const {
  return tactics_of(graph_, graph_.nodes.at(0), {}, profile_);
}

EngineSpec TacticRun::compiled(const std::string& tactic) const {
  return compile_with_tactic(graph_, tactic, {}, profile_);
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
  return outputs(engine->spec(), call_of(engine, symbols_));
}

std::vector<std::vector<double>> TacticRun::outputs(const EngineSpec& spec,
                                                    const TensorCall& call) {
  std::vector<std::vector<uint8_t>> out;
  for (const Binding& b : spec.outputs) {
    out.emplace_back(static_cast<size_t>(count_of(b) * size_bytes(b.dtype)), uint8_t{0xff});
  }
  call({}, tensors(in_), tensors(out));
  std::vector<std::vector<double>> result;
  for (size_t k = 0; k < out.size(); ++k) {
    const Binding& b = spec.outputs[k];
    auto& numbers = result.emplace_back();
    const int64_t count = count_of(b);
    for (int64_t i = 0; i < count; ++i) numbers.push_back(load_number(out[k], i, b.dtype));
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
      const std::chrono::duration<double, std::micro> took =
          std::chrono::steady_clock::now() - start;
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
    if (std::isfinite(b[i])) largest = std::max(largest, std::abs(b[i]));
    if (std::isnan(b[i]) || a[i] == b[i]) continue;
    error = std::max(error, std::abs(a[i] - b[i]));
  }
  return error / largest;
}

}  // namespace tv::test
