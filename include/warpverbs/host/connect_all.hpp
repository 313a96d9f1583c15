#pragma once

#include <span>

#include "warpverbs/host/endpoint.hpp"
#include "warpverbs/host/exchange.hpp"
#include "warpverbs/version.hpp"

namespace warpverbs::inline v0_2::host {

/// Options of ConnectAll().
struct ConnectOptions {
  /// Each side writes 64 bytes to the other by every endpoint, from the calling thread, and checks what came.
  /// It takes an entry of each send queue: code that keeps indices itself (device::RawSendQueue) continues
  /// at 1. Both sides must want it, their endpoints must allow remote writes, and no queue may lie in a GPU's
  /// memory.
  bool round_trip = false;
};

/// Connects endpoints to as many of a peer, which does the same: the first to its first, and so on.
///
/// When it returns, those of both sides are ready to send. When it fails on either side, it fails on both,
/// and all endpoints are as after a Reset(), so that it may be called again. Only the side that loses the
/// very last message cannot know: the other side may have it, and must Reset() its endpoints, too.
///
/// An endpoint and its peer send from the best pair of their ports' GIDs: see BestPair(). Where
/// EndpointConfig names one, by gid_index or peer_gid, it is that one. Endpoint::Describe() says what was
/// chosen.
///
/// @param exchange  swaps three messages, with a round trip four; all endpoints' descriptions go in one
/// @param deadline  of the whole
/// @pre     each endpoint is new or reset, stands in `endpoints` once, and no kernel uses it
/// @errors  Error: this side's failure; or the peer's, in its own words; or the exchange's; with the ports of
///          this side and their states by then. Counts, options, partition keys and which endpoint is
///          connected to which are checked on both sides, and that two endpoints have GIDs of one type and
///          family
WARPVERBS_EXPORT void ConnectAll(std::span<Endpoint* const> endpoints, Exchange& exchange, Deadline deadline,
                                 const ConnectOptions& options = {});

}  // namespace warpverbs::inline v0_2::host
