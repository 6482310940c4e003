#include "runtime/base/json.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "runtime/base/error.h"

namespace tv {
namespace {

constexpr size_t kMaxDepth = 64;

/// Puts together the value that nlohmann's parser reads, which has no limits of its own.
class Reader : public nlohmann::json_sax<Json> {
 public:
  Reader(std::string_view text, std::string_view what) : text_(text), what_(what) {}

  Json take() { return std::move(document_); }

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(int64_t value) override { return add(value); }
  bool number_unsigned(uint64_t value) override {
    const bool fits = value <= std::numeric_limits<int64_t>::max();
    return add(fits ? Json(static_cast<int64_t>(value)) : Json(static_cast<double>(value)));
  }
  bool number_float(double value, const std::string&) override { return add(value); }
  bool string(std::string& value) override { return add(std::move(value)); }
  bool binary(Json::binary_t&) override { return false; }  // no JSON text has one

  bool start_object(size_t) override { return open(Json::object()); }
  bool start_array(size_t) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(std::string& name) override {
    if (open_.back()->contains(name)) error_ = "\"" + name + "\" occurs twice";
    key_ = std::move(name);
    return error_.empty();
  }

  bool parse_error(size_t at, const std::string&, const nlohmann::detail::exception& e) override {
    position_ = text_.substr(0, at).size();
    std::string why = e.what();  // "[json.exception…] parse error at line 3, column 1: …"
    why = why.substr(0, why.find("; last read: '"));
    const size_t colon = why.find(": ");
    error_ = e.id == 406 ? "a number is out of range" : why.substr(colon + 2);
    return false;
  }

  [[noreturn]] void fail() const {
    std::string line;
    if (position_) {
      line = ", line " + std::to_string(1 + std::ranges::count(text_.substr(0, *position_), '\n'));
    }
    throw Error(ErrorKind::kUser,
                "[" + std::string(what_) + "] not valid JSON" + line + ": " + error_);
  }

 private:
  Json* put(Json value) {
    if (open_.empty()) return &(document_ = std::move(value));
    Json& parent = *open_.back();
    if (parent.is_object()) return &(parent[key_] = std::move(value));
    return &parent.emplace_back(std::move(value));
  }

  bool add(Json value) { return put(std::move(value)) != nullptr; }

  bool open(Json container) {
    if (open_.size() == kMaxDepth) error_ = "nested too deeply";
    if (error_.empty()) open_.push_back(put(std::move(container)));
    return error_.empty();
  }

  bool close() {
    open_.pop_back();
    return true;
  }

  std::string_view text_, what_;
  Json document_;
  std::vector<Json*> open_;  ///< the arrays and objects that the text is in
  std::string key_, error_;
  std::optional<size_t> position_;
};

}  // namespace

Json parse_json(std::string_view text, std::string_view what) {
  Reader reader(text, what);
  if (!Json::sax_parse(text.begin(), text.end(), &reader)) reader.fail();
  return reader.take();
}

std::string json_line(const Json& json) {
  std::string line;
  for (const char c : json_text(json, 0)) {  // has no line breaks but between items
    if (c != '\n') {
      line += c;
    } else if (line.back() == ',') {
      line += ' ';
    }
  }
  return line;
}

}  // namespace tv
