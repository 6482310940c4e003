#include "csrc/cli/flags/options.h"

#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>

#include "csrc/cli/flags/command_flags.h"
#include "csrc/cli/flags/config_file.h"
#include "csrc/cli/flags/help.h"
#include "csrc/cli/flags/input_ranges.h"
#include "csrc/cli/flags/setting_flags.h"
#include "csrc/cli/flags/trtexec_flags.h"
#include "csrc/cli/text/command_error.h"
#include "csrc/cli/text/nearest.h"
#include "csrc/plan/plan.h"
#include "csrc/precision.h"

namespace tv::cli {
namespace {

void add_model(CLI::App& app, Options& o) {
  app.option_defaults()->group("Model");
  add_config(app, o);
  app.add_option("--onnx", o.onnx, "Build an engine from this ONNX file")->type_name("FILE");
  app.add_option("--graph", o.graph,
                 "Build an engine from this graph file (.vkg), as tv.export_graph writes it")
      ->type_name("FILE");
  app.add_option("--loadEngine", o.load_engine, "Load an engine (.vke) in place of building one")
      ->type_name("FILE");
  app.add_flag("--checkAddresses", o.check_addresses,
               "With --loadEngine, for an untrusted file: its kernels can touch only their "
               "operands; slower");
  app.add_option("--saveEngine", o.save_engine, "Write the engine, with its weights")
      ->type_name("FILE");
  app.add_flag("--stripWeights", o.strip_weights, "Write the engine without its weights");
  app.add_option("--refitFromOnnx", o.refit_from_onnx,
                 "Take the weights of a loaded engine from this ONNX file")
      ->type_name("FILE");
  app.add_option("--weights", o.weights,
                 "Take the weights of a loaded engine from this .safetensors file, by name")
      ->type_name("FILE");
  app.add_flag("--refit", o.refit,
               "With --loadEngine and --onnx: as --refitFromOnnx. Every engine can be refitted");
  app.add_flag("--skipInference,--buildOnly", o.skip_inference, "Build or load, but do not run");
}

void add_build(CLI::App& app, Options& o, Texts& t) {
  app.option_defaults()->group("Build");
  app.add_option("--minShapes", t.min_shapes, "Smallest shapes, x:1x3x224x224,y:…")
      ->type_name("SHAPES");
  app.add_option("--optShapes", t.opt_shapes, "Shapes that the engine is tuned for")
      ->type_name("SHAPES");
  app.add_option("--maxShapes", t.max_shapes, "Largest shapes")->type_name("SHAPES");
  add_constants(app, t);
  app.add_option("--sparsity", o.sparsity,
                 "enable: products read 2:4 sparse weights without their zeros where that is "
                 "faster; force: weights are pruned to that first, by magnitude")
      ->check(CLI::IsMember({"disable", "enable", "force"}))
      ->type_name("MODE");
  add_setting_flags(app, o.settings, o.cache, t.settings);
  add_calibration(app, o, t);
}

void add_inference(CLI::App& app, Options& o, Texts& t) {
  app.option_defaults()->group("Inference");
  app.add_option("--shapes", t.shapes, "Shapes to run with; when building, also the only ones")
      ->type_name("SHAPES");
  app.add_option("--loadInputs", t.load_inputs, "x:image.npy,y:raw.bin; others are filled")
      ->type_name("FILES");
  add_fill(app, o, t);
  app.add_option("--iterations", o.iterations, "Minimum number of runs")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 40))
      ->capture_default_str();
  app.add_option("--duration", o.duration_s, "Minimum seconds of measuring")
      ->type_name("SECONDS")
      ->check(Amount(1e9))
      ->capture_default_str();
  app.add_option("--warmUp", o.warm_up_ms, "Milliseconds of runs before measuring")
      ->type_name("MS")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 40))
      ->capture_default_str();
  app.add_option("--idleTime", o.idle_ms, "Milliseconds to wait between two runs")
      ->type_name("MS")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 40))
      ->capture_default_str();
  app.add_option("--streams,--infStreams", o.streams, "Threads that run at one time")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  app.add_flag("--threads", t.always, "Accepted; each stream always has a thread of its own");
}

void add_report(CLI::App& app, Options& o, Texts& t) {
  app.option_defaults()->group("Report");
  app.add_flag("--verbose", o.verbose, "Also explain what is measured, and log more");
  app.add_option("--avgRuns", o.avg_runs, "Print an average of this many runs")
      ->check(CLI::Range(1, 1 << 30))
      ->capture_default_str();
  app.add_option("--percentile", t.percentile, "Percentiles to report")
      ->type_name("LIST")
      ->default_str("90,95,99");
  app.add_flag("--dumpOutput", o.dump_output, "Print the outputs");
  app.add_flag("--dumpProfile", o.dump_profile, "Print what each layer takes");
  app.add_flag("--separateProfileRun", t.always,
               "It is always so: layers are timed in runs of their own");
  app.add_flag("--dumpLayerInfo", o.dump_layer_info, "Print the layers");
  app.add_flag("--dumpRefit", o.dump_refit, "Print the weights that a refit may replace");
  app.add_option("--exportTimes", o.export_times, "Write the time of every run (.json)")
      ->type_name("FILE");
  app.add_option("--exportOutput", o.export_output,
                 "Write the outputs: one .json file, or a directory (ends in /) of .npy files")
      ->type_name("PATH");
  app.add_option("--exportProfile", o.export_profile,
                 "Write what each layer takes: .json, a Chrome trace (.trace.json), or .svg")
      ->type_name("FILE");
  app.add_option("--exportLayerInfo", o.export_layer_info, "Write the layers (.json)")
      ->type_name("FILE");
  app.add_option("--exportGraph", o.export_graph, "Draw the layers (.svg)")->type_name("FILE");
}

void add_system(CLI::App& app, Options& o) {
  app.option_defaults()->group("System");
  add_device(app, o);
  app.add_flag("--listDevices", o.list_devices, "Print the Vulkan devices, best first");
}

std::vector<std::string> names_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

[[noreturn]] void refuse(const CLI::App& app, const std::string& argument) {
  const std::string flag = argument.substr(0, argument.find('='));
  if (flag.size() < 2 || flag[0] != '-') {
    const std::string meant =
        argument.ends_with(".onnx")  ? "; did you mean --onnx=" + argument + "?"
        : argument.ends_with(".vkg") ? "; did you mean --graph=" + argument + "?"
        : argument.ends_with(".vke") ? "; did you mean --loadEngine=" + argument + "?"
                                     : "";
    throw CommandError("unexpected argument '" + argument + "'" +
                       (meant.empty() ? "; flags are written --name=value" : meant));
  }
  const std::string reason = why_not(flag.substr(flag.find_first_not_of('-')));
  if (!reason.empty()) throw CommandError(flag + " is not supported: " + reason);
  const std::string near = nearest(flag, names_of(app));
  throw CommandError("unknown flag " + flag +
                     (near.empty() ? "; --help lists them" : "; did you mean " + near + "?"));
}

/// Pictures and layers' times are written as the end of a file's name says.
void check_suffix(const char* flag, const std::string& path,
                  std::initializer_list<const char*> known) {
  if (path.empty() || path.starts_with("/dev/")) return;
  std::string all;
  for (const char* suffix : known) {
    if (path.ends_with(suffix)) return;
    all += (all.empty() ? "" : ", ") + std::string(suffix);
  }
  throw CommandError(std::string(flag) + ": got " + path + ", want a name that ends in " + all);
}

void read_texts(const CLI::App& app, Options& o, const Texts& t) {
  const auto shapes = [](const char* flag, const std::string& text, NamedShapes& into) {
    if (!text.empty()) into = parse_shapes(flag, text);
  };
  shapes("--shapes", t.shapes, o.shapes);
  shapes("--minShapes", t.min_shapes, o.min_shapes);
  shapes("--optShapes", t.opt_shapes, o.opt_shapes);
  shapes("--maxShapes", t.max_shapes, o.max_shapes);
  if (!t.load_inputs.empty()) o.load_inputs = parse_files("--loadInputs", t.load_inputs);
  if (!t.constants.empty()) o.constants = parse_files("--constants", t.constants);
  if (t.fill == "zero") o.fill = Fill::kZero;
  if (!t.percentile.empty()) {
    o.percentiles.clear();
    for (const std::string& p : CLI::detail::split(t.percentile, ',')) {
      o.percentiles.push_back(number("--percentile", p));
      if (!(o.percentiles.back() >= 0 && o.percentiles.back() <= 100)) {
        throw CommandError("--percentile: got " + p + ", want 0 to 100");
      }
    }
  }
  SettingTexts settings = t.settings;
  read_calibration_flags(app, o, t, settings);
  read_setting_flags(settings, o.settings, o.cache);
  if (!o.sparsity.empty()) o.settings.sparse_weights = o.sparsity != "disable";
}

/// Reads the file that --config names, so that flags are read over it; returns a warning of what in
/// it changes nothing.
std::string read_named_config(const std::vector<std::string>& arguments, Options& o) {
  constexpr std::string_view kFlag = "--config";
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (argument.starts_with(std::string(kFlag) + "=")) {
      return read_config(argument.substr(kFlag.size() + 1), o);
    }
    if (argument == kFlag && i + 1 < arguments.size()) return read_config(arguments[i + 1], o);
  }
  return "";
}

/// The file that a path names; "" for what is no regular file, a device say.
std::string file_at(const std::string& path) {
  std::error_code error;
  const std::filesystem::path whole =
      std::filesystem::weakly_canonical(std::filesystem::absolute(path, error), error);
  if (error ||
      (std::filesystem::exists(whole, error) && !std::filesystem::is_regular_file(whole, error)))
    return "";
  return whole.string();
}

/// Whether a path, as /dev/stdout, is where standard output goes.
bool is_stdout(const std::string& path) {
  if (path == "/dev/null") return false;
  struct stat named{}, out{};
  return stat(path.c_str(), &named) == 0 && fstat(STDOUT_FILENO, &out) == 0 &&
         named.st_dev == out.st_dev && named.st_ino == out.st_ino;
}

/// No output takes the place of another one, or of what is read, and each has a folder before
/// anything is built. An engine that is loaded may be saved under its own name.
void check_outputs(Options& o) {
  std::map<std::string, std::string> taken;
  const auto read = [&](const std::string& flag, const std::string& path) {
    if (!path.empty()) taken.emplace(file_at(path), flag);
  };
  read("--onnx", o.onnx);
  read("--graph", o.graph);
  read("--weights", o.weights);
  read("--refitFromOnnx", o.refit_from_onnx);
  for (const auto& [name, path] : o.load_inputs) read("--loadInputs", path);
  for (const auto& [name, path] : o.constants) read("--constants", path);
  const auto write = [&](const std::string& flag, const std::string& path) {
    if (path.empty()) return;
    o.writes_to_stdout |= is_stdout(path);
    const std::string file = file_at(path);
    if (file.empty()) return;
    const std::filesystem::path folder = std::filesystem::path(file).parent_path();
    std::error_code error;
    const bool is_made = path.back() == '/';  // a folder, for many files
    if (!is_made && !std::filesystem::is_directory(folder, error)) {
      throw CommandError(flag + ": got " + path + ": there is no folder " + folder.string() +
                         ": make it first");
    }
    const auto [other, fresh] = taken.emplace(file, flag);
    if (!fresh) {
      throw CommandError(flag + ": got " + path + ", which " + other->second +
                         " names, too; want another file");
    }
  };
  write("--calib", o.new_calibration);
  write("--saveEngine", o.save_engine);
  read("--loadEngine", o.load_engine);
  write("--exportTimes", o.export_times);
  write("--exportOutput", o.export_output);
  write("--exportProfile", o.export_profile);
  write("--exportLayerInfo", o.export_layer_info);
  write("--exportGraph", o.export_graph);
  write("--exportComparison", o.export_comparison);
  write("--save", o.save);
}

/// What does not go together.
void check(Options& o) {
  const auto need = [](bool good, const char* message) {
    if (!good) throw CommandError(message);
  };
  if (o.list_devices) return;
  check_suffix("--exportGraph", o.export_graph, {".svg"});
  check_suffix("--exportProfile", o.export_profile, {".json", ".svg"});
  const bool loads = !o.load_engine.empty(), builds = !o.model_path().empty() && !loads;
  need(loads || builds || o.generate,
       o.debug.empty() ? "want --onnx=FILE or --graph=FILE to build an engine, or "
                         "--loadEngine=FILE to load one"
                       : "debug: want --onnx=FILE or --graph=FILE");
  check_outputs(o);
  if (is_command(o)) {
    check_command_flags(o);
    return;
  }
  need(o.graph.empty() || (!loads && o.onnx.empty()),
       "got --graph and --onnx or --loadEngine, want one of them; --weights takes a graph file, "
       "too");
  need(o.graph.empty() || o.constants.empty(), "--constants needs --onnx");
  need(!loads || o.onnx.empty() || o.refit,
       "got --onnx and --loadEngine: with --refit the weights of the first go into the second");
  need(loads || o.refit_from_onnx.empty(), "--refitFromOnnx needs --loadEngine");
  need(loads || o.weights.empty(), "--weights needs --loadEngine");
  need(loads || !o.check_addresses, "--checkAddresses needs --loadEngine");
  need(o.weights.empty() || o.refit_from_onnx.empty(),
       "got --weights and --refitFromOnnx, want one");
  need(!loads || o.settings.enabled_precisions.empty(),
       "--fp16, --bf16 and --int8 are chosen when an engine is built");
  check_precisions(o);
  need(!loads || o.sparsity.empty() || o.sparsity == "disable",
       "--sparsity is chosen when an engine is built");
  need(!loads || o.constants.empty(), "--constants is chosen when an engine is built");
  need(!loads || (o.min_shapes.empty() && o.opt_shapes.empty() && o.max_shapes.empty()),
       "--minShapes, --optShapes and --maxShapes are chosen when an engine is built; --shapes says "
       "what to run");
  need(!o.strip_weights || !o.save_engine.empty(), "--stripWeights needs --saveEngine");
  input_ranges(o);  // throws what is wrong with them
}

void add_flags(CLI::App& app, Options& o, Texts& texts) {
  app.allow_extras();
  if (is_command(o)) {
    add_command_flags(app, o, texts);
  } else {
    add_model(app, o);
    add_build(app, o, texts);
    add_inference(app, o, texts);
    add_report(app, o, texts);
    add_system(app, o);
  }
  add_help(app, o);
}

/// Puts the flags' values where they belong. What --help or --version prints, or "".
std::string parse(CLI::App& app, std::vector<std::string> arguments) {
  std::reverse(arguments.begin(), arguments.end());  // as CLI11 takes them
  try {
    app.parse(arguments);
  } catch (const CLI::CallForHelp&) {
    return app.help();
  } catch (const CLI::CallForVersion& version) {
    return std::string(version.what()) + "\n";
  } catch (const CLI::ParseError& error) {
    throw CommandError(error.what());
  }
  return "";
}

/// Of flags that are accepted and change nothing: `warning` with them and why.
std::string with_idle_flags(std::string warning, CLI::App& app, const Texts& texts) {
  const auto add = [&](const std::string& text) {
    warning += (warning.empty() ? "" : "; ") + text;
  };
  for (const std::string& argument : app.remaining()) {
    const std::string why = why_nothing_changes(argument);
    if (why.empty()) refuse(app, argument);
    add(argument.substr(0, argument.find('=')) + ": " + why);
  }
  if (const std::string pools = idle_pools(texts.settings); !pools.empty()) add(pools);
  return warning.empty() ? "" : "Without effect: " + warning;
}

/// What follows from several flags at once.
void settle(const CLI::App& app, Options& o) {
  const auto given = [&](const char* flag) {
    const CLI::Option* option = app.get_option_no_throw(flag);
    return option && option->count() > 0;
  };
  o.best = given("--best") && !given("--int8");
  const bool has_calibration = !o.settings.calibration.empty() || !o.calibration_data.empty();
  if (!o.calibration_cache.empty() && !has_calibration && permits_int8(o.settings)) {
    o.settings.calibration = calibration_of(o.config + ": calibration_cache", o.calibration_cache);
  }
  if (o.generate) read_sampling(app, o);
  // Of two models one comes from the file, and flags come before it.
  if (!o.config.empty() && !o.onnx.empty() && !o.graph.empty()) {
    if (app.count("--graph") == 0) o.graph.clear();
    if (app.count("--onnx") == 0) o.onnx.clear();
  }
  if (o.debug == "reduce" && o.save.empty()) {
    o.save = o.graph.empty() ? "reduced.onnx" : "reduced.vkg";
  }
  o.tolerance_given = is_command(o) && !o.generate && app.count("--atol") + app.count("--rtol") > 0;
}

/// `vkexec debug --help`: both of its commands.
std::string help_of_debug() {
  std::string text;
  for (const char* name : {"precision", "reduce"}) {
    Options o;
    o.debug = name;
    Texts texts;
    CLI::App app;
    add_flags(app, o, texts);
    text += (text.empty() ? "" : "\n") + app.help();
  }
  return text;
}

}  // namespace

Command parse_command(int argc, const char* const* argv) {
  Command command;
  const std::string second = argc == 3 ? argv[2] : "";
  if ((second == "--help" || second == "-h") && argv[1] == std::string("debug")) {
    command.text = help_of_debug();
    return command;
  }
  Options& o = command.options;
  Texts texts;
  const int words = read_command(argc, argv, o);
  CLI::App app;
  add_flags(app, o, texts);
  std::vector<std::string> arguments(argv + words, argv + argc);
  put_in_new_words(arguments);
  if (!o.generate) command.warning = read_named_config(arguments, o);
  command.text = parse(app, std::move(arguments));
  if (!command.text.empty()) return command;
  command.warning = with_idle_flags(std::move(command.warning), app, texts);
  read_environment_without_flags(app, o.settings);
  read_texts(app, o, texts);
  settle(app, o);
  check(o);
  return command;
}

}  // namespace tv::cli
