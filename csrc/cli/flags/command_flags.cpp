#include "csrc/cli/flags/command_flags.h"

#include "csrc/cli/text/command_error.h"

namespace tv::cli {
namespace {

void add_inputs(CLI::App& app, Options& o, Texts& t) {
  app.add_option("--shapes", t.shapes, "Shapes of inputs that have no file")->type_name("SHAPES");
  app.add_option("--loadInputs", t.load_inputs, "x:image.npy, where not in the directory")
      ->type_name("FILES");
  add_fill(app, o, t);
  add_constants(app, t);
}

void add_tolerance(CLI::App& app, Options& o) {
  app.add_option("--atol", o.atol, "Difference that is not counted")
      ->check(Amount(1e30))
      ->capture_default_str();
  app.add_option("--rtol", o.rtol, "and in parts of the reference")
      ->check(Amount(1e30))
      ->capture_default_str();
}

void add_rest(CLI::App& app, Options& o, Texts& t) {
  add_config(app, o);
  app.add_flag("--verbose", o.verbose, "Log more");
  add_device(app, o);
  app.option_defaults()->group("Build");
  add_setting_flags(app, o.settings, o.cache, t.settings);
}

void add_compare(CLI::App& app, Options& o, Texts& t) {
  app.option_defaults()->group("Compare");
  app.add_option("--onnx", o.onnx, "The network")->type_name("FILE");
  app.add_option("--graph", o.graph, "or a graph file (.vkg), as tv.export_graph writes it")
      ->type_name("FILE");
  app.add_option("--loadEngine", o.load_engine, "or an engine, of which the outputs are compared")
      ->type_name("FILE");
  app.add_option("--ref", o.ref,
                 "Directory of reference tensors, NAME.npy; without it they are those of an exact "
                 "engine")
      ->type_name("DIR");
  add_inputs(app, o, t);
  add_tolerance(app, o);
  app.add_flag("!--outputsOnly", o.layers, "Do not look between the layers");
  app.add_flag(
      "--sensitivity", o.sensitivity,
      "Which layers to keep in float32: measures outputs with the worst 1, 2, 4 … of them");
  app.add_option("--exportComparison", o.export_comparison,
                 "Write what each layer adds to the error, the worst first (.json)")
      ->type_name("FILE");
  add_rest(app, o, t);
}

void add_debug(CLI::App& app, Options& o, Texts& t) {
  const bool reduces = o.debug == "reduce";
  app.option_defaults()->group("Debug");
  app.add_option("--onnx", o.onnx, "The network")->type_name("FILE");
  app.add_option("--graph", o.graph, "or a graph file (.vkg), as tv.export_graph writes it")
      ->type_name("FILE");
  app.add_option("--save", o.save,
                 reduces ? "The smallest model that fails (default reduced.onnx, or reduced.vkg)"
                         : "The layers that must stay in float32, for --config (.yaml)")
      ->type_name("FILE");
  if (reduces) {
    app.add_option("--check", o.check,
                   "A command of the shell that fails, {} being the model's file, in place of "
                   "building and comparing")
        ->type_name("COMMAND");
    app.add_option("--checkSeconds", o.check_seconds, "of a check; then it is ended and has failed")
        ->check(CLI::Range(1, 1 << 20))
        ->capture_default_str();
  } else {
    app.add_option("--snr", o.snr_db, "Bound: signal to noise of each output, in decibel")
        ->check(Amount(1000))
        ->capture_default_str();
  }
  app.add_option("--runs", o.max_runs, "Try at most so many models")
      ->check(CLI::Range(reduces ? 1 : 2, 1 << 20))
      ->capture_default_str();
  app.add_option("--ref", o.ref, "Directory of reference tensors, NAME.npy, in place of computed")
      ->type_name("DIR");
  add_inputs(app, o, t);
  add_tolerance(app, o);
  add_rest(app, o, t);
}

void add_generate(CLI::App& app, Options& o) {
  app.option_defaults()->group("Generate");
  app.add_option("--model", o.model, "The folder that tv.save_decoder wrote")->type_name("DIR");
  app.add_option("--tokenizer", o.tokenizer,
                 "File of the tokenizers library; default: tokenizer.json in the model's folder")
      ->type_name("FILE");
  app.add_option("--prompt", o.prompt, "The text to continue")->type_name("TEXT");
  app.add_option("--tokens", o.tokens,
                 "Add at most so many tokens; default: until the text ends or the cache is full")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 30));
  app.add_option("--temperature", o.sampling.temperature,
                 "Draw tokens, by scores divided by this; default: take the most likely one")
      ->check(Amount(1e9));
  app.add_option("--topK", o.sampling.top_k, "Draw from so many of the most likely tokens")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 30));
  app.add_option("--topP", o.sampling.top_p,
                 "Draw from the most likely tokens that have this probability together")
      ->check(Amount(1));
  app.add_option("--repetitionPenalty", o.sampling.repetition_penalty,
                 "Scores of tokens that the text has are made smaller by this factor")
      ->check(Amount(1e9))
      ->default_str("1");
  app.add_option("--seed", o.sampling.seed, "Of the draws")->check(is_whole)->default_str("0");
  app.add_option(
         "--stepsPerSubmission", o.steps_per_submission,
         "Make so many of the most likely tokens by one submission to the device; default: 8, "
         "on a CPU device 1")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 16));
  app.add_flag("--stream", o.stream, "Print text as it comes");
  app.add_flag("--verbose", o.verbose, "Print tokens a second on standard error, and log more");
  app.add_flag("--checkAddresses", o.check_addresses,
               "A folder that you do not trust: kernels touch their operands alone, and take "
               "longer");
  app.add_option("--device", o.device, "Number, part of the name, or UUID of a device")
      ->type_name("DEVICE");
}

}  // namespace

int read_command(int argc, const char* const* argv, Options& o) {
  const std::string first = argc > 1 ? argv[1] : "", second = argc > 2 ? argv[2] : "";
  o.compare = first == "compare";
  o.generate = first == "generate";
  if (first != "debug") return o.compare || o.generate ? 2 : 1;
  if (second != "precision" && second != "reduce") {
    throw CommandError("debug: got '" + second + "', want debug precision or debug reduce");
  }
  o.debug = second;
  return 3;
}

bool is_command(const Options& o) { return o.compare || o.generate || !o.debug.empty(); }

void add_command_flags(CLI::App& app, Options& o, Texts& t) {
  if (o.compare) {
    add_compare(app, o, t);
  } else if (o.generate) {
    add_generate(app, o);
  } else {
    add_debug(app, o, t);
  }
}

/// What of the command line says how tokens are drawn.
void read_sampling(const CLI::App& app, Options& o) {
  const auto given = [&](const char* flag) { return app.get_option(flag)->count() > 0; };
  o.sampling.draws = given("--temperature");
  if (o.sampling.draws && o.sampling.temperature == 0) {
    throw CommandError(
        "--temperature: got 0, want more; without it the most likely token is taken");
  }
  for (const char* flag : {"--topK", "--topP", "--seed"}) {
    if (given(flag) && !o.sampling.draws) {
      throw CommandError(std::string(flag) +
                         " needs --temperature, which draws tokens (1: by the "
                         "model's own probabilities)");
    }
  }
  if (o.sampling.repetition_penalty == 0) {
    throw CommandError("--repetitionPenalty: got 0, want more");
  }
}

void check_command_flags(const Options& o) {
  const auto need = [](bool good, const char* message) {
    if (!good) throw CommandError(message);
  };
  if (o.generate) {
    need(!o.model.empty(), "generate: want --model=DIR, a folder that tv.save_decoder wrote");
    need(!o.prompt.empty(), "generate: want --prompt=TEXT");
    return;
  }
  const bool lowers = !o.settings.enabled_precisions.empty();
  need(o.graph.empty() || o.onnx.empty(), "got --graph and --onnx, want one of them");
  need(o.graph.empty() || o.constants.empty(), "--constants needs --onnx");
  check_precisions(o);
  if (o.compare) {
    const bool loads = !o.load_engine.empty();
    need(!loads || o.model_path().empty(),
         "compare: got --onnx or --graph and --loadEngine, want one of them");
    need(!loads || !o.ref.empty(), "compare: --loadEngine needs --ref=DIR with reference tensors");
    need(!loads || (!o.sensitivity && o.export_comparison.empty()),
         "compare: --sensitivity and --exportComparison need --onnx or --graph: an engine shows no "
         "layers");
    need(!o.sensitivity || lowers,
         "compare: --sensitivity needs a precision to compare: --fp16, --bf16, --int8 or --best");
    return;
  }
  need(o.debug != "precision" || lowers,
       "debug precision: want a precision to search in: --fp16, --bf16, --int8 or --best");
}

}  // namespace tv::cli
