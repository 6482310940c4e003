#include <gtest/gtest.h>

#include "csrc/graph/strided.h"
#include "csrc/passes/write/write_rotated.h"
#include "tests/cpp/kit/graph_builder.h"

namespace tv {
namespace {

using test::GraphBuilder;

struct RotatedWrites : GraphBuilder {
  const Shape cache = {2, 3, 11, 8}, entry = {2, 3, 1, 8};
  ValueId keys = input(cache), values = input(cache), at = input({1}, DType::kI64);
  ValueId queries = kNoValue, rotated_keys = kNoValue;

  void rotate(Shape of_keys = {2, 3, 1, 8}) {
    const Shape of_queries = {2, 6, 1, 8};
    const Node& pair = node("tv::rotary_pair",
                            {tensor_arg("x", input(of_queries)), tensor_arg("x2", input(of_keys)),
                             tensor_arg("cos", input({8})), tensor_arg("sin", input({8})),
                             attr_arg("rotated", Expr(8))},
                            {{DType::kF32, of_queries}, {DType::kF32, of_keys}});
    queries = pair.outputs[0];
    rotated_keys = pair.outputs[1];
  }
  std::vector<ValueId> write(ValueId first, ValueId second, ValueId into, ValueId into2,
                             std::vector<ValueId> indices) {
    const Node& put =
        node("tv::in_place_index_put_pair",
             {tensor_arg("self", into), tensor_arg("self2", into2),
              tensor_list_arg("indices", std::move(indices)), tensor_arg("values", first),
              tensor_arg("values2", second), attr_arg("accumulate", false)},
             {{DType::kF32, cache}, {DType::kF32, cache}});
    const std::vector<ValueId> outputs = put.outputs;
    for (size_t k = 0; k < 2; ++k) {
      graph.value(outputs[k]).view =
          View{k == 0 ? into : into2, Expr(0), contiguous_strides(cache)};
    }
    return outputs;
  }
  std::vector<std::string> run() {
    graph = write_rotated(graph);
    check(graph, "test");
    std::vector<std::string> ops;
    for (const Node& n : graph.nodes) ops.push_back(n.op);
    return ops;
  }
};

using Ops = std::vector<std::string>;
constexpr const char* kRotary = "tv::rotary_pair";
constexpr const char* kRotatedPut = "tv::in_place_index_put_pair";

TEST(WriteRotated, KeysAndValuesInEitherOrder) {
  for (const bool values_first : {false, true}) {
    RotatedWrites b;
    const ValueId v = b.input(b.entry);
    b.rotate();
    const auto made =
        values_first ? b.write(v, b.rotated_keys, b.values, b.keys, {kNoValue, kNoValue, b.at})
                     : b.write(b.rotated_keys, v, b.keys, b.values, {kNoValue, kNoValue, b.at});
    b.output(b.work({b.queries, made[0], made[1]}));
    ASSERT_EQ(b.run(), (Ops{"tv::rotary_write", "t::work"}));
    const Node& node = b.graph.nodes[0];
    EXPECT_EQ(node.input("keys"), b.keys);
    EXPECT_EQ(node.input("values"), b.values);
    EXPECT_EQ(node.input("v"), v);
    EXPECT_EQ(node.input("at"), b.at);
    EXPECT_EQ(node.integer("dim"), 2);
    EXPECT_EQ(node.outputs, values_first ? (std::vector<ValueId>{b.queries, made[1], made[0]})
                                         : (std::vector<ValueId>{b.queries, made[0], made[1]}));
  }
}

TEST(WriteRotated, KeysThatAreReadElsewhereStay) {
  RotatedWrites b;
  b.rotate();
  b.write(b.rotated_keys, b.input(b.entry), b.keys, b.values, {kNoValue, kNoValue, b.at});
  b.output(b.work({b.queries, b.rotated_keys}));
  EXPECT_EQ(b.run(), (Ops{kRotary, kRotatedPut, "t::work"}));
}

TEST(WriteRotated, KeysWhoseViewIsReadStay) {
  for (const bool returned : {false, true}) {
    RotatedWrites b;
    b.rotate();
    const Shape rows = {2, 3, 8};
    const ValueId view = b.op("t::view", {b.rotated_keys}, rows);
    b.graph.value(view).view = View{b.rotated_keys, Expr(0), contiguous_strides(rows)};
    std::erase_if(b.graph.nodes, [](const Node& n) { return n.op == "t::view"; });
    b.write(b.rotated_keys, b.input(b.entry), b.keys, b.values, {kNoValue, kNoValue, b.at});
    b.output(returned ? view : b.work({b.queries, view}));
    const Ops want = returned ? Ops{kRotary, kRotatedPut} : Ops{kRotary, kRotatedPut, "t::work"};
    EXPECT_EQ(b.run(), want);
  }
}

TEST(WriteRotated, QueriesThatAreReadBeforeTheWriteStay) {
  RotatedWrites b;
  b.rotate();
  const ValueId v = b.op("t::work", {b.queries}, b.entry);
  b.write(b.rotated_keys, v, b.keys, b.values, {kNoValue, kNoValue, b.at});
  EXPECT_EQ(b.run(), (Ops{kRotary, "t::work", kRotatedPut}));
}

TEST(WriteRotated, EntriesThatAreRepeatedStay) {
  RotatedWrites b;
  b.rotate();
  b.write(b.rotated_keys, b.input({2, 1, 1, 8}), b.keys, b.values, {kNoValue, kNoValue, b.at});
  EXPECT_EQ(b.run(), (Ops{kRotary, kRotatedPut}));
}

TEST(WriteRotated, PlacesOfSeveralIndicesStay) {
  RotatedWrites b;
  b.rotate();
  b.write(b.rotated_keys, b.input(b.entry), b.keys, b.values, {kNoValue, b.at, b.at});
  EXPECT_EQ(b.run(), (Ops{kRotary, kRotatedPut}));
}

}  // namespace
}  // namespace tv
