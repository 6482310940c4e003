#pragma once
// A small engine with one of everything: a symbol, a condition, a weight program, an intermediate,
// float and expression parameters. Its SPIR-V is only a header.

#include "runtime/spec/engine_spec.h"

namespace tv::test {

inline EngineSpec sample_engine() {
  const Expr n = Expr::symbol(0);
  EngineSpec spec;
  spec.name = "sample";
  spec.builder_version = "0.1.0";
  spec.runs_on = "{}";
  spec.tuned_for = "{\"name\": \"x\"}";
  spec.symbols = {{"batch", 1, 4, 64}};
  spec.conditions = {{Relation::kMultiple, 8 * n, n, "[Reshape \"rows\"]"}};
  spec.inputs = {{"x", DType::kF32, {n, 8}, {8, 1}}};
  spec.outputs = {{"y", DType::kF16, {n, 8}, {1, n}}};
  spec.weights = {{"w", DType::kF32, {8, 8}, {8, 1}}, {"b", DType::kI64, {3}, {1}}};
  spec.buffers = {{BufferKind::kInput, 0, 32 * n, "x"},
                  {BufferKind::kWeight, 0, 256, "w"},
                  {BufferKind::kPersistent, 0, 128, "w_packed"},
                  {BufferKind::kArena, 0, round_up(32 * n, 64), "t"},
                  {BufferKind::kOutput, 0, 16 * n, "y"}};
  spec.modules = {{0x07230203, 0x00010600, 0, 1, 0}, {0x07230203, 0x00010600, 0, 1, 0, 42}};
  spec.pipelines = {{0, {}, 0, false, false}, {1, {7, 64}, 16, true, true}};
  spec.weight_program = {{.name = "pack",
                          .pipeline = 0,
                          .operands = {{1, 0, 256, true, false}, {2, 0, 128, false, true}},
                          .words = {Expr(8), 0.5f},
                          .tactic = "pack_rows",
                          .ops = {"aten::t"}}};
  spec.dispatches = {{.name = "linear",
                      .pipeline = 1,
                      .operands = {{0, 0, 32 * n, true, false},
                                   {2, 0, 128, true, false},
                                   {3, 0, 32 * n, false, true}},
                      .words = {n, Expr(-1), 1.0f},
                      .grid = {ceil_div(n, 4), 2, 1},
                      .tactic = "matmul_reference",
                      .module_path = "fc",
                      .source = "model.py:7",
                      .ops = {"aten::linear", "aten::relu"},
                      .time_us = 12.5f,
                      .iterations = 8 * n},
                     {.name = "cast",
                      .pipeline = 0,
                      .operands = {{3, 0, 32 * n, true, false}, {4, 0, 16 * n, false, true}},
                      .words = {},
                      .grid = {n, 1, 1},
                      .flat_grid = true,
                      .looks_up = true}};
  return spec;
}

}  // namespace tv::test
