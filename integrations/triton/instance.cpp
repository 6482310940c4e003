#include "integrations/triton/instance.h"

#include <algorithm>
#include <cstring>

namespace tv::triton {
namespace {

constexpr size_t kMostBound = 256;

uint64_t after(uint64_t start, double us) { return start + static_cast<uint64_t>(us * 1e3); }

std::vector<int64_t> evaluate(const Shape& exprs, std::span<const int64_t> symbols) {
  std::vector<int64_t> out;
  for (const Expr& expr : exprs) out.push_back(expr.eval(symbols));
  return out;
}

bool is_row_major(const std::vector<int64_t>& shape, const std::vector<int64_t>& strides) {
  int64_t want = 1;
  for (size_t d = shape.size(); d-- > 0;) {
    if (shape[d] != 1 && strides[d] != want) return false;
    want *= shape[d];
  }
  return true;
}

/// Copies a tensor of these strides into pieces that are row-major one after the other.
void copy_row_major(const uint8_t* from, const std::vector<int64_t>& shape,
                    const std::vector<int64_t>& strides, int64_t width, const HostPieces& to) {
  std::vector<int64_t> index(shape.size(), 0);
  for (const HostTensor& piece : to) {
    auto* at = static_cast<uint8_t*>(piece.data);
    for (int64_t byte = 0; byte < piece.size_bytes; byte += width) {
      int64_t offset = 0;
      for (size_t d = 0; d < index.size(); ++d) offset += index[d] * strides[d];
      std::memcpy(at + byte, from + offset * width, static_cast<size_t>(width));
      for (size_t d = index.size(); d-- > 0 && ++index[d] == shape[d];) index[d] = 0;
    }
  }
}

}  // namespace

void Instance::execute(std::span<TRITONBACKEND_Request* const> requests) noexcept {
  const Times times{.start = now_ns()};
  std::list<Request> all;
  for (TRITONBACKEND_Request* request : requests) {
    Request& made = all.emplace_back(request);
    try {
      made.read(model_.signature(), model_.config().max_batch_size() > 0);
    } catch (const std::exception& error) {
      refuse(made, times, error);
    }
  }
  for (Group& group : groups_of(all)) {
    run(std::move(group), all.size() > 1 ? Times{.start = now_ns()} : times);
  }
  for (const Request& request : all) {
    log_error(TRITONBACKEND_RequestRelease(request.handle(), TRITONSERVER_REQUEST_RELEASE_ALL));
  }
}

std::vector<Instance::Group> Instance::groups_of(std::list<Request>& requests) const {
  const int64_t most = model_.config().max_batch_size();
  std::vector<Group> groups;
  std::map<std::vector<int64_t>, std::pair<size_t, int64_t>> open;  // by sizes: group, its rows
  for (Request& request : requests) {
    if (request.is_sent()) continue;
    const auto found = open.find(request.key());
    if (found != open.end() && found->second.second + request.rows() <= most) {
      groups[found->second.first].push_back(&request);
      found->second.second += request.rows();
      continue;
    }
    open[request.key()] = {groups.size(), request.rows()};
    groups.push_back({&request});
  }
  return groups;
}

void Instance::run(Group group, Times times) {
  try {
    follow_the_model();
    const Bound* bound = nullptr;
    while (!bound && !group.empty()) {
      bound = &bind(group);
      std::erase_if(group, [&](Request* request) {
        try {
          request->reserve(model_.signature(), bound->of.output_shapes);
          return false;
        } catch (const std::exception& error) {
          refuse(*request, times, error);
          bound = nullptr;  // of fewer rows now
          return true;
        }
      });
    }
    if (group.empty()) return;
    times = compute(group, *bound, times);
  } catch (const std::exception& error) {
    return after_error(group, times, error);
  }
  int64_t rows = 0;
  for (const Request* request : group) rows += request->rows();
  answer(group, times, rows);
}

Times Instance::compute(const Group& group, const Bound& bound, Times times) {
  const EngineSpec& spec = bound.of.engine->spec();
  std::vector<HostPieces> inputs(spec.inputs.size()), outputs(spec.outputs.size());
  std::vector<HostPieces> permuted(spec.outputs.size());
  std::vector<cli::AlignedBytes> own;
  for (size_t i = 0; i < inputs.size(); ++i) {
    for (const Request* request : group) {
      inputs[i].insert(inputs[i].end(), request->input(i).begin(), request->input(i).end());
    }
  }
  for (size_t o = 0; o < outputs.size(); ++o) {
    HostPieces& pieces = bound.row_major[o] ? outputs[o] : permuted[o];
    for (const Request* request : group) pieces.push_back(request->output(o));
    if (bound.row_major[o]) continue;
    const int64_t size = cli::bytes_of(bound.of.output_shapes[o], spec.outputs[o].dtype);
    own.emplace_back(size);
    outputs[o].push_back({own.back().data(), size});
  }
  const uint64_t start = now_ns();
  const CallTimes taken =
      calls_of(bound.of.engine).run_pieces(*bound.of.weights, bound.of.symbols, inputs, outputs);
  for (size_t o = 0; o < outputs.size(); ++o) {
    if (bound.row_major[o]) continue;
    copy_row_major(static_cast<const uint8_t*>(outputs[o][0].data), bound.of.output_shapes[o],
                   bound.strides[o], size_bytes(spec.outputs[o].dtype), permuted[o]);
  }
  times.compute_start = after(start, taken.queue_us);
  times.compute_end = std::max(times.compute_start, after(start, taken.done_us));
  return times;
}

void Instance::answer(const Group& group, Times times, int64_t rows) {
  model_.worked();
  std::vector<TRITONBACKEND_Request*> handles;
  for (Request* request : group) {
    request->send(nullptr);
    handles.push_back(request->handle());
  }
  times.end = now_ns();
  report_batch(handle_, handles, times, rows);
}

void Instance::refuse(Request& request, const Times& times, const std::exception& error) {
  request.send(error_of(error));
  report_failure(handle_, request.handle(), times);
}

void Instance::after_error(const Group& group, const Times& times, const std::exception& error) {
  const std::shared_ptr<const cli::Network> lost = network_;
  if (lost && is_lost(*lost->engines().front()->device())) {
    try {
      model_.recover(lost);
    } catch (const std::exception& again) {
      for (Request* request : group) refuse(*request, times, again);
      return;
    }
  } else if (group.size() > 1) {
    for (Request* request : group) run({request}, {.start = now_ns()});
    return;
  }
  for (Request* request : group) refuse(*request, times, error);
}

void Instance::follow_the_model() {
  std::shared_ptr<const cli::Network> now = model_.network();
  if (now == network_) return;
  bound_.clear();
  calls_.clear();
  network_ = std::move(now);
}

const Instance::Bound& Instance::bind(const Group& group) {
  std::vector<std::vector<int64_t>> shapes = group.front()->shapes();
  if (model_.config().max_batch_size() > 0) {
    int64_t rows = 0;
    for (const Request* request : group) rows += request->rows();
    for (std::vector<int64_t>& shape : shapes) shape[0] = rows;
  }
  std::vector<int64_t> key;
  for (const std::vector<int64_t>& shape : shapes) {
    key.insert(key.end(), shape.begin(), shape.end());  // ranks are the model's
  }
  if (const auto found = bound_.find(key); found != bound_.end()) return found->second;
  cli::NamedShapes named;
  for (size_t i = 0; i < shapes.size(); ++i) {
    named.emplace(model_.signature().inputs[i].name, std::move(shapes[i]));
  }
  Bound made{.of = network_->bind(named)};
  const EngineSpec& spec = made.of.engine->spec();
  for (size_t o = 0; o < spec.outputs.size(); ++o) {
    made.strides.push_back(evaluate(spec.outputs[o].strides, made.of.symbols));
    made.row_major.push_back(is_row_major(made.of.output_shapes[o], made.strides[o]));
  }
  if (bound_.size() >= kMostBound) bound_.clear();
  return bound_.emplace(std::move(key), std::move(made)).first->second;
}

TimedCalls& Instance::calls_of(const std::shared_ptr<Engine>& engine) {
  const auto found = calls_.find(engine.get());
  if (found != calls_.end()) return found->second;
  return calls_.emplace(engine.get(), TimedCalls(engine)).first->second;
}

}  // namespace tv::triton
