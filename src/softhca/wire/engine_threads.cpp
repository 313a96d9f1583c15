#include "wire/engine_threads.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <stdexcept>

#include "wire/packet_sink.hpp"

namespace softhca {
namespace {

std::string Digits(const Gid& gid) {
  std::string all;
  for (const uint8_t byte : gid) {
    char digits[3];
    std::snprintf(digits, sizeof digits, "%02x", unsigned{byte});
    all += digits;
  }
  return all;
}

/// Returns the start of all engines' names. The GID's digits and the thread's numbers follow.
std::string Prefix() { return OwnName("engine/"); }

/// Returns a number for the namespace of process ids; 0: unknown.
uint64_t ProcessNamespace() {
  struct stat status {};
  return stat("/proc/self/ns/pid", &status) == 0 ? status.st_ino : 0;
}

struct Thread {
  bool is_engine = false;
  std::optional<uint64_t> stalled_at{};
};

/// @source  Linux, Documentation/filesystems/proc.rst (status); kernel/sched/core.c, __schedule(): a switch
/// is voluntary if the thread sleeps, and not if it yields
Thread ReadThread(const std::string& folder) {
  std::ifstream status(folder + "/status");
  Thread thread;
  for (std::string field, value, rest; status >> field >> value && std::getline(status, rest);) {
    if (field == "Name:") {
      if (value != EngineThreads::kName) return {};
      thread.is_engine = true;
    } else if (field == "State:") {
      if (value == "Z" || value == "X") return {};  // it has ended
      if (value == "T" || value == "t") thread.stalled_at = kStoppedPeer;
      if (value != "R") return thread;
    } else if (field == "voluntary_ctxt_switches:") {
      thread.stalled_at = std::strtoull(value.c_str(), nullptr, 10);
      return thread;
    }
  }
  return thread;
}

}  // namespace

void EngineThreads::Announce(const std::vector<Gid>& gids, pid_t thread) {
  const uint64_t space = ProcessNamespace();
  if (space == 0) return;
  const std::string numbers =
      std::to_string(space) + '/' + std::to_string(getpid()) + '/' + std::to_string(thread);
  for (const Gid& gid : gids) {
    try {
      names_.push_back(TakeName(Prefix() + Digits(gid) + '/' + numbers));
    } catch (const std::runtime_error&) {
      return;
    }
  }
}

std::optional<uint64_t> EngineThreads::StalledAt(const Gid& gid, uint64_t now_ns) {
  constexpr uint64_t kReadNs = 1'000'000;
  Peer& peer = peers_[gid];
  if (now_ns < peer.next_read_ns) return peer.stalled_at;
  Thread thread;
  if (!peer.folder.empty()) thread = ReadThread(peer.folder);
  if (!thread.is_engine) {
    peer.folder = Find(gid, now_ns);
    if (!peer.folder.empty()) thread = ReadThread(peer.folder);
  }
  peer.next_read_ns = now_ns + kReadNs;
  peer.stalled_at = thread.stalled_at;
  return peer.stalled_at;
}

bool EngineThreads::MayRun(const Gid& gid, uint64_t now_ns) {
  StalledAt(gid, now_ns);
  return !peers_[gid].folder.empty() || elsewhere_.contains(Digits(gid));
}

/// Finds the thread of the engine that has a GID.
///
/// @return  its folder in /proc; empty if there is none
std::string EngineThreads::Find(const Gid& gid, uint64_t now_ns) {
  constexpr uint64_t kListNs = 50'000'000;
  constexpr int kLooks = 3;  // a list may miss a name
  if (now_ns >= next_list_ns_) {
    folders_.clear();
    elsewhere_.clear();
    looks_ = 0;
    next_list_ns_ = now_ns + kListNs;
  }
  while (true) {
    for (const std::string& folder : folders_[Digits(gid)]) {
      if (ReadThread(folder).is_engine) return folder;  // a forked child keeps the names of a dead process
    }
    if (looks_ == kLooks) return "";
    ++looks_;
    AddFolders();
  }
}

/// Adds the engines that are found now.
void EngineThreads::AddFolders() {
  const uint64_t own = ProcessNamespace();
  for (const TakenName& name : list_(Prefix())) {
    char digits[33];
    unsigned long long space = 0;
    int process = 0, thread = 0;
    const int found =
        std::sscanf(name.rest.c_str(), "%32[0-9a-f]/%llu/%d/%d", digits, &space, &process, &thread);
    if (found != 4) continue;
    if (space != own) {
      elsewhere_.insert(digits);
      continue;
    }
    folders_[digits].insert(proc_ + '/' + std::to_string(process) + "/task/" + std::to_string(thread));
  }
}

}  // namespace softhca
