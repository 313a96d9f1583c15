#include "gpuio/api/daemon_session.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <map>
#include <set>
#include <utility>

#include "gpuio/api/fork_guard.hpp"
#include "gpuio/control/log.hpp"
#include "gpuio/control/mount.hpp"
#include "gpuio/control/packet_socket.hpp"
#include "warpverbs/host/error.hpp"

namespace warpverbs::inline v0_2::gpuio {
namespace {

constexpr std::chrono::seconds kTimeout(10);             // of a reply
constexpr std::chrono::milliseconds kBetweenTries(100);  // of a thread that waits for I/O
constexpr std::chrono::milliseconds kPublishTime(1);     // that such a thread has for the others

}  // namespace

/// All sessions of this process.
///
/// A forked child has copies of their sockets, which would keep the parent's buffers alive after the parent's
/// death. So the child closes them, and makes sessions of its own. The parent's do nothing there.
struct DaemonSessions {
  static DaemonSessions& The() {
    static auto* const list =
        new DaemonSessions;  // never destroyed: iovs may be destroyed by destructors of statics
    return *list;
  }

  DaemonSessions() {
    // Another thread may have held a session's mutex.
    GuardOverFork(mutex, [this]() WARPVERBS_NO_THREAD_SAFETY_ANALYSIS {
      for (DaemonSession* const session : all) session->socket_.Close();
      all.clear();
      by_mount.clear();
    });
  }

  sync::Mutex mutex;
  std::set<DaemonSession*> all WARPVERBS_GUARDED_BY(mutex);
  std::map<std::string, std::weak_ptr<DaemonSession>> by_mount WARPVERBS_GUARDED_BY(mutex);
};

std::shared_ptr<DaemonSession> DaemonSession::Of(const std::string& spelling, int& error) {
  const std::string mount = CanonicalMount(spelling);
  std::error_code failure;
  error = std::filesystem::is_directory(IovFolderOf(mount), failure) ? 0 : ENOENT;
  if (error != 0) return nullptr;
  DaemonSessions& list = DaemonSessions::The();
  std::shared_ptr<DaemonSession> session;
  {
    const sync::LockGuard lock(list.mutex);
    std::weak_ptr<DaemonSession>& known = list.by_mount[mount];
    session = known.lock();
    if (session == nullptr) {
      session = std::make_shared<DaemonSession>(mount);
      known = session;
      list.all.insert(session.get());
    }
  }
  const sync::LockGuard lock(session->mutex_);
  session->Reconnect();
  if (!session->socket_) error = EIO;
  return session;
}

DaemonSession::DaemonSession(std::string mount) : mount_(std::move(mount)), owner_(getpid()) {}

bool DaemonSession::IsOfThisProcess() const { return owner_ == getpid(); }

DaemonSession::~DaemonSession() {
  DaemonSessions& list = DaemonSessions::The();
  const sync::LockGuard lock(list.mutex);
  list.all.erase(this);
}

int DaemonSession::Connect() {
  std::string path;
  int error = ReadLink(DaemonLinkOf(mount_), path);
  if (error == 0) error = ConnectPackets(path, socket_);
  if (error != 0) {
    Log(std::exchange(is_logged_, true) ? LogLevel::kDebug : LogLevel::kError,
        "Cannot reach the daemon of " + mount_ + ": " + host::Error::DescribeErrno(error) +
            ". Start warpverbs-gpuiod for this mount.");
  } else {
    is_logged_ = false;
  }
  return error;
}

bool DaemonSession::IsLost() {
  if (!socket_) return true;
  char byte = 0;
  const ssize_t received = recv(socket_.get(), &byte, sizeof byte, MSG_PEEK | MSG_DONTWAIT);
  return received == 0 || (received < 0 && errno != EAGAIN && errno != EINTR);
}

void DaemonSession::Recover() {
  socket_.Close();
  tried_ = Clock::now();
  const bool is_back = Connect() == 0;
  for (const auto& member : members_) member->OnLost(is_back);
  pending_.clear();
  for (const auto& member : members_) pending_.push_back({member});
  if (!is_back || members_.empty()) return;
  Log(LogLevel::kWarn,
      "the daemon of " + mount_ + " was replaced: it gets all buffers, files and rings again");
}

void DaemonSession::Reconnect() {
  if (!IsLost()) return;
  Recover();
  PublishPending(Clock::time_point::max());
}

void DaemonSession::PublishPending(Clock::time_point until) {
  const Caller call = [this](const Body& body, int file)
                          WARPVERBS_REQUIRES(mutex_) { return CallOnce(body, file); };
  const bool tries_again = Clock::now() - tried_ >= kBetweenTries;
  if (tries_again) tried_ = Clock::now();
  for (size_t left = pending_.size(); left > 0; --left) {
    Pending next = std::move(pending_.front());
    pending_.pop_front();
    int error = EIO;
    if (!next.was_refused || tries_again) {
      error = socket_ ? next.member->Publish(call) : EIO;
      if (error == 0) {
        if (Clock::now() >= until) return;
        continue;
      }
      Log(std::exchange(is_logged_, true) ? LogLevel::kDebug : LogLevel::kWarn,
          "Cannot publish " + next.member->name() + " again: " + host::Error::DescribeErrno(error) +
              ". It is tried again while threads wait for I/O.");
    }
    next.was_refused = true;
    pending_.push_back(std::move(next));
    if (Clock::now() >= until) return;
  }
}

void DaemonSession::CheckDaemon(Member& asking) {
  if (!IsOfThisProcess()) return;
  sync::UniqueLock lock(mutex_, std::defer_lock);
  if (!lock.try_lock()) return;  // another thread is asking the daemon, and sees for itself
  Check();
  if (asking.WasClosed()) asking.OnLost(false);
}

void DaemonSession::Check() {
  if (IsLost()) {
    if (socket_ || Clock::now() - tried_ >= kBetweenTries) {
      Recover();
    } else {
      for (const auto& member : members_) member->OnLost(false);
    }
  }
  if (!socket_ || pending_.empty()) return;
  PublishPending(Clock::now() + kPublishTime);
  // Requests to what the daemon refuses do not wait for it.
  for (const Pending& pending : pending_) {
    if (pending.was_refused) pending.member->OnLost(false);
  }
}

int DaemonSession::CallOnce(const Body& body, int file) {
  if (!socket_) return EIO;
  // To register much memory takes long; and memory must not be freed before the daemon says so.
  const bool waits_forever =
      std::holds_alternative<AttachRequest>(body) || std::holds_alternative<DetachRequest>(body);
  const ControlRequest request{.sequence = ++sequence_, .body = body};
  const auto fail = [this](const std::string& reason) WARPVERBS_REQUIRES(mutex_) {
    Log(LogLevel::kError, "Cannot ask the daemon of " + mount_ + ": " + reason + ". Check that it runs.");
    return EIO;
  };
  const auto give_up = [&](const std::string& reason) WARPVERBS_REQUIRES(mutex_) {
    socket_.Close();
    return fail(reason);
  };
  if (const int error = SendPacket(socket_.get(), request.Encode(), file); error != 0)
    return give_up(host::Error::DescribeErrno(error));
  const auto deadline = std::chrono::steady_clock::now() + kTimeout;
  while (true) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    pollfd wait{.fd = socket_.get(), .events = POLLIN, .revents = 0};
    const int patience = waits_forever ? -1 : static_cast<int>(std::max<int64_t>(left.count(), 0));
    const int ready = poll(&wait, 1, patience);
    if (ready < 0 && errno == EINTR) continue;
    if (ready == 0) return fail("it did not answer for 10 s");  // its late reply is skipped
    Packet packet;
    const int error = ready < 0 ? errno : ReceivePacket(socket_.get(), packet);
    if (error == EAGAIN) continue;
    if (error != 0) return give_up(host::Error::DescribeErrno(error));
    const std::optional<ControlReply> reply = ControlReply::Decode(packet.bytes);
    if (!reply) return give_up("its reply is damaged");
    if (reply->sequence == sequence_) return static_cast<int>(reply->error);
  }
}

template <class Work>
int DaemonSession::TryTwice(const Work& work) {
  Reconnect();
  const int error = work();
  if (error != EIO || socket_) return error;
  Reconnect();
  return work();
}

int DaemonSession::Call(const Body& body, int file) {
  if (!IsOfThisProcess()) return EIO;
  const sync::LockGuard lock(mutex_);
  return TryTwice([&]() WARPVERBS_REQUIRES(mutex_) { return CallOnce(body, file); });
}

int DaemonSession::Add(std::shared_ptr<Member> member) {
  if (!IsOfThisProcess()) return EIO;
  const sync::LockGuard lock(mutex_);
  const Caller call = [this](const Body& body, int file)
                          WARPVERBS_REQUIRES(mutex_) { return CallOnce(body, file); };
  if (const int error = TryTwice([&] { return member->Publish(call); }); error != 0) return error;
  const auto place =
      std::ranges::upper_bound(members_, member->rank(), {}, [](const auto& other) { return other->rank(); });
  members_.insert(place, std::move(member));
  return 0;
}

void DaemonSession::Remove(const Member* member) {
  if (!IsOfThisProcess()) return;
  const sync::LockGuard lock(mutex_);
  std::erase_if(members_, [&](const auto& other) { return other.get() == member; });
  std::erase_if(pending_, [&](const Pending& other) { return other.member.get() == member; });
}

}  // namespace warpverbs::inline v0_2::gpuio
