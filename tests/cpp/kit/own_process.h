#pragma once
// Tests of this program in a process of their own: other variables, other limits.

#include <map>
#include <string>

namespace tv::test {

/// Runs the tests that `filter` names, disabled ones too, in a process with more variables set; its
/// exit status, -1 for a signal, 124 for a hang. A part of the filter that names no test is a
/// failure of the caller, as such a process would succeed.
int run_self(const std::string& filter, std::map<std::string, std::string> variables = {});

/// Whether this is such a process.
bool in_child();

}  // namespace tv::test
