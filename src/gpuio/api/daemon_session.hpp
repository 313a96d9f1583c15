#pragma once

#include <sys/types.h>

#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "gpuio/control/messages.hpp"
#include "sync/mutex.hpp"
#include "warpverbs/host/dma_buf.hpp"

namespace warpverbs::inline v0_2::gpuio {

/// The connection of this process to the daemon of a mount. While it lives, the daemon keeps what this
/// process published.
///
/// A daemon that comes back gets all of it again. Thread-safe. In a forked child nothing of the parent's
/// session has an effect: what is published is the parent's.
class DaemonSession {
 public:
  using Body = decltype(ControlRequest::body);
  /// Sends a request, with a file unless that is -1, and returns the errno value of the reply.
  using Caller = std::function<int(const Body& body, int file)>;

  /// Something that the daemon has to know.
  class Member {
   public:
    virtual ~Member() = default;

    /// Returns when its turn is: members of lower rank first.
    virtual int rank() const = 0;

    /// Called when the daemon has gone, before another one knows of this.
    ///
    /// @param is_back  whether another daemon is there already
    virtual void OnLost(bool is_back) = 0;

    /// Says whether a daemon that is still there has let go of this: its link was removed, or it is broken.
    virtual bool WasClosed() const { return false; }

    /// Tells a daemon, the first one or the next. May be called again for the same one. If the next one
    /// refuses, the session logs that, and tries again while threads wait for I/O.
    ///
    /// @return  0 or an errno value
    virtual int Publish(const Caller& call) = 0;

    /// Returns its name in messages.
    virtual std::string name() const = 0;
  };

  /// Returns the session of this process on a mount, and connects it. All spellings of a mount have the same
  /// session: to the daemon, each session is a client with buffers, rings and files of its own.
  ///
  /// @param error  0 or an errno value: ENOENT: it is not a mount; EIO: no daemon answers
  static std::shared_ptr<DaemonSession> Of(const std::string& mount, int& error);

  explicit DaemonSession(std::string mount);
  ~DaemonSession();

  /// Returns the mount as CanonicalMount() spells it.
  const std::string& mount() const { return mount_; }

  /// Sends a request and waits for the reply: 10 s, but for attaching and detaching as long as the daemon
  /// lives. Tries once more if the daemon has been replaced.
  ///
  /// @return  errno value of the reply; EIO: the daemon does not answer
  int Call(const Body& body, int file = -1);

  /// Publishes something, now and to all later daemons: none comes between.
  ///
  /// @return  0; the errno value of Publish(): then it is not added; EIO: the daemon does not answer
  int Add(std::shared_ptr<Member> member);
  void Remove(const Member* member);

  /// Looks whether the daemon is still there. If not, tells all members, and connects to the next one.
  ///
  /// @param asking  told if the daemon has closed it
  void CheckDaemon(Member& asking);

 private:
  friend struct DaemonSessions;
  using Clock = std::chrono::steady_clock;

  /// A member that the new daemon does not know yet.
  struct Pending {
    std::shared_ptr<Member> member;
    bool was_refused = false;
  };

  bool IsOfThisProcess() const;
  int Connect() WARPVERBS_REQUIRES(mutex_);
  int CallOnce(const Body& body, int file) WARPVERBS_REQUIRES(mutex_);
  /// Does work that asks the daemon, and again if that has been replaced meanwhile.
  template <class Work>
  int TryTwice(const Work& work) WARPVERBS_REQUIRES(mutex_);
  bool IsLost() WARPVERBS_REQUIRES(mutex_);
  void Check() WARPVERBS_REQUIRES(mutex_);
  /// Connects to the next daemon and publishes everything, if the present one has gone.
  void Reconnect() WARPVERBS_REQUIRES(mutex_);
  /// Connects to the next daemon. Everything is pending then.
  void Recover() WARPVERBS_REQUIRES(mutex_);
  /// Publishes what is pending until a time, but one member at least: others go on with the rest.
  void PublishPending(Clock::time_point until) WARPVERBS_REQUIRES(mutex_);

  const std::string mount_;
  const pid_t owner_;
  sync::Mutex mutex_;
  host::FileDescriptor socket_ WARPVERBS_GUARDED_BY(mutex_);
  Clock::time_point tried_ WARPVERBS_GUARDED_BY(mutex_);  // last
  bool is_logged_ WARPVERBS_GUARDED_BY(mutex_) = false;   // the present failure
  uint32_t sequence_ WARPVERBS_GUARDED_BY(mutex_) = 0;
  std::vector<std::shared_ptr<Member>> members_ WARPVERBS_GUARDED_BY(mutex_);
  std::deque<Pending> pending_ WARPVERBS_GUARDED_BY(mutex_);
};

}  // namespace warpverbs::inline v0_2::gpuio
