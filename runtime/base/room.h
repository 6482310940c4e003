#pragma once

#include <cstddef>
#include <string>

namespace tv {

/// Throws OutOfMemoryError where the process cannot get so many bytes of address space, which
/// `what` may take: for code of others that ends the process, or is broken from then on, where an
/// allocation fails.
void require_room(size_t bytes, const std::string& what);

}  // namespace tv
