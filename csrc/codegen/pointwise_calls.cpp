#include "csrc/codegen/pointwise_calls.h"

#include <algorithm>

#include "csrc/codegen/pointwise_codegen.h"

namespace tv {

namespace {

/// tv_pointwise_run(first, stride, count): vectors first, first + stride, … of `count`, as many as
/// the step's define RUN says. Everything is read before anything is written, so that all reads are
/// under way at once. "" where the step has no RUN.
std::string pointwise_run(const KernelRequest& request, const std::string (&lanes)[4],
                          const std::string& outs) {
  const auto& defines = request.step.defines;
  const auto run = std::find_if(defines.begin(), defines.end(),
                                [](const auto& define) { return define.first == "RUN"; });
  if (run == defines.end()) return "";
  const PointwiseProgram& program = *request.program;
  const std::string loop = "  [[unroll]] for (uint k = 0u; k < " + run->second + "u; ++k) {\n";
  std::string arrays, loads, locals, results, stores;
  for (size_t k = 0; k < program.inputs.size(); ++k) {
    const std::string n = std::to_string(k);
    arrays += "  in" + n + "_V b" + n + "[" + run->second + "];\n";
    loads += "    b" + n + "[k] = in" + n + "_load4(min(first + k * stride, count - 1u) << 2);\n";
    locals += "    const in" + n + "_V a" + n + " = b" + n + "[k];\n";
  }
  for (size_t k = 0; k < program.results.size(); ++k) {
    const std::string n = std::to_string(k);
    arrays += "  out" + n + "_V q" + n + "[" + run->second + "];\n";
    locals += "    out" + n + "_T r" + n + ";\n";
    stores += "      out" + n + "_store4((first + k * stride) << 2, q" + n + "[k]);\n";
  }
  for (int lane = 0; lane < 4; ++lane) {
    results += "    tv_program(" + lanes[lane] + outs + ");";
    for (size_t k = 0; k < program.results.size(); ++k) {
      const std::string n = std::to_string(k);
      results += " q" + n + "[k]." + "xyzw"[lane] + " = r" + n + ";";
    }
    results += "\n";
  }
  return "void tv_pointwise_run(uint first, uint stride, uint count) {\n" + arrays + loop + loads +
         "  }\n" + loop + locals + results + "  }\n" + loop +
         "    if (first + k * stride < count) {\n" + stores + "    }\n  }\n}\n";
}

}  // namespace

std::string pointwise_calls(const KernelRequest& request) {
  const PointwiseProgram& program = *request.program;
  std::string text = pointwise_function(program, "tv_program");
  std::string loads, loads4, inputs, lanes[4], outs, stores, stores4;
  const auto add = [](std::string& list, const std::string& item) {
    list += (list.empty() ? "" : ", ") + item;
  };
  for (size_t k = 0; k < program.inputs.size(); ++k) {
    const std::string n = std::to_string(k);
    add(inputs, "in" + n + "_load(i)");
    loads4 += "  const in" + n + "_V a" + n + " = in" + n + "_load4(i);\n";
    for (int lane = 0; lane < 4; ++lane) add(lanes[lane], "a" + n + "." + "xyzw"[lane]);
  }
  std::string locals, locals4;
  for (size_t k = 0; k < program.results.size(); ++k) {
    const std::string n = std::to_string(k), r = "r" + n;
    locals += "  out" + n + "_T " + r + ";\n";
    locals4 += "  out" + n + "_V q" + n + ";\n";
    add(outs, r);
    stores += "  out" + n + "_store(i, " + r + ");\n";
    stores4 += "  out" + n + "_store4(i, q" + n + ");\n";
  }
  const std::string comma = inputs.empty() ? "" : ", ";
  text += "void tv_pointwise(uint i) {\n" + locals + "  tv_program(" + inputs + comma + outs +
          ");\n" + stores + "}\n";
  text += "void tv_pointwise4(uint i) {\n" + loads4 + locals + locals4;
  for (int lane = 0; lane < 4; ++lane) {
    const std::string c(1, "xyzw"[lane]);
    text += "  tv_program(" + lanes[lane] + comma + outs + ");";
    for (size_t k = 0; k < program.results.size(); ++k) {
      const std::string n = std::to_string(k);
      text += " q" + n + "." + c + " = r" + n + ";";
    }
    text += "\n";
  }
  return text + stores4 + "}\n" + pointwise_run(request, lanes, comma + outs);
}

std::string pointwise_simd(const KernelRequest& request) {
  const PointwiseProgram& program = *request.program;
  std::string locals, first, second, stores, releases;
  const auto add = [](std::string& list, const std::string& item) {
    list += (list.empty() ? "" : ", ") + item;
  };
  for (size_t k = 0; k < program.inputs.size(); ++k) {
    const std::string n = std::to_string(k);
    add(first, "in" + n + "_simd(i)");
    add(second, "in" + n + "_simd(i + LANES)");
  }
  for (size_t k = 0; k < program.results.size(); ++k) {
    const std::string n = std::to_string(k);
    locals += "  out" + n + "_T r" + n + ", s" + n + ";\n";
    add(first, "r" + n);
    add(second, "s" + n);
    stores += "  h[" + n + "] = out" + n + "_simd_store2(i, r" + n + ", s" + n + ");\n";
    releases += "  out" + n + "_simd_release(h[" + n + "]);\n";
  }
  const std::string held = "simd_held h[" + std::to_string(program.results.size()) + "]";
  return "#define TV_HELD " + std::to_string(program.results.size()) +
         "\nvoid tv_pointwise_simd(uint i, out " + held + ") {\n" + locals + "  tv_program(" +
         first + ");\n  tv_program(" + second + ");\n" + stores + "}\nvoid tv_pointwise_release(" +
         held + ") {\n" + releases + "}\n";
}

}  // namespace tv
