// CUDA tensors without CUDA: the order of calls, memory that is shared, copied and mapped again.

#include "runtime/base/error.h"
#include "runtime/cuda/link.h"
#include "runtime/vulkan/instance.h"
#include "tests/cpp/kit/cuda_mock.h"
#include "tests/cpp/kit/runtime_fixture.h"

namespace tv {
namespace {

using namespace test;  // NOLINT

constexpr size_t kChunk = 2 << 20;

/// A device that copies tensors as a GPU does, on a driver that exports its memory as files.
class CudaInterop : public ::testing::Test {
 protected:
  void SetUp() override {
    PhysicalDevice physical = Instance::get().devices().back();
    physical.profile.host_pointers = false;
    device_ = std::make_shared<Device>(physical);
    if (!physical.profile.is_cpu() || !device_->api().vkGetMemoryFdKHR) {
      GTEST_SKIP() << "no CPU driver that exports memory";
    }
    mock_ = std::make_unique<CudaMock>(*device_);
  }
  void TearDown() override {
    link_.reset();
    engine_.reset();
    mock_.reset();
  }

  void open() {
    link_ = CudaLink::open(*device_, mock_->api, report_);
    ASSERT_TRUE(link_) << (report_.empty() ? "" : report_.back());
  }
  bool reported(const std::string& text) const {
    return std::any_of(report_.begin(), report_.end(), [&](const std::string& line) {
      return line.find(text) != std::string::npos;
    });
  }
  /// y = (x * 2 + w) * 3 + x over n floats.
  void make_engine(int64_t n) {
    SpecBuilder b{Expr(n)};
    const uint32_t x = b.input("x"), w = b.weight("w"), t = b.arena("t"), y = b.output("y");
    b.step("first", t, x, w, 2).step("second", y, t, x, 3);
    engine_ = Engine::create(device_, b.spec);
    n_ = n;
  }
  std::shared_ptr<const WeightSet> weights(float value) {
    std::vector<float> w(static_cast<size_t>(n_), value);
    const HostTensor tensors[] = {host(w)};
    return engine_->prepare_weights(tensors);
  }
  int run(const std::shared_ptr<const WeightSet>& set, float* x, float* y, CuStream stream) {
    const CudaTensor inputs[] = {{x, n_ * 4}}, outputs[] = {{y, n_ * 4}};
    return impl(engine_).run_on_cuda(set, {}, inputs, outputs, *link_, stream);
  }
  void set(float* x, float value) { std::fill(x, x + n_, value); }
  void expect(const float* y, float value) {
    for (int64_t i = 0; i < n_; ++i) ASSERT_EQ(y[i], value) << i;
  }

  std::shared_ptr<Device> device_;
  std::unique_ptr<CudaMock> mock_;
  std::unique_ptr<CudaLink> link_;
  std::shared_ptr<Engine> engine_;
  std::vector<std::string> report_;
  int64_t n_ = 0;
};

TEST_F(CudaInterop, TestsTheCounterAtTheStart) {
  open();
  EXPECT_TRUE(link_->order().by_counter());
  EXPECT_TRUE(reported("counter in shared memory: works"));
  EXPECT_EQ(mock_->calls["push"], mock_->calls["pop"]);
}

TEST_F(CudaInterop, ACounterThatDoesNotHoldTheStreamIsFound) {
  mock_->faults.counter_ignored = true;
  link_ = CudaLink::open(*device_, mock_->api, report_);
  // The way that is left needs semaphores, which this driver does not share.
  EXPECT_FALSE(link_);
  EXPECT_TRUE(reported("counter in shared memory: does not work"));
  EXPECT_TRUE(reported("cannot share semaphores"));
}

TEST_F(CudaInterop, ACounterThatNeverArrivesIsFoundAndTheStreamSetFree) {
  mock_->faults.counter_never = true;
  link_ = CudaLink::open(*device_, mock_->api, report_);
  EXPECT_FALSE(link_);
  EXPECT_TRUE(reported("the stream does not see the counter"));
}

TEST_F(CudaInterop, AnotherGpuIsNotLinked) {
  mock_->faults.other_uuid = true;
  EXPECT_FALSE(CudaLink::open(*device_, mock_->api, report_));
  EXPECT_TRUE(reported("no CUDA device has the Vulkan device's uuid"));
}

TEST_F(CudaInterop, RunsInTheOrderOfTheStream) {
  open();
  make_engine(1009);
  auto* x = reinterpret_cast<float*>(mock_->map_chunk(kChunk));
  float* y = x + 4096;
  const CuStream stream = mock_->stream(0);
  const auto w = weights(5);
  std::vector<float> seen;
  for (int step = 1; step <= 40; ++step) {
    mock_->enqueue(stream, [=, this] { set(x, static_cast<float>(step)); });
    EXPECT_EQ(run(w, x, y, stream), 0) << "nothing is copied";
    mock_->enqueue(stream, [&seen, y] { seen.push_back(y[1008]); });
    mock_->enqueue(stream, [=, this] { set(x, -1); });
  }
  mock_->drain(stream);
  ASSERT_EQ(seen.size(), 40U);
  for (int step = 1; step <= 40; ++step) {
    EXPECT_EQ(seen[static_cast<size_t>(step - 1)], 7.0F * static_cast<float>(step) + 15) << step;
  }
}

TEST_F(CudaInterop, StreamsWeightsInTheOrderOfTheStream) {
  open();
  constexpr size_t kLayers = 12;
  constexpr int64_t kFloats = 1000;
  SpecBuilder b{Expr(kFloats)};
  uint32_t t = b.input("x");
  for (size_t k = 0; k < kLayers; ++k) {
    const uint32_t next = k + 1 < kLayers ? b.arena("t") : b.output("y");
    b.step("layer", next, t, b.weight("w" + std::to_string(k)), 1);
    t = next;
  }
  engine_ = Engine::create(device_, b.spec, {.weight_budget = 0});
  n_ = kFloats;
  const auto sum_of = [&](float value) {
    std::vector<float> w(kFloats, value);
    return engine_->prepare_weights(std::vector<HostTensor>(kLayers, host(w)));
  };
  const auto ones = sum_of(1), twos = sum_of(2);
  auto* x = reinterpret_cast<float*>(mock_->map_chunk(kChunk));
  float* y = x + 4096;
  const CuStream stream = mock_->stream(0);
  std::vector<float> seen;
  for (int step = 0; step < 20; ++step) {
    mock_->enqueue(stream, [=, this] { set(x, static_cast<float>(step)); });
    run(step % 3 == 0 ? twos : ones, x, y, stream);
    mock_->enqueue(stream, [&seen, y] { seen.push_back(y[999]); });
  }
  mock_->drain(stream);
  ASSERT_EQ(seen.size(), 20U);
  for (size_t step = 0; step < 20; ++step) {
    EXPECT_EQ(seen[step], static_cast<float>(step + kLayers * (step % 3 == 0 ? 2 : 1))) << step;
  }
}

TEST_F(CudaInterop, MemoryThatCannotBeSharedIsCopiedOnTheStream) {
  open();
  make_engine(257);
  std::vector<float> x(257, 3), y(257, -1);  // as cudaMalloc's: no handle
  const CuStream stream = mock_->stream(0);
  const auto w = weights(1);
  EXPECT_EQ(run(w, x.data(), y.data(), stream), 2);
  EXPECT_EQ(y[0], -1) << "the copy out is the stream's";
  mock_->drain(stream);
  expect(y.data(), 3 * 7 + 3);
  EXPECT_EQ(mock_->calls["copy"], 2);
  auto* shared = reinterpret_cast<float*>(mock_->map_chunk(kChunk));
  set(shared, 4);
  EXPECT_EQ(run(w, shared, y.data(), stream), 1);
  mock_->drain(stream);
  expect(y.data(), 4 * 7 + 3);
}

TEST_F(CudaInterop, AnInputIsWrittenInPlaceOrCopiedBackOnTheStream) {
  open();
  SpecBuilder b{Expr(257)};
  const uint32_t x = b.input("x"), w = b.weight("w");
  b.step("first", x, x, w, 2).spec.inputs[0].written = true;
  engine_ = Engine::create(device_, b.spec);
  n_ = 257;
  auto* shared = reinterpret_cast<float*>(mock_->map_chunk(kChunk));
  std::vector<float> plain(257);
  const CuStream stream = mock_->stream(0);
  const auto set_of_weights = weights(1);
  for (float* tensor : {shared, plain.data()}) {
    set(tensor, 3);
    const CudaTensor inputs[] = {{tensor, n_ * 4}};
    EXPECT_EQ(impl(engine_).run_on_cuda(set_of_weights, {}, inputs, {}, *link_, stream),
              tensor == shared ? 0 : 1);
    mock_->drain(stream);
    expect(tensor, 3 * 2 + 1);
  }
}

TEST_F(CudaInterop, MemoryThatIsMappedAgainIsImportedAgain) {
  open();
  make_engine(64);
  char* begin = mock_->map_chunk(kChunk);
  const CuStream stream = mock_->stream(0);
  const auto w = weights(0);
  for (int round = 0; round < 4; ++round) {
    auto* x = reinterpret_cast<float*>(begin);
    set(x, static_cast<float>(round));
    EXPECT_EQ(run(w, x, x + 64, stream), 0);
    mock_->drain(stream);
    expect(x + 64, 7.0F * static_cast<float>(round));
    EXPECT_EQ(link_->imports().chunks(), 1U);
    mock_->unmap_chunk(begin);
    mock_->map_chunk(kChunk, reinterpret_cast<uintptr_t>(begin));
  }
  mock_->unmap_chunk(begin);
  link_->imports().sweep();
  EXPECT_EQ(link_->imports().chunks(), 0U);
  EXPECT_EQ(mock_->retained(), 0) << "every handle was given back";
}

TEST_F(CudaInterop, SaysWhyMemoryCannotBeShared) {
  open();
  std::string why;
  std::vector<float> plain(16);
  EXPECT_EQ(link_->imports().find(reinterpret_cast<CuDevicePtr>(plain.data()), 64, &why), 0U);
  EXPECT_NE(why.find("cuMemCreate"), std::string::npos) << why;
  mock_->faults.no_export = true;
  char* chunk = mock_->map_chunk(kChunk);
  EXPECT_EQ(link_->imports().find(reinterpret_cast<CuDevicePtr>(chunk), 64, &why), 0U);
  EXPECT_NE(why.find("(801)"), std::string::npos) << why;
  EXPECT_EQ(mock_->retained(), 0);
}

TEST_F(CudaInterop, FindsEachPlaceOfAChunk) {
  open();
  char* chunk = mock_->map_chunk(2 * kChunk);
  const auto base = reinterpret_cast<CuDevicePtr>(chunk);
  const uint64_t address = link_->imports().find(base, 64);
  ASSERT_NE(address, 0U);
  EXPECT_EQ(link_->imports().find(base + kChunk + 512, kChunk - 512), address + kChunk + 512);
  EXPECT_EQ(link_->imports().chunks(), 1U);
}

TEST_F(CudaInterop, MemoryThatItAllocatesIsUsedInPlace) {
  open();
  make_engine(64);
  const CuDevicePtr memory = link_->imports().allocate(4096);
  ASSERT_NE(memory, 0U);
  auto* x = reinterpret_cast<float*>(memory);
  set(x, 3);
  EXPECT_EQ(run(weights(0), x, x + 64, mock_->stream(0)), 0);
  mock_->drain(mock_->stream(0));
  expect(x + 64, 21);
  EXPECT_EQ(link_->imports().find(memory + 4096 - 32, 64), 0U) << "past the end";
  EXPECT_FALSE(link_->imports().free(memory + 4));
  EXPECT_TRUE(link_->imports().free(memory));
  EXPECT_EQ(link_->imports().find(memory, 64), 0U);
}

TEST_F(CudaInterop, WeightsAreReadOnTheDeviceInTheOrderOfTheStream) {
  open();
  constexpr int64_t kMany = 9'000'001;  // more than one staging buffer holds
  make_engine(kMany);
  std::vector<float> w(kMany, -1), x(kMany, 2), y(kMany);
  const CuStream stream = mock_->stream(0);
  mock_->enqueue(stream, [&] { std::fill(w.begin(), w.end(), 11.0F); });
  const HostTensor tensors[] = {host(w)};
  const WeightSource source{.on_cuda = true, .stream = stream, .link = link_.get()};
  const auto set = engine_->prepare_weights(tensors, source);
  std::fill(w.begin(), w.end(), 0.0F);  // read already
  run(set, x.data(), y.data(), stream);
  mock_->drain(stream);
  expect(y.data(), 2 * 7 + 33);
}

TEST_F(CudaInterop, CallsWithTheSameAddressesAreNotRecordedAgain) {
  open();
  make_engine(64);
  auto* x = reinterpret_cast<float*>(mock_->map_chunk(kChunk));
  const CuStream stream = mock_->stream(0);
  const auto w = weights(2);
  for (int i = 0; i < 12; ++i) {
    set(x, static_cast<float>(i));
    float* y = x + 64 * (1 + i % 3);
    run(w, x, y, stream);
    mock_->drain(stream);
    expect(y, 7.0F * static_cast<float>(i) + 6);
  }
  EXPECT_EQ(impl(engine_).stats().recordings, 3U);
  for (int i = 0; i < 12; ++i) run(w, x, x + 64 * (1 + i % 7), stream);
  mock_->drain(stream);
  EXPECT_GT(impl(engine_).stats().recordings, 3U) << "more addresses than are kept";
}

TEST_F(CudaInterop, StreamsHaveContextsOfTheirOwn) {
  open();
  make_engine(509);
  const auto w = weights(1);
  constexpr size_t kStreams = 3;
  auto* memory = reinterpret_cast<float*>(mock_->map_chunk(kChunk));
  for (int round = 1; round <= 10; ++round) {
    for (size_t s = 0; s < kStreams; ++s) {
      float* x = memory + 2048 * s;
      const auto value = static_cast<float>(100 * s + static_cast<size_t>(round));
      mock_->enqueue(mock_->stream(s), [=, this] { set(x, value); });
      run(w, x, x + 1024, mock_->stream(s));
    }
    for (size_t s = 0; s < kStreams; ++s) {
      mock_->drain(mock_->stream(s));
      expect(memory + 2048 * s + 1024,
             7 * static_cast<float>(100 * s + static_cast<size_t>(round)) + 3);
    }
  }
  EXPECT_LE(impl(engine_).stats().contexts, kStreams);
}

TEST_F(CudaInterop, EnginesOnOneStreamShareAnArena) {
  open();
  constexpr size_t kEngines = 4, kRounds = 6;
  std::vector<std::shared_ptr<Engine>> engines;
  std::vector<std::shared_ptr<const WeightSet>> sets;
  for (size_t e = 0; e < kEngines; ++e) {
    make_engine(50021);
    engines.push_back(engine_);
    sets.push_back(weights(static_cast<float>(e)));
  }
  auto* memory = reinterpret_cast<float*>(mock_->map_chunk(kChunk));
  const auto place = [&](size_t i) { return memory + 65536 * i; };
  const CuStream stream = mock_->stream(0);
  for (size_t round = 0; round < kRounds; ++round) {
    mock_->enqueue(stream, [=, this] { set(place(0), static_cast<float>(round)); });
    for (size_t e = 0; e < kEngines; ++e) {  // nobody waits in between
      engine_ = engines[e];
      EXPECT_EQ(run(sets[e], place(e), place(e + 1), stream), 0);
    }
    mock_->drain(stream);
    auto value = static_cast<float>(round);
    for (size_t e = 0; e < kEngines; ++e) {
      value = 7 * value + 3 * static_cast<float>(e);
      expect(place(e + 1), value);
    }
  }
  EXPECT_EQ(device_->arenas().pieces(), 1U);
  for (const auto& engine : engines) EXPECT_EQ(engine->stats().recordings, 1U);
  engine_.reset();
  sets.clear();
  engines.clear();
  EXPECT_EQ(device_->arenas().pieces(), 0U);
}

TEST_F(CudaInterop, WeightsAreKeptUntilTheCallIsOver) {
  open();
  make_engine(64);
  auto* x = reinterpret_cast<float*>(mock_->map_chunk(kChunk));
  const CuStream stream = mock_->stream(0);
  set(x, 1);
  for (int i = 0; i < 20; ++i) {
    run(weights(static_cast<float>(i)), x, x + 64, stream);  // the caller lets go at once
    mock_->drain(stream);
    expect(x + 64, 7 + 3.0F * static_cast<float>(i));
  }
}

TEST_F(CudaInterop, ACaptureIsRefusedBeforeAnythingRuns) {
  open();
  make_engine(64);
  auto* x = reinterpret_cast<float*>(mock_->map_chunk(kChunk));
  const auto w = weights(0);
  mock_->faults.capturing = true;
  const int waits = mock_->calls["wait"];
  try {
    run(w, x, x + 64, mock_->stream(0));
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kDevice);
    EXPECT_NE(std::string(error.what()).find("cannot be captured"), std::string::npos);
  }
  EXPECT_EQ(mock_->calls["wait"], waits);
  mock_->faults.capturing = false;
  set(x, 2);
  run(w, x, x + 64, mock_->stream(0));
  mock_->drain(mock_->stream(0));
  expect(x + 64, 14);
}

TEST_F(CudaInterop, OutputsThatOverlapInputsGetBarriers) {
  open();
  make_engine(64);
  auto* x = reinterpret_cast<float*>(mock_->map_chunk(kChunk));
  const auto w = weights(0);
  set(x, 1);
  run(w, x, x, mock_->stream(0));  // in place
  mock_->drain(mock_->stream(0));
  expect(x, 7);
}

TEST_F(CudaInterop, SizesAreChecked) {
  open();
  make_engine(64);
  auto* x = reinterpret_cast<float*>(mock_->map_chunk(kChunk));
  const auto w = weights(0);
  const CudaTensor inputs[] = {{x, 63 * 4}}, outputs[] = {{x + 64, 64 * 4}};
  EXPECT_THROW(impl(engine_).run_on_cuda(w, {}, inputs, outputs, *link_, mock_->stream(0)), Error);
}

}  // namespace
}  // namespace tv
