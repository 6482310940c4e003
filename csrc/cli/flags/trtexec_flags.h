#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tv::cli {

/// Why a flag of trtexec's ("int4", without dashes), or one that people look for, is not taken
/// here; "" for any other.
std::string why_not(std::string_view flag);
/// Why an argument ("--useCudaGraph", "--noTF32") may be left out: it asks for what is
/// always so here; "" if it asks for something.
std::string why_nothing_changes(std::string_view argument);

/// Arguments that old scripts write in another way: "--workspace=64" and "--workspace", "64" become
/// "--memPoolSize=workspace:64".
void put_in_new_words(std::vector<std::string>& arguments);

}  // namespace tv::cli
