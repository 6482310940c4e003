// Engines on disk: found again, and always right whatever happened to the files.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "csrc/cache/engine_cache.h"
#include "csrc/cache/engine_key.h"
#include "csrc/counters.h"
#include "runtime/base/error.h"
#include "runtime/base/sha256.h"
#include "runtime/engine/engine.h"
#include "runtime/spec/vke.h"
#include "runtime/store/store.h"
#include "tests/cpp/kit/graph_eval.h"

namespace tv {
namespace {

namespace fs = std::filesystem;
using test::GraphMaker;

Graph softmax_of(int64_t rows, const std::string& name = "n0") {
  GraphMaker g;
  g.output(g.op("aten::_softmax",
                {tensor_arg("self", g.input({rows, 5})), attr_arg("dim", Expr(-1)),
                 attr_arg("half_to_float", false)},
                {rows, 5}));
  g.graph.name = "engine_of_" + name;
  g.graph.nodes[0].name = name;
  g.graph.nodes[0].module_path = name + ".module";
  g.graph.nodes[0].source = name + ".py:1";
  return g.graph;
}

class EngineCache : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    root_ = fs::temp_directory_path() /
            ("tv_engines_" + std::to_string(::getpid()) + "_" + test->name());
    fs::remove_all(root_);
    fs::create_directories(root_);
    fs::permissions(root_, fs::perms::owner_all);
    cache_.engine_cache_dir = (root_ / "cache").string();
  }
  void TearDown() override {
    ::unsetenv("TORCH_VULKAN_SYSTEM_CACHE");
    std::error_code ignored;
    fs::remove_all(root_, ignored);
  }
  EngineSpec build(const Graph& graph) {
    return compile_cached(graph, settings_, test::test_device(), cache_);
  }
  std::vector<fs::path> entries() const {
    std::vector<fs::path> found;
    std::error_code none;
    for (const auto& file : fs::directory_iterator(root_ / "cache" / "engines", none))
      found.push_back(file.path());
    return found;
  }
  /// What build() did: "hit", "miss", "bad miss", …
  std::string outcome(const Graph& graph, const EngineSpec& want) {
    const EngineCacheStats before = engine_cache_stats();
    EXPECT_EQ(build(graph), want);
    const EngineCacheStats after = engine_cache_stats();
    std::string text;
    if (after.bad > before.bad) text += "bad ";
    if (after.hits > before.hits) text += "hit ";
    if (after.misses > before.misses) text += "miss ";
    if (after.bypassed > before.bypassed) text += "bypass ";
    return text;
  }

  fs::path root_;
  Settings settings_;
  CacheSettings cache_;
};

std::string read(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void write(const fs::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

TEST_F(EngineCache, ASecondBuildIsAHit) {
  const Graph graph = softmax_of(3);
  const EngineSpec want = compile(graph, {}, test::test_device());
  EXPECT_EQ(outcome(graph, want), "miss ");
  const uint64_t conversions = build_counters().conversions, engines = build_counters().engines;
  EXPECT_EQ(outcome(graph, want), "hit ");
  EXPECT_EQ(build_counters().conversions, conversions);
  EXPECT_EQ(build_counters().engines, engines);
  EXPECT_EQ(outcome(softmax_of(4), compile(softmax_of(4), {}, test::test_device())), "miss ");
}

TEST_F(EngineCache, ATruncatedEngineIsFound) {
  settings_.truncate_long_and_double = true;
  Graph graph = softmax_of(3);
  for (Value& value : graph.values) value.dtype = DType::kF64;
  const EngineSpec want = compile(graph, settings_, test::test_device());
  EXPECT_EQ(want.inputs.at(0).dtype, DType::kF32);
  EXPECT_EQ(outcome(graph, want), "miss ");
  EXPECT_EQ(outcome(graph, want), "hit ");
}

TEST_F(EngineCache, AHitHasTheNamesOfItsOwnGraph) {
  build(softmax_of(3, "first"));
  const EngineSpec spec = build(softmax_of(3, "second"));
  EXPECT_EQ(entries().size(), 1u);
  EXPECT_EQ(spec.name, "engine_of_second");
  EXPECT_EQ(spec.dispatches.at(0).name, "second");
  EXPECT_EQ(spec.dispatches.at(0).module_path, "second.module");
  EXPECT_EQ(spec.dispatches.at(0).source, "second.py:1");
  EXPECT_EQ(spec, compile(softmax_of(3, "second"), {}, test::test_device()));
}

/// Where the key has the names that patterns are looked for in, it does not have those of sizes.
TEST_F(EngineCache, AHitHasTheNamesOfItsOwnSizes) {
  const auto graph_of = [](const std::string& name) {
    GraphMaker g;
    g.graph.symbols = {{name, 1, 4, 8}};
    const Shape shape = {Expr::symbol(0), 5};
    g.output(g.op("aten::_softmax",
                  {tensor_arg("self", g.input(shape)), attr_arg("dim", Expr(-1)),
                   attr_arg("half_to_float", false)},
                  shape));
    g.graph.conditions = {{Relation::kAtLeast, Expr(7), Expr::symbol(0), "[Reshape " + name + "]"}};
    return g.graph;
  };
  for (const bool patterns : {false, true}) {
    if (patterns) settings_.autocast_excluded_nodes = {"nothing"};
    build(graph_of("first"));
    const uint64_t hits = engine_cache_stats().hits;
    const EngineSpec spec = build(graph_of("second"));
    EXPECT_EQ(engine_cache_stats().hits, hits + 1);
    EXPECT_EQ(spec.symbols.at(0).name, "second");
    EXPECT_EQ(spec.conditions.at(0).source, "[Reshape second]");
  }
}

TEST_F(EngineCache, ATunedEngineIsFoundWithoutBuildingOne) {
  class ByRule : public CostModel {
    TacticChoice choose(const TacticProblem&, size_t rule, const Progress&) override {
      return {.candidate = rule};
    }
  };
  const Graph graph = softmax_of(3, "first");
  const auto find = [&](const Graph& g) {
    return find_cached(g, settings_, test::test_device(), cache_);
  };
  build(graph);  // by rule: another key
  EXPECT_EQ(find(graph), std::nullopt);
  const EngineSpec tuned = compile_cached(graph, settings_, test::test_device(), cache_, nullptr,
                                          [] { return std::make_unique<ByRule>(); });
  const uint64_t engines = build_counters().engines;
  EXPECT_EQ(find(graph), tuned);
  EXPECT_EQ(find(softmax_of(3, "second")).value().name, "engine_of_second");
  EXPECT_EQ(find(softmax_of(4)), std::nullopt);
  settings_.optimization_level = 1;
  EXPECT_EQ(find(graph), std::nullopt);
  settings_ = {};
  cache_.reuse_cached_engines = false;
  EXPECT_EQ(find(graph), std::nullopt);
  EXPECT_EQ(build_counters().engines, engines);
}

TEST_F(EngineCache, AnEntryTellsNoNames) {
  build(softmax_of(3, "secret"));
  EXPECT_EQ(read(entries().at(0)).find("secret"), std::string::npos);
}

TEST_F(EngineCache, SwitchesAndDebugDumpsBypassIt) {
  const Graph graph = softmax_of(3);
  const EngineSpec want = compile(graph, {}, test::test_device());
  cache_.cache_built_engines = false;
  EXPECT_EQ(outcome(graph, want), "miss ");
  EXPECT_TRUE(entries().empty());
  cache_.cache_built_engines = true;
  cache_.reuse_cached_engines = false;
  EXPECT_EQ(outcome(graph, want), "miss ");
  EXPECT_EQ(entries().size(), 1u);
  EXPECT_EQ(outcome(graph, want), "miss ");
  cache_.cache_built_engines = false;
  EXPECT_EQ(outcome(graph, want), "bypass ");
  cache_.reuse_cached_engines = true;
  EXPECT_EQ(outcome(graph, want), "hit ");
  settings_.debug_dir = (root_ / "dump").string();
  EXPECT_EQ(outcome(graph, want), "bypass ");
  EXPECT_TRUE(fs::exists(root_ / "dump"));
}

TEST_F(EngineCache, EveryFlippedByteAndEveryTruncationIsAtWorstABuild) {
  const Graph graph = softmax_of(3);
  const EngineSpec want = build(graph);
  const fs::path path = entries().at(0);
  const std::string good = read(path);
  for (size_t at = 0; at < good.size(); at += at < 200 || at + 100 > good.size() ? 1 : 37) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ (1 << at % 8));
    write(path, bad);
    ASSERT_EQ(outcome(graph, want), "bad miss ") << "byte " << at;
    write(path, good.substr(0, at));
    ASSERT_EQ(outcome(graph, want), "bad miss ") << "cut to " << at;
  }
  EXPECT_EQ(outcome(graph, want), "hit ");
}

TEST_F(EngineCache, AWholeEntryWithAnotherEngineIsNotUsed) {
  const Graph graph = softmax_of(3);
  const EngineSpec want = build(graph);
  const std::string key = engine_key(canonical_form(graph), settings_, test::test_device());
  const Store store(cache_.engine_cache_dir, "engines", 1 << 30);
  store.put(key, to_vke(compile(softmax_of(7), {}, test::test_device())));
  EXPECT_EQ(outcome(graph, want), "bad miss ");
  const std::string text = "not an engine";
  store.put(key, {reinterpret_cast<const uint8_t*>(text.data()), text.size()});
  EXPECT_EQ(outcome(graph, want), "bad miss ");
  EXPECT_EQ(outcome(graph, want), "hit ");
}

TEST_F(EngineCache, EqualDigestsWithOtherKeyMaterialAreAMiss) {
  const Graph graph = softmax_of(3), other = softmax_of(7);
  const EngineSpec want = build(graph);
  const fs::path mine = entries().at(0);
  build(other);
  for (const fs::path& path : entries()) {
    if (path != mine) fs::copy_file(path, mine, fs::copy_options::overwrite_existing);
  }
  EXPECT_EQ(outcome(graph, want), "miss ");
}

TEST_F(EngineCache, TwoVersionsOfTheProgramShareADirectory) {
  const Graph graph = softmax_of(3);
  const std::string theirs =
      engine_key_of("version 9.9.9", canonical_form(graph), settings_, test::test_device(), false);
  const Store store(cache_.engine_cache_dir, "engines", 1 << 30);
  const std::string text = "an engine of a format that this version does not know";
  store.put(theirs, {reinterpret_cast<const uint8_t*>(text.data()), text.size()});
  const EngineSpec want = compile(graph, {}, test::test_device());
  EXPECT_EQ(outcome(graph, want), "miss ");
  EXPECT_EQ(outcome(graph, want), "hit ");
  EXPECT_TRUE(store.get(theirs)) << "the other version's entry is still there";
}

TEST_F(EngineCache, AnUnusableDirectoryIsBypassed) {
  const Graph graph = softmax_of(3);
  const EngineSpec want = compile(graph, {}, test::test_device());
  const auto reason_of = [](const std::string& text) {
    for (const auto& [reason, count] : engine_cache_stats().reasons) {
      if (reason.starts_with("bypass") && reason.find(text) != std::string::npos) return true;
    }
    return false;
  };
  cache_.engine_cache_dir = "";
  EXPECT_EQ(outcome(graph, want), "bypass ");
  EXPECT_TRUE(reason_of("there is no cache directory"));
  cache_.engine_cache_dir = (root_ / "open").string();
  fs::create_directory(cache_.engine_cache_dir);
  ::chmod(cache_.engine_cache_dir.c_str(), 0755);
  EXPECT_EQ(outcome(graph, want), "bypass ");
  EXPECT_TRUE(reason_of("close it with chmod 700"));
  ::chmod(cache_.engine_cache_dir.c_str(), 0700);
  EXPECT_EQ(outcome(graph, want), "miss ");
  EXPECT_EQ(outcome(graph, want), "hit ");
  write(root_ / "file", "x");
  cache_.engine_cache_dir = (root_ / "file").string();
  EXPECT_EQ(outcome(graph, want), "bypass ");
}

TEST_F(EngineCache, ADirectoryOfTheSystemIsConsulted) {
  const Graph graph = softmax_of(3);
  const EngineSpec want = build(graph);
  fs::rename(root_ / "cache", root_ / "system");
  ::setenv("TORCH_VULKAN_SYSTEM_CACHE", (root_ / "system").c_str(), 1);
  ::chmod((root_ / "system").c_str(), 0755);
  const auto before = fs::last_write_time(*fs::directory_iterator(root_ / "system" / "engines"));
  EXPECT_EQ(outcome(graph, want), "hit ");
  EXPECT_TRUE(entries().empty()) << "a hit is not copied";
  EXPECT_EQ(fs::last_write_time(*fs::directory_iterator(root_ / "system" / "engines")), before);
  const fs::path entry = *fs::directory_iterator(root_ / "system" / "engines");
  write(entry, "damaged");
  EXPECT_EQ(outcome(graph, want), "bad miss ");
  EXPECT_TRUE(fs::exists(entry)) << "only its owner may set it aside";
  // Where others can write, nothing is believed.
  ::chmod((root_ / "system").c_str(), 0777);
  ::setenv("TORCH_VULKAN_SYSTEM_CACHE", (root_ / "system" / ".").c_str(), 1);
  fs::remove_all(root_ / "cache");
  EXPECT_EQ(outcome(graph, want), "miss ");
}

/// Runs `f` in a child process; true where it returned true.
template <typename F>
pid_t start_child(const F& f) {
  const pid_t pid = ::fork();
  if (pid == 0) ::_exit(f() ? 0 : 1);
  return pid;
}

bool succeeded(pid_t child) {
  int status = 0;
  return ::waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TEST_F(EngineCache, EightProcessesAndOneThatClears) {
  constexpr int kProcesses = 8, kGraphs = 4, kRounds = 100;
  std::vector<EngineSpec> want;
  for (int k = 0; k < kGraphs; ++k)
    want.push_back(compile(softmax_of(3 + k), {}, test::test_device()));
  std::vector<pid_t> children;
  for (int p = 0; p < kProcesses; ++p) {
    children.push_back(start_child([&, p] {
      const EngineCacheStats before = engine_cache_stats();
      for (int i = 0; i < kRounds; ++i) {
        const int k = (p + i) % kGraphs;
        if (build(softmax_of(3 + k)) != want[static_cast<size_t>(k)]) return false;
      }
      const EngineCacheStats stats = engine_cache_stats();
      const uint64_t answered = stats.hits + stats.misses - before.hits - before.misses;
      return stats.bad == before.bad && answered == kRounds;
    }));
  }
  const pid_t clearing = start_child([&] {
    for (;;) {
      // As `cache clear` does: also what is being written.
      for (const fs::path& path : entries()) ::unlink(path.c_str());
      ::usleep(2000);
    }
    return true;
  });
  for (const pid_t child : children) EXPECT_TRUE(succeeded(child));
  ::kill(clearing, SIGKILL);
  ::waitpid(clearing, nullptr, 0);
}

TEST_F(EngineCache, KilledAtAnyMoment) {
  const Graph graph = softmax_of(3);
  const EngineSpec want = compile(graph, {}, test::test_device());
  for (int round = 0; round < 30; ++round) {
    const pid_t child = start_child([&] {
      for (;;) {
        build(graph);
        for (const fs::path& path : entries()) ::unlink(path.c_str());
      }
      return true;
    });
    ::usleep(static_cast<useconds_t>(500 * round));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    const uint64_t bad = engine_cache_stats().bad;
    ASSERT_EQ(build(graph), want);
    ASSERT_EQ(engine_cache_stats().bad, bad);
  }
}

TEST_F(EngineCache, AFullDiskIsAMiss) {
  const Graph graph = softmax_of(3);
  const EngineSpec want = compile(graph, {}, test::test_device());
  EXPECT_TRUE(succeeded(start_child([&] {
    const EngineCacheStats before = engine_cache_stats();
    const rlimit limit = {1000, 1000};
    std::signal(SIGXFSZ, SIG_IGN);  // of the log too, where it goes to a file
    ::setrlimit(RLIMIT_FSIZE, &limit);
    const bool right = build(graph) == want && build(graph) == want;
    const EngineCacheStats stats = engine_cache_stats();
    return right && stats.failed_writes == before.failed_writes + 2 && stats.hits == before.hits &&
           entries().empty();
  })));
}

TEST_F(EngineCache, ADirectoryThatCannotBeWritten) {
  const Graph graph = softmax_of(3);
  const EngineSpec want = build(graph);
  EXPECT_TRUE(succeeded(start_child([&] {
    const EngineCacheStats before = engine_cache_stats();
    if (::geteuid() == 0) {  // root may write anywhere: be somebody else who owns the directory
      ::chown(root_.c_str(), 65534, 65534);
      for (const auto& path : fs::recursive_directory_iterator(root_))
        ::chown(path.path().c_str(), 65534, 65534);
      if (::setgid(65534) != 0 || ::setuid(65534) != 0) return false;
    }
    ::chmod((root_ / "cache" / "engines").c_str(), 0500);
    // It is still read.
    if (build(graph) != want || engine_cache_stats().hits != before.hits + 1) return false;
    build(softmax_of(9));
    const bool counted = engine_cache_stats().failed_writes == before.failed_writes + 1;
    ::chmod((root_ / "cache" / "engines").c_str(), 0700);
    return counted;
  })));
}

TEST_F(EngineCache, TheLeastRecentlyUsedIsEvictedUnlessItIsRead) {
  const Graph graphs[] = {softmax_of(3), softmax_of(4), softmax_of(5)};
  build(graphs[0]);
  const uint64_t size = fs::file_size(entries().at(0));
  build(graphs[1]);
  build(graphs[0]);  // touched
  cache_.engine_cache_size = static_cast<int64_t>(2 * size + size / 2);
  build(graphs[2]);
  EXPECT_EQ(entries().size(), 2u);
  EXPECT_EQ(outcome(graphs[0], compile(graphs[0], {}, test::test_device())), "hit ");
  // Another process reads what would go next.
  const std::string key = engine_key(canonical_form(graphs[2]), settings_, test::test_device());
  const fs::path oldest = root_ / "cache" / "engines" / sha256_hex(key);
  const int fd = ::open(oldest.c_str(), O_RDONLY);
  ASSERT_GE(fd, 0);
  ASSERT_EQ(::flock(fd, LOCK_SH), 0);
  const Store store(cache_.engine_cache_dir, "engines",
                    static_cast<uint64_t>(cache_.engine_cache_size));
  const std::string value(size, 'x');
  store.put("more", {reinterpret_cast<const uint8_t*>(value.data()), value.size()});
  EXPECT_TRUE(fs::exists(oldest)) << "it is being read";
  EXPECT_EQ(entries().size(), 2u) << "something else went";
  ::close(fd);
}

TEST_F(EngineCache, AFailedBuildTellsRealNamesAndLeavesNoEntry) {
  GraphMaker g;
  g.output(g.op("aten::no_such_operator", {tensor_arg("self", g.input({3, 5}))}, {3, 5}));
  g.graph.nodes[0].name = "culprit";
  EXPECT_THROW(build(g.graph), Error);
  EXPECT_TRUE(entries().empty());
}

}  // namespace
}  // namespace tv
