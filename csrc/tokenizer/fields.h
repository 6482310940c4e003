#pragma once
// Objects of a tokenizer file: members by name, with errors that say which is wrong.

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include "runtime/base/json.h"

namespace tv::tokenizer {

/// A view of one object. Every error is Error(kUser).
class Fields {
 public:
  /// `what` names the object in messages.
  Fields(const Json& json, std::string what);

  const std::string& what() const { return what_; }
  /// Null where the member is missing or null.
  const Json* find(std::string_view name) const;
  const Json& at(std::string_view name) const;
  const Json::Array& array(std::string_view name) const;
  const std::string& text(std::string_view name) const;
  /// A text of one character.
  char32_t character(std::string_view name) const;
  bool flag(std::string_view name, bool otherwise) const;
  int64_t whole(std::string_view name) const;

  /// Refuses members that are not `known`: they may change what the object means.
  void only(std::initializer_list<std::string_view> known) const;
  [[noreturn]] void refuse(const std::string& why) const;

 private:
  const Json::Object* object_ = nullptr;
  std::string what_;
};

/// Refuses a section of a file - a normalizer, pre_tokenizer, decoder or post_processor - whose
/// sequences have more than 256 steps together or lie more than 8 deep within each other: each of
/// them goes through all of a text. Throws Error(kUser).
void check_steps(const Json& section, const std::string& what);

}  // namespace tv::tokenizer
