#include "csrc/frontends/graph_file/fields.h"

#include <algorithm>

#include "csrc/frontends/graph_file/graph_text.h"
#include "runtime/base/error.h"

namespace tv::graph_file {
namespace {

constexpr size_t kMostQuoted = 80;

[[noreturn]] void wrong(const Json& json, const std::string& where, const char* want) {
  fail(where, std::string("got ") + json.type_name() + ", want " + want);
}

}  // namespace

void fail(const std::string& where, const std::string& what) {
  throw Error(ErrorKind::kUser, "[graph file] " + where + ": " + what);
}

std::string quoted(std::string_view text) {
  std::string shown = "'";
  for (const char c : text.substr(0, kMostQuoted)) {
    shown += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
  }
  return shown + (text.size() > kMostQuoted ? "…'" : "'");
}

std::string text_of(const Json& json, const std::string& where, size_t most) {
  const auto* text = json.get<std::string>();
  if (!text) wrong(json, where, "a string");
  if (text->size() > most) {
    fail(where,
         "has " + std::to_string(text->size()) + " bytes, want at most " + std::to_string(most));
  }
  const bool plain =
      std::ranges::none_of(*text, [](unsigned char c) { return c < 0x20 || c == 0x7f; });
  if (!plain) fail(where, "has a control character");
  return *text;
}

int64_t integer_of(const Json& json, const std::string& where) {
  const auto* number = json.get<int64_t>();
  if (!number) wrong(json, where, "an integer");
  return *number;
}

bool bool_of(const Json& json, const std::string& where) {
  const auto* flag = json.get<bool>();
  if (!flag) wrong(json, where, "true or false");
  return *flag;
}

const Json::Array& array_of(const Json& json, const std::string& where, size_t most) {
  const auto* array = json.get<Json::Array>();
  if (!array) wrong(json, where, "an array");
  if (array->size() > most) {
    fail(where,
         "has " + std::to_string(array->size()) + " items, want at most " + std::to_string(most));
  }
  return *array;
}

Fields::Fields(const Json& json, std::string where)
    : object_(json.get<Json::Object>()), where_(std::move(where)) {
  if (!object_) wrong(json, where_, "an object");
}

const Json* Fields::find(const char* key) {
  const auto found = object_->find(key);
  if (found == object_->end()) return nullptr;
  asked_.insert(found->first);
  return &found->second;
}

const Json& Fields::at(const char* key) {
  const Json* json = find(key);
  if (!json) fail(where_, std::string("has no '") + key + "'");
  return *json;
}

std::string Fields::text(const char* key, size_t most) { return text_of(at(key), of(key), most); }

std::string Fields::optional_text(const char* key, size_t most) {
  const Json* json = find(key);
  return json ? text_of(*json, of(key), most) : "";
}

void Fields::done() const {
  for (const auto& [key, value] : *object_) {
    if (!asked_.contains(key)) fail(where_, "has an unknown field " + quoted(key));
  }
}

}  // namespace tv::graph_file
