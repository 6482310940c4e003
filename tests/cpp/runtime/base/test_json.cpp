// Of JSON: what is read, what is refused, and how it is written.

#include <gtest/gtest.h>

#include <limits>

#include "runtime/base/error.h"
#include "runtime/base/json.h"

namespace tv {
namespace {

std::string refusal(std::string_view text) {
  try {
    Json::parse(text, "file");
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUser);
    return error.what();
  }
  return "";
}

std::string nested(size_t depth, const std::string& open, const std::string& close) {
  std::string text;
  for (size_t i = 0; i < depth; ++i) text += open;
  text += "1";
  for (size_t i = 0; i < depth; ++i) text += close;
  return text;
}

TEST(Json, RoundTrip) {
  const std::string text =
      R"({"a": [1, -2.5, 1e+300, true, false, null], "b": {"c": "\u0001\"\\\né"}, "d": [], "e": {}})";
  const Json json = Json::parse(text);
  EXPECT_EQ(json.dump(), text);
  EXPECT_EQ(Json::parse(json.dump(true)), json);
  EXPECT_EQ(Json::parse(R"({"b": [1], "a": {}})").dump(true), R"({
  "a": {},
  "b": [
    1
  ]
})");
  EXPECT_EQ(Json::parse("\"\\u00e9\\ud83d\\ude00\\n\\u0000\""), Json(std::string("é😀\n\0", 8)));
}

TEST(Json, WhatIsWrittenCanBeRead) {
  EXPECT_EQ(Json("a\xff").dump(), "\"a\xef\xbf\xbd\"");  // U+FFFD
  EXPECT_EQ(Json(Json::Object{{"\xff", 1}}).dump(), "{\"\xef\xbf\xbd\": 1}");
  EXPECT_EQ(Json(std::numeric_limits<double>::quiet_NaN()).dump(), "null");
  EXPECT_EQ(Json(std::numeric_limits<double>::infinity()).dump(), "null");
}

TEST(Json, Strict) {
  using namespace std::string_view_literals;
  for (const std::string_view text : {""sv,         " "sv,          "{"sv,
                                      "["sv,        "[1"sv,         "[1,"sv,
                                      "[1,]"sv,     "{\"a\"}"sv,    "{\"a\":}"sv,
                                      "{a:1}"sv,    "tru"sv,        "{\"a\":1,}"sv,
                                      "01"sv,       "1."sv,         ".5"sv,
                                      "-"sv,        "1e"sv,         "\""sv,
                                      "\"\\x\""sv,  "\"\\u12\""sv,  "\"\\ud800\""sv,
                                      "\"\t\""sv,   "1 2"sv,        "\"\\udc00\""sv,
                                      "'a'"sv,      "\"\\"sv,       "1e999"sv,
                                      "-1e999"sv,   "1e-999"sv,     "+1"sv,
                                      "NaN"sv,      "[Infinity]"sv, "-Infinity"sv,
                                      "\"\xff\""sv, "1\0"sv,        "[1]\0{"sv,
                                      "[1\0]"sv,    "\"\0\""sv,     "\0"sv,
                                      "// a\n1"sv,  "{} {}"sv,      "{\"a\":1,\"a\":2}"sv}) {
    EXPECT_NE(refusal(text), "") << text;
  }
}

TEST(Json, NestingIsLimited) {
  for (const auto& [open, close] : {std::pair{"[", "]"}, std::pair{"{\"a\":", "}"}}) {
    EXPECT_EQ(refusal(nested(64, open, close)), "");
    for (const size_t depth : {65, 1000000}) {
      EXPECT_EQ(refusal(nested(depth, open, close)),
                "[file] not valid JSON, line 1: nested too deeply");
    }
    EXPECT_EQ(refusal(nested(1000000, open, "")),
              "[file] not valid JSON, line 1: nested too deeply");
  }
}

TEST(Json, MessagesSayWhereAndWhat) {
  for (const auto& [text, want] :
       {std::pair{"{\"a\": {\n\"b\": 1,\n\"b\": 2}\n}", "line 3: \"b\" occurs twice"},
        {"[1,\n1e999\n]", "line 2: a number is out of range"},
        {"[1,\n1e-999\n]", "line 2: a number is out of range"},
        {"\n\n1\n2",
         "line 4: syntax error while parsing value - unexpected number literal; "
         "expected end of input"},
        {"{\n\"a\": 1\n\"b\": 2}",
         "line 3: syntax error while parsing object - unexpected string literal; expected '}'"},
        {"[1,\n",
         "line 1: syntax error while parsing value - unexpected end of input; expected "
         "'[', '{', or a literal"}}) {
    EXPECT_EQ(refusal(text), std::string("[file] not valid JSON, ") + want);
  }
}

TEST(Json, MessagesDoNotRepeatTheText) {
  for (const std::string& garbage :
       {"\"" + std::string(1 << 20, 'x') + "\x01\"", "[1, " + std::string(1 << 20, 'y')}) {
    EXPECT_LT(refusal(garbage).size(), 200u);
    EXPECT_NE(refusal(garbage).find("line 1: "), std::string::npos);
  }
}

TEST(Json, NumbersKeepWhatTheyAre) {
  EXPECT_EQ(Json::parse("9223372036854775807"), Json(std::numeric_limits<int64_t>::max()));
  EXPECT_EQ(Json::parse("-9223372036854775808"), Json(std::numeric_limits<int64_t>::min()));
  EXPECT_EQ(Json::parse("9223372036854775808"), Json(9223372036854775808.0));
  EXPECT_EQ(Json::parse("18446744073709551616"), Json(18446744073709551616.0));
  EXPECT_EQ(Json::parse("-9223372036854775809"), Json(-9223372036854775808.0));
  EXPECT_EQ(Json::parse("1e-310"), Json(1e-310));
  EXPECT_EQ(Json::parse("0e-999"), Json(0.0));
  EXPECT_EQ(Json::parse("1.0").get<int64_t>(), nullptr);
  EXPECT_EQ(Json::parse("[1, 1.0, 0.1, -0.0]").dump(), "[1, 1.0, 0.1, -0.0]");
}

}  // namespace
}  // namespace tv
