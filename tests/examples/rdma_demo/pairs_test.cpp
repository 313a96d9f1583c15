// Both programs in one process, with memory of every kind on each side.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <tuple>

#include "both_sides.hpp"
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

/// The text of a summary about one kind of memory.
struct MemoryText {
  const char* row;
  const char* doubler;
};

MemoryText TextOf(const std::string& kind) {
  if (kind == "cuda")
    return {"memory of cuda:0, .* bytes at 0x.*, dma-buf fd [0-9]+\n", "a kernel on cuda:0"};
  if (kind == "hip")
    return {"memory of hip:0, .* bytes at 0x.*, dma-buf fd [0-9]+\n",
            "the processor, on a copy by the driver, because this program has no kernel for memory of hip:0"};
  if (kind == "gaudi")
    return {
        "memory of gaudi:0000:3[34]:00.0, .* bytes at 0x100100.*, dma-buf fd [0-9]+\n",
        "the processor, on a copy by the NIC, because this program has no kernel for memory of gaudi:0000:3"};
  return {"host memory, .* bytes at 0x.*, no dma-buf\n", "a kernel on threads of the processor"};
}

class Pairs : public RdmaDemo, public testing::WithParamInterface<std::tuple<const char*, const char*>> {};

TEST_P(Pairs, CarryEveryOperation) {
  const auto [server_kind, client_kind] = GetParam();
  const BothResults both = RunBoth(MakeOptions(server_kind), MakeOptions(client_kind));
  EXPECT_TRUE(both.succeeded()) << both.output();
  EXPECT_THAT(both.client.output,
              AllOf(HasSubstr("  send/receive 1    ok: sent 100 and on, received 200, 202 .. 2246: all 1024"),
                    HasSubstr("  send/receive 2    ok: sent 200 and on, received 400, 402 .. 2446: all 1024"),
                    HasSubstr("  send/receive 3    ok: sent 300 and on, received 600, 602 .. 2646: all 1024"),
                    HasSubstr("  RDMA read         ok: supported, read 7000, 7001 .. 8023: all 1024"),
                    HasSubstr("  RDMA write        ok: notified of 9000, 9001 .. 10023: all 1024")));
  EXPECT_THAT(both.server.output,
              AllOf(ContainsRegex(TextOf(server_kind).row),
                    HasSubstr(std::string("doubled by        ") + TextOf(server_kind).doubler)));
  EXPECT_THAT(both.client.output, ContainsRegex(TextOf(client_kind).row));
}

INSTANTIATE_TEST_SUITE_P(, Pairs,
                         testing::Combine(testing::Values("host", "cuda", "hip", "gaudi"),
                                          testing::Values("host", "cuda", "hip", "gaudi")),
                         [](const auto& pair) {
                           return std::string(std::get<0>(pair.param)) + "Serves" + std::get<1>(pair.param);
                         });

TEST_F(RdmaDemo, CarriesAnyNumberOfIntegers) {
  for (const uint64_t bytes : {4, 8, 12, 4100, 1048572, 1048580}) {
    for (const char* const kind : {"host", "gaudi"}) {
      const BothResults both = RunBoth(MakeOptions(kind, bytes), MakeOptions(kind, bytes));
      EXPECT_TRUE(both.succeeded()) << both.output();
      EXPECT_THAT(both.client.output, HasSubstr("all " + std::to_string(bytes / 4) + " integers are right"));
    }
  }
}

TEST_F(RdmaDemo, NeedsNoRetryForAPeerWithoutAReceive) {
  const BothResults both = RunBoth(MakeOptions("host"), MakeOptions("host"));
  for (const SideResult& side : {both.server, both.client}) {
    EXPECT_TRUE(side.succeeded) << side.output;
    EXPECT_THAT(side.output, HasSubstr("for a peer without a receive 0 (timer"));
  }
}

TEST_F(RdmaDemo, RegistersMemoryWithoutADmaBuf) {
  fake_cuda::Configure("dma_buf=0");
  const BothResults both = RunBoth(MakeOptions("cuda"), MakeOptions("host"));
  EXPECT_TRUE(both.succeeded()) << both.output();
  EXPECT_THAT(both.server.output, ContainsRegex("memory of cuda:0, .*, no dma-buf\n"));
}

TEST_F(RdmaDemo, FlushesBeforeAKernelOrACopyReads) {
  fake_cuda::Configure("writes_ordering=0");
  EXPECT_TRUE(RunBoth(MakeOptions("cuda"), MakeOptions("host")).succeeded());
  EXPECT_EQ(fake_cuda::Calls("cuFlushGPUDirectRDMAWrites"), 3) << "one for each request";
  fake_cuda::Configure("writes_ordering=0");
  EXPECT_TRUE(RunBoth(MakeOptions("host"), MakeOptions("cuda")).succeeded());
  EXPECT_EQ(fake_cuda::Calls("cuFlushGPUDirectRDMAWrites"), 5) << "one for each step";
}

TEST_F(RdmaDemo, TakesTheFirstAccelerator) {
  EXPECT_THAT(
      RunBoth(MakeOptions("auto"), MakeOptions("host")).server.output,
      AllOf(HasSubstr("memory            memory of cuda:0,"), Not(HasSubstr("host memory, because"))));
  fake_cuda::Configure("gpus=0");
  EXPECT_THAT(RunBoth(MakeOptions("auto"), MakeOptions("host")).server.output,
              HasSubstr("memory            memory of hip:0,"));
  fake_hip::Configure({.devices = 0});
  EXPECT_THAT(
      RunBoth(MakeOptions("auto"), MakeOptions("host")).server.output,
      AllOf(HasSubstr("memory            memory of gaudi:0000:33:00.0,"), HasSubstr("All is well.\n")));
}

TEST_F(RdmaDemo, TakesHostMemoryWithoutAnAccelerator) {
  fake_cuda::Configure("gpus=0");
  fake_hip::Configure({.devices = 0});
  fake_gaudi::Configure({.devices = 0});
  const BothResults both = RunBoth(MakeOptions("auto"), MakeOptions("auto"));
  for (const SideResult& side : {both.server, both.client}) {
    EXPECT_TRUE(side.succeeded) << side.output;
    EXPECT_THAT(side.output,
                AllOf(HasSubstr("   host memory, because no accelerator can be used:\n"),
                      HasSubstr("     cuda: Cannot start libcuda.so.1: "),
                      HasSubstr("     hip: Cannot use hip:0: this process sees 0 AMD GPU(s). "),
                      HasSubstr("     gaudi: Cannot open a Gaudi: No such device (ENODEV). "),
                      HasSubstr("  memory            host memory, ")));
  }
}

TEST_F(RdmaDemo, RefusesAMissingAccelerator) {
  fake_cuda::Configure("gpus=1");
  Options options = MakeOptions("host");
  options.wait = std::chrono::milliseconds(100);
  const BothResults both = RunBoth(MakeOptions("cuda:7"), options);
  EXPECT_THAT(both.server.error, HasSubstr("Cannot use cuda:7: this process sees 1 GPU(s). "));
  EXPECT_FALSE(both.client.error.empty());
}

}  // namespace
}  // namespace rdma_demo
