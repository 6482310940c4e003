#include "csrc/user_code.h"

#include <dlfcn.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <mutex>
#include <set>
#include <shared_mutex>

#include "csrc/converter.h"
#include "runtime/base/error.h"
#include "runtime/base/sha256.h"

namespace tv {
namespace {

/// What was added; entries stay where they are for ever.
struct UserCode {
  std::shared_mutex mutex;
  std::map<std::string, std::string> kernels;  // name → text
  std::map<std::string, std::string> digests;  // operator → digest of its code
};

UserCode& user_code() {
  static UserCode code;
  return code;
}

std::mutex& load_mutex() {
  static std::mutex mutex;
  return mutex;
}

/// Errors of the library that this thread loads; null outside of that.
thread_local std::vector<std::string>* load_errors = nullptr;

std::string contents_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::set<std::string> registered() {
  const std::vector<std::string> names = Registry::instance().names();
  return {names.begin(), names.end()};
}

}  // namespace

void add_kernel(const std::string& name, const std::string& text) {
  const std::unique_lock lock(user_code().mutex);
  if (!user_code().kernels.emplace(name, text).second) {
    throw Error(ErrorKind::kUser, "[" + name + "] there is a kernel of this name already");
  }
}

RegisterKernel::RegisterKernel(const std::string& name, const std::string& text) {
  try {
    add_kernel(name, text);
  } catch (const Error& error) {
    if (!keep_load_error(error.what())) throw;
  }
}

void remove_kernel(const std::string& name) {
  const std::unique_lock lock(user_code().mutex);
  user_code().kernels.erase(name);
}

const std::string* find_user_kernel(const std::string& name) {
  const std::shared_lock lock(user_code().mutex);
  const auto it = user_code().kernels.find(name);
  return it == user_code().kernels.end() ? nullptr : &it->second;
}

void set_code_digest(const std::string& op, const std::string& digest) {
  const std::unique_lock lock(user_code().mutex);
  user_code().digests[op] = digest;
}

std::vector<std::string> load_user_library(const std::string& path) {
  const std::lock_guard lock(load_mutex());
  const std::string real = std::filesystem::absolute(path).string();
  std::error_code unknown;
  if (std::filesystem::is_directory(real, unknown)) {
    throw Error(ErrorKind::kUser,
                "[load_library] " + path + " is a directory, want the file of a library");
  }
  const std::string contents = contents_of(real);
  if (contents.empty()) throw Error(ErrorKind::kUser, "[load_library] cannot read " + path);
  const std::set<std::string> before = registered();
  std::vector<std::string> errors;
  load_errors = &errors;
  const void* handle = dlopen(real.c_str(), RTLD_NOW | RTLD_LOCAL);  // stays for ever
  load_errors = nullptr;
  if (handle == nullptr) {
    throw Error(ErrorKind::kUser, std::string("[load_library] ") + dlerror());
  }
  std::vector<std::string> added;
  for (const std::string& op : registered()) {
    if (before.contains(op)) continue;
    set_code_digest(op, sha256_hex(contents));
    added.push_back(op);
  }
  if (!errors.empty()) {
    std::string all;
    for (const std::string& error : errors) all += "\n  " + error;
    throw Error(ErrorKind::kUser, "[load_library] " + path + ":" + all);
  }
  return added;
}

std::string user_code_text(const Graph& graph) {
  const std::shared_lock lock(user_code().mutex);
  std::map<std::string, std::string> used;
  for (const Node& node : graph.nodes) {
    const auto it = user_code().digests.find(node.op);
    if (it != user_code().digests.end()) used.insert(*it);
  }
  std::string text;
  for (const auto& [op, digest] : used) text += "\nuser code " + op + " " + digest;
  return text;
}

bool keep_load_error(const std::string& message) {
  if (load_errors == nullptr) return false;
  load_errors->push_back(message);
  return true;
}

}  // namespace tv
