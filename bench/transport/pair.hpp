#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>

#include "warpverbs/host/memory.hpp"
#include "warpverbs/transport/rdma_transport.hpp"

/// The fixture of the transport's benchmarks.
namespace warpverbs::bench {

inline void ExpectSuccess(const transport::Status& status) {
  if (!status.ok()) throw std::runtime_error(status.Describe());
}

/// Registered host memory.
struct Region {
  explicit Region(size_t bytes) : pages(bytes), memory(pages.data(), bytes, 0) {}

  host::HostPages pages;
  transport::RdmaMemory memory;
};

/// Two connected transports.
struct TransportPair {
  explicit TransportPair(transport::EventLoop* loop = nullptr, const transport::TransportConfig& config = {})
      : a(0, config, loop), b(0, config, loop) {
    const transport::Bound at_a = a.Bind(), at_b = b.Bind();
    ExpectSuccess(at_a.status);
    ExpectSuccess(at_b.status);
    ExpectSuccess(a.Connect(at_b.url));
    ExpectSuccess(b.Connect(at_a.url));
  }

  transport::RdmaTransport a, b;
};

}  // namespace warpverbs::bench
