#pragma once
// Which program builds engines.

namespace tv {

/// The version in the project() line of CMakeLists.txt, the only place where it is written.
extern const char* const kBuilderVersion;

/// Digest of the sources of the runtime, the compiler and the converters
/// (cmake/source_digest.cmake).
extern const char* const kSourceDigest;

}  // namespace tv
