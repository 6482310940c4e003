#pragma once
// Runs an engine's dispatches, as the encoder makes them, by the SPIR-V interpreter.

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "runtime/commands/encoded_program.h"
#include "runtime/spec/engine_spec.h"
#include "runtime/spec/tensor.h"
#include "tests/cpp/kit/interpreter/interpreter.h"

namespace tv::test {

class InterpretedEngine {
 public:
  InterpretedEngine(EngineSpec spec, interpreter::FragmentLayout layout)
      : spec_(std::move(spec)), layout_(layout) {}

  /// The weight program and the dispatches. Memory that nothing writes is no number. Throws
  /// interpreter::Fault, which names the dispatch: also where a kernel reports a fault of its own.
  void run(std::span<const HostTensor> weights, std::span<const HostTensor> inputs,
           std::span<const HostTensor> outputs, std::span<const int64_t> symbols = {});
  const EngineSpec& spec() const { return spec_; }

 private:
  void run(std::span<const Dispatch> program, std::span<const int64_t> symbols);
  void launch(const EncodedProgram& encoded, const EncodedDispatch& dispatch, const Dispatch& what,
              std::span<const int64_t> symbols);
  const interpreter::Program& program_of(uint32_t pipeline);
  void check_reports() const;

  EngineSpec spec_;
  interpreter::FragmentLayout layout_;
  std::vector<std::vector<uint8_t>> memory_;  ///< of each buffer
  std::map<uint32_t, interpreter::Program> programs_;
};

}  // namespace tv::test
