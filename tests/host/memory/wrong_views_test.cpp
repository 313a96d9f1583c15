#include <gmock/gmock.h>

#include <functional>
#include <vector>

#include "host/endpoint/link.hpp"
#include "warpverbs/host/device.hpp"
#include "warpverbs/host/error.hpp"
#include "warpverbs/host/memory.hpp"
#include "warpverbs/host/region_cache.hpp"
#include "warpverbs/mlx5/syndrome.hpp"

/// Memory that a queue may not use: of another NIC, without a region, or too short. The write fails with a
/// cause, and the queue works again after Reset().
namespace warpverbs::host {
namespace {

using mlx5::Syndrome;
using testing::HasSubstr;

class WrongViews : public testing::Test {
 protected:
  /// Writes one view to another. Returns the status.
  static device::Status Write(const Endpoint& endpoint, const MemoryView& to, const MemoryView& from) {
    Queue queue(endpoint.View());
    const device::Posted posted = queue.Post(
        device::Write({to.addr, mlx5::ToBe32(to.rkey)}, {from.addr, from.bytes, mlx5::ToBe32(from.lkey)}),
        Within());
    const device::Status status = posted.status.ok() ? queue.Wait(posted.ticket, Within()) : posted.status;
    return status;
  }

  /// Expects the write to fail with `cause`. Afterwards the endpoints must connect again and carry data.
  void ExpectRefused(const MemoryView& to, const MemoryView& from, Syndrome cause, const char* words) {
    const device::Status status = Write(link_.a, to, from);
    EXPECT_EQ(status.code, Code::kError);
    EXPECT_EQ(static_cast<Syndrome>(status.syndrome), cause);
    const std::optional<QueueError> error = link_.a.LastError();
    ASSERT_TRUE(error.has_value());
    EXPECT_THAT(error->Describe(), HasSubstr(words));
    link_.a.Reset();
    link_.b.Reset();
    link_.Connect();
    EXPECT_TRUE(link_.Write(1).ok());
  }

  WrongViews() { link_.Connect(); }

  Device here_{"mlx5_0"}, elsewhere_{"mlx5_1"};
  HostPages pages_{4096};
  Link link_{here_};
  const MemoryView source_ = link_.source.region.View(), target_ = link_.target.region.View();
};

TEST_F(WrongViews, AreRejectedByNameOnUnregisteredDevices) {
  const Device* const devices[] = {&elsewhere_};
  const RegionSet set(devices, pages_.data(), pages_.size());
  EXPECT_EQ(set.View(elsewhere_).rkey, set.View(0).rkey);
  const auto why = [](const std::function<void()>& refused) -> std::string {
    try {
      refused();
    } catch (const std::exception& error) {
      return error.what();
    }
    return "it was given";
  };
  EXPECT_EQ(why([&] { static_cast<void>(set.View(here_)); }),
            "Cannot use memory on mlx5_0: it is registered only on mlx5_1. Register it on this device too, "
            "or post to "
            "an endpoint of one that it was registered on.");
  EXPECT_EQ(why([&] { static_cast<void>(set.View(1)); }),
            "region: device index 1 is out of range: 1 were named");
  RegionCache cache({&elsewhere_});
  const RegionCache::Lease lease = cache.Register(pages_.data(), 100);
  EXPECT_EQ(lease.View(elsewhere_).bytes, 100);
  EXPECT_THAT(why([&] { static_cast<void>(lease.View(here_)); }),
              HasSubstr("it is registered only on mlx5_1"));
}

TEST_F(WrongViews, FailTheWriteOnOtherDevices) {
  const MemoryRegion region(elsewhere_, pages_.data(), pages_.size());
  ExpectRefused(
      target_, region.View(), Syndrome::kLocalProtection,
      "Check the lkey and its byte order (MemoryView::Local() has it big-endian), that the buffer is inside "
      "its region, and that the region is registered on this device");
}

TEST_F(WrongViews, FailTheWriteWithoutARegion) {
  const MemoryView unregistered{.addr = reinterpret_cast<uint64_t>(pages_.data()), .bytes = pages_.size()};
  ExpectRefused(target_, unregistered, Syndrome::kLocalProtection, "Check the lkey");
  ExpectRefused(unregistered, source_, Syndrome::kRemoteAccess, "Check the rkey");
}

TEST_F(WrongViews, FailTheWriteBeyondTheRemoteMemory) {
  const MemoryRegion part(here_, pages_.data(), 100, {.remote_write = true});
  ExpectRefused(part.View(), source_, Syndrome::kRemoteAccess, "that the range is inside its region");
  EXPECT_EQ(pages_.data()[100], std::byte{});
  EXPECT_THROW(static_cast<void>(part.View().First(source_.bytes)), std::out_of_range)
      << "or the post is refused";
}

TEST_F(WrongViews, FailTheWriteWithoutTheRight) {
  const MemoryRegion unwritable(here_, pages_.data(), pages_.size());
  ExpectRefused(unwritable.View(), source_, Syndrome::kRemoteAccess,
                "that the region and the peer's endpoint grant the operation");
}

}  // namespace
}  // namespace warpverbs::host
