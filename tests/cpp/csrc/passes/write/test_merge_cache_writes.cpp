#include <gtest/gtest.h>

#include "csrc/graph/strided.h"
#include "csrc/passes/write/merge_cache_writes.h"
#include "tests/cpp/kit/graph_builder.h"

namespace tv {
namespace {

using test::GraphBuilder;

struct Writes : GraphBuilder {
  const Shape cache = {2, 11, 7};

  /// A write of one entry, or several, that lies in `into`.
  ValueId put(ValueId into, ValueId index, ValueId values, bool add = false) {
    const ValueId out =
        node("tv::in_place_index_put",
             {tensor_arg("self", into), tensor_list_arg("indices", {kNoValue, index}),
              tensor_arg("values", values), attr_arg("accumulate", add)},
             {{DType::kF32, cache}})
            .outputs[0];
    graph.value(out).view = View{into, Expr(0), contiguous_strides(cache)};
    return out;
  }
  ValueId position(int64_t entries = 1) { return input({entries}, DType::kI64); }
  std::vector<std::string> run() {
    graph = merge_cache_writes(graph);
    check(graph, "test");
    std::vector<std::string> ops;
    for (const Node& n : graph.nodes) ops.push_back(n.op);
    return ops;
  }
};

using Ops = std::vector<std::string>;
constexpr const char* kPut = "tv::in_place_index_put";
constexpr const char* kPair = "tv::in_place_index_put_pair";

TEST(MergeCacheWrites, KeysAndValuesAtOnePosition) {
  Writes b;
  const ValueId k = b.input(b.cache), v = b.input(b.cache), at = b.position();
  const ValueId x = b.input({2, 1, 7}), y = b.input({2, 1, 7});
  const ValueId keys = b.put(k, at, x), values = b.put(v, at, b.work({y}, {2, 1, 7}));
  b.output(b.work({keys, values}));
  EXPECT_EQ(b.run(), (Ops{"t::work", kPair, "t::work"}));
  const Node& pair = b.graph.nodes[1];
  EXPECT_EQ(pair.outputs, (std::vector<ValueId>{keys, values}));
  EXPECT_EQ(pair.input("self"), k);
  EXPECT_EQ(pair.input("self2"), v);
  EXPECT_EQ(pair.input("values"), x);
}

TEST(MergeCacheWrites, WhatIsReadInBetweenIsWrittenBefore) {
  Writes b;
  const ValueId k = b.input(b.cache), v = b.input(b.cache), at = b.position();
  const ValueId x = b.input({2, 1, 7});
  const ValueId keys = b.put(k, at, x);
  b.output(b.work({keys}));
  b.output(b.put(v, at, x));
  EXPECT_EQ(b.run(), (Ops{kPut, "t::work", kPut}));
}

TEST(MergeCacheWrites, ValuesThatComeFromTheFirstWriteAreNoPair) {
  Writes b;
  const ValueId k = b.input(b.cache), v = b.input(b.cache), at = b.position();
  const ValueId keys = b.put(k, at, b.input({2, 1, 7}));
  b.output(b.put(v, at, keys));
  EXPECT_EQ(b.run(), (Ops{kPut, kPut}));
}

TEST(MergeCacheWrites, ValuesThatAreWrittenOverStayApart) {
  Writes b;
  const ValueId k = b.input(b.cache), v = b.input(b.cache), at = b.position();
  const ValueId row = b.input({2, 1, 7});
  // Of the second cache, before anything is written there.
  const Shape entry = {2, 1, 7};
  const ValueId old = b.op("t::work", {v}, entry);
  b.graph.value(old).view = View{v, Expr(21), contiguous_strides(b.cache)};
  std::erase_if(b.graph.nodes, [](const Node& n) { return n.op == "t::work"; });
  b.output(b.put(k, at, old));
  b.output(b.put(v, at, row));
  EXPECT_EQ(b.run(), (Ops{kPut, kPut}));
}

TEST(MergeCacheWrites, OtherPlacesStayApart) {
  Writes b;
  const ValueId k = b.input(b.cache), v = b.input(b.cache), x = b.input({2, 1, 7});
  const ValueId several = b.position(3);
  b.output(b.put(k, b.position(), x));
  b.output(b.put(v, b.position(), x));
  b.output(b.put(b.input(b.cache), several, x));
  b.output(b.put(b.input(b.cache), several, x));
  EXPECT_EQ(b.run(), (Ops{kPut, kPut, kPut, kPut}));
}

TEST(MergeCacheWrites, SumsStayApart) {
  Writes b;
  const ValueId at = b.position(), x = b.input({2, 1, 7});
  b.output(b.put(b.input(b.cache), at, x, true));
  b.output(b.put(b.input(b.cache), at, x, true));
  EXPECT_EQ(b.run(), (Ops{kPut, kPut}));
}

}  // namespace
}  // namespace tv
