#include "runtime/base/room.h"

#include <sys/mman.h>

#include "runtime/base/error.h"

namespace tv {

void require_room(size_t bytes, const std::string& what) {
  // Without a reservation it counts for RLIMIT_AS all the same, and not as memory in use.
  void* pages = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (pages == MAP_FAILED)
    throw OutOfMemoryError("[device] out of memory: " + what + " may take " +
                           std::to_string(bytes >> 20) + " MiB");
  ::munmap(pages, bytes);
}

}  // namespace tv
