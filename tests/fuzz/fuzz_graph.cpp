// libFuzzer target over graph files: what is none, or a wrong one, is an Error and nothing else.
// What the reader lets through goes on into the compiler, as far as kernels are chosen: converters
// may refuse it, and do no harm.

#include "csrc/compile/compile.h"
#include "csrc/frontends/graph_file/graph_file.h"
#include "csrc/frontends/graph_file/graph_text.h"
#include "csrc/operators/check_operators.h"
#include "csrc/partition/partition.h"
#include "csrc/plan/plan.h"
#include "runtime/base/error.h"
#include "tests/fuzz/fuzz_file.h"
#include "tests/fuzz/mutate_graph.h"

namespace {

struct Chosen {};  // before GLSL is compiled, which takes long

void compile_blocks(const tv::Graph& graph) {
  tv::Settings settings;
  settings.min_block_size = 1;
  settings.optimization_level = 0;
  const tv::DeviceProfile& device = tv::DeviceProfile::builtin_default();
  const tv::Plan plan = tv::plan(graph, settings, device);
  for (const std::vector<int32_t>& block : plan.parts.blocks) {
    const tv::Progress stop = [](const std::string& stage, int64_t done, int64_t of) {
      if (stage == "lower" && done == of) throw Chosen();
    };
    try {
      tv::compile(tv::extract(plan.graph, block).graph, settings, device, stop);
    } catch (const Chosen&) {     // NOLINT: as far as it is to go
    } catch (const tv::Error&) {  // NOLINT: a reason
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const tv::fuzz::MemoryFile file({data, size});
  tv::Graph graph;
  try {
    const tv::graph_file::Model model = tv::graph_file::read(file.path());
    graph = model.graph;
    for (const tv::Weight& weight : model.weights) tv::fuzz::touch(weight.load().bytes);
  } catch (const tv::Error& error) {
    if (error.kind() != tv::ErrorKind::kUser) std::abort();
    return 0;
  }
  const tv::Graph again = tv::graph_file::from_json(tv::graph_file::to_json(graph));
  if (tv::dump(again) != tv::dump(graph)) std::abort();
  try {
    compile_blocks(graph);
  } catch (const tv::Error&) {  // NOLINT: a reason
  }
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned int seed) {
  if (seed % 4 != 0) {
    if (const size_t made = tv::fuzz::GraphMutator(seed).run(data, size, max_size)) return made;
  }
  return tv::fuzz::mutate_safetensors(data, size, max_size, seed);
}
