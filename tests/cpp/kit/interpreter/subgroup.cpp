// What the invocations of a subgroup do together.

#include <algorithm>
#include <cmath>
#include <optional>

#include "tests/cpp/kit/interpreter/workgroup.h"

namespace tv::interpreter {

namespace {

constexpr uint64_t kSharedSemantics = 0x100;  // WorkgroupMemory
constexpr uint32_t kReduce = 0, kInclusive = 1, kExclusive = 2;
constexpr uint64_t kRowMajor = 0, kColumnMajor = 1;
constexpr uint64_t kMostAlignment = 16;

/// A sum as NVIDIA's units leave it, which cut what fp32 does not hold: kernels have to live with
/// it.
double truncated(double sum, const Type& type) {
  if (type.kind != Type::kFloat || type.bits != 32 || !std::isfinite(sum)) return sum;
  const auto nearest = static_cast<float>(sum);
  const bool rounded_up = std::isfinite(nearest) && std::abs(nearest) > std::abs(sum);
  return rounded_up ? std::nextafter(nearest, 0.0F) : nearest;
}

/// One step of a reduction, as OpGroupNonUniformIAdd and its like number them.
uint64_t combine(uint16_t op, const Type& type, uint64_t x, uint64_t y) {
  switch (op) {
    case op::kGroupIAdd:
      return binary(op::kIAdd, type, x, y);
    case op::kGroupFAdd:
      return binary(op::kFAdd, type, x, y);
    case op::kGroupIMul:
      return binary(op::kIMul, type, x, y);
    case op::kGroupFMul:
      return binary(op::kFMul, type, x, y);
    case op::kGroupSMin:
      return extended(ext::kSMin, type, x, y, 0);
    case op::kGroupUMin:
      return extended(ext::kUMin, type, x, y, 0);
    case op::kGroupFMin:
      return extended(ext::kFMin, type, x, y, 0);
    case op::kGroupSMax:
      return extended(ext::kSMax, type, x, y, 0);
    case op::kGroupUMax:
      return extended(ext::kUMax, type, x, y, 0);
    case op::kGroupFMax:
      return extended(ext::kFMax, type, x, y, 0);
    case op::kGroupBitwiseAnd:
    case op::kGroupLogicalAnd:
      return x & y;
    case op::kGroupBitwiseOr:
    case op::kGroupLogicalOr:
      return x | y;
    case op::kGroupBitwiseXor:
    case op::kGroupLogicalXor:
      return x ^ y;
    default:
      throw Fault("is not interpreted");
  }
}

}  // namespace

void SubgroupOperation::run(const Instruction& i) {
  switch (i.op) {
    case op::kControlBarrier:
      if ((same(i.operands[2], "semantics") & kSharedSemantics) != 0) {
        group_.shared_.barrier(v_.front().subgroup);
      }
      return;
    case op::kMatrixLoadKhr:
      return load(i);
    case op::kMatrixStoreKhr:
      return store(i);
    case op::kMatrixMulAddKhr:
      return multiply(i);
    case op::kMatrixReduce:
      return reduce_rows(i);
    case op::kFConvert:
      return convert(i);
    default:
      break;
  }
  if (i.op <= op::kGroupAllEqual) {
    vote(i);
  } else if (i.op < op::kGroupIAdd) {
    move(i);
  } else {
    reduce(i);
  }
}

uint64_t SubgroupOperation::same(uint32_t at, const char* what) const {
  const uint64_t value = v_.front().registers[at];
  for (const Invocation& v : v_) {
    if (v.registers[at] != value) {
      throw Fault(std::string(what) + " differs between invocations 0 and " +
                  std::to_string(v.lane));
    }
  }
  return value;
}

void SubgroupOperation::vote(const Instruction& i) {
  bool all = true, any = false, equal = true;
  if (i.op != op::kGroupElect) {
    for (const Invocation& v : v_) {
      const uint64_t value = v.registers[i.operands[1]];
      all &= value != 0;
      any |= value != 0;
      equal &= value == v_.front().registers[i.operands[1]];
    }
  }
  for (Invocation& v : v_) {
    v.registers[i.result] = i.op == op::kGroupElect ? v.lane == 0
                            : i.op == op::kGroupAll ? all
                            : i.op == op::kGroupAny ? any
                                                    : equal;
  }
}

void SubgroupOperation::move(const Instruction& i) {
  if (i.op == op::kGroupBallot) {
    uint64_t bits = 0;
    for (const Invocation& v : v_) bits |= (v.registers[i.operands[1]] & 1) << v.lane;
    for (Invocation& v : v_) {
      v.registers[i.result] = bits;
      std::fill_n(v.registers.begin() + i.result + 1, i.type->words - 1, 0);
    }
    return;
  }
  const uint32_t words = i.type->words;
  std::vector<uint64_t> values(v_.size() * words);
  for (Invocation& v : v_) {
    const uint64_t operand = i.operands.size() > 2 ? v.registers[i.operands[2]] : 0;
    uint64_t lane = 0;
    switch (i.op) {
      case op::kGroupBroadcast:
        lane = same(i.operands[2], "the invocation of a broadcast");
        break;
      case op::kGroupBroadcastFirst:
        break;
      case op::kGroupShuffle:
        lane = operand;
        break;
      case op::kGroupShuffleXor:
        lane = v.lane ^ operand;
        break;
      case op::kGroupShuffleUp:
        lane = v.lane - operand;
        break;
      case op::kGroupShuffleDown:
        lane = v.lane + operand;
        break;
      default:
        throw Fault("is not interpreted");
    }
    // What comes from no invocation is not defined, which is not an error until it is used.
    for (uint32_t w = 0; w < words; ++w) {
      values[v.lane * words + w] =
          lane < v_.size() ? v_[lane].registers[i.operands[1] + w] : mask_of(i.type->number().bits);
    }
  }
  for (Invocation& v : v_) {
    std::copy_n(values.begin() + v.lane * words, words, v.registers.begin() + i.result);
  }
}

void SubgroupOperation::reduce(const Instruction& i) {
  const uint32_t how = i.operands[0], at = i.operands[1];
  if (how != kReduce && how != kInclusive) throw Fault("is not interpreted");
  const Type& number = i.type->number();
  for (uint32_t w = 0; w < i.type->words; ++w) {
    std::vector<uint64_t> sums;
    for (const Invocation& v : v_) {
      const uint64_t x = v.registers[at + w];
      sums.push_back(sums.empty() ? x
                                  : combine(i.op, number, sums.back(), x) & mask_of(number.bits));
    }
    for (Invocation& v : v_) {
      v.registers[i.result + w] = how == kReduce ? sums.back() : sums[v.lane];
    }
  }
}

template <class F>
void SubgroupOperation::each_line(const Instruction& i, const Type& type, bool write,
                                  uint64_t stride, bool columns, const F& f) {
  const auto [rows, all_columns, use] = type.fragment;
  const uint32_t lines = columns ? all_columns : rows, length = columns ? rows : all_columns;
  const uint64_t line = length * type.element->bytes, address = same(i.operands[0], "the address");
  const uint64_t alignment = std::min(kMostAlignment, line);
  if (v_.size() != kSubgroup) throw Fault("a matrix of a subgroup that is not full");
  if (address % alignment != 0 || stride % alignment != 0) {
    throw Fault("a matrix at " + std::to_string(address) + " with rows " + std::to_string(stride) +
                " bytes apart, which are no multiples of " + std::to_string(alignment));
  }
  for (uint32_t n = 0; n < lines; ++n) {
    uint8_t* at = group_.bytes_at(*i.from, address + n * stride, line, write,
                                  {v_.front().subgroup, SharedMemory::Who::kAll});
    for (uint32_t m = 0; m < length; ++m) {
      f(columns ? m : n, columns ? n : m, at + m * type.element->bytes);
    }
  }
}

void SubgroupOperation::load(const Instruction& i) {
  const uint64_t layout = same(i.operands[2], "the layout");
  if (layout != kRowMajor && layout != kColumnMajor)
    throw Fault("layout " + std::to_string(layout));
  const uint64_t stride = same(i.operands[1], "the stride") * i.from->element->bytes;
  uint64_t numbers[kMostSteps][kMostSteps];
  each_line(i, *i.type, false, stride, layout == kColumnMajor,
            [&](uint32_t row, uint32_t column, const uint8_t* at) {
              uint64_t value = 0;
              std::memcpy(&value, at, i.type->element->bytes);
              numbers[row][column] = value;
            });
  for (Invocation& v : v_) {
    for (uint32_t c = 0; c < i.type->count; ++c) {
      const auto [row, column] = place(group_.program_.layout, i.type->fragment, v.lane, c);
      v.registers[i.result + c] = numbers[row][column];
    }
  }
}

void SubgroupOperation::store(const Instruction& i) {
  const uint64_t layout = same(i.operands[3], "the layout");
  if (layout != kRowMajor && layout != kColumnMajor)
    throw Fault("layout " + std::to_string(layout));
  const uint64_t stride = same(i.operands[2], "the stride") * i.from->element->bytes;
  std::optional<uint64_t> numbers[kMostSteps][kMostSteps];
  for (const Invocation& v : v_) {
    for (uint32_t c = 0; c < i.type->count; ++c) {
      const auto [row, column] = place(group_.program_.layout, i.type->fragment, v.lane, c);
      auto& number = numbers[row][column];
      const uint64_t value = v.registers[i.operands[1] + c];
      if (number && *number != value) throw Fault("two invocations hold an element that differs");
      number = value;
    }
  }
  each_line(i, *i.type, true, stride, layout == kColumnMajor,
            [&](uint32_t row, uint32_t column, uint8_t* at) {
              std::memcpy(at, &numbers[row][column].value(), i.type->element->bytes);
            });
}

SubgroupOperation::Matrix SubgroupOperation::gather(const Type& type, uint32_t at) const {
  Matrix m{};
  for (const Invocation& v : v_) {
    for (uint32_t c = 0; c < type.count; ++c) {
      const auto [row, column] = place(group_.program_.layout, type.fragment, v.lane, c);
      const uint64_t value = v.registers[at + c];
      m.number[row][column] = type.element->kind == Type::kInt
                                  ? static_cast<double>(signed_of(value, type.bits))
                                  : to_double(value, *type.element);
    }
  }
  return m;
}

void SubgroupOperation::multiply(const Instruction& i) {
  const Type& left = *i.from;
  const Type& right = *i.second;
  const bool wrong_use =
      (left.fragment.use != Fragment::kAny && left.fragment.use != Fragment::kLeft) ||
      (right.fragment.use != Fragment::kAny && right.fragment.use != Fragment::kRight);
  if (wrong_use) throw Fault("a product of matrices that are no left and right operand");
  const Matrix a = gather(left, i.operands[0]), b = gather(right, i.operands[1]),
               c = gather(*i.type, i.operands[2]);
  Matrix sum{};
  const auto steps = static_cast<int>(left.fragment.columns);
  if (right.fragment.rows != left.fragment.columns) throw Fault("a product of other sizes");
  for (int m = 0; m < 16; ++m) {
    for (int k = 0; k < steps; ++k) {
      for (int n = 0; n < 16; ++n) sum.number[m][n] += a.number[m][k] * b.number[k][n];
    }
  }
  for (int m = 0; m < 16; ++m) {
    for (int n = 0; n < 16; ++n) {
      sum.number[m][n] = truncated(sum.number[m][n] + c.number[m][n], *i.type->element);
    }
  }
  scatter(sum, *i.type, i.result);
}

void SubgroupOperation::scatter(const Matrix& matrix, const Type& type, uint32_t at) {
  for (Invocation& v : v_) {
    for (uint32_t e = 0; e < type.count; ++e) {
      const auto [row, column] = place(group_.program_.layout, type.fragment, v.lane, e);
      const double number = matrix.number[row][column];
      v.registers[at + e] =
          type.element->kind == Type::kInt
              ? static_cast<uint64_t>(static_cast<int64_t>(number)) & mask_of(type.bits)
              : from_double(number, *type.element);
    }
  }
}

/// Each row's elements, combined by a function of the module, in place of all of them.
void SubgroupOperation::reduce_rows(const Instruction& i) {
  constexpr uint32_t kRows = 1;
  if (i.operands[1] != kRows) throw Fault("a reduction of other than rows is not interpreted");
  Matrix m = gather(*i.from, i.operands[0]);
  const Type& number = *i.type->element;
  for (auto& row : m.number) {
    uint64_t sum = from_double(row[0], number);
    for (int n = 1; n < 16; ++n) {
      sum = group_.call(v_.front(), i.operands[2], sum, from_double(row[n], number));
    }
    std::fill(std::begin(row), std::end(row), to_double(sum, number));
  }
  scatter(m, *i.type, i.result);
}

void SubgroupOperation::convert(const Instruction& i) {
  scatter(gather(*i.from, i.operands[0]), *i.type, i.result);
}

}  // namespace tv::interpreter
