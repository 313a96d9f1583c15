#include "doctor/peer_test.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <vector>

#include "common/accept_client.hpp"
#include "machine/transfer.hpp"
#include "warpverbs/host/device.hpp"
#include "warpverbs/host/endpoint.hpp"
#include "warpverbs/host/error.hpp"
#include "warpverbs/host/exchange.hpp"
#include "warpverbs/host/memory.hpp"

namespace warpverbs::programs {
namespace {

using Bytes = std::vector<uint8_t>;

constexpr std::chrono::seconds kTimeout{10};
constexpr std::chrono::seconds kConnectTimeout{60};
constexpr size_t kInfoBytes = host::EndpointInfo::kBytes;
constexpr uint64_t kServerSalt = 1;
constexpr uint64_t kClientSalt = 2;

uint16_t ParsePort(const std::string& text) {
  const bool digits = !text.empty() && text.size() <= 5 &&
                      std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
  if (!digits || std::stoul(text) > 65535)
    throw std::invalid_argument("'" + text + "' is invalid: expected a port from 0 to 65535");
  return static_cast<uint16_t>(std::stoul(text));
}

/// Connects to the peer, and swaps the first message with it.
host::TcpExchange Open(const PeerOptions& options, const Bytes& offer, Bytes& peers_offer) {
  const auto swap = [&](host::TcpExchange& peer, host::Deadline deadline) {
    peers_offer = peer.Swap(offer, "its endpoint", deadline);
  };
  const host::Deadline deadline = host::DeadlineIn(kConnectTimeout);
  if (!options.listens) {
    host::TcpExchange peer = host::TcpExchange::Connect(options.address, deadline);
    swap(peer, host::DeadlineIn(kTimeout));
    return peer;
  }
  const host::TcpListener listener(options.address);
  std::fprintf(stderr, "warpverbs-doctor: listening on port %d\n", listener.port());
  return AcceptClient(listener, deadline, kTimeout, swap, [](const std::string& line) {
    std::fprintf(stderr, "warpverbs-doctor: %s\n", line.c_str());
  });
}

/// Serializes an endpoint, and the address and rkey for the peer to write to, most significant byte first.
Bytes Offer(const host::Endpoint& endpoint, const host::MemoryView& target) {
  const auto info = endpoint.Info().ToBytes();
  Bytes bytes(info.begin(), info.end());
  for (int shift = 56; shift >= 0; shift -= 8) bytes.push_back(static_cast<uint8_t>(target.addr >> shift));
  for (int shift = 24; shift >= 0; shift -= 8) bytes.push_back(static_cast<uint8_t>(target.rkey >> shift));
  return bytes;
}

struct Peer {
  host::EndpointInfo info;
  host::MemoryView target;
};

Peer ReadOffer(const Bytes& bytes, const std::string& name) {
  if (bytes.size() != kInfoBytes + 12)
    throw host::Error("test with", name, "it is not warpverbs-doctor of this version",
                      "Run the same version on both machines");
  Peer peer{.info = host::EndpointInfo::FromBytes(std::span(bytes).first(kInfoBytes)), .target = {}};
  for (size_t i = 0; i < 8; ++i) peer.target.addr = peer.target.addr << 8 | bytes[kInfoBytes + i];
  for (size_t i = 8; i < 12; ++i) peer.target.rkey = peer.target.rkey << 8 | bytes[kInfoBytes + i];
  peer.target.bytes = TransferMemory::kBytes;
  return peer;
}

/// Joins the failures of both sides: one may be the cause of the other.
std::string Join(const std::string& here, const std::string& there) {
  if (there.empty()) return here;
  return (here.empty() ? "" : here + "; ") + "on the peer: " + there;
}

/// Sends this side's failure to the peer, "" if there is none. Throws if either side failed.
void Agree(host::Exchange& exchange, const std::string& failure, const std::string& step) {
  const Bytes mine(failure.begin(), failure.end());
  const Bytes answer =
      exchange.Swap(mine, "its outcome of the step '" + step + "'", host::DeadlineIn(kTimeout));
  const std::string theirs =
      host::PrintableText({reinterpret_cast<const char*>(answer.data()), answer.size()}, 500);
  if (failure.empty() && theirs.empty()) return;
  throw host::Error(
      step, "with " + exchange.PeerName(), Join(failure, theirs),
      "Check that the addresses of both machines reach each other (the checks gid and link, `ping`), "
      "and that no firewall drops UDP port 4791");
}

/// Returns the error that `work` throws, without its remedy; "" if it throws none.
template <class Work>
std::string FailureOf(const Work& work) {
  try {
    work();
    return "";
  } catch (const std::exception& error) {
    std::string remedy;
    return SplitRemedy(error, remedy);
  }
}

}  // namespace

host::TcpAddress ParseAddress(const std::string& text, bool listens) {
  if (listens) return {.host = "", .port = text.empty() ? kDoctorPort : ParsePort(text)};
  const size_t bracket = text.rfind(']'), colon = text.rfind(':');
  host::TcpAddress address{.host = text, .port = kDoctorPort};
  const bool bare_ipv6 = bracket == std::string::npos && std::count(text.begin(), text.end(), ':') > 1;
  if (colon != std::string::npos && !bare_ipv6 && (bracket == std::string::npos || colon > bracket)) {
    address.host = text.substr(0, colon);
    address.port = ParsePort(text.substr(colon + 1));
  }
  if (address.host.starts_with('[') && address.host.ends_with(']'))
    address.host = address.host.substr(1, address.host.size() - 2);
  if (address.host.empty() || address.port == 0)
    throw std::invalid_argument("'" + text + "' is invalid: expected HOST or HOST:PORT");
  return address;
}

std::string TestWithPeer(const DeviceSelection& selection, const PeerOptions& options) {
  const uint64_t my_salt = options.listens ? kServerSalt : kClientSalt;
  const uint64_t peers_salt = options.listens ? kClientSalt : kServerSalt;
  const NicAndPort where = selection.FirstActivePort();
  const host::Device device(where.nic);
  const TransferMemory source(device, {}), target(device, {.remote_write = true});
  source.Fill(my_salt);
  host::Endpoint endpoint(
      device, selection.Config(where.port));  // declared after the memory, so that it is destroyed first
  Bytes peers_offer;
  host::TcpExchange exchange = Open(options, Offer(endpoint, target.View()), peers_offer);
  const Peer peer = ReadOffer(peers_offer, exchange.PeerName());
  Agree(exchange, FailureOf([&] { endpoint.Connect(peer.info); }), "connect");
  Agree(exchange, WriteAndWait(endpoint, peer.target, source.View()), "write");
  // The peer's write completed before the peer agreed to the last step.
  Agree(exchange, target.Holds(peers_salt) ? "" : "the data arrived changed", "verify");
  return std::to_string(TransferMemory::kBytes) + " bytes written and verified each way with " +
         exchange.PeerName() + " by " + device.name();
}

}  // namespace warpverbs::programs
