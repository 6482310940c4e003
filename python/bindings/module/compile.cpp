// Planning and building.

#include <algorithm>
#include <map>
#include <set>

#include "csrc/cli/text/nearest.h"
#include "csrc/codegen/custom_op.h"
#include "csrc/codegen/pointwise_table.h"
#include "csrc/converter.h"
#include "csrc/partition/dependencies.h"
#include "csrc/plan/plan.h"
#include "csrc/precision.h"
#include "csrc/report/dry_run.h"
#include "csrc/report/flops.h"
#include "csrc/setting_values.h"
#include "csrc/tuner/tuner.h"
#include "csrc/user_code.h"
#include "python/bindings/module/module.h"
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

py::bytes build_vke(const Plan& plan, size_t block, const py::object& progress,
                    const std::string& cache) {
  const Progress report = to_progress(progress);
  std::vector<uint8_t> bytes;
  {
    py::gil_scoped_release no_gil;
    bytes =
        to_vke(build(plan, block, {.cache = CacheSettings::from_json(cache), .progress = report}));
  }
  return to_bytes(bytes);
}

std::optional<py::bytes> find_vke(const Plan& plan, size_t block, const std::string& cache) {
  std::optional<std::vector<uint8_t>> bytes;
  {
    py::gil_scoped_release no_gil;
    if (const auto spec = find_built(plan, block, CacheSettings::from_json(cache))) {
      bytes = to_vke(*spec);
    }
  }
  return bytes ? std::optional(to_bytes(*bytes)) : std::nullopt;
}

py::list native_of(const Plan& plan) {
  py::list found;
  for (const NativeNode& native : plan.parts.native) {
    const Origin& origin = plan.graph.nodes[native.node].origin;
    found.append(py::make_tuple(origin.index, native.reason, native.refused));
  }
  return found;
}

std::vector<int32_t> work_of(const Plan& plan) {
  std::vector<int32_t> origins;
  for (const Node& node : plan.graph.nodes) {
    if (does_work_in_model(node)) origins.push_back(node.origin.index);
  }
  return origins;
}

std::map<int32_t, int64_t> flops_by_origin(const Plan& plan) {
  std::map<int32_t, int64_t> counts;
  for (const Node& node : plan.graph.nodes) {
    if (const int64_t count = flops_of(plan.graph, node)) counts[node.origin.index] += count;
  }
  return counts;
}

/// Of each block the origins of its nodes, each once; what the frontend added itself has none.
std::vector<std::vector<int32_t>> origins_of(const Plan& plan, const Partition& parts) {
  std::vector<std::vector<int32_t>> all;
  for (const std::vector<int32_t>& block : parts.blocks) {
    std::vector<int32_t>& origins = all.emplace_back();
    for (const int32_t n : block) {
      const int32_t origin = plan.graph.nodes[n].origin.index;
      if (origin >= 0 && std::ranges::find(origins, origin) == origins.end()) {
        origins.push_back(origin);
      }
    }
  }
  return all;
}

/// (graph, values that are its inputs, values that are its weights), by the planned graph's ids.
py::tuple cut_block(const Plan& plan, size_t block, std::string name, std::vector<ValueId> inputs,
                    const py::list& outputs, const py::list& symbols) {
  Border border{.outputs = to_outputs(outputs),
                .inputs = std::move(inputs),
                .symbols = std::vector<Symbol>{},
                .binds_symbols = false};
  for (py::handle item : symbols) {
    const auto parts = item.cast<py::tuple>();
    border.symbols->push_back({parts[0].cast<std::string>(), parts[1].cast<int64_t>(),
                               parts[2].cast<int64_t>(),
                               parts[3].cast<std::optional<int64_t>>().value_or(kUnbounded)});
  }
  Block made = cut(plan, block, border);
  made.graph.name = std::move(name);
  return py::make_tuple(std::move(made.graph), made.inputs, made.weights);
}

/// (values that are a block's inputs, its weights and its outputs) as build() orders them.
py::tuple border_of(const Plan& plan, size_t block) {
  const Block made = cut(plan, block, {});
  return py::make_tuple(made.inputs, made.weights, made.outputs);
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
  dict["disturbed"] = stats.disturbed;
  return dict;
}

py::dict calibration_of(const Plan& plan) {
  const CalibrationUse& use = plan.calibration;
  py::dict dict;
  dict["points"] = use.points;
  dict["scaled"] = use.scaled;
  dict["products"] = use.products;
  dict["in_blocks"] = use.in_blocks;
  dict["left_out"] = use.left_out;
  dict["missing"] = use.missing;
  dict["unused"] = use.unused;
  dict["refusal"] = use.refusal;
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
  info["keeps_float32"] = converter.keeps_float32;
  info["notes"] = converter.notes;
  if (converter.pointwise) info["function"] = pointwise_function(converter.op);
  return info;
}

std::vector<std::pair<bool, int32_t>> schedule_of(const Plan& plan) {
  std::vector<std::pair<bool, int32_t>> steps;
  for (const PartitionStep& s : plan.parts.schedule) {
    steps.emplace_back(s.is_block, s.is_block ? s.index : plan.graph.nodes[s.index].origin.index);
  }
  return steps;
}

std::vector<std::pair<std::string, std::string>> written_by(const Plan& plan, size_t block) {
  std::vector<std::pair<std::string, std::string>> outcomes;
  for (WriteOutcome& f : written_inputs(plan, block)) {
    outcomes.emplace_back(std::move(f.input), std::move(f.reason));
  }
  return outcomes;
}

void bind_plan(py::module_& m) {
  py::class_<Plan>(m, "Plan", "Which nodes run in which engine, and why others do not.")
      .def_property_readonly(
          "blocks", [](const Plan& plan) { return origins_of(plan, plan.parts); },
          "Of each engine the origins of its nodes.")
      .def_property_readonly("native", &native_of,
                             "(origin, reason, whether it is refused wherever it stands) of each "
                             "node left out; origin -1: the frontend's own.")
      .def_property_readonly("is_whole", &is_whole,
                             "Whether engines take all of the model that does work, or, where "
                             "nobody runs the rest, all of it.")
      .def_property_readonly("work", &work_of, "Origins of the nodes that do work in the model.")
      .def_property_readonly("flops", &flops_by_origin,
                             "Origin → floating-point operations of each node whose operator's "
                             "registration counts them (csrc/report/flops.h).")
      .def_property_readonly("compute_nodes",
                             [](const Plan& plan) { return plan.parts.compute_nodes; })
      .def_property_readonly("covered_nodes",
                             [](const Plan& plan) { return plan.parts.covered_nodes; })
      .def_property_readonly("candidate_sizes",
                             [](const Plan& plan) { return plan.parts.candidate_sizes; })
      .def_property_readonly(
          "schedule", &schedule_of,
          "(True, block) or (False, origin) in an order that keeps data, mutation and randomness.")
      .def_property_readonly("refusals", &refusals,
                             "A line for each node that keeps the graph from being one engine.")
      .def_property_readonly(
          "calibration", &calibration_of,
          "What the calibration says of the graph (csrc/passes/quantise/calibrate.h).")
      .def("report", &dry_run_report,
           "What building would do, as JSON text (csrc/report/dry_run.h has its fields).")
      .def(
          "blocks_as_if",
          [](const Plan& plan, const std::set<std::string>& operators) {
            return origins_of(plan, parts_as_if(plan, operators));
          },
          py::call_guard<py::gil_scoped_release>(),
          "The blocks, were these operators supported; not to be built.")
      .def(
          "cut", &cut_block, py::arg("block"), py::arg("name"), py::arg("inputs"),
          py::arg("outputs"), py::arg("symbols"),
          "A block as a graph, and the values that are its inputs and weights: first `inputs`, "
          "then what its nodes read besides. `outputs` as for Graph.set_outputs; `symbols`: (name, "
          "min, opt, max or None) of all, those of outputs' strides too.")
      .def("written", &written_by, py::arg("block") = 0, py::call_guard<py::gil_scoped_release>(),
           "(input, why its new value is copied there or \"\") of each that a block writes over.")
      .def("border", &border_of, py::arg("block"),
           "Values that are a block's inputs, weights and outputs, as its engine orders them.")
      .def(
          "key", [](const Plan& plan, size_t block) { return py::bytes(key_of(plan, block)); },
          py::arg("block") = 0, "The key material of a block's engine.");
}

void bind_planning(py::module_& m) {
  m.def(
      "plan",
      [](const Graph& graph, const std::string& settings, const DeviceProfile& device, bool whole) {
        return plan(graph, Settings::from_json(settings), device,
                    whole ? Rest::kNobody : Rest::kCaller);
      },
      py::arg("graph"), py::arg("settings"), py::arg("device"), py::arg("whole") = false,
      py::call_guard<py::gil_scoped_release>(),
      "Which parts of a graph become engines, and why the rest does not; `whole`: all of it, or "
      "nothing.");
  m.def(
      "build", &build_vke, py::arg("plan"), py::arg("block") = 0, py::arg("progress") = py::none(),
      py::arg("cache") = R"({"reuse_cached_engines": false, "cache_built_engines": false})",
      "The engine of a block, tuned where the device is of this machine, or taken from the cache; "
      "returns .vke bytes.");
  m.def("find_built", &find_vke, py::arg("plan"), py::arg("block"), py::arg("cache"),
        "The .vke bytes of a block's tuned engine if the cache has them, else None.");
  m.def("block_sizes_report", &block_sizes_report,
        "What each min_block_size makes of blocks of these sizes, as JSON text.");
}

void bind_observed(py::module_& m) {
  m.def(
      "observed_by_calibration",
      [](const Graph& graph, const std::string& settings) {
        return observed_by_calibration(graph, Settings::from_json(settings));
      },
      "A graph whose outputs are what calibration observes of the given one, but for its inputs.");
  m.def(
      "observed_points",
      [](const Graph& graph, const std::string& settings) {
        py::list points;
        for (const CalibrationPoint& p : observed_points(graph, Settings::from_json(settings))) {
          points.append(py::make_tuple(p.name, p.value, graph.nodes.at(p.node).origin.index,
                                       p.leaves, p.making, p.channel_dim, p.is_product));
        }
        return points;
      },
      "(name, value, origin of the node that reads it, what its weight is made of, how, dimension "
      "of the channels or -1, whether it is a product) of what calibration observes of a graph.");
  m.def(
      "observed_channels",
      [](const Graph& graph, const std::string& settings) {
        std::map<std::string, std::pair<int64_t, bool>> made;
        for (const auto& [name, channels] :
             observed_channels(graph, Settings::from_json(settings))) {
          made.emplace(name, std::pair(channels.dim, channels.is_product));
        }
        return made;
      },
      "name → (dimension of the channels or -1, whether a product reads it) of what calibration "
      "observes of a file's graph.");
}

void bind_settings(py::module_& m) {
  m.def("setting_rows", &setting_dicts, "The rows of csrc/settings_table.h.");
  m.def(
      "setting_of_environment",
      [](const std::string& name) -> std::optional<int64_t> {
        const Json value = setting_of_environment(setting_row(name));
        const auto* number = value.get<int64_t>();
        return number ? std::optional(*number) : std::nullopt;
      },
      "The value of a setting that the environment has, or None.");
  m.def(
      "check_together",
      [](const std::string& settings) { check_together(Settings::from_json(settings)); },
      "Raises ValueError for settings that mean nothing together (csrc/precision.h).");
  m.def(
      "low_precision",
      [](const std::string& settings) -> std::string {
        const DType dtype = low_precision(Settings::from_json(settings));
        return dtype == DType::kOther ? "" : std::string(name(dtype));
      },
      "The 16-bit dtype that float32 nodes are stored in, or \"\".");
  m.def("check_settings", [](const std::string& settings) { Settings::from_json(settings); });
}

void bind_tuner(py::module_& m) {
  m.def(
      "tuner_stats", [] { return stats_dict(tuner_stats()); },
      "What tuners of this process did (csrc/tuner/tuner.h).");
  m.def("reset_tuner_stats", &reset_tuner_stats);
}

void bind_registry(py::module_& m) {
  m.def("nearest", &cli::nearest, "Of these names the one that a text may have meant, or \"\".");
  m.def("supported_ops", [] {
    py::list ops;
    for (const std::string& op : Registry::instance().names()) {
      ops.append(converter_info(*Registry::instance().find(op)));
    }
    return ops;
  });
  m.def("is_registered",
        [](const std::string& op) { return Registry::instance().find(op) != nullptr; });
  m.def(
      "is_pointwise",
      [](const std::string& op) {
        const Converter* converter = Registry::instance().find(op);
        return converter != nullptr && converter->pointwise != nullptr;
      },
      "Whether an operator is an instruction of pointwise programs.");
  m.def("reads_storage", &reads_storage,
        "Whether an operator counts places of its first argument's storage.");
  m.attr("PART_OF_STORAGE") = kPartOfStorage;
  m.def("needs_elements", &needs_elements,
        "Whether PyTorch refuses an operator for a tensor without elements.");
  m.def("takes_codes", &takes_codes,
        "Whether tensors of small floating-point numbers can be given to an operator by their "
        "codes.");
  m.def(
      "code_args",
      [](const std::string& op) {
        const Converter* converter = Registry::instance().find(op);
        return converter == nullptr ? std::vector<std::string>{} : converter->code_args;
      },
      "Arguments that may be such codes and whose formats the arguments <name>_format say.");
  m.def(
      "moves",
      [](const std::string& op) {
        constexpr const char* kNames[] = {"",        "copies", "casts",   "reshapes", "permutes",
                                          "spreads", "cuts",   "parts",   "picks",    "joins",
                                          "stacks",  "pads",   "largest", "means"};
        static_assert(std::size(kNames) == static_cast<size_t>(Moves::kMeans) + 1);
        return kNames[static_cast<size_t>(moves_of(op))];
      },
      "How an operator moves its input's elements (Moves in csrc/converter.h); empty: it "
      "computes.");
}

void bind_pointwise_table(py::module_& m) {
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
}

void bind_user_code(py::module_& m) {
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
}

}  // namespace

void bind_compile(py::module_& m) {
  bind_plan(m);
  bind_planning(m);
  bind_observed(m);
  bind_settings(m);
  bind_tuner(m);
  bind_registry(m);
  bind_pointwise_table(m);
  bind_user_code(m);
}

}  // namespace tv::bindings
