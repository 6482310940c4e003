#pragma once
// The parameter block of one kernel while its text is written.

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "csrc/codegen/kernel.h"

namespace tv {

/// Collects the words that a kernel reads; in uint_word, equal expressions share a word.
class KernelWords {
 public:
  /// Text that reads `value` as uint.
  std::string uint_word(const Expr& value);
  std::string float_word(float value);
  /// As uint_word, but a word of its own: a text must not depend on which values happen to be
  /// equal.
  std::string own_word(const Expr& value) { return add("uint", value); }
  /// Text that reads `value` as a number, of glsl_type(dtype).
  std::string number(const Expr& value, DType dtype);
  /// Text of n / d for n < 2^31: by a multiplication where d is constant.
  std::string division(const std::string& n, const Expr& d);
  /// The number of the dispatch, in the last word: lowering fills it in.
  std::string dispatch_word() { return add("uint", Expr(0)); }
  /// The table that tv_uniform reads.
  void add_uniform_table();

  /// Members of the block, one declaration a line.
  const std::string& members() const { return members_; }
  const std::vector<ParamWord>& words() const { return words_; }

 private:
  std::string add(const char* type, ParamWord value);
  std::string members_;
  std::vector<ParamWord> words_;
  std::map<std::string, std::string> known_;  // expression → text
};

}  // namespace tv
