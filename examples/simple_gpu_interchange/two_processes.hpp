#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "common/fabric.hpp"
#include "conversation.hpp"
#include "warpverbs/host/endpoint.hpp"
#include "warpverbs/host/tcp_exchange.hpp"

/// What a run with a peer in another process needs to know. Both sides must agree on the bytes and the
/// rounds.
struct PeerOptions {
  bool listens = false;
  warpverbs::host::TcpAddress meeting;
  uint32_t bytes = 1024;
  uint64_t rounds = 1;
  uint8_t value = 42;
  std::chrono::seconds patience{10};
  warpverbs::programs::Fabric fabric;
  const warpverbs::host::Gpu* gpu = nullptr;  ///< that posts; nullptr: threads of the CPU
  warpverbs::host::Placement placement = warpverbs::host::Placement::kProbe;
};

/// Runs Converse() on some processor.
///
/// @param scope  how far its releases must reach
using RunConversation = std::function<Report(const Conversation& job, warpverbs::arch::Scope scope)>;

/// Interchanges buffers with a peer in another process, maybe on another machine, and checks all that came.
///
/// Throws std::runtime_error or host::Error with a sentence, also where it was the peer that failed.
///
/// @return  how many completions were seen
uint64_t InterchangeWithPeer(const PeerOptions& options, const RunConversation& run);
