// Of JSON: what is read, what is refused, and how it is written.

#include <gtest/gtest.h>

#include <limits>

#include "runtime/base/error.h"
#include "runtime/base/json.h"

namespace tv {
namespace {

TEST(Json, TextOfAValue) {
  const std::string line =
      R"({"a": [1, -2.5, 1e+300, true, false, null], "b": {"c": "\u0001\"\\\n,é"}, "d": [], "e": {}})";
  const Json json = parse_json(line);
  EXPECT_EQ(json_line(json), line);
  EXPECT_EQ(parse_json(json_text(json)), json);
  EXPECT_EQ(json_text(parse_json(R"({"b": [1], "a": {}})")), R"({
  "a": {},
  "b": [
    1
  ]
})");
  EXPECT_EQ(parse_json("\"\\u00e9\\ud83d\\ude00\\n\""), Json("é😀\n"));
  EXPECT_EQ(json_line(Json("a\xff")), "\"a\xef\xbf\xbd\"");  // U+FFFD
}

TEST(Json, Strict) {
  for (const char* text : {"",
                           " ",
                           "{",
                           "[",
                           "[1",
                           "[1,",
                           "[1,]",
                           "{\"a\"}",
                           "{\"a\":}",
                           "{a:1}",
                           "{\"a\":1,}",
                           "tru",
                           "01",
                           "1.",
                           ".5",
                           "-",
                           "1e",
                           "\"",
                           "\"\\x\"",
                           "\"\\u12\"",
                           "\"\\ud800\"",
                           "\"\\udc00\"",
                           "\"\t\"",
                           "1 2",
                           "{\"a\":1,\"a\":2}",
                           "'a'",
                           "\"\\",
                           "1e999",
                           "+1",
                           "NaN",
                           "[Infinity]",
                           "-Infinity",
                           "\"\xff\"",
                           "// a\n1"}) {
    EXPECT_THROW(parse_json(text), Error) << text;
  }
  try {
    parse_json("{\n\"a\": 1\n\"b\": 2}", "settings");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUser);
    EXPECT_NE(std::string(error.what()).find("[settings] not valid JSON, line 3: "),
              std::string::npos)
        << error.what();
  }
}

std::string refusal(const std::string& text) {
  try {
    parse_json(text, "file");
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Json, NestingIsLimited) {
  const auto nested = [](size_t depth, const std::string& open, const std::string& close) {
    std::string text;
    for (size_t i = 0; i < depth; ++i) text += open;
    text += "1";
    for (size_t i = 0; i < depth; ++i) text += close;
    return text;
  };
  for (const auto& [open, close] : {std::pair{"[", "]"}, std::pair{"{\"a\":", "}"}}) {
    EXPECT_EQ(refusal(nested(64, open, close)), "");
    for (const size_t depth : {65, 1000000}) {
      EXPECT_EQ(refusal(nested(depth, open, close)), "[file] not valid JSON: nested too deeply");
    }
    EXPECT_EQ(refusal(nested(1000000, open, "")), "[file] not valid JSON: nested too deeply");
  }
}

TEST(Json, MessagesSayWhatAndNotTheText) {
  EXPECT_EQ(refusal(R"({"a": {"b": 1, "b": 2}})"), "[file] not valid JSON: \"b\" occurs twice");
  EXPECT_EQ(refusal("[1,\n1e999]"), "[file] not valid JSON, line 2: a number is out of range");
  for (const std::string& garbage :
       {"\"" + std::string(1 << 20, 'x') + "\x01\"", "[1, " + std::string(1 << 20, 'y')}) {
    EXPECT_LT(refusal(garbage).size(), 200u);
    EXPECT_NE(refusal(garbage).find("line 1: "), std::string::npos);
  }
}

TEST(Json, NumbersKeepWhatTheyAre) {
  EXPECT_EQ(*json_as<int64_t>(parse_json("9223372036854775807")),
            std::numeric_limits<int64_t>::max());
  EXPECT_EQ(*json_as<int64_t>(parse_json("-9223372036854775808")),
            std::numeric_limits<int64_t>::min());
  EXPECT_EQ(json_as<int64_t>(parse_json("9223372036854775808")), nullptr);
  EXPECT_EQ(*json_as<double>(parse_json("9223372036854775808")), 9223372036854775808.0);
  EXPECT_EQ(json_as<int64_t>(parse_json("1.0")), nullptr);
  EXPECT_EQ(json_line(parse_json("[1, 1.0, 0.1, -0.0]")), "[1, 1.0, 0.1, -0.0]");
}

TEST(Json, FieldsOfWhatIsNoObject) {
  for (const char* text : {"[]", "\"a\"", "1", "null", "{\"b\": 1}"}) {
    EXPECT_EQ(json_field(parse_json(text), "a"), nullptr) << text;
  }
  EXPECT_EQ(*json_field(parse_json("{\"a\": null}"), "a"), Json());
}

}  // namespace
}  // namespace tv
