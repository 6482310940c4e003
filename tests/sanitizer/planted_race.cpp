// A race of two threads that call from Python: scripts/sanitize_python.sh fails where it is not
// reported.

#include <atomic>

namespace {
std::atomic<int> arrived{0}, left{0};
int planted = 0;
}  // namespace

/// Both threads are here before the first writes: else the interpreter's lock would order them. The
/// second writes after the first, as the sanitizer may miss two writes at the very same time.
extern "C" void race() {
  const int before = arrived.fetch_add(1, std::memory_order_relaxed);
  while (arrived.load(std::memory_order_relaxed) < 2 ||
         left.load(std::memory_order_relaxed) < before) {
  }
  ++planted;
  left.fetch_add(1, std::memory_order_relaxed);
}
