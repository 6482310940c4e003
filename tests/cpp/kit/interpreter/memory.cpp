#include "tests/cpp/kit/interpreter/memory.h"

#include <algorithm>
#include <sstream>

namespace tv::interpreter {

uint8_t* DeviceMemory::at(uint64_t address, uint64_t bytes, bool write) const {
  for (const Range& range : ranges_) {
    const uint64_t offset = address - range.address;
    if (offset < range.bytes && bytes <= range.bytes - offset &&
        (write ? range.write : range.read)) {
      return range.data + offset;
    }
  }
  refuse(address, bytes, write);
}

void DeviceMemory::refuse(uint64_t address, uint64_t bytes, bool write) const {
  std::ostringstream text;
  text << (write ? "writes " : "reads ") << bytes << " bytes at 0x" << std::hex << address
       << std::dec;
  const Range* nearest = nullptr;
  const auto distance = [&](const Range& r) {
    return address < r.address ? r.address - address
                               : address - std::min(address, r.address + r.bytes);
  };
  for (const Range& range : ranges_) {
    if (nearest == nullptr || distance(range) < distance(*nearest)) nearest = &range;
  }
  if (nearest != nullptr) {
    text << ", " << static_cast<int64_t>(address - nearest->address)
         << " bytes from the beginning of " << nearest->name << ", which has " << nearest->bytes
         << " bytes to " << (nearest->read ? "read" : "")
         << (nearest->read && nearest->write ? " and " : "") << (nearest->write ? "write" : "");
  }
  throw Fault(text.str());
}

SharedMemory::SharedMemory(const Program& program)
    : program_(program),
      bytes_(program.shared_bytes, 0xff),
      reads_((program.shared_bytes + 3) / 4),
      writes_(reads_.size()) {
  const uint32_t count = program.local_size[0] * program.local_size[1] * program.local_size[2];
  subgroups_.assign((count + kSubgroup - 1) / kSubgroup, 1);
}

bool SharedMemory::meets(const Access& before, const Who& now) const {
  if (before.workgroup != workgroup_) return false;
  if (before.several || before.subgroup != now.subgroup) return true;
  if (before.epoch != subgroups_[now.subgroup]) return false;
  return before.lane != now.lane || (before.lane == Who::kAll && now.lane == Who::kAll);
}

void SharedMemory::note(Access& access, const Who& who) {
  if (access.workgroup != workgroup_) {
    access = {.workgroup = workgroup_,
              .epoch = subgroups_[who.subgroup],
              .subgroup = who.subgroup,
              .lane = who.lane};
    return;
  }
  access.several |= access.subgroup != who.subgroup;
  if (access.subgroup != who.subgroup) return;
  if (access.epoch == subgroups_[who.subgroup] && access.lane != who.lane) access.lane = Who::kAll;
  if (access.epoch != subgroups_[who.subgroup]) access.lane = who.lane;
  access.epoch = subgroups_[who.subgroup];
}

uint8_t* SharedMemory::at(uint64_t address, uint64_t bytes, bool write, const Who& who) {
  const bool inside = std::ranges::any_of(program_.shared, [&](const auto& variable) {
    return address >= variable.first && address + bytes <= variable.second;
  });
  if (!inside) {
    throw Fault((write ? "writes " : "reads ") + std::to_string(bytes) + " bytes at " +
                std::to_string(address) + " of shared memory, beyond its variable");
  }
  for (uint64_t word = address / 4; word <= (address + bytes - 1) / 4; ++word) {
    const bool raced = meets(writes_[word], who) || (write && meets(reads_[word], who));
    if (raced) {
      throw Fault(std::string(write ? "writes" : "reads") + " shared memory at " +
                  std::to_string(address) + " where another invocation " +
                  (meets(writes_[word], who) ? "wrote" : "read") + " it with no barrier between");
    }
    note(write ? writes_[word] : reads_[word], who);
  }
  return bytes_.data() + address;
}

void SharedMemory::barrier() {
  ++workgroup_;
  for (uint32_t& epoch : subgroups_) ++epoch;
}

void SharedMemory::barrier(uint32_t subgroup) { ++subgroups_[subgroup]; }

}  // namespace tv::interpreter
