#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/config.hpp"
#include "wire/media/descriptor.hpp"

namespace softhca {

/// Tells whether the engines of this user's other processes on this host can run.
///
/// A card answers whatever the processors do; an engine is a thread, which may wait for a processor longer
/// than a peer's retries last. So a requester asks, when its acknowledge timer ends, for the state of the
/// peer's thread in /proc. An engine that is blocked, has ended or sleeps for frames can run, so its peers
/// count their retries.
///
/// An abstract Unix socket for each GID names the thread. It exists in one network namespace, as GIDs do, and
/// ends with its process. A forked child may keep it, but not the thread that it names. Nothing is known
/// about peers of other hosts, users, network or process namespaces.
class EngineThreads {
 public:
  /// Announces that a thread of this process, whose name must be kName, is the engine of GIDs, until
  /// destruction. A GID that cannot be announced, for lack of descriptors for example, is left out: its peers
  /// count their retries.
  void Announce(const std::vector<Gid>& gids, pid_t thread);

  /// Returns the processor time that the engine of a GID has used, if it is stopped or ready to run; in ns.
  /// If the next answer is the same, it has not run in between.
  ///
  /// @param now_ns  the engine is looked for at most once a second, and its state read at most once for each
  /// time
  /// @return        nothing if it runs as it likes, or is unknown
  std::optional<uint64_t> StalledAt(const Gid& gid, uint64_t now_ns);

  static constexpr const char* kName = "softhca";  ///< name of the thread, see pthread_setname_np()

 private:
  struct Peer {
    std::string folder{};       ///< thread's folder in /proc; empty: unknown
    uint64_t next_look_ns = 0;  ///< when to look for the thread again
    uint64_t read_ns = UINT64_MAX;
    std::optional<uint64_t> ran_ns{};  ///< answer at `read_ns`
  };

  std::vector<Descriptor> names_;
  std::map<Gid, Peer> peers_;
};

}  // namespace softhca
