#pragma once
// JSON of any origin, read field by field: what is missing, of another kind, too long or unknown is
// an Error(kUser) that says where it stands.

#include <set>
#include <string>
#include <string_view>

#include "runtime/base/json.h"

namespace tv::graph_file {

/// Part of a text of any origin, in quotes, for messages.
std::string quoted(std::string_view text);

/// A text of at most `most` bytes without control characters.
std::string text_of(const Json& json, const std::string& where, size_t most);
int64_t integer_of(const Json& json, const std::string& where);
bool bool_of(const Json& json, const std::string& where);
const Json::Array& array_of(const Json& json, const std::string& where, size_t most);

/// An object, whose fields are asked for by name.
class Fields {
 public:
  Fields(const Json& json, std::string where);

  const std::string& where() const { return where_; }
  void set_where(std::string where) { where_ = std::move(where); }
  const Json* find(const char* key);  ///< null where it is absent
  const Json& at(const char* key);
  std::string text(const char* key, size_t most);           ///< must be there
  std::string optional_text(const char* key, size_t most);  ///< "" where it is absent
  /// Behind the last one: nobody asked for what is left.
  void done() const;

 private:
  std::string of(const char* key) const { return where_ + ": '" + key + "'"; }

  const Json::Object* object_ = nullptr;
  std::string where_;
  std::set<std::string_view> asked_;
};

}  // namespace tv::graph_file
