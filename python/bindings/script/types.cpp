#include "python/bindings/script/types.h"

#include <algorithm>

#include "python/bindings/torch/border.h"
#include "runtime/base/error.h"

namespace tv::script {
namespace {

using c10::TypeKind;

c10::TypePtr without_optional(c10::TypePtr type) {
  while (type->kind() == TypeKind::OptionalType) {
    type = type->expectRef<c10::OptionalType>().getElementType();
  }
  return type;
}

std::string format_name(int64_t format) {
  static const char* const names[] = {"contiguous_format", "preserve_format", "channels_last",
                                      "channels_last_3d"};
  return names[std::clamp<int64_t>(format, 0, 3)];
}

}  // namespace

DType to_dtype(const ObservedTensor& observed) {
  return observed.plain ? torch_bindings::from_torch(observed.dtype) : DType::kOther;
}

bool takes_tensors(const c10::Argument& formal) {
  c10::TypePtr type = without_optional(formal.type());
  if (type->kind() == TypeKind::ListType) {
    type = without_optional(type->expectRef<c10::ListType>().getElementType());
  }
  return type->kind() == TypeKind::TensorType;
}

Attr to_attr(const c10::Argument& formal, const c10::IValue& value) {
  if (value.isNone()) return std::monostate{};
  if (value.isInt()) {
    switch (without_optional(formal.real_type())->kind()) {
      case TypeKind::ScalarTypeType:
        return torch_bindings::from_torch(static_cast<at::ScalarType>(value.toInt()));
      case TypeKind::MemoryFormatType:
        return format_name(value.toInt());
      case TypeKind::LayoutType:
        return value.toInt() == 0 ? "strided" : "sparse";
      case TypeKind::FloatType:
        return static_cast<double>(value.toInt());
      default:
        return Expr(value.toInt());
    }
  }
  if (value.isBool()) return value.toBool();
  if (value.isDouble()) return value.toDouble();
  if (value.isString()) return value.toStringRef();
  if (value.isDevice()) return value.toDevice().str();
  if (value.isIntList()) {
    std::vector<Expr> sizes;
    for (const int64_t size : value.toIntVector()) sizes.emplace_back(size);
    return sizes;
  }
  if (value.isDoubleList()) return value.toDoubleVector();
  if (value.isBoolList()) {
    const auto list = value.toBoolList();
    return std::vector<bool>(list.begin(), list.end());
  }
  if (value.isList() && value.toListRef().empty()) return std::vector<Expr>{};
  throw Error(ErrorKind::kUnsupported, "an argument of type " + value.tagKind());
}

Attr to_attr(const c10::Argument& formal, const std::vector<c10::IValue>& values, size_t fitted,
             Sizes& sizes) {
  std::vector<std::vector<Expr>> lists;
  const Attr first = to_attr(formal, values.at(0));
  for (size_t k = 0; k < values.size(); ++k) {
    const Attr attr = to_attr(formal, values[k]);
    if (const auto* one = std::get_if<Expr>(&attr)) lists.push_back({*one});
    if (const auto* list = std::get_if<std::vector<Expr>>(&attr)) lists.push_back(*list);
    if (attr.index() != first.index() || (lists.empty() && attr != first) ||
        (!lists.empty() && lists.back().size() != lists[0].size())) {
      if (k < fitted) throw Error(ErrorKind::kUnsupported, "an argument changes with the sizes");
      lists.resize(k);
      if (!lists.empty()) lists.push_back(lists[0]);
    }
  }
  if (lists.empty()) return first;
  std::vector<Expr> exprs;
  for (size_t i = 0; i < lists[0].size(); ++i) {
    Numbers numbers;
    for (const auto& list : lists) numbers.push_back(*list[i].constant());
    exprs.push_back(expr_of(sizes, numbers));
  }
  return std::holds_alternative<Expr>(first) ? Attr(exprs.at(0)) : Attr(exprs);
}

}  // namespace tv::script
