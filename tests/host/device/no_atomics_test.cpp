#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include "host/endpoint/link.hpp"
#include "host/memory/registration_calls.hpp"
#include "warpverbs/device/atomics.hpp"
#include "warpverbs/host/device.hpp"
#include "warpverbs/host/endpoint.hpp"

namespace warpverbs::host {
namespace {

TEST(NoAtomics, AreReportedInCapabilities) {
  const Capabilities capabilities = Device().capabilities();
  EXPECT_FALSE(capabilities.atomics());
  EXPECT_EQ(capabilities.atomic_operations, 0);
  EXPECT_EQ(capabilities.max_send_wqebbs, 32768) << "the other features exist";
}

TEST(NoAtomics, SufficeForTheDefaults) {
  const Device device;
  Endpoint a(device), b(device);
  a.Connect(b.Info());
  b.Connect(a.Info());
  EXPECT_EQ(a.State(), mlx5::QpState::kRts);
  EXPECT_EQ(b.State(), mlx5::QpState::kRts);
}

TEST(NoAtomics, AreRemovedFromRegions) {
  const Device device;
  const Words words(device);  // requests all rights
  const Access granted = words.region.View().access;
  EXPECT_FALSE(granted.remote_atomic);
  EXPECT_TRUE(granted.remote_read && granted.remote_write) << "the other rights are granted";
  EXPECT_EQ(LastAccess(), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE);
  EXPECT_FALSE(words.region.View().Subrange(8, 8).access.remote_atomic);
}

TEST(NoAtomics, RejectOnlyAtomics) {
  const Device device;
  Link link(device);
  link.Connect();
  EXPECT_TRUE(link.Write(3).ok());
  Queue queue(link.a.View());
  const device::Posted posted = queue.Post(device::FetchAdd(link.target.Remote(0), uint64_t{1}), Within());
  const device::Status status = posted.status.ok() ? queue.Wait(posted.ticket, Within()) : posted.status;
  EXPECT_EQ(status.code, Code::kError);
  EXPECT_EQ(link.target[0], 1) << "as the first write left it";
}

}  // namespace
}  // namespace warpverbs::host
