#include "warpverbs/host/connect_all.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <new>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "connect/address_offer.hpp"
#include "connect/byte_stream.hpp"
#include "connect/round_trip.hpp"
#include "log/log.hpp"
#include "queue/queue_pair.hpp"
#include "warpverbs/host/endpoint_info.hpp"
#include "warpverbs/host/error.hpp"

namespace warpverbs::inline v0_2::host {
namespace {

// A message: magic (4 bytes), version (2), kind (2), body.
constexpr uint32_t kHandshakeMagic = 0x57564361;  // "WVCa"
constexpr uint16_t kHandshakeVersion = 2;
constexpr size_t kMaxFailureBytes = 4096;
constexpr char kCarryWhole[] = "Check that the exchange delivers messages unchanged";

/// The step that a side has completed when it sends the message.
enum class Kind : uint16_t {
  kFailed,     ///< followed by the reason as text
  kDescribed,  ///< count (4), round trip (2), address offer; per endpoint: description, buffer address (8),
               ///< rkey (4)
  kConnected,  ///< per endpoint: own QP number (4), peer's QP number (4)
  kWritten,
  kVerified,
};

std::string Count(size_t count) { return std::to_string(count) + (count == 1 ? " endpoint" : " endpoints"); }

ByteWriter Begin(Kind kind) {
  ByteWriter message;
  message.Put(4, kHandshakeMagic);
  message.Put(2, kHandshakeVersion);
  message.Put(2, static_cast<uint16_t>(kind));
  return message;
}

std::vector<uint8_t> Failure(std::string_view reason) {
  ByteWriter message = Begin(Kind::kFailed);
  for (const char letter : reason.substr(0, kMaxFailureBytes)) {
    message.Put(1, static_cast<uint8_t>(letter));
  }
  return message.bytes();
}

/// Makes the peer's text the end of a sentence.
std::string PeerText(std::span<const uint8_t> bytes) {
  bytes = bytes.first(std::min(bytes.size(), kMaxFailureBytes));
  std::string text =
      PrintableText({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, kMaxFailureBytes);
  while (text.ends_with('.')) text.pop_back();
  return text;
}

std::string StateOf(const Device& device, uint8_t number) try {
  for (const Port& port : device.Ports())
    if (port.number == number) return port.state;
  return "gone";
} catch (const Error&) {
  return "not known";
}

/// Returns "mlx5_0 port 1 is active, mlx5_1 port 2 is down", with each port once.
std::string PortStates(std::span<Endpoint* const> endpoints) {
  std::set<std::pair<std::string, uint8_t>> seen;
  std::string text;
  for (const Endpoint* const endpoint : endpoints) {
    if (endpoint == nullptr || !seen.emplace(endpoint->device().name(), endpoint->port()).second) continue;
    text += (text.empty() ? "" : ", ") + endpoint->device().name() + " port " +
            std::to_string(endpoint->port()) + " is " + StateOf(endpoint->device(), endpoint->port());
  }
  return text.empty() ? "no port" : text;
}

/// The peer of one endpoint.
struct Peer {
  EndpointInfo info;
  RoundTripBuffer place;
};

/// One side of a ConnectAll().
class ConnectHandshake {
 public:
  ConnectHandshake(std::span<Endpoint* const> endpoints, Exchange& exchange, Deadline deadline,
                   const ConnectOptions& options)
      : endpoints_(endpoints), exchange_(exchange), deadline_(deadline), options_(options) {}

  void Run() {
    Step(Kind::kDescribed, "the descriptions of " + Count(endpoints_.size()), [&] {
      CheckEndpoints();
      return Describe();
    });
    try {
      Step(Kind::kConnected, "the confirmation that " + Count(endpoints_.size()) + " are connected", [&] {
        ChooseAddresses(ReadDescriptions());
        Connect();
        return Pairs();
      });
      if (options_.round_trip) {
        Step(Kind::kWritten, "the confirmation that the round trip's writes are done", [&] {
          CheckPairs();
          for (size_t i = 0; i < peers_.size(); ++i)
            trip_->Write(i, peers_[i].info.qpn, peers_[i].place, deadline_);
          return Begin(Kind::kWritten);
        });
      }
      Step(Kind::kVerified, "the confirmation that the connections are verified", [&] {
        if (!options_.round_trip) CheckPairs();
        for (size_t i = 0; i < peers_.size() && trip_; ++i) trip_->Check(i, peers_[i].info.qpn, deadline_);
        return Begin(Kind::kVerified);
      });
    } catch (...) {
      Undo();
      throw;
    }
  }

 private:
  Error Failed(const std::string& reason, const std::string& remedy) const {
    return {"connect", Count(endpoints_.size()) + " to " + exchange_.PeerName(), reason, remedy};
  }

  /// Does this side's part and swaps the result, so that either both sides continue or neither does. The
  /// peer's answer is in answer_ and body_ afterwards.
  template <class Work>
  void Step(Kind kind, const std::string& message_name, const Work& work) {
    std::exception_ptr failure;
    std::vector<uint8_t> message;
    Deadline until = deadline_;
    const auto fail = [&](const char* reason) {
      failure = std::current_exception();
      try {
        message = Failure(reason);
      } catch (const std::bad_alloc&) {
        message.swap(no_memory_);  // the peer must not wait until its deadline
      }
    };
    try {
      message = WithPorts([&] { return work().bytes(); });
    } catch (const Error& error) {
      fail(error.what());
    } catch (const std::bad_alloc& error) {
      fail(error.what());
    } catch (...) {  // thrown by a WaitCheck: the peer hears of it, but its answer is not awaited
      fail("it was interrupted");
      constexpr std::chrono::milliseconds kToSend(100);
      until = std::min(until, std::chrono::steady_clock::now() + kToSend);
    }
    try {
      answer_ = WithPorts([&] { return exchange_.Swap(message, message_name, until); });
    } catch (...) {
      if (!failure) throw;
    }
    if (failure) std::rethrow_exception(failure);  // the cause, whether or not the peer got it
    WithPorts([&] { Open(kind); });
  }

  /// Adds the state of this side's ports to errors, read after the failure.
  template <class Work>
  auto WithPorts(const Work& work) const {
    try {
      return work();
    } catch (const Error& error) {
      throw error.About("(" + PortStates(endpoints_) + ")");
    }
  }

  void Open(Kind expected) {
    ByteReader reader(answer_);
    const bool is_ours = reader.Get(4) == kHandshakeMagic;
    const uint64_t version = reader.Get(2), kind = reader.Get(2);
    if (!reader.ok() || !is_ours) {
      throw Failed("its message is not from ConnectAll()",
                   "Call ConnectAll() at the same point on both sides");
    }
    if (version != kHandshakeVersion) {
      throw Failed("its ConnectAll() has version " + std::to_string(version) + ", not " +
                       std::to_string(kHandshakeVersion),
                   "Use the same release of warpverbs on both sides");
    }
    body_ = reader.rest();
    if (kind == static_cast<uint64_t>(Kind::kFailed))
      throw Failed("the peer failed: " + PeerText(body_), "Fix it there");
    if (kind != static_cast<uint64_t>(expected)) {
      throw Failed("it is at step " + std::to_string(kind) + " instead of " +
                       std::to_string(static_cast<uint64_t>(expected)),
                   "Call ConnectAll() with the same options on both sides");
    }
  }

  void CheckEndpoints() const {
    std::set<const Endpoint*> seen;
    for (size_t i = 0; i < endpoints_.size(); ++i) {
      const Endpoint* const endpoint = endpoints_[i];
      const auto require = [&](bool ok, const std::string& reason, const char* remedy) {
        if (!ok) throw Failed("endpoint " + std::to_string(i) + " " + reason, remedy);
      };
      require(endpoint != nullptr, "is a null pointer", "Pass endpoints");
      require(seen.insert(endpoint).second, "is in the list twice", "Pass each endpoint once");
      const mlx5::QpState state = endpoint->State();
      require(state == mlx5::QpState::kReset,
              "(QP " + std::to_string(endpoint->qpn()) + ") is in state " + ToString(state),
              "Call Reset() on both sides first");
    }
  }

  ByteWriter Describe() {
    own_.emplace(endpoints_);
    if (options_.round_trip) trip_.emplace(endpoints_);
    ByteWriter message = Begin(Kind::kDescribed);
    message.Put(4, endpoints_.size());
    message.Put(2, options_.round_trip ? 1 : 0);
    own_->Put(message);
    for (size_t i = 0; i < endpoints_.size(); ++i) {
      const RoundTripBuffer place = trip_ ? trip_->PlaceOf(i) : RoundTripBuffer{};
      message.Put(endpoints_[i]->Info().ToBytes());
      message.Put(8, place.address);
      message.Put(4, place.rkey);
    }
    return message;
  }

  /// @return  the GIDs and keys of the peer's endpoints
  AddressOffer ReadDescriptions() {
    ByteReader reader(body_);
    const uint64_t count = reader.Get(4), round_trip = reader.Get(2);
    if (reader.ok() && count != endpoints_.size()) {
      throw Failed("the two sides disagree: " + Count(endpoints_.size()) + " here, " + std::to_string(count) +
                       " there",
                   "Pass the same number on both sides, in the same order");
    }
    if (reader.ok() && (round_trip != 0) != options_.round_trip) {
      throw Failed(std::string("the two sides disagree: ") + (options_.round_trip ? "a" : "no") +
                       " round trip here, " + (options_.round_trip ? "none" : "one") + " there",
                   "Pass the same ConnectOptions on both sides");
    }
    std::optional<AddressOffer> theirs = AddressOffer::Get(reader, endpoints_.size());
    if (!theirs) throw Failed("its lists of GIDs and partition keys are damaged", kCarryWhole);
    for (size_t i = 0; i < endpoints_.size(); ++i) {
      const std::span<const uint8_t> info = reader.GetBytes(EndpointInfo::kBytes);
      const RoundTripBuffer place{.address = reader.Get(8), .rkey = static_cast<uint32_t>(reader.Get(4))};
      if (reader.ok()) peers_.push_back({EndpointInfo::FromBytes(info), place});
    }
    if (!reader.ok() || !reader.rest().empty()) {
      throw Failed("its descriptions have the wrong size, " + std::to_string(body_.size()) + " bytes",
                   kCarryWhole);
    }
    return std::move(*theirs);
  }

  /// Sets each endpoint's address to its half of the best pair. The peer computes the same pairs.
  void ChooseAddresses(const AddressOffer& theirs) {
    const std::vector<std::optional<GidPair>> pairs = own_->PairsWith(theirs);
    for (size_t i = 0; i < endpoints_.size(); ++i) {
      if (!pairs[i]) throw NoPair(i, theirs);
      CheckPartitions(i, theirs.PartitionKeyOf(i));
    }
    for (size_t i = 0; i < endpoints_.size(); ++i) {
      endpoints_[i]->SendFrom(pairs[i]->here, pairs[i]->there.gid);
      peers_[i].info.gid = pairs[i]->there.gid;
      peers_[i].info.gid_type = pairs[i]->there.type;
    }
  }

  std::string NameOf(size_t i) const {
    return "endpoint " + std::to_string(i) + " (QP " + std::to_string(endpoints_[i]->qpn()) + " on " +
           endpoints_[i]->device().name() + ")";
  }

  Error NoPair(size_t i, const AddressOffer& theirs) const {
    return Failed(NameOf(i) + " and its peer have no GIDs of one type and family to send from: " +
                      host::Describe(own_->GidsOf(i)) + " here, " + host::Describe(theirs.GidsOf(i)) +
                      " there",
                  "Use ports of one link layer with addresses of one family, and set "
                  "EndpointConfig::gid_index or peer_gid to matching GIDs, or leave them unset");
  }

  void CheckPartitions(size_t i, uint16_t theirs) const {
    const std::string conflict = PartitionConflict(own_->PartitionKeyOf(i), theirs);
    if (conflict.empty()) return;
    throw Failed("the partition keys of " + NameOf(i) + ", at index " +
                     std::to_string(endpoints_[i]->pkey_index()) +
                     ", and of its peer do not match: " + conflict,
                 "Set EndpointConfig::pkey_index to keys of one partition; the subnet manager assigns keys, "
                 "and full or limited membership");
  }

  void Connect() const {
    for (size_t i = 0; i < endpoints_.size(); ++i) endpoints_[i]->Connect(peers_[i].info);
  }

  ByteWriter Pairs() const {
    ByteWriter message = Begin(Kind::kConnected);
    for (size_t i = 0; i < endpoints_.size(); ++i) {
      message.Put(4, endpoints_[i]->qpn());
      message.Put(4, peers_[i].info.qpn);
    }
    return message;
  }

  /// Checks that both sides mean the same pairs: a faulty exchange could connect a to b, and b to c.
  void CheckPairs() const {
    ByteReader reader(body_);
    for (size_t i = 0; i < endpoints_.size(); ++i) {
      const uint64_t theirs = reader.Get(4), ours = reader.Get(4);
      if (reader.ok() && theirs == peers_[i].info.qpn && ours == endpoints_[i]->qpn()) continue;
      throw Failed("endpoint " + std::to_string(i) + " is connected from QP " +
                       std::to_string(endpoints_[i]->qpn()) + " to QP " + std::to_string(peers_[i].info.qpn) +
                       " here, and from QP " + std::to_string(theirs) + " to QP " + std::to_string(ours) +
                       " there",
                   "Check that the exchange does not mix up peers");
    }
  }

  void Undo() const noexcept {
    for (Endpoint* const endpoint : endpoints_) {
      try {
        endpoint->Reset();
      } catch (const std::exception&) {  // the first error is the one to report
      }
    }
  }

  std::span<Endpoint* const> endpoints_;
  Exchange& exchange_;
  Deadline deadline_;
  ConnectOptions options_;
  std::optional<AddressOffer> own_;
  std::optional<RoundTrip> trip_;
  std::vector<Peer> peers_;
  std::vector<uint8_t> no_memory_ = Failure("it is out of memory");
  std::vector<uint8_t> answer_;
  std::span<const uint8_t> body_;  // body of the answer
};

}  // namespace

void ConnectAll(std::span<Endpoint* const> endpoints, Exchange& exchange, Deadline deadline,
                const ConnectOptions& options) {
  ConnectHandshake(endpoints, exchange, deadline, options).Run();
  Log(LogLevel::kInfo, [&] { return "connected " + Count(endpoints.size()) + " to " + exchange.PeerName(); });
}

}  // namespace warpverbs::inline v0_2::host
