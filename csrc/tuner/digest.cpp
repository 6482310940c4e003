#include "csrc/tuner/digest.h"

#include <bit>

#include "csrc/codegen/glsl_compiler.h"
#include "runtime/base/sha256.h"

namespace tv {

namespace {

constexpr size_t kDigits = 32;

std::string text(const ParamWord& word) {
  if (const auto* expr = std::get_if<Expr>(&word)) return expr->str();
  if (const auto* number = std::get_if<NumberWord>(&word)) {
    return number->value.str() + std::string(name(number->dtype)) + (number->high ? "h" : "");
  }
  return "f" + std::to_string(std::bit_cast<uint32_t>(std::get<float>(word)));
}

std::string text(const Pipeline& p) {
  std::string out = "pipeline " + std::to_string(p.module) + " subgroup " +
                    std::to_string(p.subgroup_size) + (p.param_block ? " block" : "");
  for (const uint32_t word : p.spec_constants) out += " " + std::to_string(word);
  return out + "\n";
}

std::string text(const Dispatch& d) {
  std::string out = "dispatch " + std::to_string(d.pipeline) + (d.flat_grid ? " flat" : "");
  for (const Expr& groups : d.grid) out += " " + groups.str();
  for (const ParamWord& word : d.words) out += " " + text(word);
  for (const OperandRange& range : d.operands) {
    out += " [" + std::to_string(range.buffer) + " " + range.offset_bytes.str() + " " +
           range.size_bytes.str() + (range.read ? "r" : "") + (range.write ? "w]" : "]");
  }
  return out + "\n";
}

}  // namespace

std::string program_digest(const TacticProgram& program, const DeviceProfile& device) {
  std::string all = "glslang " + glslang_version() + "\n" + device.runs_on() + "\n";
  for (const Buffer& buffer : program.spec.buffers) {
    all += "buffer " + std::to_string(static_cast<int>(buffer.kind)) + " " +
           buffer.size_bytes.str() + "\n";
  }
  for (const Pipeline& pipeline : program.spec.pipelines) all += text(pipeline);
  for (const auto* list : {&program.spec.weight_program, &program.spec.dispatches}) {
    all += "program\n";
    for (const Dispatch& dispatch : *list) all += text(dispatch);
  }
  for (const TacticProgram::Kernel& kernel : program.kernels) all += kernel.glsl + "\n";
  return sha256_hex(all).substr(0, kDigits);
}

}  // namespace tv
