#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "common/device_selection.hpp"
#include "warpverbs/host/endpoint_config.hpp"
#include "warpverbs/host/gpu.hpp"
#include "warpverbs/host/tcp_exchange.hpp"

/// The command line. Both sides must agree on bytes and rounds.
struct Options {
  bool listens = false;
  warpverbs::host::TcpAddress address;
  uint32_t bytes = 1024;
  uint64_t rounds = 1;
  uint8_t value = 42;
  std::chrono::seconds timeout{10};  ///< longest time of each wait for the peer
  warpverbs::programs::DeviceSelection fabric;
  std::optional<warpverbs::host::Gpu> gpu{};  ///< GPU that runs the kernel; empty: threads of the CPU run it
  warpverbs::host::Placement placement = warpverbs::host::Placement::kProbe;
};

/// Interchanges buffers with the peer and verifies everything that arrives.
///
/// @return  number of completions, each of which came once and in order
/// @errors  host::Error, std::runtime_error: this side failed, or the peer did
uint64_t Interchange(const Options& options);
