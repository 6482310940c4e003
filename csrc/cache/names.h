#pragma once
// Names in cached engines. A name is metadata, so an engine is stored with tokens in place of the
// names of the graph it was built from, and gets those of the graph it is loaded for.

#include "csrc/cache/canonical.h"
#include "csrc/settings.h"
#include "runtime/spec/engine_spec.h"

namespace tv {

/// The graph with a token for each name, module path and source line; what had none still has none.
/// Tokens tell the canonical position: #n3 is the name of node 3, #p3 its module path, #s3 its
/// source line, #v7 the name of value 7, #i0 and #w0 those of bindings. Compiled code does not
/// depend on names, but names are composed ("#n3+#n5", "#n3/kernel"), so that tokens survive.
Graph with_tokens(Graph graph, const CanonicalGraph& canonical);

/// Puts the names of `graph` where `spec`, built from a graph with tokens of the same canonical
/// text, has tokens.
void restore_names(EngineSpec& spec, const Graph& graph, const CanonicalGraph& canonical);

/// The part of it that no pattern looks at, and no key has: names of symbols, sources of
/// conditions.
void restore_size_names(EngineSpec& spec, const Graph& graph);

/// Whether the code depends on names: patterns of autocast_excluded_nodes are looked for in them.
/// Such an engine is compiled and stored with its own names.
bool names_matter(const Settings& settings);

/// Key material: every name, module path and source line in canonical order where names matter,
/// else "".
std::string names_text(const Graph& graph, const CanonicalGraph& canonical,
                       const Settings& settings);

}  // namespace tv
