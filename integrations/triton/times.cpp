#include "integrations/triton/times.h"

#include <chrono>

namespace tv::triton {

uint64_t now_ns() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}

void report_batch(TRITONBACKEND_ModelInstance* instance,
                  std::span<TRITONBACKEND_Request* const> requests, const Times& times,
                  int64_t rows) {
  for (TRITONBACKEND_Request* request : requests) {
    log_error(TRITONBACKEND_ModelInstanceReportStatistics(instance, request, /*success=*/true,
                                                          times.start, times.compute_start,
                                                          times.compute_end, times.end));
  }
  log_error(TRITONBACKEND_ModelInstanceReportBatchStatistics(instance, static_cast<uint64_t>(rows),
                                                             times.start, times.compute_start,
                                                             times.compute_end, times.end));
}

void report_failure(TRITONBACKEND_ModelInstance* instance, TRITONBACKEND_Request* request,
                    const Times& times) {
  const uint64_t now = now_ns();
  log_error(TRITONBACKEND_ModelInstanceReportStatistics(instance, request, /*success=*/false,
                                                        times.start, now, now, now));
}

}  // namespace tv::triton
