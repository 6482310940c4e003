// generate_kernel: a Step with resolved operands → the whole text of its kernel.

#include <algorithm>
#include <bit>
#include <cctype>
#include <set>
#include <sstream>

#include "csrc/codegen/accessors.h"
#include "csrc/codegen/cooperative_matrix.h"
#include "csrc/codegen/glsl_types.h"
#include "csrc/codegen/kernel.h"
#include "csrc/codegen/kernel_source.h"
#include "csrc/codegen/kernel_words.h"
#include "csrc/codegen/pointwise_codegen.h"
#include "csrc/user_code.h"
#include "runtime/base/error.h"
#include "runtime/vulkan/lavapipe.h"

namespace tv {

namespace {

constexpr uint32_t kPushConstantBytes = 128;  // what every Vulkan device has

constexpr const char* kExtensions =
    "#version 460\n"
    "#extension GL_EXT_buffer_reference : require\n"
    "#extension GL_EXT_scalar_block_layout : require\n"
    "#extension GL_EXT_shader_16bit_storage : require\n"
    "#extension GL_EXT_shader_8bit_storage : require\n"
    "#extension GL_EXT_shader_explicit_arithmetic_types : require\n"
    "#extension GL_EXT_control_flow_attributes : require\n"
    "#extension GL_KHR_shader_subgroup_basic : require\n"
    "#extension GL_KHR_shader_subgroup_vote : require\n"
    "#extension GL_KHR_shader_subgroup_ballot : require\n"
    "#extension GL_KHR_shader_subgroup_shuffle : require\n"
    "#extension GL_KHR_shader_subgroup_shuffle_relative : require\n"
    "#extension GL_KHR_shader_subgroup_arithmetic : require\n";

const std::string& kernel_file(const std::string& file, const std::string& wanted_by) {
  const auto& sources = kernel_sources();
  const auto it = sources.find(file);
  if (it == sources.end()) {
    throw Error(ErrorKind::kInternal,
                "[codegen] " + wanted_by + ": there is no kernel file " + file);
  }
  return it->second;
}

/// Appends a file with its includes replaced by text, each once; its #extension lines go to
/// `extensions`, as GLSL wants them before anything else.
void expand(const std::string& file, const std::string& wanted_by, std::set<std::string>& seen,
            std::string& extensions, std::string& text) {
  if (!seen.insert(file).second) return;
  // Messages about a user's text name its own lines: string 1 of the source.
  const std::string* user = file == wanted_by + ".comp" ? find_user_kernel(wanted_by) : nullptr;
  std::istringstream in(user != nullptr ? *user : kernel_file(file, wanted_by));
  if (user != nullptr) text += "#line 1 1\n";
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    if (line.starts_with("#extension")) {
      extensions += line + "\n";
      if (user != nullptr) text += "\n";
    } else if (line.starts_with("#include")) {
      const size_t from = line.find('"'), to = line.rfind('"');
      if (from == to) throw Error(ErrorKind::kInternal, "[codegen] " + file + ": " + line);
      expand(line.substr(from + 1, to - from - 1), file, seen, extensions, text);
      if (user != nullptr) text += "#line " + std::to_string(number + 1) + " 1\n";
    } else {
      text += line + "\n";
    }
  }
}

/// Functions that some files define.
using Functions = std::set<std::string, std::less<>>;
Functions functions_of(std::initializer_list<const char*> files) {
  Functions found;
  for (const char* file : files) {
    std::istringstream in(kernel_file(file, "math"));
    for (std::string line; std::getline(in, line);) {
      const size_t at = line.find("tv_"), end = line.find('(');
      if (line.starts_with(' ') || line.starts_with('/') || at > end || end == line.npos) continue;
      found.insert(line.substr(at, end - at));
    }
  }
  return found;
}

/// Libraries that a kernel gets where it calls one of their functions: parsing all of math.glsl
/// takes longer than everything else in most kernels. arith.glsl alone is always there.
struct MathLibrary {
  const char* file;
  Functions functions;
};
const std::vector<MathLibrary>& math_libraries() {
  static const std::vector<MathLibrary> libraries = {
      {"math.glsl", functions_of({"math.glsl", "trig.glsl", "special.glsl"})},
      {"gamma.glsl", functions_of({"gamma.glsl"})},
      {"incomplete_gamma.glsl", functions_of({"incomplete_gamma.glsl"})},
      {"bessel.glsl", functions_of({"bessel.glsl"})},
      {"orthogonal.glsl", functions_of({"orthogonal.glsl"})}};
  return libraries;
}

/// What kernels call to say that a value is none that the operator takes.
const Functions& value_checks() {
  static const Functions functions = {"tv_place", "tv_divisor", "tv_bad_index"};
  return functions;
}

bool calls_any(const std::string& text, const Functions& functions) {
  for (size_t at = text.find("tv_"); at != std::string::npos; at = text.find("tv_", at + 1)) {
    size_t end = at;
    while (end < text.size() &&
           (std::isalnum(static_cast<unsigned char>(text[end])) || text[end] == '_'))
      ++end;
    if (functions.contains(std::string_view(text).substr(at, end - at))) return true;
  }
  return false;
}

/// Name of a parameter → its declaration; specialisation constants are appended to `out`.
std::string parameter(const Param& param, KernelWords& words,
                      std::vector<uint32_t>& spec_constants) {
  const bool is_float = std::holds_alternative<float>(param.value);
  const Expr* expr = std::get_if<Expr>(&param.value);
  const auto define = [&](const std::string& text) {
    return "#define " + param.name + " " + text + "\n";
  };
  const bool is_number = param.number != DType::kOther && expr != nullptr;
  const auto constant = expr != nullptr ? expr->constant() : std::nullopt;
  const bool fits = constant && (!is_number || (glsl_class(param.number) == GlslClass::kInt &&
                                                holds(param.number, *constant)));
  const std::string type = is_float ? "float" : is_number ? "int" : "uint";
  if (param.specialise && (is_float || fits)) {
    const auto id = std::to_string(spec_constants.size());
    uint32_t word = static_cast<uint32_t>(constant.value_or(0));
    if (is_float) word = std::bit_cast<uint32_t>(std::get<float>(param.value));
    spec_constants.push_back(word);
    // The default is never used: the same text serves every value.
    return "layout(constant_id = " + id + ") const " + type + " " + param.name + " = " + type +
           "(1);\n";
  }
  if (is_number) return define(words.number(*expr, param.number));
  return define(is_float ? words.float_word(std::get<float>(param.value)) : words.own_word(*expr));
}

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

/// tv_pointwise(i) and tv_pointwise4(i): the node's program from operands in* to operands out*.
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

/// tv_pointwise_lanes(i, h): elements i … i + 2 * LANES - 1 for a uniform i, on CPU drivers;
/// tv_pointwise_release(h) stores them.
std::string pointwise_lanes(const KernelRequest& request) {
  const PointwiseProgram& program = *request.program;
  std::string locals, first, second, stores, releases;
  const auto add = [](std::string& list, const std::string& item) {
    list += (list.empty() ? "" : ", ") + item;
  };
  for (size_t k = 0; k < program.inputs.size(); ++k) {
    const std::string n = std::to_string(k);
    add(first, "in" + n + "_lane(i)");
    add(second, "in" + n + "_lane(i + LANES)");
  }
  for (size_t k = 0; k < program.results.size(); ++k) {
    const std::string n = std::to_string(k);
    locals += "  out" + n + "_T r" + n + ", s" + n + ";\n";
    add(first, "r" + n);
    add(second, "s" + n);
    stores += "  h[" + n + "] = out" + n + "_lane_store2(i, r" + n + ", s" + n + ");\n";
    releases += "  out" + n + "_lane_release(h[" + n + "]);\n";
  }
  const std::string held = "lane_held h[" + std::to_string(program.results.size()) + "]";
  return "#define TV_HELD " + std::to_string(program.results.size()) +
         "\nvoid tv_pointwise_lanes(uint i, out " + held + ") {\n" + locals + "  tv_program(" +
         first + ");\n  tv_program(" + second + ");\n" + stores + "}\nvoid tv_pointwise_release(" +
         held + ") {\n" + releases + "}\n";
}

std::string local_size(const Step& step) {
  std::string text = "layout(";
  for (int k = 0; k < 3; ++k) {
    text += std::string(k != 0 ? ", " : "") + "local_size_" + "xyz"[k] + " = " +
            std::to_string(step.local_size[k]);
  }
  text += ") in;\n";
  for (int k = 0; k < 3; ++k) {
    text +=
        std::string("#define LOCAL_") + "XYZ"[k] + " " + std::to_string(step.local_size[k]) + "\n";
  }
  return text;
}

/// The block that holds addresses and words: in the push constants, or in memory where it is long.
std::string parameter_block(const std::string& addresses, const KernelWords& words,
                            bool in_memory) {
  const std::string members = addresses + words.members();
  if (members.empty()) return "";
  if (!in_memory)
    return "layout(push_constant, scalar) uniform tv_Params {\n" + members + "} tv_p;\n";
  return "layout(buffer_reference, scalar, buffer_reference_align = 8) buffer tv_Params {\n" +
         members +
         "};\nlayout(push_constant, scalar) uniform tv_Push { tv_Params block; } tv_push;\n" +
         "#define tv_p tv_push.block\n";
}

/// tv_check_ptr(at, bytes): `at` where these bytes lie in one of the operands, else another
/// address.
std::string pointer_check(const KernelRequest& request, KernelWords& words) {
  std::string text = "uint64_t tv_check_ptr(uint64_t at, uint bytes) {\n  uint64_t first, end;\n";
  std::string other;
  for (const KernelOperand& x : request.operands) {
    if (!x.stored) continue;
    const std::string address = "uint64_t(tv_p.a_" + x.name + ")";
    text += "  first = " + address + "; end = first + uint64_t(" +
            words.uint_word(x.storage_elements) + ") * " + std::to_string(size_bytes(x.dtype)) +
            "ul;\n" + "  if (at >= first && at + uint64_t(bytes) <= end) return at;\n";
    if (other.empty()) other = address;
  }
  return text + "  tv_bad_operand = kTvPointer + 1u;\n  return " + other + ";\n}\n";
}

/// A kernel that is launched for a part of its grid (csrc/lowering/split_grid.h) takes its place
/// from the parameters, too.
std::string in_part_of_grid(std::string body) {
  constexpr std::pair<std::string_view, std::string_view> kNames[] = {
      {"gl_GlobalInvocationID", "(tv_workgroup * gl_WorkGroupSize + gl_LocalInvocationID)"},
      {"gl_WorkGroupID", "tv_workgroup"},
      {"gl_NumWorkGroups", "uvec3(tv_groups_x, tv_groups_y, tv_groups_z)"}};
  for (const auto& [from, to] : kNames) {
    for (size_t at = body.find(from); at != body.npos; at = body.find(from, at + to.size())) {
      body.replace(at, from.size(), to);
    }
  }
  return "#define tv_workgroup (gl_WorkGroupID + uvec3(tv_first_x, tv_first_y, tv_first_z))\n" +
         body;
}

std::string uniform_function(bool table) {
  if (!table) return "uint tv_uniform(uint id) { return id; }\n";
  return "uint tv_uniform(uint id) {\n"
         "  return tv_p.table[id & 7u] | tv_p.table[id >> 3 & 7u] << 3 | tv_p.table[id >> 6 & 7u] "
         "<< 6 |\n"
         "         tv_p.table[id >> 9 & 7u] << 9 | tv_p.table[id >> 12 & 7u] << 12;\n"
         "}\n";
}

}  // namespace

GeneratedKernel generate_kernel(const KernelRequest& request, const Settings& settings,
                                const DeviceProfile& device) {
  const Step& step = request.step;
  GeneratedKernel out;
  KernelWords words;

  std::set<std::string> seen;
  std::string extensions = kExtensions, prelude, lanes, body;
  if (step.matrix) extensions += matrix_preamble(*step.matrix, device);
  expand("tv.glsl", step.kernel, seen, extensions, prelude);
  expand("arith.glsl", step.kernel, seen, extensions, prelude);
  const bool table = step.uniform_table && device.is_cpu();
  const bool is_part = std::ranges::any_of(
      step.defines, [](const auto& define) { return define.first == "GRID_PART"; });
  const bool check = settings.check_addresses;
  if (check) expand("check.glsl", step.kernel, seen, extensions, prelude);
  if (table) {
    lanes = "#define LANES " + std::to_string(device.subgroup_size) + "u\n" +
            "#define LANE_LOOPS " + (lavapipe_wants_loops(device) ? "1" : "0") + "\n" +
            "#define LANE_LARGE_GRID " + (is_part ? "1" : "0") + "\n";
    expand("simd.glsl", step.kernel, seen, extensions, lanes);
  }
  expand(step.kernel + ".comp", step.kernel, seen, extensions, body);
  if (is_part) body = in_part_of_grid(std::move(body));

  std::string defines;
  for (const auto& [key, value] : step.defines) defines += "#define " + key + " " + value + "\n";
  // What a template reads only by storage needs no index, whose strides would cost parameters.
  const auto is_indexed = [&](size_t k) {
    const std::string& name = request.operands[k].name;
    if (k >= step.operands.size() || request.program || request.operands[k].program) return true;
    for (const char* accessor : {"_load", "_store", "_value", "_put", "_index", "_lane"}) {
      if ((defines + body).find(name + accessor) != std::string::npos) return true;
    }
    return false;
  };

  std::string parameters;
  for (const Param& p : step.params) {
    const bool of_part = is_part && p.name.starts_with("tv_groups_");
    if (of_part && body.find(p.name) == body.npos) continue;
    parameters += parameter(p, words, out.spec_constants);
  }

  std::string addresses, raw, elements;
  const auto add_address = [&](const std::string& type, const std::string& name, uint32_t operand) {
    addresses += "  " + type + " a_" + name + ";\n";
    out.operands.push_back(operand);
  };
  for (size_t k = 0; k < request.operands.size(); ++k) {
    const KernelOperand& x = request.operands[k];
    if (x.stored) add_address(glsl_reference(x.dtype), x.name, static_cast<uint32_t>(k));
    raw += raw_accessors(x, words, {.check = check, .number = k, .indexed = is_indexed(k)});
  }
  // Operands without a program first: fused programs read them.
  for (const bool with_program : {false, true}) {
    for (size_t k = 0; k < request.operands.size(); ++k) {
      const KernelOperand& x = request.operands[k];
      if ((x.program != nullptr) == with_program && is_indexed(k)) {
        elements += element_accessors(x, request);
        if (table) elements += lane_accessors(x, request);
      }
    }
  }
  if (request.program != nullptr) elements += pointwise_calls(request);
  if (request.program != nullptr && table) elements += pointwise_lanes(request);

  std::string pointers;
  if (check && (lanes + body).find("tv_check_ptr") != std::string::npos) {
    pointers = pointer_check(request, words);
  }
  if (table) words.add_uniform_table();
  const bool values =
      settings.check_indices && calls_any(elements + defines + body, value_checks());
  if (check || values) {
    add_address("tv_ref_check", "check", kCheckOperand);
    body = "#define main tv_template_main\n" + body +
           "#undef main\nvoid main() {\n  tv_template_main();\n" +
           "  tv_check_report(tv_p.a_check, " + words.dispatch_word() + ");\n}\n";
  }
  bool long_epilogue = false;
  for (const MathLibrary& library : math_libraries()) {
    long_epilogue |= calls_any(elements, library.functions);
    if (!calls_any(elements + defines + body, library.functions)) continue;
    expand(library.file, step.kernel, seen, extensions, prelude);
  }
  defines += std::string("#define LONG_EPILOGUE ") + (long_epilogue ? "1" : "0") + "\n";
  out.words = words.words();
  out.param_block = 8 * out.operands.size() + 4 * out.words.size() > kPushConstantBytes;

  // Before everything: what arith.glsl has of checks writes to its variable.
  std::string report = std::string("#define TV_CHECK ") + (check ? "1" : "0") +
                       "\n#define TV_CHECK_VALUES " + (values ? "1" : "0") + "\n";
  if (check || values) expand("report.glsl", step.kernel, seen, extensions, report);
  out.glsl = extensions + local_size(step) + report + prelude +
             parameter_block(addresses, words, out.param_block) + uniform_function(table) +
             pointers + lanes + parameters + raw + elements + defines + body;
  return out;
}

}  // namespace tv
