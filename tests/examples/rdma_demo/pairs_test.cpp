// Both programs in one process, with memory of every kind on each side.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <tuple>

#include "both.hpp"
#include "fake_cuda.hpp"
#include "fake_gaudi.hpp"
#include "fake_hip.hpp"

namespace rdma_demo {
namespace {

using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

class RdmaDemo : public testing::Test {
 protected:
  RdmaDemo() {
    fake_cuda::Configure("");
    fake_hip::Configure({});
    fake_gaudi::Configure({.devices = 2});  // one for each side
  }
  ~RdmaDemo() override {
    EXPECT_EQ(fake_cuda::HeldNow(), fake_cuda::Held{});
    EXPECT_EQ(fake_hip::HeldNow(), 0);
    EXPECT_EQ(fake_gaudi::HeldNow(), fake_gaudi::Held{});
  }
};

/// What the memory of a kind is called, where it lies, and who doubles in it.
struct Look {
  const char* fact;
  const char* doubler;
};

Look LookOf(const std::string& kind) {
  if (kind == "cuda")
    return {"memory of cuda:0, .* bytes at 0x.*, dma-buf fd [0-9]+\n", "a kernel on cuda:0"};
  if (kind == "hip")
    return {"memory of hip:0, .* bytes at 0x.*, dma-buf fd [0-9]+\n",
            "the processor, on a copy by the driver, since this program has no kernel for memory of hip:0"};
  if (kind == "gaudi")
    return {
        "memory of gaudi:0000:3[34]:00.0, .* bytes at 0x100100.*, dma-buf fd [0-9]+\n",
        "the processor, on a copy by the NIC, since this program has no kernel for memory of gaudi:0000:3"};
  return {"host memory, .* bytes at 0x.*, no dma-buf\n", "a kernel on threads of the processor"};
}

class Pairs : public RdmaDemo, public testing::WithParamInterface<std::tuple<const char*, const char*>> {};

TEST_P(Pairs, CarryEveryOperation) {
  const auto [server_kind, client_kind] = GetParam();
  const Both both = RunBoth(Of(server_kind), Of(client_kind));
  EXPECT_TRUE(both.well()) << both.output();
  EXPECT_THAT(both.client.output,
              AllOf(HasSubstr("  send/receive 1    ok: sent 100 and on, received 200, 202 .. 2246: all 1024"),
                    HasSubstr("  send/receive 2    ok: sent 200 and on, received 400, 402 .. 2446: all 1024"),
                    HasSubstr("  send/receive 3    ok: sent 300 and on, received 600, 602 .. 2646: all 1024"),
                    HasSubstr("  RDMA read         ok: supported, read 7000, 7001 .. 8023: all 1024"),
                    HasSubstr("  RDMA write        ok: notified of 9000, 9001 .. 10023: all 1024")));
  EXPECT_THAT(both.server.output,
              AllOf(ContainsRegex(LookOf(server_kind).fact),
                    HasSubstr(std::string("doubled by        ") + LookOf(server_kind).doubler)));
  EXPECT_THAT(both.client.output, ContainsRegex(LookOf(client_kind).fact));
}

INSTANTIATE_TEST_SUITE_P(, Pairs,
                         testing::Combine(testing::Values("host", "cuda", "hip", "gaudi"),
                                          testing::Values("host", "cuda", "hip", "gaudi")),
                         [](const auto& pair) {
                           return std::string(std::get<0>(pair.param)) + "Serves" + std::get<1>(pair.param);
                         });

TEST_F(RdmaDemo, CarriesMessagesOfAnyNumberOfIntegers) {
  for (const uint64_t bytes : {4, 8, 12, 4100, 1048572, 1048580}) {
    for (const char* const kind : {"host", "gaudi"}) {
      const Both both = RunBoth(Of(kind, bytes), Of(kind, bytes));
      EXPECT_TRUE(both.well()) << both.output();
      EXPECT_THAT(both.client.output, HasSubstr("all " + std::to_string(bytes / 4) + " integers are right"));
    }
  }
}

TEST_F(RdmaDemo, NeedsNoRetryForAPeerWithoutAReceive) {
  const Both both = RunBoth(Of("host"), Of("host"));
  for (const Ended& side : {both.server, both.client}) {
    EXPECT_TRUE(side.well) << side.output;
    EXPECT_THAT(side.output, HasSubstr("for a peer without a receive 0 (timer"));
  }
}

TEST_F(RdmaDemo, ReachesMemoryThatIsNotExportedByItsAddress) {
  fake_cuda::Configure("dma_buf=0");
  const Both both = RunBoth(Of("cuda"), Of("host"));
  EXPECT_TRUE(both.well()) << both.output();
  EXPECT_THAT(both.server.output, ContainsRegex("memory of cuda:0, .*, no dma-buf\n"));
}

TEST_F(RdmaDemo, FlushesWhatCameToAGpuBeforeAKernelOrACopyLooksAtIt) {
  fake_cuda::Configure("writes_ordering=0");
  EXPECT_TRUE(RunBoth(Of("cuda"), Of("host")).well());
  EXPECT_EQ(fake_cuda::Calls("cuFlushGPUDirectRDMAWrites"), 3) << "one for each request";
  fake_cuda::Configure("writes_ordering=0");
  EXPECT_TRUE(RunBoth(Of("host"), Of("cuda")).well());
  EXPECT_EQ(fake_cuda::Calls("cuFlushGPUDirectRDMAWrites"), 5) << "one for each step";
}

TEST_F(RdmaDemo, TakesTheFirstAcceleratorThatThereIs) {
  EXPECT_THAT(RunBoth(Of("auto"), Of("host")).server.output,
              AllOf(HasSubstr("memory            memory of cuda:0,"), Not(HasSubstr("host memory, since"))));
  fake_cuda::Configure("gpus=0");
  EXPECT_THAT(RunBoth(Of("auto"), Of("host")).server.output, HasSubstr("memory            memory of hip:0,"));
  fake_hip::Configure({.devices = 0});
  EXPECT_THAT(
      RunBoth(Of("auto"), Of("host")).server.output,
      AllOf(HasSubstr("memory            memory of gaudi:0000:33:00.0,"), HasSubstr("All is well.\n")));
}

TEST_F(RdmaDemo, TakesHostMemoryWhereThereIsNoAcceleratorAndSaysWhy) {
  fake_cuda::Configure("gpus=0");
  fake_hip::Configure({.devices = 0});
  fake_gaudi::Configure({.devices = 0});
  const Both both = RunBoth(Of("auto"), Of("auto"));
  for (const Ended& side : {both.server, both.client}) {
    EXPECT_TRUE(side.well) << side.output;
    EXPECT_THAT(side.output,
                AllOf(HasSubstr("   host memory, since there is no accelerator's that can be used:\n"),
                      HasSubstr("     cuda: Cannot start libcuda.so.1: "),
                      HasSubstr("     hip: Cannot use hip:0: this process sees 0 AMD GPU(s). "),
                      HasSubstr("     gaudi: Cannot open a Gaudi: No such device (ENODEV). "),
                      HasSubstr("  memory            host memory, ")));
  }
}

TEST_F(RdmaDemo, RefusesAnAcceleratorThatIsNotThere) {
  fake_cuda::Configure("gpus=1");
  Options brief = Of("host");
  brief.wait = std::chrono::milliseconds(100);
  const Both both = RunBoth(Of("cuda:7"), brief);
  EXPECT_THAT(both.server.sentence, HasSubstr("Cannot use cuda:7: this process sees 1 GPU(s). "));
  EXPECT_FALSE(both.client.sentence.empty());
}

}  // namespace
}  // namespace rdma_demo
