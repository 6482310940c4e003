#pragma once
// For applications: the errors that the runtime throws.

#include "runtime/base/error.h"
