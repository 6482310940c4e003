#include "runtime/commands/encoder.h"

#include <algorithm>
#include <cstring>

#include "runtime/base/error.h"
#include "runtime/commands/guard_blocks.h"

namespace tv {
namespace {

constexpr size_t kMaxPushBytes = 128;
constexpr size_t kParamAlignment = 16;

struct Access {
  uint32_t space;
  int64_t begin, end;
  bool write;
};

/// Accesses since the last barrier. A barrier orders everything before it, so it clears both lists.
class HazardTracker {
 public:
  bool conflicts(std::span<const Access> accesses) const {
    for (const Access& a : accesses) {
      if (overlaps(writes_, a)) return true;            // RAW, WAW
      if (a.write && overlaps(reads_, a)) return true;  // WAR
    }
    return false;
  }
  void add(std::span<const Access> accesses) {
    for (const Access& a : accesses) (a.write ? writes_ : reads_).push_back(a);
  }
  void clear() {
    reads_.clear();
    writes_.clear();
  }
  bool empty() const { return reads_.empty() && writes_.empty(); }

 private:
  static bool overlaps(const std::vector<Access>& pending, const Access& a) {
    return std::any_of(pending.begin(), pending.end(), [&](const Access& p) {
      return p.space == a.space && p.begin < a.end && a.begin < p.end;
    });
  }
  std::vector<Access> reads_, writes_;
};

[[noreturn]] void fail(const Dispatch& dispatch, const std::string& what) {
  throw Error(ErrorKind::kInternal, "[" + dispatch.name + "] " + what);
}

template <typename T>
void append(std::vector<uint8_t>& bytes, T value) {
  const size_t at = bytes.size();
  bytes.resize(at + sizeof(T));
  std::memcpy(bytes.data() + at, &value, sizeof(T));
}

void append_params(const EncodeRequest& request, const Dispatch& dispatch, EncodedProgram& out,
                   EncodedDispatch& encoded) {
  const size_t start = (out.params.size() + kParamAlignment - 1) & ~(kParamAlignment - 1);
  out.params.resize(start);
  for (const OperandRange& operand : dispatch.operands) {
    out.fixes.push_back({static_cast<uint32_t>(out.params.size()), operand.buffer,
                         operand.offset_bytes.eval(request.symbols),
                         static_cast<uint32_t>(out.dispatches.size())});
    append<uint64_t>(out.params, 0);
  }
  for (const ParamWord& word : dispatch.words) {
    append<uint32_t>(out.params, word_at(word, request.symbols));
  }
  encoded.params_at = static_cast<uint32_t>(start);
  encoded.params_bytes = static_cast<uint32_t>(out.params.size() - start);
  encoded.param_block = request.spec.pipelines.at(dispatch.pipeline).param_block;
  if (!encoded.param_block && encoded.params_bytes > kMaxPushBytes) {
    fail(dispatch, "its parameters take " + std::to_string(encoded.params_bytes) +
                       " bytes; without a parameter block at most 128 fit");
  }
}

std::vector<Access> accesses_of(const EncodeRequest& request, const Dispatch& dispatch) {
  std::vector<Access> accesses;
  for (const OperandRange& operand : dispatch.operands) {
    const auto& buffers = request.spec.buffers;  // none in a warm-up
    if (!buffers.empty() && buffers[operand.buffer].kind == BufferKind::kCheck) continue;
    const Placement& place = request.placements[operand.buffer];
    const int64_t begin = place.offset + operand.offset_bytes.eval(request.symbols);
    const int64_t size = operand.size_bytes.eval(request.symbols);
    if (size <= 0) continue;
    if (operand.read) accesses.push_back({place.space, begin, begin + size, false});
    if (operand.write) accesses.push_back({place.space, begin, begin + size, true});
  }
  return accesses;
}

/// False if the dispatch has no workgroup to run.
bool set_grid(const EncodeRequest& request, const Dispatch& dispatch, EncodedDispatch& encoded) {
  std::array<int64_t, 3> groups{};
  for (int i = 0; i < 3; ++i) {
    groups[i] = dispatch.grid[i].eval(request.symbols);
    if (groups[i] <= 0) return false;
  }
  if (dispatch.flat_grid) {
    encoded.grid = fold_grid(groups[0], request.max_grid);
    return true;
  }
  for (int i = 0; i < 3; ++i) {
    if (groups[i] > request.max_grid[i]) {
      throw Error(ErrorKind::kUnsupported,
                  "[" + dispatch.name + "] its grid has " + std::to_string(groups[i]) +
                      " workgroups in dimension " + std::to_string(i) + "; the device allows " +
                      std::to_string(request.max_grid[i]));
    }
    encoded.grid[i] = static_cast<uint32_t>(groups[i]);
  }
  return true;
}

void check_iterations(const EncodeRequest& request, const Dispatch& dispatch) {
  const int64_t wanted = dispatch.iterations.eval(request.symbols);
  if (wanted <= request.max_iterations) return;
  throw Error(ErrorKind::kUnsupported, "[" + dispatch.name + "] needs " + std::to_string(wanted) +
                                           " loop iterations at this shape; the device makes " +
                                           std::to_string(request.max_iterations));
}

}  // namespace

std::array<uint32_t, 3> fold_grid(int64_t count, const std::array<uint32_t, 3>& max_grid) {
  const auto ceil_div = [](int64_t a, int64_t b) { return (a + b - 1) / b; };
  const int64_t rows = ceil_div(count, max_grid[0]);
  const int64_t layers = ceil_div(rows, max_grid[1]);
  if (layers > max_grid[2]) {
    throw Error(ErrorKind::kInternal,
                "[encoder] " + std::to_string(count) + " workgroups do not fit the device's grid");
  }
  const int64_t y = ceil_div(rows, layers);
  const int64_t x = ceil_div(count, y * layers);
  return {static_cast<uint32_t>(x), static_cast<uint32_t>(y), static_cast<uint32_t>(layers)};
}

EncodedProgram encode(const EncodeRequest& request) {
  EncodedProgram out;
  HazardTracker pending;
  for (size_t i = 0; i < request.program.size(); ++i) {
    const Dispatch& dispatch = request.program[i];
    EncodedDispatch encoded;
    encoded.dispatch = static_cast<uint32_t>(i);
    encoded.pipeline = dispatch.pipeline;
    if (!set_grid(request, dispatch, encoded)) continue;
    check_iterations(request, dispatch);
    append_params(request, dispatch, out, encoded);
    if (!request.guard_ranges.empty()) append_guard(request, dispatch, out, encoded);
    const std::vector<Access> accesses = accesses_of(request, dispatch);
    const bool forced = request.modes.full_barriers && !out.dispatches.empty();
    if (forced || pending.conflicts(accesses)) {
      // A removed barrier is still counted and still clears the list: the others stay where they
      // are.
      encoded.barrier_before = out.barriers++ != request.modes.remove_barrier;
      pending.clear();
    }
    pending.add(accesses);
    out.dispatches.push_back(encoded);
  }
  return out;
}

}  // namespace tv
