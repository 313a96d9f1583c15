#include <fcntl.h>
#include <pthread.h>
#include <sys/file.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <new>
#include <string>

#include "observe/patient_write.hpp"
#include "preload/process.hpp"
#include "setup/settings.hpp"
#include "sync/mutex.hpp"
#include "wire/address_block.hpp"
#include "wire/media/descriptor.hpp"

namespace softhca::preload {
namespace {

/// Never destroyed: the program may call until its very end.
struct Own {
  Settings settings;
  BlockClaim claim;
  Descriptor folder;  ///< with a shared lock, so that no later launcher removes the folder of the trees
};

Descriptor LockFolder(const Settings& settings) {
  const std::string folder = std::filesystem::path(settings.tree).parent_path().string();
  Descriptor descriptor(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (descriptor) flock(descriptor.get(), LOCK_SH | LOCK_NB);
  return descriptor;
}

std::atomic<const Own*> g_own{nullptr};
warpverbs::sync::Mutex g_claiming;

const Settings* ReadSettings() {
  const char* const text = std::getenv(kSettingsVariable);
  if (text == nullptr) return nullptr;
  try {
    return new Settings(ParseSettings(text));
  } catch (const std::exception& error) {
    PrintError(std::string("the launcher's settings are unreadable: ") + error.what());
    return nullptr;
  }
}

/// Drops the claim in a forked child: the addresses stay the parent's. Deleting also closes the child's
/// copies of the sockets.
void ForgetClaimInChild() {
  delete g_own.exchange(nullptr);
  new (&g_claiming) warpverbs::sync::Mutex;
}

/// Registers the handler when the library is loaded: a later first use could be interrupted by another
/// thread's fork().
__attribute__((constructor)) void RegisterForkHandler() {
  if (LaunchSettings() != nullptr) pthread_atfork(nullptr, nullptr, ForgetClaimInChild);
}

const Own* Claim(const Settings& launch) {
  auto own = std::make_unique<Own>(Own{launch, {}, LockFolder(launch)});
  try {
    own->claim = BlockClaim::Use(launch.block);
    own->settings.block = own->claim.block();
    if (own->settings.block != launch.block) {
      const auto folder = std::filesystem::path(launch.tree).parent_path();
      own->settings.tree = (folder / std::to_string(getpid())).string();
      std::filesystem::remove_all(own->settings.tree);  // left by a program before exec()
      BuildSysfsTree(own->settings.tree, MakeDevices(own->settings));
    }
  } catch (const std::exception& error) {
    PrintError(error.what());
    own->settings = launch;
  }
  return own.release();
}

}  // namespace

const Settings* LaunchSettings() {
  static const Settings* const settings = ReadSettings();
  return settings;
}

const Settings* OwnSettings() {
  if (const Own* const own = g_own.load(std::memory_order_acquire)) return &own->settings;
  if (LaunchSettings() == nullptr) return nullptr;
  const int error = errno;  // the hook calls this before the real function
  const warpverbs::sync::LockGuard lock(g_claiming);
  if (g_own == nullptr) g_own = Claim(*LaunchSettings());
  errno = error;
  return &g_own.load()->settings;
}

}  // namespace softhca::preload
