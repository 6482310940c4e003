// Einsum: operand by operand, as products of matrices.

#include <algorithm>

#include "csrc/frontends/onnx/kit/host_ops.h"

namespace tv::onnx {
namespace {

struct Term {
  Tensor x;
  std::string labels;  ///< one a dimension
};

Expr size_of(const Term& t, char label) { return t.x.shape[t.labels.find(label)]; }
bool has(const std::string& labels, char label) { return labels.find(label) != std::string::npos; }

constexpr int64_t kMostDots = 20;

// The labels of an ellipsis' dimensions are 1 to kMostDots, the last one being that of its last
// dimension in every operand.
bool is_dots(char label) { return label <= kMostDots; }
char dots_label(int64_t from_the_end) { return static_cast<char>(kMostDots + 1 - from_the_end); }

std::string labels_of(const std::string& text, int64_t rank) {
  std::string labels;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '.') {
      const bool is_letter =
          (text[i] >= 'a' && text[i] <= 'z') || (text[i] >= 'A' && text[i] <= 'Z');
      if (!is_letter) throw Error(ErrorKind::kUser, "a label that is no letter");
      labels += text[i];
      continue;
    }
    if (text.compare(i, 3, "...") != 0) throw Error(ErrorKind::kUser, "equation");
    const int64_t count = rank - static_cast<int64_t>(text.size() - 3);
    if (count < 0 || count > kMostDots) throw Error(ErrorKind::kUser, "equation of another rank");
    for (int64_t k = count; k > 0; --k) labels += dots_label(k);
    i += 2;
  }
  return labels;
}

// Takes the diagonal where a label stands twice.
Term without_repeats(Emitter& e, Term t) {
  for (size_t i = 0; i < t.labels.size(); ++i) {
    const size_t j = t.labels.find(t.labels[i], i + 1);
    if (j == std::string::npos) continue;
    const Expr size = e.same(t.x.shape[i], t.x.shape[j]);
    Shape shape = t.x.shape;
    shape.erase(shape.begin() + static_cast<long>(j));
    shape.erase(shape.begin() + static_cast<long>(i));
    shape.push_back(size);
    t.x = e.node("aten::diagonal",
                 {e.arg("self", t.x), attr_arg("offset", Expr(0)),
                  attr_arg("dim1", Expr(static_cast<int64_t>(i))),
                  attr_arg("dim2", Expr(static_cast<int64_t>(j)))},
                 t.x.dtype, shape);
    const char label = t.labels[i];
    t.labels.erase(j, 1);
    t.labels.erase(i, 1);
    t.labels += label;
    return without_repeats(e, std::move(t));
  }
  return t;
}

Term summed(Emitter& e, Term t, const std::string& kept) {
  std::vector<int64_t> gone;
  std::string labels;
  for (size_t i = 0; i < t.labels.size(); ++i) {
    if (has(kept, t.labels[i])) {
      labels += t.labels[i];
    } else {
      gone.push_back(static_cast<int64_t>(i));
    }
  }
  if (gone.empty()) return t;
  return {e.reduce("sum", t.x, gone, false), labels};
}

// Dimensions broadcast: without those of size 1 that are larger in the other
// operand.
Term without_ones(Emitter& e, const Term& t, const Term& other) {
  Term made{t.x, {}};
  Shape shape;
  for (size_t i = 0; i < t.labels.size(); ++i) {
    const char label = t.labels[i];
    const bool stretches =
        t.x.shape[i] == Expr(1) && has(other.labels, label) && size_of(other, label) != Expr(1);
    if (stretches) continue;
    made.labels += label;
    shape.push_back(t.x.shape[i]);
  }
  if (shape.size() != t.x.shape.size()) made.x = e.reshape(t.x, shape);
  return made;
}

Tensor ordered(Emitter& e, const Term& t, const std::string& order) {
  std::vector<int64_t> dims;
  for (char label : order) dims.push_back(static_cast<int64_t>(t.labels.find(label)));
  return e.permute(t.x, dims);
}

// Both as (batch, rows, inner) and (batch, inner, columns).
Term contracted(Emitter& e, const Term& a, const Term& b, const std::string& kept) {
  std::string batch, inner, rows, columns;
  for (char label : a.labels)
    (!has(b.labels, label) ? rows : has(kept, label) ? batch : inner) += label;
  for (char label : b.labels) {
    if (!has(a.labels, label)) columns += label;
  }
  Shape shape;
  const auto extent = [&](const Term& t, const std::string& labels) {
    Expr size = 1;
    for (char label : labels) size = size * size_of(t, label);
    return size;
  };
  for (char label : batch + inner) {
    e.keep_apart(size_of(a, label), size_of(b, label));
    e.same(size_of(a, label), size_of(b, label));
  }
  for (char label : batch + rows) shape.push_back(size_of(a, label));
  for (char label : columns) shape.push_back(size_of(b, label));
  const Tensor left = e.reshape(ordered(e, a, batch + rows + inner),
                                {extent(a, batch), extent(a, rows), extent(a, inner)});
  const Tensor right = e.reshape(ordered(e, b, batch + inner + columns),
                                 {extent(b, batch), extent(b, inner), extent(b, columns)});
  return {e.reshape(e.matmul(left, right), shape), batch + rows + columns};
}

void einsum(OpContext& c) {
  Emitter& e = c.e;
  std::string equation = c.s("equation", "");
  std::erase(equation, ' ');
  const size_t arrow = equation.find("->");
  std::vector<Term> terms;
  std::string all;  // each label as often as it is written
  size_t at = 0;
  const std::string left = equation.substr(0, arrow);
  for (size_t i = 0; i < c.count(); ++i) {
    const size_t end = std::min(left.find(',', at), left.size());
    if (at > left.size()) throw Error(ErrorKind::kUser, "fewer terms than operands");
    Term term{c.in(i), labels_of(left.substr(at, end - at), c.in(i).rank())};
    if (static_cast<int64_t>(term.labels.size()) != c.in(i).rank()) {
      throw Error(ErrorKind::kUser, "a term of another rank than its operand");
    }
    all += term.labels;
    terms.push_back(without_repeats(e, std::move(term)));
    at = end + 1;
  }
  if (at <= left.size() || terms.empty()) throw Error(ErrorKind::kUser, "more terms than operands");
  std::string result;
  if (arrow != std::string::npos) {
    int64_t widest = 0;
    for (char label : all) {
      if (is_dots(label)) widest = std::max<int64_t>(widest, kMostDots + 1 - label);
    }
    const std::string right = equation.substr(arrow + 2);
    const bool dots = has(right, '.');
    result = labels_of(right, dots ? static_cast<int64_t>(right.size()) - 3 + widest
                                   : static_cast<int64_t>(right.size()));
  } else {
    std::string sorted = all;
    std::sort(sorted.begin(), sorted.end());
    for (char label : sorted) {
      if (is_dots(label) ? !has(result, label) : std::count(all.begin(), all.end(), label) == 1) {
        result += label;
      }
    }
  }
  for (char label : result) {
    if (!has(all, label) || std::count(result.begin(), result.end(), label) > 1) {
      throw Error(ErrorKind::kUser, "a label of the result that no operand has, or twice");
    }
  }
  Term sum = terms[0];
  for (size_t i = 1; i < terms.size(); ++i) {
    std::string kept = result;
    for (size_t k = i + 1; k < terms.size(); ++k) kept += terms[k].labels;
    const Term a = summed(e, sum, kept + terms[i].labels);
    const Term b = summed(e, terms[i], kept + a.labels);
    sum = contracted(e, without_ones(e, a, b), without_ones(e, b, a), kept);
  }
  c.out(0, ordered(e, summed(e, sum, result), result));
}

const RegisterOnnx ops{{"Einsum", einsum}};

}  // namespace
}  // namespace tv::onnx
