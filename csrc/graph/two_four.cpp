#include "csrc/graph/two_four.h"

#include <array>
#include <cstring>

namespace tv {
namespace {

/// Elements without their sign: as integers they are in the order of the magnitudes, and 0 for
/// zero.
template <class Word>
class Magnitudes {
 public:
  explicit Magnitudes(const uint8_t* bytes) : bytes_(bytes) {}
  Word operator[](int64_t i) const {
    Word word;
    std::memcpy(&word, bytes_ + i * static_cast<int64_t>(sizeof(Word)), sizeof(Word));
    return static_cast<Word>(word & ~(Word{1} << (8 * sizeof(Word) - 1)));
  }

 private:
  const uint8_t* bytes_;
};

/// Calls f(the first, from one to the next) for each four neighbours along `dim`, while it returns
/// true.
template <class F>
bool each_four(const MatrixBytes& m, size_t dim, const F& f) {
  const int64_t step = dim == 1 ? 1 : m.columns;
  for (int64_t row = 0; row < m.rows; row += dim == 0 ? 4 : 1) {
    for (int64_t column = 0; column < m.columns; column += dim == 1 ? 4 : 1) {
      if (!f(row * m.columns + column, step)) return false;
    }
  }
  return true;
}

template <class Word>
bool is_so(const MatrixBytes& m, size_t dim) {
  const Magnitudes<Word> x(m.bytes.data());
  return each_four(m, dim, [&](int64_t at, int64_t step) {
    int kept = 0;
    for (int64_t i = 0; i < 4; ++i) kept += x[at + i * step] != 0;
    return kept <= 2;
  });
}

template <class Word>
void prune(const MatrixBytes& m, size_t dim, std::vector<uint8_t>& out) {
  const Magnitudes<Word> x(m.bytes.data());
  each_four(m, dim, [&](int64_t at, int64_t step) {
    std::array<int64_t, 4> larger{};  // elements that go before it
    for (int64_t i = 0; i < 4; ++i) {
      for (int64_t j = 0; j < 4; ++j) {
        const Word own = x[at + i * step], other = x[at + j * step];
        larger[static_cast<size_t>(i)] += other > own || (other == own && j < i);
      }
    }
    for (int64_t i = 0; i < 4; ++i) {
      if (larger[static_cast<size_t>(i)] < 2) continue;
      std::memset(out.data() + (at + i * step) * static_cast<int64_t>(sizeof(Word)), 0,
                  sizeof(Word));
    }
    return true;
  });
}

bool has_fours(const MatrixBytes& m, size_t dim) {
  return (dim == 0 ? m.rows : m.columns) % 4 == 0 &&
         static_cast<int64_t>(m.bytes.size()) == m.rows * m.columns * size_bytes(m.dtype);
}

bool is_16_bit(DType dtype) { return dtype == DType::kF16 || dtype == DType::kBF16; }

}  // namespace

uint8_t two_four_dimensions(const MatrixBytes& m) {
  uint8_t found = 0;
  if (m.dtype != DType::kF32 && !is_16_bit(m.dtype)) return found;
  for (const size_t dim : {0, 1}) {
    if (!has_fours(m, dim)) continue;
    const bool so = is_16_bit(m.dtype) ? is_so<uint16_t>(m, dim) : is_so<uint32_t>(m, dim);
    if (so) found |= static_cast<uint8_t>(1U << dim);
  }
  return found;
}

std::vector<uint8_t> pruned_to_two_four(const MatrixBytes& m, size_t dim) {
  std::vector<uint8_t> out(m.bytes.begin(), m.bytes.end());
  if ((m.dtype != DType::kF32 && !is_16_bit(m.dtype)) || !has_fours(m, dim)) return out;
  is_16_bit(m.dtype) ? prune<uint16_t>(m, dim, out) : prune<uint32_t>(m, dim, out);
  return out;
}

}  // namespace tv
