#pragma once

#include <string>
#include <string_view>

namespace tv::cli {

/// Why a flag of trtexec's ("int4", without dashes), or one that people look for, is not taken
/// here;
/// "" if it is none.
std::string why_not(std::string_view flag);
/// Why an argument ("--useCudaGraph", "--noTF32") may be left out: it asks for what is
/// always so here; "" if it asks for something.
std::string why_nothing_changes(std::string_view argument);

/// The argument, where old scripts write a flag in another way: "--workspace=64" has become
/// "--memPoolSize=workspace:64".
std::string in_new_words(const std::string& argument);

}  // namespace tv::cli
