// Stand-alone engines over host memory: addresses in, addresses out.
// torch_vulkan/_engines/engine.py turns tensors and arrays into addresses.

#include "runtime/engine/engine.h"

#include <map>

#include "python/bindings/module/module.h"
#include "runtime/base/error.h"
#include "runtime/spec/vke.h"
#include "runtime/spec/vke_parts.h"
#include "runtime/vulkan/device.h"

namespace tv::bindings {
namespace {

using Address = std::pair<uintptr_t, int64_t>;  // address, bytes

// WeightSet is opaque outside the runtime.
struct PyWeightSet {
  std::shared_ptr<const WeightSet> set;
};

// Held as a value: where Python's memory runs out while an object is made, pybind11 frees the
// memory of what a shared_ptr holds as if it were its own.
struct PyEngine {
  std::shared_ptr<Engine> engine;
  Engine* operator->() const { return engine.get(); }
};

std::vector<HostTensor> host_tensors(const std::vector<Address>& addresses) {
  std::vector<HostTensor> tensors;
  for (const auto& [address, bytes] : addresses) {
    tensors.push_back({reinterpret_cast<void*>(address), bytes});
  }
  return tensors;
}

py::dict binding_info(const Binding& binding) {
  py::dict info;
  info["name"] = binding.name;
  info["dtype"] = std::string(name(binding.dtype));
  info["shape"] = from_shape(binding.shape);
  info["strides"] = from_shape(binding.strides);
  info["written"] = binding.written;
  return info;
}

py::list binding_list(const std::vector<Binding>& bindings) {
  py::list list;
  for (const Binding& binding : bindings) list.append(binding_info(binding));
  return list;
}

py::list dispatch_list(const std::vector<Dispatch>& dispatches) {
  py::list list;
  for (const Dispatch& dispatch : dispatches) {
    py::dict info;
    info["name"] = dispatch.name;
    info["tactic"] = dispatch.tactic;
    info["ops"] = dispatch.ops;
    info["module_path"] = dispatch.module_path;
    info["source"] = dispatch.source;
    info["time_us"] = dispatch.time_us;
    info["groups"] = from_shape({dispatch.grid.begin(), dispatch.grid.end()});
    list.append(info);
  }
  return list;
}

py::dict spec_info(const EngineSpec& spec) {
  py::dict info;
  info["name"] = spec.name;
  info["builder_version"] = spec.builder_version;
  info["runs_on"] = spec.runs_on;
  info["tuned_for"] = spec.tuned_for;
  py::list symbols;
  for (const Symbol& symbol : spec.symbols) {
    py::dict entry;
    entry["name"] = symbol.name;
    entry["min"] = symbol.min;
    entry["opt"] = symbol.opt;
    entry["max"] = symbol.max == kUnbounded ? py::object(py::none()) : py::cast(symbol.max);
    symbols.append(entry);
  }
  info["symbols"] = symbols;
  info["inputs"] = binding_list(spec.inputs);
  info["outputs"] = binding_list(spec.outputs);
  info["weights"] = binding_list(spec.weights);
  info["layers"] = dispatch_list(spec.dispatches);
  info["weight_program"] = dispatch_list(spec.weight_program);
  info["modules"] = spec.modules.size();
  info["pipelines"] = spec.pipelines.size();
  return info;
}

std::vector<uint8_t> vke_bytes(const py::bytes& data) {
  const std::string_view view = data;
  return {view.begin(), view.end()};
}

/// [("multiple", left, right, source), …] beside those that it has.
py::bytes with_conditions(const py::bytes& data, const py::list& conditions) {
  VkeContents contents = from_vke(vke_bytes(data));
  for (const py::handle item : conditions) {
    const auto parts = item.cast<py::tuple>();
    Condition condition{relation_of(parts[0].cast<std::string>()), to_expr(parts[1]),
                        to_expr(parts[2]), parts[3].cast<std::string>()};
    if (condition.decided(contents.spec.symbols) == true) continue;
    // The source of this one says it in the model's terms.
    std::erase_if(contents.spec.conditions, [&](const Condition& known) {
      return known.relation == condition.relation && known.left == condition.left &&
             known.right == condition.right;
    });
    add_condition(contents.spec.conditions, std::move(condition));
  }
  std::vector<HostTensor> weights;
  for (auto& bytes : contents.weights)
    weights.push_back({bytes.data(), static_cast<int64_t>(bytes.size())});
  const auto bytes = to_vke(contents.spec, weights);
  return py::bytes(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

void bind_engine_facts(py::class_<PyEngine>& engine) {
  engine.def("info", [](const PyEngine& engine) { return spec_info(engine->spec()); })
      .def_property_readonly("device",
                             [](const PyEngine& engine) { return profile(*engine->device()); })
      .def_property_readonly("is_lost",
                             [](const PyEngine& engine) { return is_lost(*engine->device()); })
      .def(
          "bind_shapes",
          [](const PyEngine& engine, const std::vector<std::vector<int64_t>>& shapes) {
            return engine->bind_shapes(shapes);
          },
          "Values of the symbols for these input shapes.")
      .def("stats",
           [](const PyEngine& engine) {
             const EngineStats stats = engine->stats();
             py::dict dict;
             dict["contexts"] = stats.contexts;
             dict["recordings"] = stats.recordings;
             dict["recording_us"] = stats.recording_us;
             dict["submissions"] = stats.submissions;
             return dict;
           })
      .def(
          "fulfilling",
          [](const PyEngine& engine, const std::vector<int64_t>& symbols) {
            return fulfilling(engine->spec().conditions, engine->spec().symbols, symbols);
          },
          "Values near these at which the engine runs; None where none are found.")
      .def("arena_bytes", [](const PyEngine& engine, const std::vector<int64_t>& symbols) {
        return engine->arena_bytes(symbols);
      });
}

void bind_weights(py::class_<PyEngine>& engine) {
  engine
      .def(
          "prepare_weights",
          [](const PyEngine& engine, const std::vector<Address>& weights) {
            return PyWeightSet{engine->prepare_weights(host_tensors(weights))};
          },
          py::call_guard<py::gil_scoped_release>())
      .def(
          "update_weights",
          [](const PyEngine& engine, const PyWeightSet& old, const std::vector<Address>& weights,
             const std::vector<uint32_t>& changed) {
            return PyWeightSet{engine->update_weights(*old.set, host_tensors(weights), changed)};
          },
          py::call_guard<py::gil_scoped_release>(),
          "The set for weights of which those numbered in the last argument changed.")
      .def(
          "held_bytes",
          [](const PyEngine& engine, const PyWeightSet& weights) {
            return engine->held_bytes(*weights.set);
          },
          "Bytes of the device's memory.")
      .def(
          "weight_memory",
          [](const PyEngine& engine, const PyWeightSet& weights) {
            const WeightMemory memory = engine->weight_memory(*weights.set);
            return std::map<std::string, int64_t>{
                {"device", memory.device}, {"host", memory.host}, {"slots", memory.slots}};
          },
          "Bytes of the device's memory, of host memory that is streamed, and of its slots.");
}

void bind_calls(py::class_<PyEngine>& engine) {
  engine
      .def(
          "run",
          [](const PyEngine& engine, const PyWeightSet& weights,
             const std::vector<int64_t>& symbols, const std::vector<Address>& inputs,
             const std::vector<Address>& outputs) {
            engine->run(*weights.set, symbols, host_tensors(inputs), host_tensors(outputs));
          },
          py::call_guard<py::gil_scoped_release>())
      .def(
          "profile",
          [](const PyEngine& engine, const PyWeightSet& weights,
             const std::vector<int64_t>& symbols, const std::vector<Address>& inputs,
             const std::vector<Address>& outputs, int runs) {
            std::vector<std::tuple<double, double, int64_t>> times;
            for (const DispatchTime& t : engine->profile(
                     *weights.set, symbols, host_tensors(inputs), host_tensors(outputs), runs)) {
              times.emplace_back(t.time_us, t.mean_us, t.bytes);
            }
            return times;
          },
          "Microseconds (median, mean) and operand bytes of each dispatch.",
          py::call_guard<py::gil_scoped_release>());
}

void bind_vke(py::module_& m) {
  m.def("split_vke", [](const py::bytes& data) {
    const auto bytes = vke_bytes(data);
    py::list files;
    for (const auto file : split_vke(bytes)) {
      files.append(py::bytes(reinterpret_cast<const char*>(file.data()), file.size()));
    }
    return files;
  });
  m.def("vke_info",
        [](const py::bytes& data) { return spec_info(from_vke(vke_bytes(data)).spec); });
  m.def(
      "vke_digest",
      [](const py::bytes& data) { return digest_without_names(from_vke(vke_bytes(data)).spec); },
      "SHA-256 of a .vke file without weights and names.");
  m.def("vke_weights", [](const py::bytes& data) {
    py::list weights;
    for (const auto& bytes : from_vke(vke_bytes(data)).weights) {
      weights.append(py::bytes(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
    }
    return weights;
  });
  m.def("vke_with_conditions", &with_conditions);
  m.def(
      "vke_with_weights",
      [](const py::bytes& data, const std::vector<Address>& weights) {
        const auto bytes = to_vke(from_vke(vke_bytes(data)).spec, host_tensors(weights));
        return py::bytes(reinterpret_cast<const char*>(bytes.data()), bytes.size());
      },
      "The same engine with its weights stored in the file.");
}

}  // namespace

void bind_engine(py::module_& m) {
  py::class_<PyWeightSet>(m, "WeightSet");
  py::class_<PyEngine> engine(m, "Engine", "A loaded engine.");
  bind_engine_facts(engine);
  bind_weights(engine);
  bind_calls(engine);
  m.def(
      "load_engine",
      [](const py::bytes& data, const std::string& device, bool check_addresses,
         int64_t weight_budget) {
        const auto bytes = vke_bytes(data);
        py::gil_scoped_release no_gil;
        return PyEngine{
            Engine::create(open_device(device), from_vke(bytes).spec,
                           {.check_addresses = check_addresses, .weight_budget = weight_budget})};
      },
      py::arg("vke"), py::arg("device") = "", py::arg("check_addresses") = false,
      py::arg("weight_budget") = kAutoWeightBudget);
  bind_vke(m);
}

}  // namespace tv::bindings
