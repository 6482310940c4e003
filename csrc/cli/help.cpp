#include "csrc/cli/help.h"

#include <CLI/CLI.hpp>

namespace tv::cli {
namespace {

constexpr const char* kIntroduction =
    R"(vkexec builds an engine from an ONNX file or loads a .vke file, runs it on a Vulkan device and
says how long it takes. Its flags are trtexec's where the meaning is the same.

Usage: vkexec --onnx=FILE | --loadEngine=FILE [flags]
       vkexec compare --onnx=FILE --ref=DIR [flags]
       vkexec --listDevices
)";

constexpr const char* kExamples = R"(
Examples:
  Build, tune and time a network:
    vkexec --onnx=net.onnx
  Build once for batches of 1 to 16, keep the engine, then time a batch of 8:
    vkexec --onnx=net.onnx --minShapes=x:1x3x224x224 --optShapes=x:8x3x224x224 \
           --maxShapes=x:16x3x224x224 --saveEngine=net.vke --skipInference
    vkexec --loadEngine=net.vke --shapes=x:8x3x224x224
  Half precision, four calls at a time:
    vkexec --onnx=net.onnx --fp16 --streams=4
  What takes the time:
    vkexec --loadEngine=net.vke --dumpProfile --exportProfile=net.trace.json
  An image through the network:
    vkexec --loadEngine=net.vke --loadInputs=x:image.npy --iterations=1 --duration=0 \
           --exportOutput=results/
  The weights of another training run:
    vkexec --loadEngine=net.vke --refitFromOnnx=new.onnx --saveEngine=new.vke --skipInference
  Where results begin to differ from reference tensors:
    vkexec compare --onnx=net.onnx --ref=tensors/

Exit status: 0 done, 1 failed, 2 wrong command line.
)";

constexpr const char* kCompare =
    R"(vkexec compare runs a network on the inputs of a directory and compares its outputs, and the tensors
between its layers, with the references there: NAME.npy holds the tensor NAME, with _ for what may not
be in a file's name. It stops at the first tensor that differs.

Usage: vkexec compare --onnx=FILE --ref=DIR [flags]
       vkexec compare --loadEngine=FILE --ref=DIR [flags]
)";

constexpr const char* kCompareExamples = R"(
Example:
    vkexec compare --onnx=net.onnx --ref=tensors/ --rtol=1e-3

Exit status: 0 all equal within the tolerances, 1 different or failed, 2 wrong command line.
)";

constexpr size_t kColumn = 32, kWidth = 100;

/// `text` in lines that begin at the column.
std::string wrapped(const std::string& text) {
  std::string out, line;
  for (const std::string& word : CLI::detail::split(text, ' ')) {
    if (!line.empty() && kColumn + line.size() + 1 + word.size() > kWidth) {
      out += line + "\n" + std::string(kColumn, ' ');
      line.clear();
    }
    line += (line.empty() ? "" : " ") + word;
  }
  return out + line + "\n";
}

std::string line_of(const CLI::Option& option) {
  std::string names;
  for (const std::string& name : option.get_lnames()) {
    names += (names.empty() ? "--" : ", --") + name;
  }
  const bool takes_value = option.get_expected_min() > 0 && option.get_items_expected_max() > 0;
  names = "  " + names + (takes_value ? "=…" : "");
  std::string text = option.get_description();
  if (!option.get_default_str().empty()) text += " (default " + option.get_default_str() + ")";
  const size_t shown = names.size() - (takes_value ? 2 : 0);  // … is three bytes
  const bool fits = shown + 1 < kColumn;
  return names + (fits ? std::string(kColumn - shown, ' ') : "\n" + std::string(kColumn, ' ')) +
         wrapped(text);
}

}  // namespace

std::string help_text(const CLI::App& app, bool compare) {
  std::string text = compare ? kCompare : kIntroduction;
  std::string group;
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group() == "Options") continue;
    if (option->get_group() != group) text += "\n" + option->get_group() + ":\n";
    group = option->get_group();
    text += line_of(*option);
  }
  text += std::string("\n  --help, -h") + std::string(kColumn - 12, ' ') + "Print this text\n";
  if (!compare) text += "  --version" + std::string(kColumn - 11, ' ') + "Print the version\n";
  return text + (compare ? kCompareExamples : kExamples);
}

}  // namespace tv::cli
