#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/config.hpp"
#include "wire/media/abstract_name.hpp"
#include "wire/media/descriptor.hpp"

namespace softhca {

/// Tells whether the engines of this user's other processes on this host can run.
///
/// A card answers whatever the processors do; an engine is a thread, which may wait for a processor, or for
/// the lock that a command of its process holds, longer than a peer's retries last. So a requester asks, when
/// its acknowledge timer ends, for the state of the peer's thread in /proc. An engine sleeps only if no frame
/// waits for it: one that has slept has handled what was sent before. Peers of an engine that sleeps, is
/// blocked or has ended count their retries.
///
/// An abstract Unix socket for each GID names the thread. It exists in one network namespace, as GIDs do, and
/// ends with its process. A forked child may keep it, but not the thread that it names. Nothing is known
/// about peers of other hosts, users, network or process namespaces.
class EngineThreads {
 public:
  using NameList = std::function<std::vector<TakenName>(const std::string& prefix)>;

  EngineThreads() : EngineThreads(ListNames) {}
  /// @param list  lists names as ListNames() does
  /// @param proc  folder that is as /proc is
  explicit EngineThreads(NameList list, std::string proc = "/proc")
      : list_(std::move(list)), proc_(std::move(proc)) {}

  /// Announces that a thread of this process, whose name must be kName, is the engine of GIDs, until
  /// destruction. A GID that cannot be announced, for lack of descriptors for example, is left out: its peers
  /// count their retries.
  void Announce(const std::vector<Gid>& gids, pid_t thread);

  /// Returns how often the engine of a GID has slept, if it is ready to run or runs: if a later answer is the
  /// same, it has been busy, or without a processor, in between. Returns kStoppedPeer if it is stopped.
  ///
  /// @param now_ns  time that never goes back. The state is read at most once a millisecond, and unknown
  ///                engines are looked for, all at once, at most three times in 50 ms.
  /// @return        nothing if it sleeps, or is unknown
  std::optional<uint64_t> StalledAt(const Gid& gid, uint64_t now_ns);

  /// Returns whether an engine that has announced a GID is there, or is in another process namespace, where
  /// it cannot be seen.
  ///
  /// @param now_ns  as in StalledAt()
  bool MayRun(const Gid& gid, uint64_t now_ns);

  static constexpr const char* kName = "softhca";  ///< name of the thread, see pthread_setname_np()

 private:
  struct Peer {
    std::string folder{};                  ///< thread's folder in /proc; empty: unknown
    std::optional<uint64_t> stalled_at{};  ///< answer until `next_read_ns`
    uint64_t next_read_ns = 0;
  };

  std::string Find(const Gid& gid, uint64_t now_ns);
  void AddFolders();

  NameList list_;
  std::string proc_;
  std::vector<Descriptor> names_;
  std::map<Gid, Peer> peers_;

  /// Threads' folders by the digits of their GID, as the last lists name them.
  std::map<std::string, std::set<std::string>> folders_;
  std::set<std::string> elsewhere_;  ///< GIDs, likewise, of engines in other process namespaces
  uint64_t next_list_ns_ = 0;        ///< when to begin the lists again
  int looks_ = 0;                    ///< lists since the last beginning
};

}  // namespace softhca
