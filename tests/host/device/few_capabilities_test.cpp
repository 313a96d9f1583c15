#include <gtest/gtest.h>

#include <string>

#include "warpverbs/host/device.hpp"
#include "warpverbs/host/endpoint.hpp"
#include "warpverbs/host/error.hpp"
#include "warpverbs/host/shared_completions.hpp"

/// A device without some usual features: see the options in CMakeLists.txt.
namespace warpverbs::host {
namespace {

TEST(FewCapabilities, AreReported) {
  const Capabilities capabilities = Device().capabilities();
  EXPECT_FALSE(capabilities.cqe_user_index);
  EXPECT_FALSE(capabilities.cross_channel);
  EXPECT_EQ(capabilities.atomic_sizes, 4) << "8-byte atomics would be big-endian";
}

TEST(FewCapabilities, SufficeForTheDefaults) {
  const Device device;
  Endpoint a(device), b(device);
  a.Connect(b.Info());
  b.Connect(a.Info());
  EXPECT_EQ(a.State(), mlx5::QpState::kRts);
}

TEST(FewCapabilities, AreNamedWhenAFeatureIsMissing) {
  const Device device;
  const std::string endpoint = "Cannot create an endpoint on " + device.name() + ": ";
  const auto expect_refusal = [&](const std::string& what, const EndpointConfig& config) {
    try {
      const Endpoint refused(device, config);
      ADD_FAILURE() << "accepted what must fail with " << what;
    } catch (const Error& error) {
      EXPECT_EQ(error.what(), endpoint + what);
    }
  };
  expect_refusal("the device cannot wait for the completions of another queue. Leave wait_on_cq false.",
                 {.wait_on_cq = true});
  try {
    const SharedCompletions refused(device);
    FAIL() << "shared completions that do not name their queue";
  } catch (const Error& error) {
    EXPECT_EQ(error.what(), "Cannot create shared completions on " + device.name() +
                                ": the device's completions do not name their queue. Give each endpoint a "
                                "CQ of its own: leave EndpointConfig::completions null.");
  }
}

}  // namespace
}  // namespace warpverbs::host
