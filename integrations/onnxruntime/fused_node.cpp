#include "integrations/onnxruntime/fused_node.h"

#include <algorithm>
#include <cstring>

#include "csrc/frontends/onnx/file/tensor.h"
#include "integrations/onnxruntime/aligned_memory.h"
#include "integrations/onnxruntime/sizes.h"

namespace tv::ort {
namespace {

/// Where a size of an input is, for messages.
std::string dimension(const FusedInput& input, size_t d) {
  return "input \"" + input.name + "\": dimension " + std::to_string(d);
}

/// Whether what the engine writes is not what the runtime gets.
bool is_narrowed(const FusedOutput& output) {
  return output.from == FusedOutput::From::kEngine && output.widened &&
         !onnx::stored_as_widened(output.widened);
}

/// Bytes of what is written before it is narrowed.
int64_t bytes_of(const FusedOutput& output, const std::vector<int64_t>& shape) {
  const int64_t count = count_of(shape);
  const bool packed = output.from == FusedOutput::From::kInput && output.widened;
  return packed ? onnx::stored_bytes(output.widened, count) : count * size_bytes(output.dtype);
}

}  // namespace

CompiledBlock compile_block(const Block& block, const DeviceProfile& device,
                            const Settings& settings, const CacheSettings& cache,
                            const onnx::ImportedModel& model) {
  const Plan whole = plan(block.graph, settings, device, Rest::kNobody);
  if (whole.parts.blocks.empty()) {
    std::string message = "a part of the plan cannot be built:";
    for (const std::string& line : refusals(whole)) message += "\n  " + line;
    throw Error(ErrorKind::kInternal, message);
  }
  CompiledBlock made{.spec = build(whole, 0, {.cache = cache})};
  std::map<std::string, const onnx::Weight*> by_name;
  for (const onnx::Weight& weight : model.weights) by_name.emplace(weight.name, &weight);
  for (const Binding& binding : made.spec.weights) {
    const auto found = by_name.find(binding.name);
    if (found == by_name.end() || found->second->dtype != binding.dtype) {
      throw Error(ErrorKind::kInternal, "the model has no weight '" + binding.name + "'");
    }
    made.weights.push_back(found->second->load());
  }
  return made;
}

BuiltEngine load_engine(const std::shared_ptr<Device>& device, CompiledBlock compiled,
                        int64_t weight_budget) {
  BuiltEngine built;
  built.engine = Engine::create(device, std::move(compiled.spec), {.weight_budget = weight_budget});
  const std::vector<bool> in_place = built.engine->weights_in_place();
  std::vector<HostTensor> tensors;
  for (size_t i = 0; i < compiled.weights.size(); ++i) {
    const onnx::WeightBytes& weight = compiled.weights[i];
    auto* data = const_cast<uint8_t*>(weight.bytes.data());  // weights are read only
    const auto size = static_cast<int64_t>(weight.bytes.size());
    const bool stays = compiled.weights_stay && is_aligned(data);
    if (in_place.at(i) && stays) {
      built.memory.push_back(weight.owner);
    } else if (in_place.at(i)) {
      const std::shared_ptr<uint8_t> own = aligned_memory(size);
      if (size > 0) std::memcpy(own.get(), data, static_cast<size_t>(size));
      data = own.get();
      built.memory.push_back(own);
    }
    tensors.push_back({data, size});
  }
  built.weights = built.engine->prepare_weights(tensors);
  return built;
}

Computation::Computation() : OrtNodeComputeInfo{} {
  ort_version_supported = ORT_API_VERSION;
  CreateState = [](OrtNodeComputeInfo* self, OrtNodeComputeContext*,
                   void** state) noexcept -> OrtStatus* {
    *state = self;
    return nullptr;
  };
  Compute = [](OrtNodeComputeInfo* self, void*, OrtKernelContext* context) noexcept {
    return guarded([&] { static_cast<Computation*>(self)->run(context); });
  };
  ReleaseState = [](OrtNodeComputeInfo*, void*) noexcept {};
}

FusedNode::FusedNode(Wiring wiring, BuiltEngine built, std::shared_ptr<LayerLog> layers)
    : wiring_(std::move(wiring)), built_(std::move(built)), layers_(std::move(layers)) {}

/// While a trace is written, each dispatch is timed, where the device can do that.
void FusedNode::run_engine(const Bound& bound, const std::vector<HostTensor>& reads,
                           const std::vector<HostTensor>& writes) const {
  Engine& engine = *built_.engine;
  if (layers_->is_on()) {
    const auto started = LayerLog::Clock::now();
    try {
      const auto times =
          engine.time_dispatches(*built_.weights, bound.symbols, reads, writes, /*runs=*/1);
      layers_->add(engine.spec(), started, times);
      return;
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kUnsupported) throw;
    }
  }
  engine.run(*built_.weights, bound.symbols, reads, writes);
}

void FusedNode::run(OrtKernelContext* context) {
  const std::vector<Input> inputs = read_inputs(context);
  const std::shared_ptr<const Bound> bound = bound_to(inputs);
  std::vector<HostTensor> reads(wiring_.engine_inputs.size());
  std::vector<std::shared_ptr<uint8_t>> own;
  for (size_t i = 0; i < reads.size(); ++i) {
    const int64_t from = wiring_.engine_inputs[i].from;
    const uint8_t* data =
        from < 0 ? bound->no_elements.get() : inputs[static_cast<size_t>(from)].data;
    const int32_t type = from < 0 ? 0 : wiring_.inputs[static_cast<size_t>(from)].widened;
    if (type && !onnx::stored_as_widened(type)) {
      own.push_back(aligned_memory(bound->input_bytes[i]));
      onnx::widen(type, data, count_of(inputs[static_cast<size_t>(from)].shape), own.back().get());
      data = own.back().get();
    }
    reads[i] = {const_cast<uint8_t*>(data), bound->input_bytes[i]};
  }
  const Ort::KernelContext outputs(context);
  std::vector<HostTensor> writes(bound->output_bytes.size());
  std::vector<uint8_t*> memory(wiring_.outputs.size());
  std::vector<uint8_t*> targets(wiring_.outputs.size());
  for (size_t k = 0; k < wiring_.outputs.size(); ++k) {
    const FusedOutput& output = wiring_.outputs[k];
    Ort::UnownedValue value = outputs.GetOutput(k, bound->shapes[k]);
    const int64_t size = bytes_of(output, bound->shapes[k]);
    const bool wanted = static_cast<OrtValue*>(value) != nullptr;
    if (wanted) targets[k] = static_cast<uint8_t*>(value.GetTensorMutableRawData());
    memory[k] = targets[k];
    if (!wanted || is_narrowed(output) || overlaps_one_of(inputs, memory[k], size)) {
      own.push_back(aligned_memory(size));
      memory[k] = own.back().get();
    }
    const bool first = output.from == FusedOutput::From::kEngine && !writes[output.index].data;
    if (first) writes[output.index] = {memory[k], bound->output_bytes[output.index]};
  }
  if (built_.engine) run_engine(*bound, reads, writes);
  for (size_t k = 0; k < wiring_.outputs.size(); ++k) {
    const FusedOutput& output = wiring_.outputs[k];
    if (output.from == FusedOutput::From::kSizes) {
      write_numbers(output, bound->numbers[k], memory[k]);
      continue;
    }
    const void* source = output.from == FusedOutput::From::kEngine ? writes[output.index].data
                                                                   : inputs[output.index].data;
    const int64_t size = bytes_of(output, bound->shapes[k]);
    if (source != memory[k] && size > 0) std::memcpy(memory[k], source, static_cast<size_t>(size));
  }
  for (size_t k = 0; k < wiring_.outputs.size(); ++k) {  // after the last read
    const FusedOutput& output = wiring_.outputs[k];
    const int64_t size = bytes_of(output, bound->shapes[k]);
    if (!targets[k] || targets[k] == memory[k] || size == 0) continue;
    if (is_narrowed(output)) {
      onnx::narrow(output.widened, memory[k], count_of(bound->shapes[k]), targets[k]);
    } else {
      std::memcpy(targets[k], memory[k], static_cast<size_t>(size));
    }
  }
}

/// An IO binding may give a result the memory of an input.
bool FusedNode::overlaps_one_of(const std::vector<Input>& inputs, const uint8_t* memory,
                                int64_t size) {
  const auto begin = reinterpret_cast<uintptr_t>(memory);
  return std::any_of(inputs.begin(), inputs.end(), [&](const Input& input) {
    const auto other = reinterpret_cast<uintptr_t>(input.data);
    const int64_t bytes = onnx::stored_bytes(input.type, count_of(input.shape));
    return begin < other + static_cast<uintptr_t>(bytes) &&
           other < begin + static_cast<uintptr_t>(size);
  });
}

std::vector<FusedNode::Input> FusedNode::read_inputs(OrtKernelContext* context) const {
  const Ort::KernelContext given(context);
  std::vector<Input> inputs;
  for (size_t i = 0; i < wiring_.inputs.size(); ++i) {
    const Ort::ConstValue value = given.GetInput(i);
    if (static_cast<const OrtValue*>(value) == nullptr) {
      throw Error(ErrorKind::kUser, "input \"" + wiring_.inputs[i].name + "\" is missing");
    }
    const auto info = value.GetTensorTypeAndShapeInfo();
    inputs.push_back({static_cast<const uint8_t*>(value.GetTensorRawData()),
                      onnx_type(info.GetElementType()), info.GetShape()});
  }
  return inputs;
}

/// An element of a tensor of numbers.
int64_t FusedNode::number_at(size_t input, const Input& from, size_t element) const {
  const bool wide = wiring_.inputs[input].dtype == DType::kI64;
  int64_t value = 0;
  int32_t narrow = 0;
  if (wide) {
    std::memcpy(&value, from.data + element * sizeof value, sizeof value);
  } else {
    std::memcpy(&narrow, from.data + element * sizeof narrow, sizeof narrow);
  }
  return wide ? value : narrow;
}

/// All that sizes follow from.
FusedNode::Sizes FusedNode::key_of(const std::vector<Input>& inputs) const {
  Sizes key;
  for (size_t i = 0; i < inputs.size(); ++i) {
    key.push_back(static_cast<int64_t>(inputs[i].shape.size()));
    key.insert(key.end(), inputs[i].shape.begin(), inputs[i].shape.end());
    const size_t numbers = wiring_.inputs[i].elements.size();
    if (static_cast<int64_t>(numbers) != count_of(inputs[i].shape)) continue;
    if (numbers > 0 && onnx::dtype_of(inputs[i].type) != wiring_.inputs[i].dtype) {
      throw Error(ErrorKind::kUser, "input \"" + wiring_.inputs[i].name + "\" is of another type");
    }
    for (size_t e = 0; e < numbers; ++e) key.push_back(number_at(i, inputs[i], e));
  }
  return key;
}

std::shared_ptr<const FusedNode::Bound> FusedNode::bound_to(const std::vector<Input>& inputs) {
  Sizes key = key_of(inputs);
  {
    const std::lock_guard lock(mutex_);
    if (last_ && last_->key == key) return last_;
  }
  auto made = std::make_shared<const Bound>(bind(inputs, std::move(key)));
  const std::lock_guard lock(mutex_);
  last_ = made;
  return made;
}

Known FusedNode::known_from(const std::vector<Input>& inputs) const {
  std::vector<Equation> equations;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const FusedInput& input = wiring_.inputs[i];
    const Sizes& got = inputs[i].shape;
    const bool is_value = input.value != kNoValue;
    if (is_value && got.size() != input.shape.size()) {
      throw Error(ErrorKind::kUser, "input \"" + input.name + "\": got rank " +
                                        std::to_string(got.size()) + ", want " +
                                        std::to_string(input.shape.size()));
    }
    for (size_t d = 0; is_value && d < got.size(); ++d) {
      equations.push_back({&input.shape[d], got[d], dimension(input, d)});
    }
    if (static_cast<int64_t>(input.elements.size()) != count_of(got)) continue;
    for (size_t e = 0; e < input.elements.size(); ++e) {
      equations.push_back({&input.elements[e], number_at(i, inputs[i], e),
                           "input \"" + input.name + "\": element " + std::to_string(e)});
    }
  }
  return solve(equations, wiring_.symbols.size());
}

FusedNode::Bound FusedNode::bind(const std::vector<Input>& inputs, Sizes key) const {
  const Known known = known_from(inputs);
  Bound bound{.key = std::move(key)};
  if (!built_.engine) {
    bind_outputs(inputs, known, bound);
    return bound;
  }
  const EngineSpec& spec = built_.engine->spec();
  std::vector<Sizes> shapes;
  int64_t largest = 0;
  for (size_t i = 0; i < wiring_.engine_inputs.size(); ++i) {
    const EngineInput& input = wiring_.engine_inputs[i];
    shapes.push_back(evaluated(input.shape, known, wiring_.symbols));
    bound.input_bytes.push_back(count_of(shapes[i]) * size_bytes(spec.inputs[i].dtype));
    if (input.from < 0) {
      largest = std::max(largest, bound.input_bytes[i]);
      continue;
    }
    const Input& given = inputs[static_cast<size_t>(input.from)];
    const FusedInput& as = wiring_.inputs[static_cast<size_t>(input.from)];
    const DType dtype = spec.inputs[i].dtype;
    if (given.shape != shapes[i] || as.dtype != dtype ||
        !is_of_type(given.type, dtype, as.widened)) {
      throw Error(ErrorKind::kUser, "input \"" +
                                        wiring_.inputs[static_cast<size_t>(input.from)].name +
                                        "\" is of another type or size than its engine's");
    }
  }
  bound.no_elements = aligned_memory(largest);
  bound.symbols = built_.engine->bind_shapes(shapes);
  bind_outputs(inputs, known, bound);
  return bound;
}

/// Sizes of what is written: those of the engine, and those of the node's results, must agree.
void FusedNode::bind_outputs(const std::vector<Input>& inputs, const Known& known,
                             Bound& bound) const {
  const std::vector<Binding> none;
  for (const Binding& output : built_.engine ? built_.engine->spec().outputs : none) {
    int64_t size = size_bytes(output.dtype);
    for (const Expr& dim : output.shape) size *= dim.eval(bound.symbols);
    bound.output_bytes.push_back(size);
  }
  for (const FusedOutput& output : wiring_.outputs) {
    bound.shapes.push_back(evaluated(output.shape, known, wiring_.symbols));
    bound.numbers.push_back(output.numbers ? evaluated(output.numbers->ints, known, wiring_.symbols)
                                           : Sizes{});
    const int64_t count = count_of(bound.shapes.back());
    const int64_t size = count * size_bytes(output.dtype);
    bool fits = false;
    switch (output.from) {
      case FusedOutput::From::kEngine:
        fits = size == bound.output_bytes[output.index];
        break;
      case FusedOutput::From::kInput:
        fits = inputs[output.index].shape == bound.shapes.back() &&
               is_of_type(inputs[output.index].type, output.dtype, output.widened);
        break;
      case FusedOutput::From::kSizes:
        fits = count == static_cast<int64_t>(output.numbers->count());
        break;
    }
    if (!fits) {
      throw Error(ErrorKind::kInternal, "output \"" + output.name + "\" is of another size than " +
                                            "what is written to it");
    }
  }
}

void FusedNode::write_numbers(const FusedOutput& output, const Sizes& ints, uint8_t* into) {
  onnx::Host host = *output.numbers;
  host.ints.assign(ints.begin(), ints.end());
  const std::vector<uint8_t> bytes = onnx::host_bytes(host);
  if (!bytes.empty()) std::memcpy(into, bytes.data(), bytes.size());
}

}  // namespace tv::ort
