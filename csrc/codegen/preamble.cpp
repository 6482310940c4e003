// generate_kernel: a Step with resolved operands → the whole text of its kernel.

#include <bit>
#include <cctype>
#include <set>
#include <sstream>

#include "csrc/codegen/accessors.h"
#include "csrc/codegen/glsl_types.h"
#include "csrc/codegen/kernel.h"
#include "csrc/codegen/kernel_source.h"
#include "csrc/codegen/kernel_words.h"
#include "csrc/codegen/matrix_units.h"
#include "csrc/codegen/pointwise_codegen.h"
#include "runtime/error.h"

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
                "[codegen] " + wanted_by + ": there is no converters/kernels/" + file);
  }
  return it->second;
}

/// Appends a file with its includes replaced by text, each once; its #extension lines go to
/// `extensions`, as GLSL wants them before anything else.
void expand(const std::string& file, const std::string& wanted_by, std::set<std::string>& seen,
            std::string& extensions, std::string& text) {
  if (!seen.insert(file).second) return;
  std::istringstream in(kernel_file(file, wanted_by));
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("#extension")) {
      extensions += line + "\n";
    } else if (line.starts_with("#include")) {
      const size_t from = line.find('"'), to = line.rfind('"');
      if (from == to) throw Error(ErrorKind::kInternal, "[codegen] " + file + ": " + line);
      expand(line.substr(from + 1, to - from - 1), file, seen, extensions, text);
    } else {
      text += line + "\n";
    }
  }
}

/// Functions that math.glsl and what it includes define, beyond those of arith.glsl.
const std::set<std::string, std::less<>>& math_functions() {
  static const auto names = [] {
    std::set<std::string, std::less<>> found;
    for (const char* file : {"math.glsl", "trig.glsl", "special.glsl"}) {
      std::istringstream in(kernel_file(file, "math"));
      for (std::string line; std::getline(in, line);) {
        const size_t at = line.find("tv_"), end = line.find('(');
        if (line.starts_with(' ') || line.starts_with('/') || at > end || end == line.npos) continue;
        found.insert(line.substr(at, end - at));
      }
    }
    return found;
  }();
  return names;
}

/// Parsing all of math.glsl takes longer than everything else in most kernels.
bool calls_math(const std::string& text) {
  for (size_t at = text.find("tv_"); at != std::string::npos; at = text.find("tv_", at + 1)) {
    size_t end = at;
    while (end < text.size() && (std::isalnum(static_cast<unsigned char>(text[end])) || text[end] == '_')) ++end;
    if (math_functions().contains(std::string_view(text).substr(at, end - at))) return true;
  }
  return false;
}

/// Name of a parameter → its declaration; specialisation constants are appended to `out`.
std::string parameter(const Param& param, KernelWords& words, std::vector<uint32_t>& spec_constants) {
  const bool is_float = std::holds_alternative<float>(param.value);
  const std::string type = is_float ? "float" : param.is_signed ? "int" : "uint";
  const Expr* expr = std::get_if<Expr>(&param.value);
  const auto constant = expr != nullptr ? expr->constant() : std::nullopt;
  if (param.specialise && (is_float || constant)) {
    const auto id = std::to_string(spec_constants.size());
    uint32_t word = static_cast<uint32_t>(constant.value_or(0));
    if (is_float) word = std::bit_cast<uint32_t>(std::get<float>(param.value));
    spec_constants.push_back(word);
    // The default is never used: the same text serves every value.
    return "layout(constant_id = " + id + ") const " + type + " " + param.name + " = " + type + "(1);\n";
  }
  const std::string word = is_float ? words.float_word(std::get<float>(param.value))
                                    : words.own_word(*expr);
  return "#define " + param.name + " " + (param.is_signed && !is_float ? "int(" + word + ")" : word) + "\n";
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
  text += "void tv_pointwise(uint i) {\n" + locals + "  tv_program(" + inputs + comma + outs + ");\n" +
          stores + "}\n";
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
  return text + stores4 + "}\n";
}

std::string local_size(const Step& step) {
  std::string text = "layout(";
  for (int k = 0; k < 3; ++k) {
    text += std::string(k != 0 ? ", " : "") + "local_size_" + "xyz"[k] + " = " +
            std::to_string(step.local_size[k]);
  }
  text += ") in;\n";
  for (int k = 0; k < 3; ++k) {
    text += std::string("#define LOCAL_") + "XYZ"[k] + " " + std::to_string(step.local_size[k]) + "\n";
  }
  return text;
}

/// The block that holds addresses and words: in the push constants, or in memory where it is long.
std::string parameter_block(const std::string& addresses, const KernelWords& words, bool in_memory) {
  const std::string members = addresses + words.members();
  if (members.empty()) return "";
  if (!in_memory) return "layout(push_constant, scalar) uniform tv_Params {\n" + members + "} tv_p;\n";
  return "layout(buffer_reference, scalar, buffer_reference_align = 8) buffer tv_Params {\n" +
         members + "};\nlayout(push_constant, scalar) uniform tv_Push { tv_Params block; } tv_push;\n" +
         "#define tv_p tv_push.block\n";
}

std::string uniform_function(bool table) {
  if (!table) return "uint tv_uniform(uint id) { return id; }\n";
  return "uint tv_uniform(uint id) {\n"
         "  return tv_p.table[id & 7u] | tv_p.table[id >> 3 & 7u] << 3 | tv_p.table[id >> 6 & 7u] << 6 |\n"
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
  if (step.matrix) extensions += matrix_preamble(*step.matrix);
  expand("tv.glsl", step.kernel, seen, extensions, prelude);
  expand("arith.glsl", step.kernel, seen, extensions, prelude);
  const bool table = step.uniform_table && device.is_cpu();
  // Kernels of thousands of loads from uniform addresses keep to the push constants, or a CPU driver
  // takes minutes to compile them: the words of a check do not fit, and a checked index is not uniform.
  const bool check = settings.check_addresses && !table;
  if (check) expand("check.glsl", step.kernel, seen, extensions, prelude);
  if (table) {
    lanes = "#define LANES " + std::to_string(device.subgroup_size) + "u\n";
    expand("lane.glsl", step.kernel, seen, extensions, lanes);
  }
  expand(step.kernel + ".comp", step.kernel, seen, extensions, body);

  std::string defines;
  for (const auto& [key, value] : step.defines) defines += "#define " + key + " " + value + "\n";
  // What a template reads only by storage needs no index, whose strides would cost parameters.
  const auto is_indexed = [&](size_t k) {
    const std::string& name = request.operands[k].name;
    if (k >= step.operands.size() || request.program || request.operands[k].program) return true;
    for (const char* accessor : {"_load", "_store", "_index", "_lane"}) {
      if ((defines + body).find(name + accessor) != std::string::npos) return true;
    }
    return false;
  };

  std::string parameters;
  for (const Param& p : step.params) parameters += parameter(p, words, out.spec_constants);

  std::string addresses, raw, elements;
  const auto add_address = [&](const std::string& type, const std::string& name, uint32_t operand) {
    addresses += "  " + type + " a_" + name + ";\n";
    out.operands.push_back(operand);
  };
  for (size_t k = 0; k < request.operands.size(); ++k) {
    const KernelOperand& x = request.operands[k];
    if (x.stored) add_address(glsl_reference(x.dtype), x.name, static_cast<uint32_t>(k));
    raw += raw_accessors(x, words, {.check = check, .number = k,
                                   .indexed = is_indexed(k)});
  }
  // Operands without a program first: fused programs read them.
  for (const bool with_program : {false, true}) {
    for (size_t k = 0; k < request.operands.size(); ++k) {
      const KernelOperand& x = request.operands[k];
      if ((x.program != nullptr) == with_program && is_indexed(k)) {
        elements += element_accessors(x, request);
        if (table && !request.program) elements += lane_accessors(x, request);
      }
    }
  }
  if (request.program != nullptr) elements += pointwise_calls(request);

  if (table) words.add_uniform_table();
  if (check) {
    add_address("tv_ref_check", "check", kCheckOperand);
    body = "#define main tv_template_main\n" + body + "#undef main\nvoid main() {\n  tv_template_main();\n" +
           "  tv_check_report(tv_p.a_check, " + words.dispatch_word() + ");\n}\n";
  }
  if (calls_math(elements + defines + body)) {
    expand("math.glsl", step.kernel, seen, extensions, prelude);
  }
  out.words = words.words();
  out.param_block = 8 * out.operands.size() + 4 * out.words.size() > kPushConstantBytes;

  out.glsl = extensions + local_size(step) + prelude + parameter_block(addresses, words, out.param_block) +
             uniform_function(table) + lanes + parameters + raw + elements + defines + body;
  return out;
}

}  // namespace tv
