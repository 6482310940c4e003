// Rules as text: TypeRule in types.h.

#include <algorithm>
#include <cctype>
#include <map>
#include <memory>
#include <mutex>

#include "csrc/types/types.h"
#include "runtime/base/error.h"

namespace tv {
namespace {

struct Part {
  std::string name;  ///< "": any
  bool run = false;
  size_t least = 0, most = 64;  ///< of a run
};

struct Tensor {
  std::string arg;  ///< "": a result
  char dtype = 0;
  bool spreads = false;
  std::vector<Part> parts = {};
};

struct Alternative {
  std::vector<Tensor> operands, results;
};

/// Reads the text of a rule, which is the project's own.
class PatternReader {
 public:
  explicit PatternReader(const std::string& text) : text_(text) {}

  std::vector<Alternative> run() {
    std::vector<Alternative> made;
    do {
      Alternative one;
      skip();
      while (!take("->")) {
        one.operands.push_back(tensor(word()));
        take(",");
      }
      do {
        one.results.push_back(tensor(""));
      } while (take(","));
      made.push_back(std::move(one));
    } while (take("|"));
    if (at_ != text_.size()) fail();
    return made;
  }

 private:
  [[noreturn]] void fail() const {
    throw Error(ErrorKind::kInternal, "[types] cannot read " + text_);
  }

  void skip() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }

  bool take(std::string_view token) {
    skip();
    if (text_.compare(at_, token.size(), token) != 0) return false;
    at_ += token.size();
    skip();
    return true;
  }

  std::string word() {
    const size_t start = at_;
    while (at_ < text_.size() && (std::isalnum(text_[at_]) != 0 || text_[at_] == '_')) ++at_;
    if (at_ == start) fail();
    std::string made = text_.substr(start, at_ - start);
    skip();
    return made;
  }

  Tensor tensor(std::string arg) {
    Tensor made{.arg = std::move(arg)};
    made.spreads = take("~");
    if (!take("[")) {
      made.dtype = text_.at(at_++);
      if (!take("[")) fail();
    }
    while (!take("]")) made.parts.push_back(part());
    return made;
  }

  Part part() {
    if (take(".")) return {};
    Part made;
    made.run = text_.at(at_) == '*';
    if (made.run) ++at_;
    const char next = text_.at(at_);
    if (std::isalnum(next) != 0) {
      made.name = word();
    } else {
      skip();
    }
    if (take("{")) {
      made.least = std::stoul(word());
      made.most = take(",") ? std::stoul(word()) : made.least;
      if (!take("}")) fail();
    }
    return made;
  }

  const std::string& text_;
  size_t at_ = 0;
};

/// Read once, on first use.
class Pattern {
 public:
  explicit Pattern(std::string text) : text_(std::move(text)) {}

  const std::vector<Alternative>& alternatives() {
    std::call_once(read_, [&] { alternatives_ = PatternReader(text_).run(); });
    return alternatives_;
  }

 private:
  const std::string text_;
  std::once_flag read_;
  std::vector<Alternative> alternatives_;
};

bool is_of_floats(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16 ||
         dtype == DType::kF64;
}

bool is_of_kind(DType dtype, char kind) {
  switch (kind) {
    case 'f':
      return is_of_floats(dtype);
    case 'b':
      return dtype == DType::kBool;
    default:
      return !is_of_floats(dtype) && dtype != DType::kBool;
  }
}

/// One alternative against one node.
class PatternMatch {
 public:
  PatternMatch(NodeTypes& types, const Alternative& rule) : t_(types), rule_(rule) {}

  void run() {
    for (const Tensor& tensor : rule_.operands) {
      for (const ValueId v : t_.node().inputs(tensor.arg)) {
        if (v == kNoValue) continue;
        match(tensor, t_.shape_of(v, t_.is_complex(tensor.arg)), t_.graph().value(v).dtype,
              "argument '" + tensor.arg + "'");
      }
    }
    for (size_t i = 0; i < rule_.results.size(); ++i) {
      if (!t_.has_result(i)) continue;
      const std::string which = t_.results() > 1 ? "result " + std::to_string(i) : "the result";
      match(rule_.results[i], t_.result(i), t_.result_dtype(i), which);
    }
  }

 private:
  void match(const Tensor& tensor, const Shape& shape, DType dtype, const std::string& what) {
    if (tensor.dtype != 0) match_dtype(tensor.dtype, dtype, what);
    if (tensor.spreads) return t_.spreads(shape, bound_shape(tensor), what);
    size_t fixed = 0, open = 0;
    const Part* rest = nullptr;
    for (const Part& part : tensor.parts) {
      if (!part.run) {
        ++fixed;
      } else if (const auto known = runs_.find(part.name); known != runs_.end()) {
        fixed += known->second.size();
      } else {
        rest = &part;
        ++open;
      }
    }
    if (open > 1) throw Error(ErrorKind::kInternal, "[types] two open runs");
    const size_t left = shape.size() - std::min(fixed, shape.size());
    const bool fits = shape.size() >= fixed &&
                      (rest == nullptr ? left == 0 : left >= rest->least && left <= rest->most);
    t_.want(fits, what + " is of rank " + std::to_string(shape.size()));
    size_t at = 0;
    for (const Part& part : tensor.parts) {
      if (!part.run) {
        match_size(part, shape[at++], what);
      } else {
        at = match_run(part, shape, at, left, what);
      }
    }
  }

  void match_dtype(char wanted, DType dtype, const std::string& what) {
    if (std::isupper(wanted) == 0) {
      return t_.want(is_of_kind(dtype, wanted), what + " is " + std::string(name(dtype)));
    }
    const auto [known, fresh] = dtypes_.emplace(wanted, dtype);
    t_.want(fresh || known->second == dtype, what + " is " + std::string(name(dtype)) + ", want " +
                                                 std::string(name(known->second)));
  }

  void match_size(const Part& part, const Expr& size, const std::string& what) {
    if (part.name.empty()) return;
    if (std::isdigit(part.name[0]) != 0) {
      return t_.equal(size, Expr(int64_t{std::stoll(part.name)}), "a size of " + what);
    }
    const auto [known, fresh] = sizes_.emplace(part.name, size);
    if (!fresh) t_.equal(size, known->second, "a size of " + what);
  }

  size_t match_run(const Part& part, const Shape& shape, size_t at, size_t left,
                   const std::string& what) {
    const auto known = runs_.find(part.name);
    if (known == runs_.end()) {
      const auto start = shape.begin() + static_cast<std::ptrdiff_t>(at);
      if (!part.name.empty()) {
        runs_.emplace(part.name, Shape(start, start + static_cast<std::ptrdiff_t>(left)));
      }
      return at + left;
    }
    for (const Expr& size : known->second) t_.equal(shape[at++], size, "a size of " + what);
    return at;
  }

  Shape bound_shape(const Tensor& tensor) const {
    Shape made;
    for (const Part& part : tensor.parts) {
      if (part.run) {
        const Shape& run = runs_.at(part.name);
        made.insert(made.end(), run.begin(), run.end());
      } else {
        made.push_back(sizes_.at(part.name));
      }
    }
    return made;
  }

  NodeTypes& t_;
  const Alternative& rule_;
  std::map<std::string, Expr> sizes_;
  std::map<std::string, Shape> runs_;
  std::map<char, DType> dtypes_;
};

}  // namespace

TypeRule::TypeRule(std::string text)
    : rule_([pattern = std::make_shared<Pattern>(std::move(text))](NodeTypes& types) {
        const std::vector<Alternative>& rules = pattern->alternatives();
        for (size_t i = 0; i + 1 < rules.size(); ++i) {
          std::vector<Condition> demands;
          try {
            NodeTypes trial(types.graph(), types.node(), demands);
            PatternMatch(trial, rules[i]).run();
          } catch (const Error&) {
            continue;
          }
          return PatternMatch(types, rules[i]).run();
        }
        PatternMatch(types, rules.back()).run();
      }) {}

}  // namespace tv
