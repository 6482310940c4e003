#pragma once

#include <string>
#include <string_view>

namespace tv::cli {

/// Why a flag of trtexec's ("int8", without dashes) is not taken here; "" where it is none.
std::string why_not(std::string_view flag);

}  // namespace tv::cli
