// libFuzzer target over an entry of the on-disk store. Mutations are made in the key or the value,
// and sizes and digest are put right, so that they come behind the check of the digest.

#include <algorithm>
#include <cstdlib>
#include <random>

#include "runtime/store/store_entry.h"
#include "tests/fuzz/fuzz_file.h"

namespace {

using tv::fuzz::Bytes;

void use(const Bytes& bytes) {
  tv::StoreEntry entry;
  if (!tv::read_entry(bytes, entry)) return;
  // What is read is inside of the entry, and makes the same entry again.
  const std::string key(entry.key.begin(), entry.key.end());
  Bytes again;
  const tv::EntryPieces pieces(key, entry.value);
  for (const auto piece : pieces.pieces()) again.insert(again.end(), piece.begin(), piece.end());
  if (again != bytes) std::abort();
  std::span<const uint8_t> value;
  if (tv::check_entry(bytes, key, value) != tv::EntryCheck::kGood) std::abort();
  if (tv::check_entry(bytes, key + "x", value) != tv::EntryCheck::kOtherKey) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Bytes bytes(data, data + size);
  use(bytes);
  tv::fuzz::sign(bytes);
  use(bytes);
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned int seed) {
  const Bytes file(data, data + size);
  tv::StoreEntry entry;
  if (std::minstd_rand(seed)() % 8 == 0 || !tv::read_entry(file, entry)) {
    return LLVMFuzzerMutate(data, size, max_size);
  }
  const bool of_key = seed % 2 != 0;
  Bytes part(of_key ? entry.key.begin() : entry.value.begin(),
             of_key ? entry.key.end() : entry.value.end());
  tv::fuzz::mutate(part, 64);
  const std::string key = of_key ? std::string(part.begin(), part.end())
                                 : std::string(entry.key.begin(), entry.key.end());
  const tv::EntryPieces pieces(key, of_key ? entry.value : std::span<const uint8_t>(part));
  if (pieces.size_bytes() > max_size) return LLVMFuzzerMutate(data, size, max_size);
  size_t at = 0;
  for (const auto piece : pieces.pieces()) {
    std::copy(piece.begin(), piece.end(), data + at);
    at += piece.size();
  }
  return at;
}
