#pragma once
// Whether Vulkan may still be called in this process: not in a child forked after the instance was
// made (the driver's threads are gone), and not once the process is exiting (drivers are
// unloading).

namespace tv {

/// False in a forked child and during process exit: handles are then abandoned, not destroyed.
bool vulkan_usable() noexcept;

/// Throws Error(kDevice) with the reason where Vulkan may not be called.
void require_vulkan_usable();

/// Called once when the instance exists: from then on a forked child is marked.
void watch_forks();

/// Called by the exit handler, after it released what it could.
void mark_exiting() noexcept;

}  // namespace tv
