// Which torch the libraries are compiled against.

#include <torch/version.h>

namespace tv::bindings {

extern const char* const kTorchVersion;
const char* const kTorchVersion = TORCH_VERSION;

}  // namespace tv::bindings
