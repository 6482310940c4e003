#include <gtest/gtest.h>

#include <cmath>

#include "runtime/base/env.h"
#include "runtime/base/error.h"
#include "runtime/base/json.h"
#include "runtime/vulkan/device_profile.h"

namespace tv {
namespace {

std::string message_of(const std::string& text) {
  try {
    DeviceProfile::from_json(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUser);
    return error.what();
  }
  return "";
}

DeviceProfile full() {
  DeviceProfile p = DeviceProfile::builtin_default();
  p.name = "A \"GPU\" \\ \n é";
  p.memory_bytes = 150000000000;
  p.coop_matrices = {{16, 16, 16, "float16", "float16", "float32", "float32"}};
  p.coop_matrix2 = true;
  p.compute_units = 132;
  p.vendor_id = 0xffffffff;
  return p;
}

/// The JSON of `full()` with one field replaced, or removed where `value` is null.
std::string with(const std::string& field, const Json& value) {
  Json json = Json::parse(full().to_json());
  auto& object = std::get<Json::Object>(json.value);
  if (value.is_null()) {
    object.erase(field);
  } else {
    object[field] = value;
  }
  return json.dump();
}

TEST(Profile, RoundTrip) {
  EXPECT_EQ(DeviceProfile::from_json(full().to_json()), full());
  const DeviceProfile& standard = DeviceProfile::builtin_default();
  EXPECT_EQ(DeviceProfile::from_json(standard.to_json()), standard);
}

TEST(Profile, EveryFieldIsNeeded) {
  const Json json = Json::parse(full().to_json());
  for (const auto& [field, value] : *json.get<Json::Object>()) {
    EXPECT_NE(message_of(with(field, {})).find("\"" + field + "\" is missing"), std::string::npos);
  }
}

TEST(Profile, WrongFieldsAreNamed) {
  EXPECT_NE(message_of(with("vendor_id", "x")).find("\"vendor_id\" is wrong; got string"),
            std::string::npos);
  EXPECT_NE(message_of(with("vendor_id", int64_t{1} << 32)).find("out of range"),
            std::string::npos);
  EXPECT_NE(message_of(with("memory_bytes", -1)).find("\"memory_bytes\""), std::string::npos);
  EXPECT_NE(message_of(with("float16", 1)).find("want true or false"), std::string::npos);
  EXPECT_NE(message_of(with("type", "toaster")).find("toaster"), std::string::npos);
  EXPECT_NE(message_of(with("max_grid", Json::Array{1, 2})).find("want 3"), std::string::npos);
  EXPECT_NE(message_of(with("max_grid", Json::Array{1, 2, "3"})).find("max_grid[2]"),
            std::string::npos);
  EXPECT_NE(
      message_of(with("coop_matrices", Json::Array{Json::Object{}})).find("coop_matrices[0].m"),
      std::string::npos);
  EXPECT_NE(message_of(with("subgroup_size", 24)).find("subgroup_size"), std::string::npos);
  EXPECT_NE(message_of(with("colour", "red")).find("\"colour\" is not known"), std::string::npos);
  EXPECT_NE(message_of("[1]").find("got array"), std::string::npos);
  EXPECT_NE(message_of("{\"name\": \"x\",").find("not valid JSON"), std::string::npos);
}

TEST(Profile, FingerprintsSeparateWhatMustMatchFromWhatMayDiffer) {
  const DeviceProfile base = full();
  DeviceProfile other_driver = base;
  other_driver.driver_version += 1;
  EXPECT_EQ(other_driver.runs_on(), base.runs_on());
  EXPECT_NE(other_driver.tuned_for(), base.tuned_for());

  DeviceProfile other_limit = base;
  other_limit.max_shared_bytes = 16384;
  EXPECT_NE(other_limit.runs_on(), base.runs_on());
  EXPECT_EQ(other_limit.tuned_for(), base.tuned_for());

  DeviceProfile other_matrices = base;
  other_matrices.coop_matrices.clear();
  EXPECT_NE(other_matrices.runs_on(), base.runs_on());

  DeviceProfile other_extension = base;
  other_extension.coop_matrix2 = false;
  EXPECT_NE(other_extension.runs_on(), base.runs_on());

  DeviceProfile fewer_units = base;  // code does not depend on them
  fewer_units.compute_units = 66;
  EXPECT_EQ(fewer_units.runs_on(), base.runs_on());

  DeviceProfile other_board = base;  // the same model in another slot
  other_board.uuid = std::string(32, 'f');
  EXPECT_EQ(other_board.runs_on(), base.runs_on());
  EXPECT_EQ(other_board.tuned_for(), base.tuned_for());
}

TEST(Profile, FingerprintsAreTextThatFilesHold) {
  const DeviceProfile& device = DeviceProfile::builtin_default();
  EXPECT_EQ(
      device.tuned_for(),
      R"({"api_version": 4206592, "device_id": 0, "driver_id": 0, "driver_info": "", )"
      R"("driver_name": "", "driver_version": 0, "name": "built-in default", "vendor_id": 0})");
  EXPECT_TRUE(device.runs_on().starts_with(R"({"coop_matrices": [], "coop_matrix2": false, )"))
      << device.runs_on();
}

TEST(Profile, MatrixShapesMatchInEveryPart) {
  const DeviceProfile p = full();
  EXPECT_TRUE(p.multiplies(16, 16, 16, "float16", "float32"));
  EXPECT_FALSE(p.multiplies(16, 16, 16, "float16", "float16"));
  EXPECT_FALSE(p.multiplies(16, 16, 16, "bfloat16", "float32"));
  EXPECT_FALSE(p.multiplies(16, 8, 16, "float16", "float32"));
  EXPECT_FALSE(DeviceProfile::builtin_default().multiplies(16, 16, 16, "float16", "float32"));
}

TEST(Json, RoundTrip) {
  const std::string text =
      R"({"a": [1, -2.5, 1e+300, true, false, null], "b": {"c": "\u0001\"\\é"}, "d": [], "e": {}})";
  const Json json = Json::parse(text);
  EXPECT_EQ(json.dump(), text);
  EXPECT_EQ(Json::parse(json.dump(true)), json);
  EXPECT_EQ(Json::parse("\"\\u00e9\\ud83d\\ude00\\n\""), Json("é😀\n"));
  EXPECT_EQ(Json::parse("9223372036854775807"), Json(std::numeric_limits<int64_t>::max()));
  EXPECT_EQ(Json::parse("9223372036854775808"), Json(9223372036854775808.0));
  EXPECT_EQ(Json::parse("[Infinity, -Infinity]").dump(), "[Infinity, -Infinity]");
  EXPECT_TRUE(std::isnan(*Json::parse("NaN").get<double>()));
  EXPECT_EQ(Json(1.0).dump(), "1.0");
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
                           "+1"}) {
    EXPECT_THROW(Json::parse(text), Error) << text;
  }
  EXPECT_THROW(Json::parse(std::string(100000, '[')), Error);
  EXPECT_NO_THROW(Json::parse(std::string(60, '[') + std::string(60, ']')));
  try {
    Json::parse("{\n\"a\": 1\n\"b\": 2}", "settings");
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("[settings] not valid JSON, line 3"),
              std::string::npos)
        << error.what();
  }
}

TEST(Env, OnlyListedVariablesAreRead) {
  EXPECT_THROW(env("PATH"), Error);
  EXPECT_NO_THROW(env("TORCH_VULKAN_LOG"));
}

}  // namespace
}  // namespace tv
