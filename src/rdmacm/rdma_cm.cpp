#include "warpverbs/host/rdma_cm.hpp"

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "channel.hpp"
#include "host/connect/deadline_wait.hpp"
#include "host/connect/socket.hpp"
#include "warpverbs/host/device.hpp"
#include "warpverbs/host/endpoint_info.hpp"
#include "warpverbs/host/error.hpp"
#include "warpverbs/host/exchange.hpp"

namespace warpverbs::inline v0_2::host {
namespace {

// Room for private data in the messages, without the manager's own header. IBTA 1.4, 12.6.
constexpr size_t kRequestBytes = 56, kRejectBytes = 148;
static_assert(EndpointInfo::kBytes <= kRequestBytes);

/// Reads a peer's endpoint from its private data, which is padded with zeros.
///
/// @errors  Error: it has none
EndpointInfo InfoFrom(std::span<const uint8_t> private_data) {
  return EndpointInfo::FromBytes(private_data.first(std::min(private_data.size(), EndpointInfo::kBytes)));
}

/// Resets an endpoint again unless the whole attempt succeeds.
class Attempt {
 public:
  explicit Attempt(Endpoint& endpoint) : endpoint_(endpoint), own_(endpoint.Info().ToBytes()) {
    if (const mlx5::QpState state = endpoint.State(); state != mlx5::QpState::kReset) {
      throw Error("connect", "QP " + std::to_string(endpoint.qpn()),
                  std::string("it is in state ") + ToString(state), "Call Reset() on both sides first");
    }
  }
  ~Attempt() {
    if (done_) return;
    try {
      endpoint_.Reset();
    } catch (const std::exception&) {  // the first error is the one to report
    }
  }
  Attempt(const Attempt&) = delete;
  Attempt& operator=(const Attempt&) = delete;

  void Done() { done_ = true; }

  /// Returns the parameters for the peer. The queue pair is not the manager's: only its number is passed.
  rdma_conn_param ConnectionParameters() const {
    constexpr uint8_t kMaxRetries = 7;
    rdma_conn_param offer{};
    offer.private_data = own_.data();
    offer.private_data_len = static_cast<uint8_t>(own_.size());
    offer.responder_resources = offer.initiator_depth = 1;  // the private data has the real values
    offer.retry_count = offer.rnr_retry_count = kMaxRetries;
    offer.qp_num = endpoint_.qpn();
    return offer;
  }

  /// Connects with the peer's private data. Rejects the connection with the reason if that fails.
  void ConnectTo(const CmId& id, std::span<const uint8_t> private_data) const try {
    endpoint_.Connect(InfoFrom(private_data));
  } catch (const std::exception& error) {
    Refuse(id, error.what());
    throw;
  }

  /// Checks that the route leads through the endpoint's device: the manager chooses by route.
  void CheckDevice(const CmId& id, const CmStep& step) const {
    const std::string device = ibv_get_device_name(id->verbs->device);
    const std::string& own = endpoint_.device().name();
    if (device == own) return;
    throw Error(step.step, step.object,
                "the route leads through " + device + ", and the endpoint is on " + own,
                "Create the endpoint on that device, or use an address that the endpoint's device reaches");
  }

  static void Refuse(const CmId& id, std::string reason) {
    reason.resize(std::min(reason.size(), kRejectBytes));
    rdma_reject(id.get(), reason.data(), static_cast<uint8_t>(reason.size()));
  }

 private:
  Endpoint& endpoint_;
  std::array<uint8_t, EndpointInfo::kBytes> own_;
  bool done_ = false;
};

/// Why every address of a peer has failed.
struct Failure {
  /// @param nobody_listens  whether a peer may listen in a moment
  /// @param cut_short       whether the attempt used up its share of the time
  void Note(const Error& why, bool nobody_listens, bool cut_short) {
    if (!error || nobody_listens) error = why;
    may_yet_succeed = may_yet_succeed || nobody_listens || cut_short;
  }

  std::optional<Error> error;
  bool may_yet_succeed = false;
};

constexpr char kCheckDevices[] = "Check address, port and devices (rdma link)";

}  // namespace

struct CmConnection::Parts {
  Parts() = default;
  Parts(const Parts&) = delete;
  Parts& operator=(const Parts&) = delete;
  ~Parts() {
    if (id) rdma_disconnect(id.get());  // tells the peer; harmless if not connected
  }

  static std::unique_ptr<Parts> Try(const Attempt& attempt, const SocketAddress& address, const CmStep& step,
                                    const DeadlineWait& waiting, Failure& failure);

  CmChannel channel;
  CmId id;
  bool ended = false;
};

CmConnection::CmConnection(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
CmConnection::CmConnection(CmConnection&&) noexcept = default;
CmConnection& CmConnection::operator=(CmConnection&&) noexcept = default;

CmConnection::~CmConnection() = default;

bool CmConnection::AwaitEnd(Deadline deadline) {
  const DeadlineWait waiting(deadline);
  CmEvent event;
  while (!parts_->ended && parts_->channel.Next(waiting, event)) {
    // A peer that leaves before it learns that it is connected rejects instead.
    parts_->ended = event.kind == RDMA_CM_EVENT_DISCONNECTED || event.kind == RDMA_CM_EVENT_REJECTED ||
                    event.kind == RDMA_CM_EVENT_DEVICE_REMOVAL || event.kind == RDMA_CM_EVENT_TIMEWAIT_EXIT;
  }
  return parts_->ended;
}

/// Tries one address of the peer.
///
/// @return  null if it failed and another address may work
/// @errors  Error: it failed, and every other address would fail, too
std::unique_ptr<CmConnection::Parts> CmConnection::Parts::Try(const Attempt& attempt,
                                                              const SocketAddress& address,
                                                              const CmStep& step, const DeadlineWait& waiting,
                                                              Failure& failure) {
  auto parts = std::make_unique<Parts>();
  const CmChannel& channel = parts->channel;
  const auto require = [&step](int result) {
    if (result != 0) throw step.FromErrno(kCheckDevices);
  };
  CmEvent event;
  bool came = false;
  try {
    parts->id = channel.MakeId();
    rdma_cm_id* const id = parts->id.get();
    SocketAddress to = address;
    require(rdma_resolve_addr(id, nullptr, to.get(), std::max(1, waiting.Milliseconds())));
    channel.Expect(RDMA_CM_EVENT_ADDR_RESOLVED, waiting, step);
    attempt.CheckDevice(parts->id, step);
    require(rdma_resolve_route(id, std::max(1, waiting.Milliseconds())));
    channel.Expect(RDMA_CM_EVENT_ROUTE_RESOLVED, waiting, step);
    rdma_conn_param offer = attempt.ConnectionParameters();
    require(rdma_connect(id, &offer));
    came = channel.Next(waiting, event);
  } catch (const Error& error) {
    failure.Note(error, false, waiting.over());
    return nullptr;
  }
  if (came && event.kind == RDMA_CM_EVENT_CONNECT_RESPONSE) {
    attempt.ConnectTo(parts->id, event.data);
    require(rdma_establish(parts->id.get()));
    return parts;
  }
  const Error refusal(step.step, step.object,
                      (came ? event.Reason() : "the peer did not answer") + " " + waiting.Within(),
                      "Check that the peer listens there and accepts, or pass a longer deadline");
  if (came && event.IsRejectedByPeer()) throw refusal;
  failure.Note(refusal, came && event.NobodyListens(), !came);
  return nullptr;
}

CmConnection CmConnection::Connect(Endpoint& endpoint, const TcpAddress& peer, Deadline deadline) {
  constexpr std::chrono::milliseconds kBetweenTries(50);
  const DeadlineWait waiting(deadline);
  const CmStep step{"connect",
                    "QP " + std::to_string(endpoint.qpn()) + " to " + ToString(peer) + " by rdma_cm"};
  const std::vector<SocketAddress> addresses = Resolve(peer, waiting);
  Attempt attempt(endpoint);
  for (Failure failure;;) {
    failure.may_yet_succeed = false;
    for (const SocketAddress& address : addresses) {
      const auto to_come = static_cast<size_t>(&addresses.back() - &address);
      const DeadlineWait share(waiting.Share(to_come));
      auto parts = Parts::Try(attempt, address, step, addresses.size() == 1 ? waiting : share, failure);
      if (parts == nullptr) continue;
      attempt.Done();
      return CmConnection(std::move(parts));
    }
    if (!failure.may_yet_succeed || std::chrono::steady_clock::now() + 2 * kBetweenTries >= deadline)
      throw *failure.error;
    std::this_thread::sleep_for(kBetweenTries);
  }
}

struct CmListener::Parts {
  CmEvent NextPeer(const DeadlineWait& waiting, const CmStep& step) const;

  CmChannel channel;
  CmId id;
};

/// Waits for a peer's request. Refuses other programs, which must not keep the peer from being served.
///
/// @errors  Error: none came by the deadline
CmEvent CmListener::Parts::NextPeer(const DeadlineWait& waiting, const CmStep& step) const {
  for (;;) {
    CmEvent request = channel.Expect(RDMA_CM_EVENT_CONNECT_REQUEST, waiting, step);
    try {
      InfoFrom(request.data);
      return request;
    } catch (const Error& error) {
      Attempt::Refuse(request.id, error.what());
      if (waiting.over()) throw;
    }
  }
}

CmListener::CmListener(CmListener&&) noexcept = default;
CmListener& CmListener::operator=(CmListener&&) noexcept = default;
CmListener::~CmListener() = default;

CmListener::CmListener(const TcpAddress& address) : parts_(std::make_unique<Parts>()) {
  constexpr int kBacklog = 128;
  const CmStep step{"listen", "on " + ToString(address) + " by rdma_cm"};
  SocketAddress any = ResolveOwn(address).front();
  parts_->id = parts_->channel.MakeId();
  if (rdma_bind_addr(parts_->id.get(), any.get()) != 0 || rdma_listen(parts_->id.get(), kBacklog) != 0)
    throw step.FromErrno("Pass an address of an active device (rdma link) and a free port");
}

uint16_t CmListener::port() const { return ntohs(rdma_get_src_port(parts_->id.get())); }

CmConnection CmListener::Accept(Endpoint& endpoint, Deadline deadline) {
  const DeadlineWait waiting(deadline);
  const CmStep step{"accept", "a peer of QP " + std::to_string(endpoint.qpn()) + " on port " +
                                  std::to_string(port()) + " by rdma_cm"};
  Attempt attempt(endpoint);
  CmEvent request = parts_->NextPeer(waiting, step);
  auto connection = std::make_unique<CmConnection::Parts>();
  connection->id = std::move(request.id);
  try {
    connection->channel.Migrate(connection->id, step);
    attempt.CheckDevice(connection->id, step);
  } catch (const std::exception& error) {
    Attempt::Refuse(connection->id, error.what());
    throw;
  }
  attempt.ConnectTo(connection->id, request.data);
  rdma_conn_param offer = attempt.ConnectionParameters();
  if (rdma_accept(connection->id.get(), &offer) != 0) throw step.FromErrno(kCheckDevices);
  connection->channel.Expect(RDMA_CM_EVENT_ESTABLISHED, waiting, step);
  attempt.Done();
  return CmConnection(std::move(connection));
}

}  // namespace warpverbs::inline v0_2::host
