#pragma once
// What applications include: the errors that the runtime throws.

#include "runtime/base/error.h"
