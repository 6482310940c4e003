#include <filesystem>

#include "csrc/cli/bench/references.h"
#include "csrc/cli/compare/layers.h"
#include "csrc/cli/debug/debug.h"
#include "csrc/cli/debug/failure.h"
#include "csrc/cli/debug/parts.h"
#include "csrc/cli/debug/smallest.h"
#include "csrc/cli/flags/check_command.h"
#include "csrc/cli/models/build.h"
#include "csrc/cli/text/lines.h"
#include "runtime/base/error.h"
#include "runtime/base/file.h"

namespace tv::cli {
namespace {

/// A file that is gone in the end.
class TemporaryFile {
 public:
  explicit TemporaryFile(std::string path) : path_(std::move(path)) {}
  ~TemporaryFile() {
    std::error_code unknown;
    std::filesystem::remove(path_, unknown);
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

void write_bytes(const std::string& path, std::span<const uint8_t> bytes) {
  if (const std::string fault = write_file(path, {&bytes, 1}); !fault.empty()) {
    throw Error(ErrorKind::kUser, "[debug reduce] " + path + ": " + fault);
  }
}

class Reduction {
 public:
  Reduction(std::shared_ptr<Device> device, Options options)
      : options_(std::move(options)),
        parts_(parts_of(options_)),
        candidate_(options_.save + (options_.graph.empty() ? ".candidate.onnx" : ".candidate.vkg")),
        parts_run_(std::move(device), options_) {}

  bool run();

 private:
  Failure failure_of(const ModelPart& part) {
    if (options_.check.empty()) return parts_run_.failure_of(part);
    write_bytes(candidate_.path(), part.file);
    const int status = check_command(options_.check, candidate_.path(), options_.check_seconds);
    return Failure::of_status(status);
  }

  bool fails(const Items& nodes) {
    const auto part = parts_->cut(nodes);
    if (!part) return false;
    const bool same = failure_of(*part).is_like(first_);
    say(format("%4zu node%s: %s", nodes.size(), nodes.size() == 1 ? "" : "s",
               same ? "fails" : "does not, or in another way"));
    return same;
  }

  void report(const Items& nodes, const Question& question);

  Options options_;
  std::unique_ptr<Parts> parts_;
  TemporaryFile candidate_;
  PartRunner parts_run_;
  Failure first_;  ///< the model's own
};

bool Reduction::run() {
  const Items all = parts_->nodes();
  if (options_.check.empty()) parts_run_.compute_exactly(parts_->imported());
  const auto whole = parts_->cut(all);
  if (!whole) {
    throw Error(ErrorKind::kUser, "[debug reduce] " + options_.model_path() +
                                      " has no node, or an input of no known type");
  }
  first_ = failure_of(*whole);
  if (!first_.failed()) {
    complain("[debug reduce] " + options_.model_path() + " does not fail" +
             (options_.check.empty() ? ": there is no error, and the outputs are within the "
                                       "tolerance; --check=COMMAND tests something else"
                                     : ": the command of --check ends with 0"));
    return false;
  }
  if (first_.is_no_command()) {
    throw Error(ErrorKind::kUser, "[debug reduce] --check: the command cannot be run (" +
                                      first_.text() + "): " + options_.check);
  }
  say(format("=== The smallest part of %zu nodes that fails, in at most %lld runs ===", all.size(),
             static_cast<long long>(options_.max_runs)));
  say("Failure: " + first_.text());
  Question question([this](const Items& nodes) { return fails(nodes); }, options_.max_runs);
  Items left = shortest_suffix(shortest_prefix(all, question), question);
  report(without_needless(std::move(left), question), question);
  return true;
}

void Reduction::report(const Items& nodes, const Question& question) {
  if (question.spent()) {
    say(format("Stopped after %lld runs: fewer nodes may do; --runs permits more",
               static_cast<long long>(question.asked())));
  }
  say(format("%zu of %zu nodes fail alike (%lld runs)", nodes.size(), parts_->nodes().size(),
             static_cast<long long>(question.asked())));
  for (const size_t n : nodes) say("  " + parts_->imported().nodes.at(n).label);
  const ModelPart part = *parts_->cut(nodes);
  write_bytes(options_.save, part.file);
  say("Written to " + options_.save);
  if (options_.check.empty()) parts_run_.write_tensors(part, options_.save + ".tensors");
}

}  // namespace

bool debug_reduce(const std::shared_ptr<Device>& device, const Options& given) {
  if (!given.check.empty() && given.check.find("{}") == std::string::npos) {
    throw Error(ErrorKind::kUser, "[debug reduce] --check: got '" + given.check +
                                      "', want a command with {} in it, which is the file to test");
  }
  Options options = given;
  options.quiet = true;
  options.cache.cache_built_engines = false;  // of which most are built once
  if (!options.ref.empty()) {
    options = with_inputs(options, binding_names(import_model(options, /*partial=*/true).inputs));
  }
  return Reduction(device, with_sizes(std::move(options), /*partial=*/true)).run();
}

}  // namespace tv::cli
