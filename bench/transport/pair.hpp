#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>

#include "warpverbs/host/memory.hpp"
#include "warpverbs/transport/rdma_transport.hpp"

/// What the transport's benchmarks share.
namespace warpverbs::bench {

inline void Expect(const transport::Status& status) {
  if (!status.ok()) throw std::runtime_error(status.What());
}

/// Registered memory of the host.
struct Region {
  explicit Region(size_t bytes) : pages(bytes), memory(pages.data(), bytes, 0) {}

  host::HostPages pages;
  transport::RdmaMemory memory;
};

/// Two transports that are connected.
struct TransportPair {
  explicit TransportPair(transport::EventLoop* loop = nullptr,
                         const transport::TransportOptions& options = {})
      : a(0, options, loop), b(0, options, loop) {
    const transport::Bound at_a = a.Bind(), at_b = b.Bind();
    Expect(at_a.status);
    Expect(at_b.status);
    Expect(a.Connect(at_b.url));
    Expect(b.Connect(at_a.url));
  }

  transport::RdmaTransport a, b;
};

}  // namespace warpverbs::bench
