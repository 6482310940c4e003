#pragma once
// What products and convolutions on matrix units share (matrix.glsl): how numbers become operands
// of the units, tiles, fragments in memory, launches, refusals and what the rules count with. A
// client adds what its problem is, which tiles it offers and what each should cost.

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "converters/kit/steps.h"

namespace tv {

inline constexpr int64_t kFragment = 16;     ///< rows, columns and steps of k of one matrix
inline constexpr int64_t kChunk = 8;         ///< elements that a kernel loads at once
inline constexpr int64_t kInvocations = 32;  ///< of a subgroup, which multiplies matrices
inline constexpr int64_t kUvec4Bytes = 16;   ///< shared memory and packed fragments are uvec4s
inline constexpr int64_t kUvec4Words = kUvec4Bytes / 4;

/// How operands become what the matrix units multiply: 16-bit floats as they are, fp32 as a sum of
/// 16-bit pieces (error-corrected products), float16 pieces times powers of two, because fp32's
/// exponent range is wider.
struct SplitPrecision {
  enum Scale {
    kUnscaled,
    kGroups,   ///< a power of two for each 16 rows or columns, found beforehand (matmul_scale)
    kRunning,  ///< one that the kernel finds as it goes, as an online softmax does (conv_matrix)
  };
  DType input = DType::kF16;  ///< float16 or bfloat16
  int64_t pieces = 1;
  int64_t promote = 0;  ///< steps of 16 summed inside of the unit, which cuts its sums; 0: all
  Scale scale = kUnscaled;
  /// Tactic::error: of a result relative to the sizes of its terms, where the tuner is to grant
  /// more than any sum has.
  double error = 0;

  /// Operands are fp32.
  bool is_split() const { return pieces > 1 || scale != kUnscaled; }
  /// Products of matrices that one product of operands takes: those of pieces whose orders add up
  /// to less than `pieces`.
  int64_t products() const { return pieces * (pieces + 1) / 2; }
  /// As tactics' names say it (docs/kernels.md): f16, bf16x3.
  std::string name() const;
  /// The GLSL function that rounds to `input`.
  std::string rounding() const { return input == DType::kF16 ? "tv_to_f16" : "tv_to_bf16"; }
};
/// Ways to multiply operands of `dtype`, of fp32 those given; none if the units have no product
/// of it.
std::vector<SplitPrecision> split_precisions(DType dtype, std::vector<SplitPrecision> of_floats);

/// bm x bn outputs of a workgroup, wm x wn of a subgroup, where `wk` subgroups share the steps of k
/// of the same outputs. The fields are macros of the kernels.
struct MatrixTile {
  int64_t bm, bn, wm, wn, wk = 1;
  /// Invocations of one of the `wk` parts of k.
  int64_t output_threads() const { return kInvocations * (bm / wm) * (bn / wn); }
  int64_t threads() const { return output_threads() * wk; }
  int64_t subgroups() const { return threads() / kInvocations; }
  /// fp32 sums that an invocation keeps in registers.
  int64_t sums() const { return wm * wn / kInvocations; }
  /// uvec4s of shared memory that `rows` rows of each subgroup's sums take on their way out. A row
  /// is an odd number of them, so that rows lie in different banks.
  int64_t sum_uvec4s(int64_t rows) const { return wk * (bm / wm) * rows * (bn / 4 + 1); }
};
/// "64x128_w32x64x2"; with the steps of k of a stage, where given, as "64x128x32_w32x64x2".
std::string name_of(const MatrixTile& tile, int64_t bk = 0);
/// The tile of such a name, without steps of k.
consteval MatrixTile operator""_tile(const char* name, size_t length) {
  int64_t fields[5] = {0, 0, 0, 0, 0};
  size_t field = 0;
  for (size_t i = 0; i < length; ++i) {
    if (name[i] >= '0' && name[i] <= '9') {
      fields[field] = fields[field] * 10 + (name[i] - '0');
    } else if (name[i] == 'x' || name[i] == '_') {
      ++field;
    }
  }
  return {fields[0], fields[1], fields[2], fields[3], fields[4] > 0 ? fields[4] : 1};
}

/// A launch of `threads` invocations in subgroups of 32 on matrix units, with PIECES.
Step matrix_step(const std::string& kernel, const SplitPrecision& precision, int64_t threads);
/// The same of a tile of outputs, with its fields.
Step matrix_step(const std::string& kernel, const SplitPrecision& precision,
                 const MatrixTile& tile);

/// uvec4s (16 bytes) of a packed fragment, all pieces.
int64_t fragment_uvec4s(const SplitPrecision& precision);
/// The launch that packs an operand, a subgroup for each of `fragments`: in the order in which a
/// subgroup holds them, so that a fragment is one load of a uvec4 by each invocation. The result is
/// 32-bit words, fragment_uvec4s() * kUvec4Words a fragment. The caller adds operands, parameters
/// and the grid, of which a workgroup packs kPackedTogether.
Step pack_step(const std::string& kernel, const SplitPrecision& precision, const Expr& fragments);
inline constexpr int64_t kPackedTogether = 8;

/// Why a workgroup of this many invocations and bytes of shared memory does not fit, or "".
std::string workgroup_refusal(const DeviceProfile& device, int64_t threads, int64_t shared_bytes);

bool divides(int64_t divisor, const Expr& value);
/// Whether the value's first element lies at a multiple of 16 bytes.
bool is_aligned(const NodeContext& context, ValueId id);
/// Whether `length` neighbours at a time can be loaded along a dimension of `count` elements and
/// stride `along`, from every row (stride `across`) of every matrix of the batch.
bool loads_runs(int64_t length, const Expr& count, const Expr& along, const Expr& across,
                const Shape& batch);

// What rules count with.

/// The device's shader cores; where the driver does not say, those of a middling GPU.
int64_t compute_units(const DeviceProfile& device);
/// Time of work that overlaps with a chain of waits: the longer, and a share of the other.
double overlapped(double work, double chain);

/// A tile for a problem, and the time that the client's rule expects.
template <class Problem, class Tile>
struct MatrixCandidate {
  const Problem* problem;
  Tile tile;
  double time;
};

/// Tactics of the candidates, soonest first, as `describe(problem, tile)` gives them: name, refusal
/// and error. The first `most(problem)` of each problem that are not refused get their steps from
/// `emit(problem, tile, tactic)`, the others are refused as slower.
template <class Problem, class Tile, class Most, class Describe, class Emit>
std::vector<Tactic> ranked_tactics(std::vector<MatrixCandidate<Problem, Tile>> candidates,
                                   const Most& most, const Describe& describe, const Emit& emit) {
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const auto& s, const auto& t) { return s.time < t.time; });
  std::vector<Tactic> tactics;
  std::map<const Problem*, size_t> taken;
  for (const auto& [problem, tile, time] : candidates) {
    Tactic tactic = describe(*problem, tile);
    if (tactic.refusal.empty() && taken[problem] == most(*problem)) {
      tactic.refusal = "expected to be slower";
    }
    if (tactic.refusal.empty()) {
      ++taken[problem];
      emit(*problem, tile, tactic);
    }
    tactics.push_back(std::move(tactic));
  }
  return tactics;
}

}  // namespace tv
