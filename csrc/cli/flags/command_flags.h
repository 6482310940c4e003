#pragma once
// The flags of vkexec's commands: compare, debug and generate.

#include "csrc/cli/flags/flag_texts.h"

namespace tv::cli {

/// Reads "compare", "generate", "debug precision" or "debug reduce" into the options; returns how
/// many words of the command line stand before the flags. Throws CommandError for another word
/// after debug.
int read_command(int argc, const char* const* argv, Options& o);

/// Whether the options are of one of them.
bool is_command(const Options& o);

void add_command_flags(CLI::App& app, Options& o, Texts& t);

/// What of a parsed command line of generate says how tokens are drawn. Throws CommandError.
void read_sampling(const CLI::App& app, Options& o);

/// What does not go together. Throws CommandError.
void check_command_flags(const Options& o);

}  // namespace tv::cli
