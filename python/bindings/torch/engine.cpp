#include "python/bindings/torch/engine.h"

#include <ATen/Functions.h>
#include <c10/core/DeviceGuard.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "python/bindings/torch/border.h"
#include "python/bindings/torch/cuda.h"
#include "python/bindings/torch/profile.h"
#include "python/bindings/torch/written.h"
#include "runtime/base/json.h"
#include "runtime/spec/vke.h"
#include "runtime/spec/vke_parts.h"
#include "runtime/vulkan/device_lost.h"

namespace tv::torch_bindings {
namespace {

std::vector<int64_t> evaluate(const Shape& shape, std::span<const int64_t> symbols) {
  std::vector<int64_t> values;
  values.reserve(shape.size());
  for (const Expr& dim : shape) values.push_back(dim.eval(symbols));
  return values;
}

// Dimensions are written as Expr::parse reads them.
Json to_json(const Shape& shape) {
  Json::Array dims;
  for (const Expr& dim : shape) dims.emplace_back(dim.str());
  return dims;
}

Json to_json(const std::vector<Binding>& bindings) {
  Json::Array all;
  for (const Binding& binding : bindings) {
    all.emplace_back(Json::Object{{"dtype", std::string(name(binding.dtype))},
                                  {"shape", to_json(binding.shape)},
                                  {"strides", to_json(binding.strides)},
                                  {"written", binding.written}});
  }
  return all;
}

std::span<const uint8_t> bytes_of(const at::Tensor& vke) {
  return {vke.const_data_ptr<uint8_t>(), static_cast<size_t>(vke.numel())};
}

// The files of the profiles, as views.
std::vector<at::Tensor> split(const at::Tensor& vke) {
  const at::Tensor host = vke.cpu().contiguous();
  std::vector<at::Tensor> files;
  int64_t at = 0;
  for (const auto file : split_vke(bytes_of(host))) {
    files.push_back(host.narrow(0, at, static_cast<int64_t>(file.size())));
    at += static_cast<int64_t>(file.size());
  }
  return files;
}

// Whether kernels can count at these sizes, and the device makes as many iterations as they need.
bool runs_at(Engine& engine, std::span<const int64_t> symbols) {
  try {
    validate_at(engine.spec(), symbols);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kInternal) throw;
    return false;
  }
  const int64_t most = profile(*engine.device()).max_loop_iterations();
  const auto& dispatches = engine.spec().dispatches;
  return std::all_of(dispatches.begin(), dispatches.end(), [&](const Dispatch& dispatch) {
    return dispatch.iterations.eval(symbols) <= most;
  });
}

// The tensors themselves where an engine can read them.
std::vector<at::Tensor> host_copies(const std::vector<Binding>& bindings,
                                    const std::vector<at::Tensor>& inputs) {
  std::vector<at::Tensor> held;
  held.reserve(inputs.size());
  for (const at::Tensor& input : inputs) {
    held.push_back(to_host(input, to_torch(bindings[held.size()].dtype)));
  }
  return held;
}

std::vector<HostTensor> host_tensors(const std::vector<at::Tensor>& tensors) {
  std::vector<HostTensor> memory;
  memory.reserve(tensors.size());
  for (const at::Tensor& tensor : tensors) memory.push_back(host_tensor(tensor));
  return memory;
}

// What callers recover from by computing natively.
[[noreturn]] void no_memory() {
  rethrow(OutOfMemoryError("[torch_vulkan::Engine] the host is out of memory"));
}

// How far sizes are from those that an engine's kernels were chosen for.
double distance(const EngineSpec& spec, std::span<const int64_t> symbols) {
  double sum = 0;
  for (size_t i = 0; i < symbols.size(); ++i) {
    if (spec.symbols[i].min < 0) continue;  // a number, no size
    sum += std::abs(std::log2((static_cast<double>(symbols[i]) + 1) /
                              (static_cast<double>(spec.symbols[i].opt) + 1)));
  }
  return sum;
}

}  // namespace

struct TorchEngine::ShapePlan {
  std::shared_ptr<const Parts> parts;  ///< `part` is one of them
  Part* part = nullptr;
  std::vector<std::vector<int64_t>> input_sizes;
  std::vector<int64_t> symbols;
  std::vector<std::vector<int64_t>> output_sizes, output_strides;
  std::vector<at::ScalarType> output_dtypes;

  bool fits(const std::vector<at::Tensor>& inputs) const {
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i].sizes() != at::IntArrayRef(input_sizes[i])) return false;
    }
    return true;
  }
};

TorchEngine::TorchEngine(at::Tensor vke, std::string device, bool immutable_weights, bool truncate)
    : device_(std::move(device)),
      immutable_weights_(immutable_weights),
      truncate_(truncate),
      vke_(std::move(vke)) {
  TORCH_CHECK_VALUE(vke_.scalar_type() == at::kByte && vke_.dim() == 1,
                    "[torch_vulkan::Engine] a one-dimensional uint8 tensor is wanted");
}

at::Tensor TorchEngine::vke() const {
  const std::lock_guard lock(mutex_);
  return vke_;
}

std::shared_ptr<const TorchEngine::Parts> TorchEngine::open_parts(const at::Tensor& vke,
                                                                  int64_t budget) const {
  auto parts = std::make_shared<Parts>();
  for (const at::Tensor& file : split(vke)) {
    auto engine = Engine::create(open_device(device_), from_vke(bytes_of(file)).spec,
                                 {.weight_budget = budget});
    parts->push_back(
        std::make_unique<Part>(file, std::move(engine), immutable_weights_, truncate_));
  }
  return parts;
}

std::shared_ptr<const TorchEngine::Parts> TorchEngine::parts() {
  // Where a kernel hangs the device, each opening would cost a watchdog's time.
  constexpr int kMostOpenings = 3;
  const std::lock_guard lock(mutex_);
  if (parts_ && !is_lost(*parts_->front()->engine->device())) return parts_;
  if (unproven_ >= kMostOpenings) {
    throw DeviceLostError("[torch_vulkan::Engine] the device was lost " +
                          std::to_string(kMostOpenings) +
                          " times before a call was done and is not opened again: see the driver's "
                          "own log, and load the program in a new process");
  }
  plan_.reset();
  parts_.reset();
  try {
    parts_ = open_parts(vke_, weight_budget_);
  } catch (const DeviceLostError&) {
    ++unproven_;
    throw;
  }
  ++unproven_;
  return parts_;
}

bool TorchEngine::fits(const std::vector<at::Tensor>& inputs,
                       const std::vector<at::Tensor>& weights, std::optional<at::Device> device,
                       const SizesOf* sizes) {
  try {
    check_device(inputs, weights, device);
    const auto plan = plan_for(parts(), inputs);
    if (sizes) {
      const auto runs = [&plan] { return runs_at(*plan->part->engine, plan->symbols); };
      size_check(*sizes)->require(sizes->program, inputs, weights, plan->symbols, runs);
    }
    return true;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kUser && error.kind() != ErrorKind::kUnsupported) rethrow(error);
    TORCH_WARN_ONCE(
        "torch_vulkan: a part of a TorchScript program runs natively for inputs that it "
        "was not compiled for (compile it for these, too): ",
        error.what());
    return false;
  }
}

std::shared_ptr<script::SizeCheck> TorchEngine::size_check(const SizesOf& sizes) {
  const std::lock_guard lock(mutex_);
  if (!size_check_) {
    size_check_ = std::make_shared<script::SizeCheck>(sizes.program, sizes.method, sizes.rule);
  }
  return size_check_;
}

void TorchEngine::open() {
  try {
    parts();
  } catch (const Error& error) {
    rethrow(error);
  } catch (const std::bad_alloc&) {
    no_memory();
  }
}

void TorchEngine::replace(at::Tensor vke) {
  try {
    // Held until the end, so that the older parts, which may have to wait for the device, go
    // without the lock.
    std::shared_ptr<const ShapePlan> old_plan;
    auto old = parts();
    auto opened = open_parts(vke, weight_budget());
    check_same_border(*old, *opened);
    const std::lock_guard lock(mutex_);
    vke_ = std::move(vke);
    parts_ = std::move(opened);
    plan_.swap(old_plan);
  } catch (const Error& error) {
    rethrow(error);
  } catch (const std::bad_alloc&) {
    no_memory();
  }
}

void TorchEngine::check_same_border(const Parts& old, const Parts& other) {
  bool same = old.size() == other.size();
  for (size_t i = 0; same && i < old.size(); ++i) {
    const EngineSpec &a = old[i]->engine->spec(), &b = other[i]->engine->spec();
    same = a.inputs == b.inputs && a.outputs == b.outputs && a.weights == b.weights &&
           a.symbols == b.symbols;
  }
  if (same) return;
  throw Error(
      ErrorKind::kUser,
      "[torch_vulkan::Engine] replace: the engine is of another graph: its inputs, outputs, "
      "weights or sizes are not this one's");
}

std::string TorchEngine::description() const {
  const at::Tensor file = vke();
  if (file.numel() == 0) return "{}";
  try {
    const EngineSpec spec = from_vke(bytes_of(split(file).front())).spec;
    return Json(Json::Object{{"symbols", static_cast<int64_t>(spec.symbols.size())},
                             {"inputs", to_json(spec.inputs)},
                             {"outputs", to_json(spec.outputs)}})
        .dump();
  } catch (const Error& error) {
    rethrow(error);
  }
}

int64_t TorchEngine::submissions() {
  const std::lock_guard lock(mutex_);
  int64_t submissions = 0;
  if (!parts_) return submissions;
  for (const auto& part : *parts_) {
    submissions += static_cast<int64_t>(part->engine->stats().submissions);
  }
  return submissions;
}

int64_t TorchEngine::dispatches() {
  try {
    return static_cast<int64_t>(parts()->front()->engine->spec().dispatches.size());
  } catch (const Error& error) {
    rethrow(error);
  }
}

void TorchEngine::forget_weights() {
  const std::lock_guard lock(mutex_);
  if (!parts_) return;
  for (const auto& part : *parts_) part->weights.clear();
}

int64_t TorchEngine::weight_sets() {
  const std::lock_guard lock(mutex_);
  int64_t sets = 0;
  if (!parts_) return sets;
  for (const auto& part : *parts_) sets += part->weights.size();
  return sets;
}

int64_t TorchEngine::weights_prepared() {
  const std::lock_guard lock(mutex_);
  int64_t sets = 0;
  if (!parts_) return sets;
  for (const auto& part : *parts_) sets += part->weights.prepared();
  return sets;
}

std::shared_ptr<const TorchEngine::ShapePlan> TorchEngine::make_plan(
    const std::shared_ptr<const Parts>& parts, const std::vector<at::Tensor>& inputs) {
  auto plan = std::make_shared<ShapePlan>();
  plan->parts = parts;
  for (const at::Tensor& input : inputs) plan->input_sizes.push_back(input.sizes().vec());
  double least = std::numeric_limits<double>::infinity();
  std::exception_ptr refusal;
  for (const auto& part : *parts) {
    try {
      auto symbols = part->engine->bind_shapes(plan->input_sizes);
      const double away = distance(part->engine->spec(), symbols);
      if (away >= least) continue;
      least = away;
      plan->part = part.get();
      plan->symbols = std::move(symbols);
    } catch (const Error&) {
      if (!refusal) refusal = std::current_exception();
    }
  }
  if (!plan->part) std::rethrow_exception(refusal);
  for (const Binding& output : plan->part->engine->spec().outputs) {
    plan->output_sizes.push_back(evaluate(output.shape, plan->symbols));
    plan->output_strides.push_back(evaluate(output.strides, plan->symbols));
    plan->output_dtypes.push_back(to_torch(output.dtype));
  }
  for (const auto& sizes : plan->output_sizes) {
    for (const int64_t size : sizes) {
      if (size < 0) {
        throw Error(ErrorKind::kUnsupported,
                    "[torch_vulkan::execute] a result has a dimension of size " +
                        std::to_string(size) + " at these sizes");
      }
    }
  }
  return plan;
}

std::shared_ptr<const TorchEngine::ShapePlan> TorchEngine::plan_for(
    const std::shared_ptr<const Parts>& parts, const std::vector<at::Tensor>& inputs) {
  const auto& bindings = parts->front()->engine->spec().inputs;
  if (inputs.size() != bindings.size()) {
    throw Error(ErrorKind::kUser, "[torch_vulkan::execute] number of inputs; got " +
                                      std::to_string(inputs.size()) + ", want " +
                                      std::to_string(bindings.size()));
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    check_dtype("input", bindings[i], inputs[i], truncate_);
    if (bindings[i].written) check_writable(inputs[i]);
  }
  {
    const std::lock_guard lock(mutex_);
    if (plan_ && plan_->parts == parts && plan_->fits(inputs)) return plan_;
  }
  auto plan = make_plan(parts, inputs);
  const std::lock_guard lock(mutex_);
  plan_ = plan;
  return plan;
}

std::vector<at::Tensor> TorchEngine::execute(const std::vector<at::Tensor>& inputs,
                                             const std::vector<at::Tensor>& weights,
                                             uint32_t times) {
  try {
    std::vector<at::Tensor> outputs = run(parts(), {inputs, weights, times});
    if (unproven_.load(std::memory_order_relaxed) != 0) unproven_ = 0;
    return outputs;
  } catch (const Error& error) {
    rethrow(error);
  } catch (const std::bad_alloc&) {
    no_memory();
  }
}

std::vector<at::Tensor> TorchEngine::merged(const std::vector<at::Tensor>& inputs,
                                            const std::vector<at::Tensor>& written) {
  try {
    const auto opened = parts();
    const auto& bindings = opened->front()->engine->spec().inputs;
    std::vector<at::Tensor> all;
    auto next = inputs.begin(), changed = written.begin();
    for (const Binding& binding : bindings) {
      auto& from = binding.written ? changed : next;
      if (from == (binding.written ? written : inputs).end()) break;
      all.push_back(*from++);
    }
    if (all.size() != bindings.size() || next != inputs.end() || changed != written.end()) {
      throw Error(ErrorKind::kUser,
                  "[torch_vulkan::execute_written] number of inputs; got " +
                      std::to_string(inputs.size()) + " and " + std::to_string(written.size()) +
                      " that are written, want " + std::to_string(bindings.size()) + " in all");
    }
    return all;
  } catch (const Error& error) {
    rethrow(error);
  } catch (const std::bad_alloc&) {
    no_memory();
  }
}

std::vector<at::Tensor> TorchEngine::run(const std::shared_ptr<const Parts>& parts,
                                         const Operands& call) {
  const auto plan = plan_for(parts, call.inputs);
  const at::Device device = device_of(call.inputs, call.weights);
  if (const int64_t runs = profile_runs) time_layers(*plan, call, device, runs);
  if (device.is_cuda()) {
    if (shared_cuda_device(*parts, device)) return on_cuda(*plan, call, device);
    TORCH_WARN_ONCE(
        "torch_vulkan: ", profile(*parts->front()->engine->device()).name,
        " cannot share memory with ", device.str(),
        ": tensors go through the host, which is slow (see torch_vulkan.cuda_report())");
  }
  return on_host(*plan, call, device);
}

std::optional<at::Device> TorchEngine::shared_cuda_device(const Parts& parts, at::Device device) {
  if (!device.is_cuda()) return std::nullopt;
  if (parts.front()->engine->cuda_device() != device.index()) return std::nullopt;
  return device;
}

std::vector<at::Tensor> TorchEngine::empty_outputs(const ShapePlan& plan, at::Device device) {
  std::vector<at::Tensor> outputs;
  outputs.reserve(plan.output_sizes.size());
  for (size_t i = 0; i < plan.output_sizes.size(); ++i) {
    outputs.push_back(at::empty_strided(plan.output_sizes[i], plan.output_strides[i],
                                        at::TensorOptions(plan.output_dtypes[i]).device(device)));
  }
  return outputs;
}

std::vector<at::Tensor> TorchEngine::on_host(const ShapePlan& plan, const Operands& call,
                                             at::Device device) {
  const auto& [inputs, weights, times] = call;
  Engine& engine = *plan.part->engine;
  const auto set = plan.part->weights.get(engine, weights);
  const auto& bindings = engine.spec().inputs;
  std::vector<at::Tensor> held = host_copies(bindings, inputs);
  const WrittenInputs written(bindings, inputs, weights, held);
  std::vector<at::Tensor> outputs = empty_outputs(plan, at::kCPU);
  engine.run(*set, plan.symbols, host_tensors(held), host_tensors(outputs), times);
  written.write_back(inputs, held);
  if (!device.is_cpu()) {
    for (at::Tensor& output : outputs) output = output.to(device);
  }
  return outputs;
}

void TorchEngine::time_layers(const ShapePlan& plan, const Operands& call, at::Device device,
                              int64_t runs) {
  const auto& [inputs, weights, times] = call;
  Engine& engine = *plan.part->engine;
  const auto set = plan.part->weights.get(engine, weights, shared_cuda_device(*plan.parts, device));
  std::vector<at::Tensor> held = host_copies(engine.spec().inputs, inputs);
  protect_written(engine.spec().inputs, held);
  const std::vector<at::Tensor> outputs = empty_outputs(plan, at::kCPU);
  add_profile(plan.part->file,
              engine.time_dispatches(*set, plan.symbols, host_tensors(held), host_tensors(outputs),
                                     static_cast<int>(runs)));
}

std::vector<at::Tensor> TorchEngine::on_cuda(const ShapePlan& plan, const Operands& call,
                                             at::Device device) {
  const auto& [inputs, weights, times] = call;
  Engine& engine = *plan.part->engine;
  auto set = plan.part->weights.get(engine, weights, device);
  const auto& bindings = engine.spec().inputs;
  // Freed tensors are safe: torch gives their memory away in the order of the stream, which waits
  // for the engine.
  std::vector<at::Tensor> held;
  std::vector<CudaTensor> input_memory, output_memory;
  held.reserve(inputs.size());
  input_memory.reserve(inputs.size());
  for (const at::Tensor& input : inputs) {
    held.push_back(to_cuda(input, to_torch(bindings[held.size()].dtype), device));
  }
  const WrittenInputs written(bindings, inputs, weights, held);
  for (const at::Tensor& input : held) input_memory.push_back(cuda_tensor(input));
  std::vector<at::Tensor> outputs = empty_outputs(plan, device);
  output_memory.reserve(outputs.size());
  for (const at::Tensor& output : outputs) output_memory.push_back(cuda_tensor(output));
  const int copied = engine.run_on_cuda(std::move(set), plan.symbols, input_memory, output_memory,
                                        current_cuda_stream(device.index()), times);
  written.write_back(inputs, held);
  if (copied > 0) {
    TORCH_WARN_ONCE(
        "torch_vulkan: ", copied,
        " CUDA tensors of an engine's call were copied, because cudaMalloc's memory "
        "cannot be shared with Vulkan; PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True "
        "lets torch allocate memory that can");
  }
  return outputs;
}

}  // namespace tv::torch_bindings
