#include "wire/engine_threads.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <stdexcept>

#include "wire/media/abstract_name.hpp"

namespace softhca {
namespace {

std::string PrefixOf(const Gid& gid) {
  std::string name = OwnName("engine/");
  for (const uint8_t byte : gid) {
    char digits[3];
    std::snprintf(digits, sizeof digits, "%02x", unsigned{byte});
    name += digits;
  }
  return name + '/';
}

/// Returns a number for the namespace of process ids; 0: unknown.
uint64_t ProcessNamespace() {
  struct stat status {};
  return stat("/proc/self/ns/pid", &status) == 0 ? status.st_ino : 0;
}

struct Thread {
  bool is_engine = false;
  std::optional<uint64_t> stalled_at{};
};

/// @source  Linux, Documentation/filesystems/proc.rst (stat) and Documentation/scheduler/sched-stats.rst
/// (schedstat)
Thread ReadThread(const std::string& folder) {
  std::string text;
  std::getline(std::ifstream(folder + "/stat"), text);
  const std::string name = std::string("(") + EngineThreads::kName + ") ";
  const size_t at = text.find(name);
  if (at == std::string::npos || at + name.size() >= text.size()) return {};
  const char state = text[at + name.size()];
  const bool is_ready = state == 'R', is_stopped = state == 'T' || state == 't';
  uint64_t ran_ns = 0;
  if (!is_ready && !is_stopped) return {.is_engine = true};
  if (!(std::ifstream(folder + "/schedstat") >> ran_ns)) return {.is_engine = true};
  return {.is_engine = true, .stalled_at = ran_ns};
}

/// Finds the thread of the engine that has a GID.
///
/// @return  its folder in /proc; empty if there is none
std::string FindThread(const Gid& gid) {
  const uint64_t own = ProcessNamespace();
  for (const TakenName& name : ListNames(PrefixOf(gid))) {
    unsigned long long space = 0;
    int process = 0, thread = 0;
    if (std::sscanf(name.rest.c_str(), "%llu/%d/%d", &space, &process, &thread) != 3 || space != own)
      continue;
    std::string folder = "/proc/" + std::to_string(process) + "/task/" + std::to_string(thread);
    if (ReadThread(folder).is_engine) return folder;  // a forked child keeps the names of a dead process
  }
  return "";
}

}  // namespace

void EngineThreads::Announce(const std::vector<Gid>& gids, pid_t thread) {
  const uint64_t space = ProcessNamespace();
  if (space == 0) return;
  const std::string numbers =
      std::to_string(space) + '/' + std::to_string(getpid()) + '/' + std::to_string(thread);
  for (const Gid& gid : gids) {
    try {
      names_.push_back(TakeName(PrefixOf(gid) + numbers));
    } catch (const std::runtime_error&) {
      return;
    }
  }
}

std::optional<uint64_t> EngineThreads::StalledAt(const Gid& gid, uint64_t now_ns) {
  constexpr uint64_t kLookNs = 1'000'000'000;
  Peer& peer = peers_[gid];
  if (peer.read_ns == now_ns) return peer.ran_ns;
  Thread thread;
  if (!peer.folder.empty()) thread = ReadThread(peer.folder);
  if (!thread.is_engine && now_ns >= peer.next_look_ns) {
    peer.folder = FindThread(gid);
    peer.next_look_ns = now_ns + kLookNs;
    if (!peer.folder.empty()) thread = ReadThread(peer.folder);
  }
  peer.read_ns = now_ns;
  peer.ran_ns = thread.stalled_at;
  return peer.ran_ns;
}

}  // namespace softhca
