#pragma once
// Which program builds engines.

namespace tv {

inline constexpr const char* kBuilderVersion = "0.1.0";

/// Digest of the sources of the runtime, the compiler and the converters (cmake/source_digest.cmake).
extern const char* const kSourceDigest;

}  // namespace tv
