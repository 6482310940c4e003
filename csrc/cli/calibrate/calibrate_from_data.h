#pragma once

#include <memory>

#include "csrc/cli/models/build.h"

namespace tv::cli {

/// Runs the model on the batches of --calibData and writes the cache that --calib names, which
/// becomes the setting. What was seen is kept in `<cache>.partial` until then: after an
/// interruption or an error the next call goes on behind the batches that were counted. Throws
/// Error.
void calibrate_from_data(const std::shared_ptr<Device>& device, const ReadModel& model,
                         Options& options);

}  // namespace tv::cli
