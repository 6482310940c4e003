#include "csrc/compile/debug_dump.h"

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "runtime/base/error.h"

namespace tv {

namespace {

std::string numbered(size_t number, const std::string& name) {
  char digits[8];
  std::snprintf(digits, sizeof(digits), "%03zu", number);
  return std::string(digits) + "_" + name;
}

std::string safe_file_name(std::string name) {
  for (char& c : name) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (!plain && c != '-' && c != '.') c = '_';
  }
  return name.empty() ? "engine" : name;
}

const char* kind_name(BufferKind kind) {
  switch (kind) {
    case BufferKind::kInput:
      return "input";
    case BufferKind::kOutput:
      return "output";
    case BufferKind::kWeight:
      return "weight";
    case BufferKind::kPersistent:
      return "persistent";
    case BufferKind::kArena:
      return "arena";
    case BufferKind::kCheck:
      return "check";
  }
  return "";
}

std::string dispatch_text(const EngineSpec& spec, const Dispatch& dispatch) {
  std::string text = dispatch.name + " [" + dispatch.tactic + "] module " +
                     std::to_string(spec.pipelines[dispatch.pipeline].module) + " pipeline " +
                     std::to_string(dispatch.pipeline) + " grid";
  for (const Expr& groups : dispatch.grid) text += " " + groups.str();
  text += dispatch.flat_grid ? " flat" : "";
  for (const std::string& op : dispatch.ops) text += " " + op;
  for (const OperandRange& range : dispatch.operands) {
    const Buffer& buffer = spec.buffers[range.buffer];
    text += std::string("\n    ") + (range.read ? "r" : "") + (range.write ? "w" : "") + " " +
            kind_name(buffer.kind) + " " + std::to_string(range.buffer) + " " + buffer.name + " [" +
            range.offset_bytes.str() + " +" + range.size_bytes.str() + "]";
  }
  return text + "\n";
}

}  // namespace

DebugDump::DebugDump(const Settings& settings, const std::string& engine_name) {
  if (settings.debug_dir.empty()) return;
  const std::filesystem::path parent = settings.debug_dir;
  std::filesystem::path dir = parent / safe_file_name(engine_name);
  std::error_code error;
  std::filesystem::create_directories(parent, error);
  // Two graphs of one name, or a second run, get folders of their own.
  for (int again = 1; !std::filesystem::create_directory(dir, error) && !error; ++again) {
    dir = parent / (safe_file_name(engine_name) + "." + std::to_string(again));
  }
  if (error) {
    throw Error(ErrorKind::kUser,
                "[debug] cannot make the folder " + dir.string() + ": " + error.message());
  }
  dir_ = dir.string();
}

void DebugDump::write(const std::string& file, const std::string& text) const {
  const std::string path = dir_ + "/" + file;
  std::ofstream out(path);
  out << text;
  if (!out.flush()) throw Error(ErrorKind::kUser, "[debug] cannot write " + path);
}

void DebugDump::write_graph(const char* pass, const Graph& graph) const {
  if (dir_.empty()) return;
  write(numbered(static_cast<size_t>(graphs_++), pass) + ".graph", dump(graph));
}

void DebugDump::write_lowering(const LoweringReport& report, const EngineSpec& spec) const {
  if (dir_.empty()) return;
  std::string tactics;
  for (const LoweringReport::NodeReport& node : report.nodes) {
    tactics += node.node + " (" + node.op + ")\n";
    for (size_t i = 0; i < node.tactics.size(); ++i) {
      const auto& [name, refusal, note] = node.tactics[i];
      tactics += std::string(i == node.chosen ? "  * " : "    ") + name +
                 (refusal.empty() ? "" : ": refused, " + refusal) +
                 (note.empty() ? "" : ": " + note) + "\n";
    }
  }
  write("tactics.txt", tactics);
  std::string dispatches = "weight program\n";
  for (const Dispatch& d : spec.weight_program) dispatches += "  " + dispatch_text(spec, d);
  dispatches += "dispatches\n";
  for (const Dispatch& d : spec.dispatches) dispatches += "  " + dispatch_text(spec, d);
  write("dispatches.txt", dispatches);
  for (size_t i = 0; i < report.kernels.size(); ++i) {
    write(numbered(i, report.kernels[i].name) + ".comp", report.kernels[i].glsl);
  }
}

}  // namespace tv
