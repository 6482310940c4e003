#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include "runtime/base/error.h"
#include "runtime/base/sha256.h"
#include "runtime/engine/engine.h"
#include "runtime/spec/vke.h"
#include "runtime/spec/vke_parts.h"
#include "tests/cpp/kit/sample_engine.h"

namespace tv {
namespace {

using test::sample_engine;
using Bytes = std::vector<uint8_t>;

struct Weights {
  std::vector<float> w = std::vector<float>(64, 1.5f);
  std::vector<int64_t> b = {1, -2, 3};
  std::vector<HostTensor> tensors() { return {{w.data(), 256}, {b.data(), 24}}; }
};

void sign(Bytes& bytes) {  // makes the digest right again
  const auto digest = Sha256().update(std::span(bytes).first(bytes.size() - 32)).finish();
  std::copy(digest.begin(), digest.end(), bytes.end() - 32);
}

std::string message_of(std::span<const uint8_t> bytes) {
  try {
    from_vke(bytes);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUser);
    return error.what();
  }
  return "";
}

TEST(Vke, RoundTripWithoutWeights) {
  const VkeContents contents = from_vke(to_vke(sample_engine()));
  EXPECT_EQ(contents.spec, sample_engine());
  EXPECT_TRUE(contents.weights.empty());
}

TEST(Vke, RoundTripWithWeights) {
  Weights weights;
  const Bytes bytes = to_vke(sample_engine(), weights.tensors());
  const VkeContents contents = from_vke(bytes);
  EXPECT_EQ(contents.spec, sample_engine());
  ASSERT_EQ(contents.weights.size(), 2u);
  EXPECT_EQ(std::memcmp(contents.weights[0].data(), weights.w.data(), 256), 0);
  EXPECT_EQ(std::memcmp(contents.weights[1].data(), weights.b.data(), 24), 0);
  // Sections begin at multiples of 4 KiB of the file, so that they can be mapped.
  const auto at = std::search(bytes.begin(), bytes.end(), contents.weights[1].begin(),
                              contents.weights[1].end());
  EXPECT_EQ((at - bytes.begin()) % 4096, 0);
}

TEST(Vke, PartsOfSeveralProfiles) {
  const std::vector<uint8_t> one = to_vke(sample_engine());
  std::vector<uint8_t> file = one;
  EXPECT_EQ(split_vke(file).size(), 1u);
  file.insert(file.end(), one.begin(), one.end());
  for (const auto part : split_vke(file)) EXPECT_EQ(from_vke(part).spec, sample_engine());
  try {
    from_vke(file);
    FAIL() << "the whole is no engine";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("holds 2 engines, one for each shape profile"),
              std::string::npos)
        << error.what();
  }
  EXPECT_EQ(split_vke(file).size(), 2u);
  file.push_back(0);
  const auto parts = split_vke(file);
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_EQ(from_vke(parts[0]).spec, sample_engine());
  EXPECT_THROW(from_vke(parts[1]), Error);
  ASSERT_EQ(split_vke({}).size(), 1u);
  EXPECT_THROW(from_vke(split_vke({})[0]), Error);
}

TEST(Vke, DeterministicBytes) { EXPECT_EQ(to_vke(sample_engine()), to_vke(sample_engine())); }

TEST(Vke, ADigestTellsEnginesApartButNotTheirNames) {
  const std::string digest = digest_without_names(sample_engine());
  EngineSpec renamed = sample_engine();
  renamed.name = "other";
  renamed.builder_version = "other";
  renamed.inputs.front().name = "other";
  renamed.buffers.front().name = "other";
  renamed.dispatches.front().name = "other";
  renamed.dispatches.front().source = "other.py:1";
  EXPECT_EQ(digest_without_names(renamed), digest);
  EngineSpec changed = sample_engine();
  changed.modules.front().back() ^= 1;
  EXPECT_NE(digest_without_names(changed), digest);
}

TEST(Vke, LargeConstantsAndEqualExpressions) {
  EngineSpec spec = sample_engine();
  spec.symbols[0].max = kUnbounded;
  const int64_t extremes[] = {0,
                              -1,
                              kUnbounded,
                              -kUnbounded,
                              -kUnbounded - 1,
                              int64_t{1} << 60,
                              int64_t{1} << 61,
                              int64_t{1} << 62,
                              -(int64_t{1} << 61)};
  for (const int64_t value : extremes) spec.dispatches[0].words.push_back(Expr(value));
  const Expr n = Expr::symbol(0);
  spec.dispatches[0].words.push_back(floordiv(mod(n * n + 3, n + 1), max(n, 5)) * min(n, 9) - 7);
  for (const int64_t value : extremes)
    spec.dispatches[0].words.push_back(NumberWord{value, DType::kI64, value % 2 != 0});
  spec.dispatches[0].words.push_back(NumberWord{n * n, DType::kF32});
  EXPECT_EQ(from_vke(to_vke(spec)).spec, spec);
}

TEST(Vke, EveryTruncationIsAnError) {
  Weights weights;
  for (const Bytes& bytes : {to_vke(sample_engine()), to_vke(sample_engine(), weights.tensors())}) {
    const size_t step = bytes.size() > 4096 ? 7 : 1;
    for (size_t size = 0; size < bytes.size(); size += step)
      ASSERT_NE(message_of(std::span(bytes).first(size)), "") << size;
  }
}

TEST(Vke, EveryFlippedByteIsAnError) {
  Bytes bytes = to_vke(sample_engine());
  for (size_t i = 0; i < bytes.size(); ++i) {
    for (const uint8_t flip : {0x01, 0x80, 0xff}) {
      bytes[i] ^= flip;
      ASSERT_NE(message_of(bytes), "") << i;
      bytes[i] ^= flip;
    }
  }
}

TEST(Vke, ExtraBytesAreAnError) {
  Bytes bytes = to_vke(sample_engine());
  bytes.push_back(0);
  EXPECT_NE(message_of(bytes).find("altered"), std::string::npos);
}

// Whoever alters a file can also make its digest right: then every byte reaches the parser.
TEST(Vke, EveryByteAlteredWithItsDigestMadeRight) {
  Weights weights;
  for (const Bytes& whole : {to_vke(sample_engine()), to_vke(sample_engine(), weights.tensors())}) {
    const size_t interesting = std::min(whole.size() - 32, size_t{1500});
    for (size_t i = 0; i < interesting; ++i) {
      for (const uint8_t value : {0x00, 0x01, 0x7f, 0x80, 0xff}) {
        Bytes bytes = whole;
        bytes[i] = value;
        sign(bytes);
        try {
          const VkeContents contents = from_vke(bytes);
          validate(contents.spec);  // whatever is accepted is a valid engine
        } catch (const Error& error) {
          ASSERT_EQ(error.kind(), ErrorKind::kUser) << error.what();
        }
      }
    }
  }
}

TEST(Vke, RandomDamageWithItsDigestMadeRight) {
  std::mt19937 random(0);
  const Bytes whole = to_vke(sample_engine());
  const size_t body = whole.size() - 32;
  for (int round = 0; round < 4000; ++round) {
    Bytes bytes = whole;
    switch (random() % 3) {
      case 0:  // several bytes
        for (int i = 0; i < 8; ++i) bytes[random() % body] = static_cast<uint8_t>(random());
        break;
      case 1: {  // a run copied elsewhere
        const size_t size = 1 + random() % 40;
        std::memmove(&bytes[random() % (body - size)], &bytes[random() % (body - size)], size);
        break;
      }
      default:  // a 64-bit number
        const uint64_t number = random() % 2 ? ~uint64_t{0} >> random() % 64 : random();
        std::memcpy(&bytes[random() % (body - 8)], &number, 8);
    }
    sign(bytes);
    try {
      validate(from_vke(bytes).spec);
    } catch (const Error& error) {
      ASSERT_EQ(error.kind(), ErrorKind::kUser) << error.what();
    }
  }
}

TEST(Vke, AnotherFormatSaysWhatToDo) {
  Bytes bytes = to_vke(sample_engine());
  bytes[8] = 3;
  sign(bytes);
  EXPECT_NE(message_of(bytes).find("upgrade torch_vulkan"), std::string::npos);
  bytes[8] = 1;  // without conditions: sizes that break one would give wrong results
  sign(bytes);
  EXPECT_NE(
      message_of(bytes).find("version 1, this torch_vulkan reads version 2: build the engine"),
      std::string::npos);
}

TEST(Vke, OtherFilesAreNamedSo) {
  const std::string text = "PK\x03\x04 not an engine";
  EXPECT_NE(message_of({reinterpret_cast<const uint8_t*>(text.data()), text.size()})
                .find("not a .vke file"),
            std::string::npos);
  EXPECT_NE(message_of({}).find("empty"), std::string::npos);
}

TEST(Vke, WeightsOfTheWrongSizeAreNotWritten) {
  Weights weights;
  auto tensors = weights.tensors();
  tensors[0].size_bytes = 255;
  EXPECT_THROW(to_vke(sample_engine(), tensors), Error);
  tensors.pop_back();
  EXPECT_THROW(to_vke(sample_engine(), tensors), Error);
}

TEST(Vke, NamesAreUtf8) {
  EngineSpec spec = sample_engine();
  spec.dispatches[0].name = "größe";
  EXPECT_EQ(from_vke(to_vke(spec)).spec, spec);
  // Latin-1, cut short, overlong, a surrogate, above U+10FFFF, a stray continuation.
  for (const char* bad :
       {"gr\xf6", "\xc3", "\xc0\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\x80"}) {
    spec.dispatches[0].name = bad;
    EXPECT_THROW(to_vke(spec), Error) << bad;
  }
  spec.dispatches[0].name = "日本😀";
  EXPECT_EQ(from_vke(to_vke(spec)).spec, spec);
}

TEST(Vke, ExpressionsThatMultiplyOutAreRefused) {
  std::string text = "1";
  for (int i = 0; i < 30; ++i)
    text += "*(s" + std::to_string(2 * i) + " + s" + std::to_string(2 * i + 1) + ")";
  EXPECT_THROW(Expr::parse(text), Error);
  EXPECT_THROW(Expr::parse(std::string(1000, '(')), Error);
}

class VkeFile : public ::testing::Test {
 protected:
  void SetUp() override {
    dir_ = std::filesystem::temp_directory_path() / ("tv_vke_" + std::to_string(::getpid()));
    std::filesystem::create_directories(dir_);
  }
  void TearDown() override { std::filesystem::remove_all(dir_); }
  std::filesystem::path dir_;
};

TEST_F(VkeFile, WrittenAndRead) {
  Weights weights;
  const std::string path = dir_ / "a.vke";
  write_vke(path, sample_engine(), weights.tensors());
  EXPECT_EQ(read_vke(path).spec, sample_engine());
  EXPECT_EQ(std::filesystem::file_size(path), to_vke(sample_engine(), weights.tensors()).size());
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(dir_), {}), 1);  // nothing left over
}

TEST_F(VkeFile, MessagesNameTheFile) {
  const std::string path = dir_ / "b.vke";
  for (const std::string& bad : {path, dir_.string()}) {
    try {
      read_vke(bad);
      FAIL();
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(bad), std::string::npos) << error.what();
    }
  }
  std::ofstream(path) << "text";
  try {
    read_vke(path);
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(path), std::string::npos) << error.what();
  }
  EXPECT_THROW(write_vke(dir_ / "missing" / "c.vke", sample_engine(), {}), Error);
}

}  // namespace
}  // namespace tv
