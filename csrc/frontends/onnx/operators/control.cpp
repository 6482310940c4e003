// If, Loop and Scan: bodies are inlined, so conditions and trip counts must be known.

#include <algorithm>

#include "csrc/frontends/onnx/kit/host_ops.h"

namespace tv::onnx {
namespace {

constexpr int64_t kMaxTrips = 65536;

// Whether a condition is true; refused where it is not known while importing.
bool known_truth(OpContext& c, const Tensor& condition) {
  const auto host = c.e.host(condition, 1);
  if (!host || host->ints.size() != 1 || !host->ints[0].is_constant()) {
    refuse("a condition that is computed from data");
  }
  return !(host->ints[0] == Expr(0));
}

void branch(OpContext& c) {
  const auto values = c.run_body(known_truth(c, c.in(0)) ? "then_branch" : "else_branch", {});
  if (values.size() < c.output_count())
    throw Error(ErrorKind::kUser, "too few outputs of a branch");
  for (size_t i = 0; i < c.output_count(); ++i) c.out(i, values[i]);
}

// Results of one iteration each, joined along a new dimension.
Tensor joined(Emitter& e, const std::vector<Tensor>& parts, int64_t axis) {
  if (parts.empty()) refuse("a loop without iterations gives results of unknown shape");
  return e.stack(parts, axis);
}

void loop(OpContext& c) {
  Emitter& e = c.e;
  int64_t trips = kMaxTrips;
  bool limited = false;
  if (c.has(0)) {
    const auto host = e.host(c.in(0), 1);
    const auto count = host && host->ints.size() == 1 ? host->ints[0].constant() : std::nullopt;
    if (!count) refuse("a trip count that is computed from data or depends on a size");
    trips = std::min(*count, kMaxTrips + 1);
    limited = true;
  }
  bool goes_on = !c.has(1) || known_truth(c, c.in(1));
  std::vector<Tensor> carried(c.inputs().begin() + std::min<ptrdiff_t>(2, c.count()),
                              c.inputs().end());
  const size_t scans = c.output_count() > carried.size() ? c.output_count() - carried.size() : 0;
  std::vector<std::vector<Tensor>> rows(scans);
  int64_t done = 0;
  for (; goes_on && done < trips; ++done) {
    if (done >= kMaxTrips) refuse("more than 65536 iterations");
    Host number{.dtype = DType::kI64};
    number.ints = {Expr(done)};
    Host truth{.dtype = DType::kBool};
    truth.ints = {Expr(1)};
    std::vector<Tensor> inputs = {e.from_host(std::move(number)), e.from_host(std::move(truth))};
    inputs.insert(inputs.end(), carried.begin(), carried.end());
    const auto values = c.run_body("body", inputs);
    if (values.size() < 1 + carried.size() + scans) {
      throw Error(ErrorKind::kUser, "too few outputs of its body");
    }
    if (values[0].refused) return c.poison();
    goes_on = known_truth(c, values[0]);
    for (size_t i = 0; i < carried.size(); ++i) carried[i] = values[1 + i];
    for (size_t i = 0; i < scans; ++i) rows[i].push_back(values[1 + carried.size() + i]);
  }
  if (!limited && done >= kMaxTrips) refuse("a loop whose end is not known");
  for (size_t i = 0; i < carried.size(); ++i) c.out(i, carried[i]);
  for (size_t i = 0; i < scans; ++i) {
    if (!c.wants(carried.size() + i)) continue;
    for (const Tensor& row : rows[i]) {
      if (row.refused) return c.poison();
    }
    c.out(carried.size() + i, joined(e, rows[i], 0));
  }
}

void scan(OpContext& c) {
  Emitter& e = c.e;
  if (c.opset() < 9) refuse("Scan before opset 9");
  const auto count = static_cast<size_t>(c.i("num_scan_inputs", 0));
  if (count < 1 || count > c.count()) throw Error(ErrorKind::kUser, "num_scan_inputs");
  const size_t states = c.count() - count,
               scans = c.output_count() - std::min(states, c.output_count());
  const auto entry = [&](const char* name, size_t i) {
    const auto list = c.ints(name);
    return i < list.size() ? list[i] : 0;
  };
  std::vector<int64_t> axes;
  for (size_t i = 0; i < count; ++i) {
    axes.push_back(Emitter::wrap(entry("scan_input_axes", i), c.in(states + i).rank()));
  }
  const auto length = c.in(states).shape[static_cast<size_t>(axes[0])].constant();
  if (!length) refuse("a scan over a dynamic dimension");
  if (*length > kMaxTrips) refuse("more than 65536 iterations");
  std::vector<Tensor> carried(c.inputs().begin(), c.inputs().begin() + static_cast<long>(states));
  std::vector<std::vector<Tensor>> rows(scans);
  for (int64_t t = 0; t < *length; ++t) {
    std::vector<Tensor> inputs = carried;
    for (size_t i = 0; i < count; ++i) {
      const bool backwards = entry("scan_input_directions", i) != 0;
      inputs.push_back(e.select(c.in(states + i), axes[i], backwards ? *length - 1 - t : t));
    }
    const auto values = c.run_body("body", inputs);
    if (values.size() < states + scans)
      throw Error(ErrorKind::kUser, "too few outputs of its body");
    for (const Tensor& value : values) {
      if (value.refused) return c.poison();
    }
    carried.assign(values.begin(), values.begin() + static_cast<long>(states));
    for (size_t i = 0; i < scans; ++i) rows[i].push_back(values[states + i]);
  }
  for (size_t i = 0; i < states; ++i) c.out(i, carried[i]);
  for (size_t i = 0; i < scans; ++i) {
    if (entry("scan_output_directions", i) != 0) std::reverse(rows[i].begin(), rows[i].end());
    const int64_t rank = rows[i].empty() ? 0 : rows[i][0].rank() + 1;
    c.out(states + i,
          joined(e, rows[i], rank ? Emitter::wrap(entry("scan_output_axes", i), rank) : 0));
  }
}

const RegisterOnnx ops{{"If", branch}, {"Loop", loop}, {"Scan", scan}};

}  // namespace
}  // namespace tv::onnx
