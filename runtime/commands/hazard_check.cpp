#include "runtime/commands/hazard_check.h"

#include <algorithm>
#include <cstring>

namespace tv {
namespace {

struct Touch {
  uint64_t begin, end;
  bool write;
  size_t at;  ///< position in the recording
};

uint64_t address_of(const RecordedProgram& r, size_t at, const OperandRange& operand) {
  for (const MovedBuffer& moved : r.moved) {
    if (moved.dispatch == at && moved.buffer == operand.buffer) return moved.address;
  }
  return r.addresses[operand.buffer];
}

bool has_work(const Dispatch& dispatch, std::span<const int64_t> symbols) {
  return std::none_of(dispatch.grid.begin(), dispatch.grid.end(),
                      [&](const Expr& g) { return g.eval(symbols) <= 0; });
}

void check_order(const RecordedProgram& r, std::vector<std::string>& faults) {
  std::vector<uint32_t> want, got;
  for (uint32_t i = 0; i < r.program.size(); ++i) {
    if (has_work(r.program[i], r.symbols)) want.push_back(i);
  }
  for (const EncodedDispatch& d : r.encoded.dispatches) got.push_back(d.dispatch);
  if (want != got) faults.push_back("the dispatches recorded are not those that have work to do");
}

void check_addresses(const RecordedProgram& r, std::vector<std::string>& faults) {
  for (size_t at = 0; at < r.encoded.dispatches.size(); ++at) {
    const EncodedDispatch& d = r.encoded.dispatches[at];
    const Dispatch& dispatch = r.program[d.dispatch];
    for (size_t i = 0; i < dispatch.operands.size(); ++i) {
      const OperandRange& operand = dispatch.operands[i];
      uint64_t pushed = 0;
      std::memcpy(&pushed, r.encoded.params.data() + d.params_at + 8 * i, sizeof(pushed));
      const uint64_t want =
          address_of(r, at, operand) + static_cast<uint64_t>(operand.offset_bytes.eval(r.symbols));
      if (pushed != want) {
        faults.push_back("[" + dispatch.name + "] operand " + std::to_string(i) +
                         ": the address pushed is not its buffer's");
      }
    }
  }
}

/// All bytes that the dispatches of one stretch between barriers touch, swept in address order.
void check_stretch(const RecordedProgram& r, std::vector<Touch>& touches,
                   std::vector<std::string>& faults) {
  std::sort(touches.begin(), touches.end(),
            [](const Touch& a, const Touch& b) { return a.begin < b.begin; });
  std::vector<const Touch*> open;
  for (const Touch& t : touches) {
    std::erase_if(open, [&](const Touch* o) { return o->end <= t.begin; });
    for (const Touch* o : open) {
      if (o->at == t.at || !(o->write || t.write)) continue;
      const auto [early, late] = std::minmax(o->at, t.at);
      const auto name = [&](size_t at) {
        return r.program[r.encoded.dispatches[at].dispatch].name + " (#" + std::to_string(at) + ")";
      };
      faults.push_back("race: " + name(early) + " and " + name(late) + " share " +
                       std::to_string(std::min(o->end, t.end) - t.begin) +
                       " bytes with no barrier between them");
    }
    open.push_back(&t);
  }
  touches.clear();
}

void check_races(const RecordedProgram& r, std::vector<std::string>& faults) {
  std::vector<Touch> touches;
  for (size_t at = 0; at < r.encoded.dispatches.size(); ++at) {
    const EncodedDispatch& d = r.encoded.dispatches[at];
    if (d.barrier_before) check_stretch(r, touches, faults);
    for (const OperandRange& operand : r.program[d.dispatch].operands) {
      if (r.spec.buffers[operand.buffer].kind == BufferKind::kCheck) continue;  // atomics alone
      const uint64_t begin =
          address_of(r, at, operand) + static_cast<uint64_t>(operand.offset_bytes.eval(r.symbols));
      const int64_t size = operand.size_bytes.eval(r.symbols);
      if (size > 0) {
        touches.push_back({begin, begin + static_cast<uint64_t>(size), operand.write, at});
      }
    }
  }
  check_stretch(r, touches, faults);
}

}  // namespace

std::vector<std::string> find_faults(const RecordedProgram& recorded) {
  std::vector<std::string> faults;
  check_order(recorded, faults);
  check_addresses(recorded, faults);
  check_races(recorded, faults);
  return faults;
}

}  // namespace tv
