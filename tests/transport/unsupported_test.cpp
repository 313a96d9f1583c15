#include <gtest/gtest.h>

#include <vector>

#include "warpverbs/host/error.hpp"
#include "warpverbs/transport/rdma_transport.hpp"

/// A machine without a ConnectX, or with all ports down.
namespace warpverbs::transport {
namespace {

TEST(Unsupported, IsReportedWithoutAnException) { EXPECT_FALSE(RdmaTransport::Supported()); }

TEST(Unsupported, TransportsAndMemoryThrow) {
  EXPECT_THROW(RdmaTransport(0), host::Error);
  std::vector<char> bytes(64);
  EXPECT_THROW(RdmaMemory(bytes.data(), bytes.size(), 0), host::Error);
}

}  // namespace
}  // namespace warpverbs::transport
