#pragma once
// Small engines written by hand for the runtime's tests.

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "csrc/codegen/kernel.h"
#include "runtime/base/debug.h"
#include "runtime/base/error.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/engine_impl.h"
#include "runtime/vulkan/device.h"

namespace tv::test {

inline constexpr const char* kPreamble = R"(#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_scalar_block_layout : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
layout(local_size_x = 64) in;
layout(buffer_reference, scalar, buffer_reference_align = 4) buffer Floats { float v[]; };
uint group() {
  return gl_WorkGroupID.x + gl_NumWorkGroups.x * (gl_WorkGroupID.y + gl_NumWorkGroups.y * gl_WorkGroupID.z);
}
)";

/// y[i] = a[i] * factor + b[i] for i < n
inline const char* kMulAdd = R"(
layout(push_constant, scalar) uniform P { Floats y; Floats a; Floats b; uint n; float factor; };
void main() {
  uint i = group() * 64 + gl_LocalInvocationID.x;
  if (i < n) y.v[i] = a.v[i] * factor + b.v[i];
}
)";

/// The same with its parameters in a block.
inline const char* kMulAddBlock = R"(
layout(buffer_reference, scalar, buffer_reference_align = 8) buffer Block { Floats y; Floats a; Floats b; uint n; float factor; };
layout(push_constant, scalar) uniform P { Block p; };
void main() {
  uint i = group() * 64 + gl_LocalInvocationID.x;
  if (i < p.n) p.y.v[i] = p.a.v[i] * p.factor + p.b.v[i];
}
)";

inline std::vector<uint32_t> compile(const std::string& body) {
  return compile_kernel("runtime_test", kPreamble + body, Settings{});
}

inline OperandRange reads(uint32_t buffer, Expr bytes, Expr offset = 0) {
  return {buffer, std::move(offset), std::move(bytes), true, false};
}
inline OperandRange writes(uint32_t buffer, Expr bytes, Expr offset = 0) {
  return {buffer, std::move(offset), std::move(bytes), false, true};
}

/// Builds specifications whose tensors are vectors of `n` floats.
class SpecBuilder {
 public:
  explicit SpecBuilder(Expr n) : n_(std::move(n)) {
    spec.name = "test";
    spec.modules = {compile(kMulAdd)};
    spec.pipelines = {Pipeline{}};
  }
  Expr bytes() const { return n_ * 4; }
  uint32_t input(const std::string& name) {
    spec.inputs.push_back({name, DType::kF32, {n_}, {1}});
    return buffer(BufferKind::kInput, spec.inputs.size() - 1, name);
  }
  uint32_t output(const std::string& name) {
    spec.outputs.push_back({name, DType::kF32, {n_}, {1}});
    return buffer(BufferKind::kOutput, spec.outputs.size() - 1, name);
  }
  uint32_t weight(const std::string& name) {
    spec.weights.push_back({name, DType::kF32, {n_}, {1}});
    return buffer(BufferKind::kWeight, spec.weights.size() - 1, name);
  }
  uint32_t arena(const std::string& name) { return buffer(BufferKind::kArena, 0, name); }
  uint32_t persistent(const std::string& name) { return buffer(BufferKind::kPersistent, 0, name); }

  /// y = a * factor + b
  Dispatch mul_add(const std::string& name, uint32_t y, uint32_t a, uint32_t b,
                   float factor) const {
    Dispatch d;
    d.name = name;
    d.operands = {writes(y, bytes()), reads(a, bytes()), reads(b, bytes())};
    d.words = {n_, factor};
    d.grid = {ceil_div(n_, 64), 1, 1};
    d.flat_grid = true;
    return d;
  }
  SpecBuilder& step(const std::string& name, uint32_t y, uint32_t a, uint32_t b, float factor) {
    spec.dispatches.push_back(mul_add(name, y, a, b, factor));
    return *this;
  }

  EngineSpec spec;

 private:
  uint32_t buffer(BufferKind kind, size_t index, const std::string& name) {
    spec.buffers.push_back({kind, static_cast<uint32_t>(index), bytes(), name});
    return static_cast<uint32_t>(spec.buffers.size() - 1);
  }
  Expr n_;
};

inline HostTensor host(std::vector<float>& v) {
  return {v.data(), static_cast<int64_t>(v.size() * sizeof(float))};
}

inline std::vector<float> ramp(size_t n, float start = 0) {
  std::vector<float> v(n);
  for (size_t i = 0; i < n; ++i) v[i] = start + static_cast<float>(i % 1000);
  return v;
}

inline EngineImpl& impl(const std::shared_ptr<Engine>& engine) {
  return dynamic_cast<EngineImpl&>(*engine);
}

/// Runs a test with other debug modes and puts the old ones back.
class ScopedModes {
 public:
  explicit ScopedModes(const DebugModes& modes) : old_(debug_modes()) { set_debug_modes(modes); }
  ~ScopedModes() { set_debug_modes(old_); }

 private:
  DebugModes old_;
};

/// What the error says that a call throws.
template <typename Call>
std::string error_of(ErrorKind kind, const Call& call) {
  try {
    call();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), kind) << e.what();
    return e.what();
  }
  ADD_FAILURE() << "no error";
  return "";
}

}  // namespace tv::test
