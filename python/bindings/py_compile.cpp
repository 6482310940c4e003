// Partitioning and compiling.

#include <map>

#include "csrc/cache/engine_cache.h"
#include "csrc/codegen/custom_op.h"
#include "csrc/codegen/pointwise_table.h"
#include "csrc/compile/compile.h"
#include "csrc/converter.h"
#include "csrc/partition/partition.h"
#include "csrc/partition/unsupported.h"
#include "csrc/partition/what_if.h"
#include "csrc/report/dry_run.h"
#include "csrc/tuner/tuner.h"
#include "csrc/user_code.h"
#include "python/bindings/py_module.h"
#include "runtime/engine/engine.h"
#include "runtime/spec/vke.h"

namespace tv::bindings {
namespace {

py::bytes to_bytes(const std::vector<uint8_t>& bytes) {
  return py::bytes(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

py::list setting_dicts() {
  py::list out;
  for (const SettingRow& row : setting_rows()) {
    py::list flags;
    for (const SettingFlag& flag : row.flags) flags.append(flag.name);
    py::dict dict;
    dict["name"] = row.name;
    dict["kind"] = row.kind;
    dict["scope"] = row.scope == SettingScope::kCompiler ? "compiler"
                    : row.scope == SettingScope::kCache  ? "cache"
                                                         : "python";
    dict["default"] = row.standard;
    dict["low"] = row.low;
    dict["high"] = row.high;
    dict["unit"] = row.unit;
    dict["of_user"] = row.of_user;
    dict["in_key"] = row.scope == SettingScope::kCompiler && row.in_key;
    dict["saved"] = row.saved;
    dict["variable"] = row.variable;
    dict["section"] = row.section;
    dict["shown"] = row.shown;
    dict["help"] = row.help;
    dict["flags"] = flags;
    out.append(dict);
  }
  return out;
}

// The callback runs with the GIL; an exception in it, or Ctrl-C, stops the compilation.
Progress to_progress(const py::object& callback) {
  return [&callback](const std::string& stage, int64_t done, int64_t total) {
    py::gil_scoped_acquire gil;
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
    if (!callback.is_none()) callback(stage, done, total);
  };
}

py::bytes compile_vke(const Graph& graph, const std::string& settings, const DeviceProfile& device,
                      const py::object& progress, const std::string& cache) {
  const Progress report = to_progress(progress);
  std::vector<uint8_t> bytes;
  {
    py::gil_scoped_release no_gil;
    const Settings parsed = Settings::from_json(settings);
    bytes = to_vke(compile_cached(graph, parsed, device, CacheSettings::from_json(cache), report,
                                  [&] { return make_tuner(device, parsed); }));
  }
  return to_bytes(bytes);
}

py::dict stats_dict(const TunerStats& stats) {
  py::dict dict;
  dict["problems"] = stats.problems;
  dict["timed"] = stats.timed;
  dict["cached"] = stats.cached;
  dict["checked"] = stats.checked;
  dict["wrong"] = stats.wrong;
  dict["lost"] = stats.lost;
  dict["refused"] = stats.refused;
  dict["cut"] = stats.cut;
  return dict;
}

py::dict converter_info(const Converter& converter) {
  const char* kind = converter.pointwise ? "pointwise"
                     : converter.view    ? "view"
                     : converter.expand  ? "expand"
                                         : "kernel";
  py::dict info;
  info["op"] = converter.op;
  info["kind"] = kind;
  info["is_compute"] = converter.is_compute;
  info["notes"] = converter.notes;
  if (converter.pointwise) info["function"] = pointwise_function(converter.op);
  return info;
}

}  // namespace

void bind_compile(py::module_& m) {
  py::class_<Partition>(m, "Partition", "Which nodes run in which engine, and why others do not.")
      .def_readonly("blocks", &Partition::blocks)
      .def_readonly("compute_nodes", &Partition::compute_nodes)
      .def_readonly("covered_nodes", &Partition::covered_nodes)
      .def_property_readonly("native",
                             [](const Partition& partition) {
                               std::vector<std::pair<int32_t, std::string>> native;
                               for (const NativeNode& node : partition.native)
                                 native.emplace_back(node.node, node.reason);
                               return native;
                             })
      .def_readonly("candidate_sizes", &Partition::candidate_sizes)
      .def_property_readonly(
          "schedule",
          [](const Partition& partition) {
            std::vector<std::pair<bool, int32_t>> steps;
            for (const PartitionStep& s : partition.schedule)
              steps.emplace_back(s.is_block, s.index);
            return steps;
          },
          "(True, block) or (False, node) in an order that keeps data, mutation and randomness.");
  m.def(
      "partition",
      [](const Graph& graph, const std::string& settings, const DeviceProfile& device) {
        return partition(graph, Settings::from_json(settings), device);
      },
      py::arg("graph"), py::arg("settings"), py::arg("device"),
      py::call_guard<py::gil_scoped_release>());
  m.def(
      "dry_run",
      [](const Graph& graph, const std::string& settings, const DeviceProfile& device) {
        return dry_run_report(graph, partition(graph, Settings::from_json(settings), device));
      },
      py::arg("graph"), py::arg("settings"), py::arg("device"),
      py::call_guard<py::gil_scoped_release>(),
      "What compiling would do, as JSON text (csrc/report/dry_run.h has its fields).");
  m.def(
      "partition_as_if",
      [](const Graph& graph, const std::string& settings, const DeviceProfile& device,
         const std::set<std::string>& operators) {
        return partition_as_if(graph, Settings::from_json(settings), device, operators);
      },
      py::call_guard<py::gil_scoped_release>(),
      "The partition, were these operators supported; not to be built.");
  m.def("block_sizes_report", &block_sizes_report,
        "What each min_block_size makes of blocks of these sizes, as JSON text.");
  m.def(
      "unsupported",
      [](const Graph& graph, size_t node, const std::string& settings,
         const DeviceProfile& device) {
        const Settings parsed = Settings::from_json(settings);
        return unsupported(NodeContext{graph, graph.nodes.at(node), device, parsed});
      },
      "Why a node cannot be in an engine, or \"\".");
  m.def("setting_rows", &setting_dicts, "The rows of csrc/settings_table.h.");
  m.def("check_settings", [](const std::string& settings) { Settings::from_json(settings); });
  m.def(
      "compile", &compile_vke, py::arg("graph"), py::arg("settings"), py::arg("device"),
      py::arg("progress") = py::none(),
      py::arg("cache") = R"({"reuse_cached_engines": false, "cache_built_engines": false})",
      "Compiles a graph, tuned where `device` is one of this machine, or takes its engine from the "
      "cache; returns .vke bytes.");
  m.def(
      "tuner_stats", [] { return stats_dict(tuner_stats()); },
      "What tuners of this process did (csrc/tuner/tuner.h).");
  m.def("reset_tuner_stats", &reset_tuner_stats);
  m.def("supported_ops", [] {
    py::list ops;
    for (const auto& [op, converter] : Registry::instance().all()) {
      ops.append(converter_info(converter));
    }
    return ops;
  });
  m.def(
      "pointwise_errors",
      [] {
        std::map<std::string, std::string> errors;
        for (const PointwiseRow& row : pointwise_rows()) errors[row.name] = row.error;
        return errors;
      },
      "The largest error of each row of the pointwise table.");
  m.def(
      "pointwise_domains",
      [] {
        std::map<std::string, std::string> domains;
        for (const PointwiseRow& row : pointwise_rows()) {
          if (*row.domain) domains[row.name] = row.domain;
        }
        return domains;
      },
      "Where the errors of rows of operators of one tensor are measured.");
  m.def(
      "add_custom_op",
      [](const std::string& name, const std::vector<std::string>& inputs,
         const std::vector<std::string>& outputs, const std::vector<std::string>& integers,
         const std::vector<std::string>& floats, const std::string& shader,
         const std::array<uint32_t, 3>& local_size, const std::map<std::string, DType>& dtypes) {
        add_custom_op({name, inputs, outputs, integers, floats, shader, local_size, dtypes});
      },
      "Registers the converter of tv.custom_op (csrc/user_code.h).");
  m.def("load_user_library", &load_user_library,
        "Loads a library of converters; returns the operators that it added.");
  m.def("is_registered",
        [](const std::string& op) { return Registry::instance().find(op) != nullptr; });
  m.def(
      "is_free",
      [](const std::string& op) {
        const Converter* converter = Registry::instance().find(op);
        return converter != nullptr && !converter->is_compute;
      },
      "True for an operator that has a converter and does no work: a view.");
}

}  // namespace tv::bindings
