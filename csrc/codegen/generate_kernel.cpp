// generate_kernel: a Step with resolved operands → the whole text of its kernel.

#include <algorithm>
#include <bit>

#include "csrc/codegen/accessors.h"
#include "csrc/codegen/cooperative_matrix.h"
#include "csrc/codegen/glsl_types.h"
#include "csrc/codegen/kernel.h"
#include "csrc/codegen/kernel_files.h"
#include "csrc/codegen/kernel_words.h"
#include "csrc/codegen/pointwise_calls.h"
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

/// Whether loops around an epilogue are not unrolled (epilogue.glsl): it has many instructions, or
/// one with a branch.
bool is_long(const PointwiseProgram& epilogue) {
  constexpr size_t kMost = 12;
  return epilogue.instrs.size() > kMost || std::ranges::any_of(epilogue.instrs, [](const auto& i) {
           return i.function == "div_round";
         });
}

/// The text of one kernel, in the order in which it is put together: words of the parameters are
/// counted as they are met.
class KernelText {
 public:
  KernelText(const KernelRequest& request, const Settings& settings, const DeviceProfile& device)
      : request_(request), step_(request.step), settings_(settings), device_(device) {}

  GeneratedKernel generate() {
    include_templates();
    declare_parameters();
    declare_operands();
    define_elements();
    if (check_ && (lanes_ + body_).find("tv_check_ptr") != std::string::npos) {
      pointers_ = pointer_check(request_, words_);
    }
    if (table_) words_.add_uniform_table();
    report_checks();
    include_libraries();
    return finish();
  }

 private:
  void include(const std::string& file, std::string& text) {
    expand(file, step_.kernel, seen_, extensions_, text);
  }

  void include_templates() {
    if (step_.matrix) extensions_ += matrix_preamble(*step_.matrix, device_);
    include("tv.glsl", prelude_);
    include("arith.glsl", prelude_);
    if (check_) include("check.glsl", prelude_);
    if (table_) {
      lanes_ = "#define LANES " + std::to_string(device_.subgroup_size) + "u\n" +
               "#define SIMD_LOOPS " + (lavapipe_wants_loops(device_) ? "1" : "0") + "\n" +
               "#define SIMD_LARGE_GRID " + (is_part_ ? "1" : "0") + "\n";
      include("simd.glsl", lanes_);
    }
    include(step_.kernel + ".comp", body_);
    if (is_part_) body_ = in_part_of_grid(std::move(body_));
    for (const auto& [key, value] : step_.defines) {
      defines_ += "#define " + key + " " + value + "\n";
    }
  }

  void declare_parameters() {
    for (const Param& p : step_.params) {
      const bool of_part = is_part_ && p.name.starts_with("tv_groups_");
      if (of_part && body_.find(p.name) == body_.npos) continue;
      parameters_ += parameter(p, words_, out_.spec_constants);
    }
  }

  /// What a template reads only by storage needs no index, whose strides would cost parameters.
  bool is_indexed(size_t k) const {
    const KernelOperand& x = request_.operands[k];
    if (k >= step_.operands.size() || request_.program || x.program) return true;
    for (const char* accessor : {"_load", "_store", "_value", "_put", "_index", "_simd"}) {
      if ((defines_ + body_).find(x.name + accessor) != std::string::npos) return true;
    }
    return false;
  }

  void add_address(const std::string& type, const std::string& name, uint32_t operand) {
    addresses_ += "  " + type + " a_" + name + ";\n";
    out_.operands.push_back(operand);
  }

  void declare_operands() {
    for (size_t k = 0; k < request_.operands.size(); ++k) {
      const KernelOperand& x = request_.operands[k];
      if (x.stored) add_address(glsl_reference(x.dtype), x.name, static_cast<uint32_t>(k));
      raw_ += raw_accessors(x, words_, {.check = check_, .number = k, .indexed = is_indexed(k)});
    }
  }

  /// A number that a fused program reads. Read for each element, it is read again behind each
  /// store, and where it lies is, too; CPU drivers see for themselves that it is uniform.
  bool is_read_once(size_t k) const {
    const KernelOperand& x = request_.operands[k];
    return k >= step_.operands.size() && x.stored && !x.write && !device_.is_cpu() && is_number(x);
  }

  void define_elements() {
    // Operands without a program first: fused programs read them.
    for (const bool with_program : {false, true}) {
      for (size_t k = 0; k < request_.operands.size(); ++k) {
        const KernelOperand& x = request_.operands[k];
        if ((x.program != nullptr) != with_program || !is_indexed(k)) continue;
        const bool once = is_read_once(k);
        elements_ += element_accessors(x, request_, once);
        if (once) first_ += "  " + number_load(x) + "\n";
        if (table_) elements_ += simd_accessors(x, request_);
      }
    }
    if (request_.program == nullptr) return;
    elements_ += pointwise_calls(request_);
    if (table_) elements_ += pointwise_simd(request_);
  }

  /// Calls the template's main from one that does something before and after it.
  void wrap_main(const std::string& before, const std::string& after) {
    if (before.empty() && after.empty()) return;
    body_ = "#define main tv_template_main\n" + body_ + "#undef main\nvoid main() {\n" + before +
            "  tv_template_main();\n" + after + "}\n";
  }

  /// Where values or accesses are checked, the kernel reports what it has found.
  void report_checks() {
    const bool values =
        settings_.check_indices && calls_any(elements_ + defines_ + body_, value_checks());
    // Whether a weight has what its packed form takes for granted is no matter of settings.
    reports_ = check_ || values || body_.find("kTvNot") != std::string::npos;
    report_ = std::string("#define TV_CPU ") + (device_.is_cpu() ? "1" : "0") +
              "\n#define TV_CHECK " + (check_ ? "1" : "0") + "\n#define TV_CHECK_VALUES " +
              (values ? "1" : "0") + "\n";
    std::string report;
    if (reports_) {
      add_address("tv_ref_check", "check", kCheckOperand);
      report = "  tv_check_report(tv_p.a_check, " + words_.dispatch_word() + ");\n";
    }
    wrap_main(first_, report);
  }

  void include_libraries() {
    bool long_epilogue = std::ranges::any_of(request_.operands, [](const KernelOperand& x) {
      return x.write && x.program && is_long(*x.program);
    });
    for (const MathLibrary& library : math_libraries()) {
      long_epilogue |= calls_any(elements_, library.functions);
      if (calls_any(elements_ + defines_ + body_, library.functions)) {
        include(library.file, prelude_);
      }
    }
    defines_ += std::string("#define LONG_EPILOGUE ") + (long_epilogue ? "1" : "0") + "\n";
    if (reports_) include("report.glsl", report_);
  }

  GeneratedKernel finish() {
    out_.words = words_.words();
    out_.param_block = 8 * out_.operands.size() + 4 * out_.words.size() > kPushConstantBytes;
    // What arith.glsl has of checks writes to a variable of the report.
    out_.glsl = extensions_ + local_size(step_) + report_ + prelude_ +
                parameter_block(addresses_, words_, out_.param_block) + uniform_function(table_) +
                pointers_ + lanes_ + parameters_ + raw_ + elements_ + defines_ + body_;
    return std::move(out_);
  }

  const KernelRequest& request_;
  const Step& step_;
  const Settings& settings_;
  const DeviceProfile& device_;
  const bool check_ = settings_.check_addresses;
  const bool table_ = step_.uniform_table && device_.is_cpu();
  const bool is_part_ = std::ranges::any_of(
      step_.defines, [](const auto& define) { return define.first == "GRID_PART"; });
  bool reports_ = false;

  GeneratedKernel out_;
  KernelWords words_;
  std::set<std::string> seen_;  ///< files that are part of the text
  std::string first_;           ///< what is done before the template's main
  std::string extensions_ = kExtensions, report_, prelude_, addresses_, pointers_, lanes_,
              parameters_, raw_, elements_, defines_, body_;
};

}  // namespace

GeneratedKernel generate_kernel(const KernelRequest& request, const Settings& settings,
                                const DeviceProfile& device) {
  return KernelText(request, settings, device).generate();
}

}  // namespace tv
