#include "csrc/cli/flags/help.h"

#include <CLI/CLI.hpp>

#include "csrc/cli/flags/command_flags.h"
#include "csrc/cli/flags/options.h"
#include "csrc/version.h"

namespace tv::cli {
namespace {

constexpr const char* kIntroduction =
    R"(vkexec builds an engine from an ONNX file or a graph file, or loads a .vke file, runs it on a Vulkan
device and says how long it takes. Its flags are trtexec's where the meaning is the same.
)";

constexpr const char* kUsage =
    R"(Usage: vkexec --onnx=FILE | --graph=FILE | --loadEngine=FILE [flags]
       vkexec compare --onnx=FILE [--ref=DIR] [flags]
       vkexec debug precision | reduce --onnx=FILE [flags]
       vkexec generate --model=DIR --prompt=TEXT [flags]
       vkexec --listDevices

)";

constexpr const char* kExamples = R"(Examples:
  Build, tune and time a network:
    vkexec --onnx=net.onnx
  Build once for batches of 1 to 16, keep the engine, then time a batch of 8:
    vkexec --onnx=net.onnx --minShapes=x:1x3x224x224 --optShapes=x:8x3x224x224 \
           --maxShapes=x:16x3x224x224 --saveEngine=net.vke --skipInference
    vkexec --loadEngine=net.vke --shapes=x:8x3x224x224
  Half precision, four calls at a time:
    vkexec --onnx=net.onnx --fp16 --streams=4
  8 bits, by ranges that a folder of batches shows; the next time by the cache alone:
    vkexec --onnx=net.onnx --int8 --calib=net.cache --calibData=batches/
  What takes the time:
    vkexec --loadEngine=net.vke --dumpProfile --exportProfile=net.trace.json
  An image through the network:
    vkexec --loadEngine=net.vke --loadInputs=x:image.npy --iterations=1 --duration=0 \
           --exportOutput=results/
  The weights of another training run:
    vkexec --loadEngine=net.vke --refitFromOnnx=new.onnx --saveEngine=new.vke --skipInference
  Where results begin to differ from reference tensors:
    vkexec compare --onnx=net.onnx --ref=tensors/
  Which layers lose most in half precision:
    vkexec compare --onnx=net.onnx --fp16 --sensitivity
  Text from a decoder that tv.save_decoder wrote:
    vkexec generate --model=llama/ --prompt="Once upon a time" --stream

Exit status: 0 done, 1 failed, 2 wrong command line.)";

constexpr const char* kCompare =
    R"(vkexec compare runs a network on the inputs of a directory and compares its outputs, and the tensors
between its layers, with the references there: NAME.npy holds the tensor NAME, with _ for what may not
be in a file's name. It stops at the first tensor that differs. Without --ref it runs an exact engine,
float32 without fusion, on the same inputs, and lists the tensors by the error that their layers add.
)";

constexpr const char* kCompareUsage = R"(Usage: vkexec compare --onnx=FILE --ref=DIR [flags]
       vkexec compare --onnx=FILE --fp16 | --bf16 | --int8 | --best [flags]
       vkexec compare --loadEngine=FILE --ref=DIR [flags]

)";

constexpr const char* kCompareExamples = R"(Examples:
  Where results begin to differ from reference tensors:
    vkexec compare --onnx=net.onnx --ref=tensors/ --rtol=1e-3
  Which layers lose most in half precision, and which to keep in float32:
    vkexec compare --onnx=net.onnx --fp16 --sensitivity --exportComparison=found.json

Exit status: 0 all equal within the tolerances, 1 different or failed, 2 wrong command line.)";

constexpr const char* kGenerate =
    R"(vkexec generate continues a text with a decoder that tv.save_decoder wrote, and prints what it adds.
)";

constexpr const char* kGenerateUsage = R"(Usage: vkexec generate --model=DIR --prompt=TEXT [flags]

)";

constexpr const char* kGenerateExamples = R"(Examples:
  The most likely text:
    vkexec generate --model=llama/ --prompt="Once upon a time" --tokens=64
  Another one, as it comes:
    vkexec generate --model=llama/ --tokenizer=tokenizer.json --prompt="Once upon a time" \
           --temperature=0.8 --topK=40 --topP=0.95 --repetitionPenalty=1.1 --seed=7 --stream

Exit status: 0 done, 1 failed, 2 wrong command line.)";

constexpr const char* kPrecision =
    R"(vkexec debug precision finds layers that must stay in float32 so that the outputs of a network in a
lower precision are within a bound, and writes them as a file for --config.
)";

constexpr const char* kPrecisionUsage =
    R"(Usage: vkexec debug precision --onnx=FILE --fp16 | --bf16 | --int8 | --best [flags]

)";

constexpr const char* kPrecisionExamples = R"(Examples:
  Outputs with 50 dB of signal to noise:
    vkexec debug precision --onnx=net.onnx --fp16 --snr=50 --save=keep.yaml
    vkexec --onnx=net.onnx --fp16 --config=keep.yaml
  Outputs within a tolerance of those that another program computed:
    vkexec debug precision --onnx=net.onnx --fp16 --ref=tensors/ --atol=1e-3 --rtol=1e-2

Exit status: 0 found, 1 not even float32 is within the bound, or failed, 2 wrong command line.)";

constexpr const char* kReduce =
    R"(vkexec debug reduce finds a small part of a network that still fails as the network does: with the
same error, or with outputs that are not those of an exact engine, or of --ref; with --check, where a
command fails with the same exit status.
)";

constexpr const char* kReduceUsage = R"(Usage: vkexec debug reduce --onnx=FILE [flags]

)";

constexpr const char* kReduceExamples = R"(Examples:
  An error, or wrong results in float32 or in half precision:
    vkexec debug reduce --onnx=net.onnx --save=small.onnx
    vkexec debug reduce --onnx=net.onnx --fp16 --atol=0.1 --rtol=0.1
  What makes a program fail:
    vkexec debug reduce --onnx=net.onnx --check='python check.py {}'

Exit status: 0 found, 1 the network does not fail, or an error, 2 wrong command line.)";

struct Help {
  const char *introduction, *usage, *examples;
};

Help help_of(const Options& options) {
  if (options.compare) return {kCompare, kCompareUsage, kCompareExamples};
  if (options.generate) return {kGenerate, kGenerateUsage, kGenerateExamples};
  if (options.debug == "precision") return {kPrecision, kPrecisionUsage, kPrecisionExamples};
  if (options.debug == "reduce") return {kReduce, kReduceUsage, kReduceExamples};
  return {kIntroduction, kUsage, kExamples};
}

/// CLI11's listing, with values behind "=", descriptions in lines of a screen's width and defaults
/// behind them.
class Listing : public CLI::Formatter {
 public:
  explicit Listing(std::string usage) : usage_(std::move(usage)) {
    column_width(32);
    for (const char* number : {"INT", "UINT", "FLOAT"}) label(number, "N");
  }

  std::string make_usage(const CLI::App*, std::string) const override { return usage_; }

  std::string make_group(std::string group, bool is_positional,
                         std::vector<const CLI::Option*> options) const override {
    return CLI::Formatter::make_group(group, is_positional, options).substr(1);  // one empty line
  }

  std::string make_option_name(const CLI::Option* option, bool) const override {
    std::string names;
    for (const std::string& name : option->get_snames()) names += "-" + name + ", ";
    for (const std::string& name : option->get_lnames()) names += "--" + name + ", ";
    return names.substr(0, names.size() - 2);
  }

  std::string make_option_opts(const CLI::Option* option) const override {
    if (option->get_expected_min() == 0) return "";
    const std::string type = option->get_type_name();  // what is checked of it follows a colon
    return "=" + get_label(type.substr(0, type.find(':')));
  }

  std::string make_option_desc(const CLI::Option* option) const override {
    std::string text = option->get_description(), out;
    const std::string value = option->get_default_str();
    if (!value.empty()) text += " (default " + value + ")";
    size_t length = 0;
    for (const std::string& word : CLI::detail::split(text, ' ')) {
      const bool fits = get_column_width() + length + 1 + word.size() <= kWidth;
      out += (length == 0 ? "" : fits ? " " : "\n") + word;
      length = (fits && length > 0 ? length + 1 : 0) + word.size();
    }
    return out;
  }

 private:
  static constexpr size_t kWidth = 100;
  std::string usage_;
};

}  // namespace

void add_help(CLI::App& app, const Options& options) {
  const Help help = help_of(options);
  app.description(help.introduction);
  app.footer(help.examples);
  app.formatter(std::make_shared<Listing>(help.usage));
  app.option_defaults()->group("Other");
  app.set_help_flag("-h,--help", "Print this text");
  if (!is_command(options)) {
    app.set_version_flag("--version", std::string("vkexec ") + kBuilderVersion,
                         "Print the version");
  }
}

}  // namespace tv::cli
