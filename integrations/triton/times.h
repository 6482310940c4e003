#pragma once
// When a request's parts began and ended, and what the server's statistics say of them.

#include <span>

#include "integrations/triton/calls.h"

namespace tv::triton {

/// Nanoseconds of the steady clock.
struct Times {
  uint64_t start = 0, compute_start = 0, compute_end = 0, end = 0;
};

uint64_t now_ns();

/// Requests that ran together and succeeded, of so many rows in all.
void report_batch(TRITONBACKEND_ModelInstance* instance,
                  std::span<TRITONBACKEND_Request* const> requests, const Times& times,
                  int64_t rows);
/// A request that failed just now.
void report_failure(TRITONBACKEND_ModelInstance* instance, TRITONBACKEND_Request* request,
                    const Times& times);

}  // namespace tv::triton
