// torch.classes.torch_vulkan.{Engine, Weights, Call} and torch.ops.torch_vulkan.execute.

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/autograd/forward_grad.h>
#include <torch/library.h>

#include "python/bindings/torch/border.h"
#include "python/bindings/torch/engine.h"
#include "python/bindings/torch/list_writes.h"
#include "python/bindings/torch/profile.h"
#include "python/bindings/torch/refit.h"

namespace {

using tv::torch_bindings::TorchEngine;
using EnginePtr = c10::intrusive_ptr<TorchEngine>;
using State = std::tuple<at::Tensor, std::string, bool, bool>;

/// Engines know no tangents, and would lose them in silence.
void refuse_tangents(const std::vector<at::Tensor>& tensors) {
  if (torch::autograd::ForwardADLevel::try_get_by_idx(0) == nullptr) return;
  for (const at::Tensor& tensor : tensors) {
    TORCH_CHECK_NOT_IMPLEMENTED(
        !tensor.defined() || !tensor._fw_grad(/*level=*/0).defined(),
        "[torch_vulkan::execute] an argument has a tangent (forward-mode AD): got an engine, which "
        "has no derivative; call the module before compilation in a dual level");
  }
}

std::vector<at::Tensor> execute(const std::vector<at::Tensor>& inputs,
                                const std::vector<at::Tensor>& weights, const EnginePtr& engine) {
  refuse_tangents(inputs);
  refuse_tangents(weights);
  return engine->execute(inputs, weights);
}

/// A list of weights as one object (held_weights.py).
struct Weights : torch::CustomClassHolder {
  explicit Weights(std::vector<at::Tensor> list) : tensors(std::move(list)) {}
  const std::vector<at::Tensor> tensors;
};
using WeightsPtr = c10::intrusive_ptr<Weights>;

std::vector<at::Tensor> execute_held(const std::vector<at::Tensor>& inputs,
                                     const WeightsPtr& weights, const EnginePtr& engine) {
  refuse_tangents(inputs);
  refuse_tangents(weights->tensors);
  return engine->execute(inputs, weights->tensors);
}

/// A call with all that it reads and writes, to make again: nobody looks at its tensors meanwhile.
struct Call : torch::CustomClassHolder {
  Call(std::vector<at::Tensor> given, std::vector<at::Tensor> kept, EnginePtr called)
      : inputs(std::move(given)), weights(std::move(kept)), engine(std::move(called)) {}
  const std::vector<at::Tensor> inputs, weights;
  const EnginePtr engine;
};

void execute_call(const c10::intrusive_ptr<Call>& call, int64_t times) {
  refuse_tangents(call->inputs);
  refuse_tangents(call->weights);
  TORCH_CHECK_VALUE(times > 0 && times <= UINT32_MAX, "[torch_vulkan::execute_call] times: got ",
                    times, ", want 1 or more");
  call->engine->execute(call->inputs, call->weights, static_cast<uint32_t>(times));
}

/// What changes stands in the schema: `written` are the inputs that the engine writes in place.
std::vector<at::Tensor> execute_written(const std::vector<at::Tensor>& inputs,
                                        const std::vector<at::Tensor>& written,
                                        const std::vector<at::Tensor>& weights,
                                        const EnginePtr& engine) {
  refuse_tangents(inputs);
  refuse_tangents(written);
  refuse_tangents(weights);
  for (const at::Tensor& tensor : written) tv::torch_bindings::check_writable(tensor);
  const std::vector<at::Tensor> all = engine->merged(inputs, written);
  for (const at::Tensor& tensor : written) {  // before: what fails on the way may leave parts
    if (!tensor.is_inference()) tensor.unsafeGetTensorImpl()->bump_version();
  }
  return engine->execute(all, weights);
}

/// The same without a change: the new values come behind the outputs.
std::vector<at::Tensor> execute_copied(const std::vector<at::Tensor>& inputs,
                                       const std::vector<at::Tensor>& written,
                                       const std::vector<at::Tensor>& weights,
                                       const EnginePtr& engine) {
  refuse_tangents(inputs);
  refuse_tangents(written);
  refuse_tangents(weights);
  std::vector<at::Tensor> copies;
  for (const at::Tensor& tensor : written) copies.push_back(tensor.clone());
  std::vector<at::Tensor> outputs = engine->execute(engine->merged(inputs, copies), weights);
  outputs.insert(outputs.end(), copies.begin(), copies.end());
  return outputs;
}

State get_state(const EnginePtr& engine) {
  return {engine->vke(), engine->device(), engine->immutable_weights(), engine->truncate()};
}

bool fits(const std::vector<at::Tensor>& inputs, const EnginePtr& engine) {
  return engine->fits(inputs, {}, std::nullopt);
}

bool fits_tensors(const std::vector<at::Tensor>& inputs, const EnginePtr& engine,
                  const std::vector<at::Tensor>& weights, std::optional<at::Device> device) {
  return engine->fits(inputs, weights, device);
}

// Boxed, as C++ has no type for a program of any kind.
void fits_sizes(const c10::OperatorHandle&, torch::jit::Stack* stack) {
  const std::string rule = torch::jit::pop(*stack).toStringRef();
  const std::string method = torch::jit::pop(*stack).toStringRef();
  const c10::IValue program = torch::jit::pop(*stack);
  const auto device = torch::jit::pop(*stack).toOptional<at::Device>();
  const auto weights = torch::jit::pop(*stack).toTensorVector();
  const auto engine = torch::jit::pop(*stack).toCustomClass<TorchEngine>();
  const auto inputs = torch::jit::pop(*stack).toTensorVector();
  const TorchEngine::SizesOf sizes{program, method, rule};
  torch::jit::push(*stack, engine->fits(inputs, weights, device, &sizes));
}

/// By identity: FakeTensorMode compares the arguments of calls whose results it remembers.
template <typename T>
bool is_same(const c10::intrusive_ptr<T>& self, const c10::IValue& other) {
  if (!other.isObject() || other.toObjectRef().slots().size() != 1) return false;
  const c10::IValue& held = other.toObjectRef().getSlot(0);
  return held.isCapsule() && held.toCapsule().get() == self.get();
}

EnginePtr set_state(State state) {
  return c10::make_intrusive<TorchEngine>(std::move(std::get<0>(state)),
                                          std::move(std::get<1>(state)), std::get<2>(state),
                                          std::get<3>(state));
}

}  // namespace

TORCH_LIBRARY(torch_vulkan, m) {
  m.class_<TorchEngine>("Engine")
      .def(torch::init<at::Tensor, std::string, bool, bool>())
      .def("open", [](const EnginePtr& engine) { engine->open(); })
      .def("set_weight_budget",
           [](const EnginePtr& engine, int64_t budget) { engine->set_weight_budget(budget); })
      .def("weight_budget", [](const EnginePtr& engine) { return engine->weight_budget(); })
      .def("weight_memory", [](const EnginePtr& engine) { return engine->weight_memory(); })
      .def("replace",
           [](const EnginePtr& engine, at::Tensor vke) { engine->replace(std::move(vke)); })
      .def("execute",
           [](const EnginePtr& engine, std::vector<at::Tensor> inputs,
              std::vector<at::Tensor> weights) { return engine->execute(inputs, weights); })
      .def("refit", [](const EnginePtr& engine, std::vector<at::Tensor> weights,
                       std::vector<int64_t> changed) { engine->refit(weights, changed); })
      .def("stage",
           [](const EnginePtr& engine, std::vector<at::Tensor> weights,
              std::vector<int64_t> changed, std::vector<at::Tensor> values) {
             return engine->stage(weights, {std::move(changed), std::move(values)});
           })
      .def("commit", [](const EnginePtr& engine, int64_t staged,
                        std::vector<at::Tensor> weights) { engine->commit(staged, weights); })
      .def("discard", [](const EnginePtr& engine, int64_t staged) { engine->discard(staged); })
      .def("forget_weights", [](const EnginePtr& engine) { engine->forget_weights(); })
      .def("weight_sets", [](const EnginePtr& engine) { return engine->weight_sets(); })
      .def("weights_prepared", [](const EnginePtr& engine) { return engine->weights_prepared(); })
      .def("submissions", [](const EnginePtr& engine) { return engine->submissions(); })
      .def("dispatches", [](const EnginePtr& engine) { return engine->dispatches(); })
      .def("vke", [](const EnginePtr& engine) { return engine->vke(); })
      .def("device", [](const EnginePtr& engine) { return engine->device(); })
      .def("__eq__", is_same<TorchEngine>)
      // What torch.export and FakeTensor know an engine by.
      .def("__obj_flatten__",
           [](const EnginePtr& engine) {
             return std::tuple<std::tuple<std::string, at::Tensor>,
                               std::tuple<std::string, std::string>, std::tuple<std::string, bool>,
                               std::tuple<std::string, bool>, std::tuple<std::string, std::string>>(
                 {"vke", engine->vke()}, {"device", engine->device()},
                 {"immutable_weights", engine->immutable_weights()},
                 {"truncate", engine->truncate()}, {"description", engine->description()});
           })
      .def_pickle([](const EnginePtr& engine) { return get_state(engine); },
                  [](State state) { return set_state(std::move(state)); });
  m.class_<Weights>("Weights")
      .def(torch::init<std::vector<at::Tensor>>())
      .def("__eq__", is_same<Weights>);
  m.class_<Call>("Call")
      .def(torch::init<std::vector<at::Tensor>, std::vector<at::Tensor>, EnginePtr>())
      .def("engine", [](const c10::intrusive_ptr<Call>& call) { return call->engine; })
      .def("__eq__", is_same<Call>);
  m.def(
      "execute(Tensor[] inputs, Tensor[] weights, "
      "__torch__.torch.classes.torch_vulkan.Engine engine) -> Tensor[]");
  m.def(
      "execute_held(Tensor[] inputs, __torch__.torch.classes.torch_vulkan.Weights weights, "
      "__torch__.torch.classes.torch_vulkan.Engine engine) -> Tensor[]");
  m.def(
      "execute_written(Tensor[] inputs, Tensor(a!)[] written, Tensor[] weights, "
      "__torch__.torch.classes.torch_vulkan.Engine engine) -> Tensor[]");
  m.def(
      "execute_copied(Tensor[] inputs, Tensor[] written, Tensor[] weights, "
      "__torch__.torch.classes.torch_vulkan.Engine engine) -> Tensor[]");
  // `times`: so often in turn, each time on what the time before has left (Engine::run).
  m.def("execute_call(__torch__.torch.classes.torch_vulkan.Call call, int times=1) -> ()");
  // What TorchScript programs ask before they call an engine.
  m.def("fits(Tensor[] inputs, __torch__.torch.classes.torch_vulkan.Engine engine) -> bool");
  m.def(
      "fits.tensors(Tensor[] inputs, __torch__.torch.classes.torch_vulkan.Engine engine, "
      "Tensor[] weights, Device? device) -> bool");
  // The same of an engine for ranges of sizes: `method` of `program` does what the engine does.
  m.def(
      "fits.sizes(Tensor[] inputs, __torch__.torch.classes.torch_vulkan.Engine engine, "
      "Tensor[] weights, Device? device, Any program, str method, str rule) -> bool");
  m.def("count_list_writes() -> ()", &tv::torch_bindings::count_list_writes);
  m.def("assign(Tensor(a!)[] weights, Tensor[] values) -> ()", &tv::torch_bindings::assign);
  // tv.profile's: from now on each dispatch of a call is timed so often; 0: no more.
  m.def("set_profile_runs(int runs) -> ()",
        [](int64_t runs) { tv::torch_bindings::profile_runs = runs; });
  m.def("take_profiles() -> (Tensor[], Tensor[])", &tv::torch_bindings::take_profiles);
}

// One kernel for every backend, and for a call without any tensor.
TORCH_LIBRARY_IMPL(torch_vulkan, CompositeExplicitAutograd, m) {
  m.impl("execute", &execute);
  m.impl("execute_held", &execute_held);
  m.impl("execute_call", &execute_call);
  m.impl("execute_written", &execute_written);
  m.impl("execute_copied", &execute_copied);
  m.impl("fits", &fits);
  m.impl("fits.tensors", &fits_tensors);
  m.impl("fits.sizes", torch::CppFunction::makeFromBoxedFunction<&fits_sizes>());
}

// Conjugated and negated views come as they are: what PyTorch makes of them before a call is a
// copy, which an engine would write to in place of the tensor.
void leave_views(torch::Library& m) {
  for (const char* name : {"execute", "execute_held", "execute_written", "execute_copied", "fits",
                           "fits.tensors", "fits.sizes"}) {
    m.impl(name, torch::CppFunction::makeFallthrough());
  }
}
TORCH_LIBRARY_IMPL(torch_vulkan, Conjugate, m) { leave_views(m); }
TORCH_LIBRARY_IMPL(torch_vulkan, Negative, m) { leave_views(m); }
