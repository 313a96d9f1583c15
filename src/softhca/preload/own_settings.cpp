#include "preload/own_settings.hpp"

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <mutex>
#include <new>
#include <string>

#include "setup/sysfs_tree.hpp"
#include "wire/block_claim.hpp"

namespace softhca::uverbs {
namespace {

/// Never destroyed: programs call until their very end.
struct Own {
  Settings settings;
  BlockClaim claim;
};

std::atomic<const Own*> g_own{nullptr};
std::mutex g_claiming;

const Settings* ReadSettings() {
  const char* const text = std::getenv(kSettingsVariable);
  if (text == nullptr) return nullptr;
  try {
    return new Settings(FromText(text));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "softhca: the launcher's settings are unreadable: %s\n", error.what());
    return nullptr;
  }
}

/// What its parent has claimed is its parent's; the sockets that hold the claim are not worth a leak of one.
void ForgetClaimInChild() {
  delete g_own.exchange(nullptr);
  new (&g_claiming) std::mutex;
}

const Own* Claim(const Settings& launch) {
  auto own = std::make_unique<Own>(Own{launch, {}});
  try {
    own->claim = BlockClaim::Use(launch.block);
    own->settings.block = own->claim.block();
    if (own->settings.block != launch.block) {
      const auto folder = std::filesystem::path(launch.tree).parent_path();
      own->settings.tree = (folder / std::to_string(getpid())).string();
      std::filesystem::remove_all(own->settings.tree);  // of a program before exec()
      BuildSysfsTree(own->settings.tree, MakeDevices(own->settings));
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "softhca: %s\n", error.what());
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
  static const int handler = pthread_atfork(nullptr, nullptr, ForgetClaimInChild);
  (void)handler;
  const int error = errno;  // hooks of calls that have not failed yet
  const std::lock_guard lock(g_claiming);
  if (g_own == nullptr) g_own = Claim(*LaunchSettings());
  errno = error;
  return &g_own.load()->settings;
}

}  // namespace softhca::uverbs
