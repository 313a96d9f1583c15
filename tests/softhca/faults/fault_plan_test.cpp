#include "faults/fault_plan.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

namespace softhca {
namespace {

using testing::HasSubstr;

FaultPlan Parse(std::vector<std::string> rules) { return ParseFaults(rules); }

/// Returns the error text for `rule`.
std::string ErrorOf(const std::string& rule) {
  try {
    Parse({rule});
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}

TEST(FaultPlan, ParsesAFrameRuleWithAllItsWords) {
  const FaultPlan plan = Parse({"drop:2.5%,op=WRITE_MIDDLE,nth=2,qp=0x12,received"});
  ASSERT_EQ(plan.frames.size(), 1u);
  const FrameFault& fault = plan.frames[0];
  EXPECT_EQ(fault.kind, FrameFault::Kind::kDrop);
  EXPECT_DOUBLE_EQ(fault.probability, 0.025);
  EXPECT_EQ(fault.opcode, 7);
  EXPECT_EQ(fault.nth, 2u);
  EXPECT_EQ(fault.qpn, 0x12u);
  EXPECT_EQ(fault.direction, Direction::kReceived);
  EXPECT_TRUE(plan.ConcernsFrames());
}

TEST(FaultPlan, AppliesARuleWithoutWordsToEverySentFrame) {
  const FrameFault fault = Parse({"duplicate"}).frames.at(0);
  EXPECT_EQ(fault.kind, FrameFault::Kind::kDuplicate);
  EXPECT_EQ(fault.probability, 1);
  EXPECT_EQ(fault.direction, Direction::kSent);
  EXPECT_FALSE(fault.opcode || fault.qpn);
  EXPECT_EQ(fault.nth, 0u);
}

TEST(FaultPlan, ParsesTimesWithTheirUnits) {
  EXPECT_EQ(Parse({"delay,by=7ns"}).frames.at(0).by_ns, 7u);
  EXPECT_EQ(Parse({"delay,by=7us"}).frames.at(0).by_ns, 7'000u);
  EXPECT_EQ(Parse({"slow,every=7ms"}).slow_ns, 7'000'000u);
  EXPECT_EQ(Parse({"kill,after=7s"}).kill_after_ns, 7'000'000'000u);
}

TEST(FaultPlan, ParsesRulesThatConcernNoFrame) {
  const FaultPlan plan =
      Parse({"link-down,after=500ms,for=2s,port=mlx5_1/2", "link-down",
             "syndrome:0x13,qp=0x101,index=3,vendor=0x88", "syndrome:21,index=0", "seed:7"});
  EXPECT_FALSE(plan.ConcernsFrames());
  ASSERT_EQ(plan.links.size(), 2u);
  EXPECT_EQ(plan.links[0].port, "mlx5_1/2");
  EXPECT_EQ(plan.links[0].after_ns, 500'000'000u);
  EXPECT_EQ(plan.links[0].for_ns, 2'000'000'000u);
  EXPECT_EQ(plan.links[1].port, "");
  EXPECT_FALSE(plan.links[1].for_ns.has_value());
  ASSERT_EQ(plan.syndromes.size(), 2u);
  EXPECT_EQ(plan.syndromes[0].syndrome, mlx5::Syndrome::kRemoteAccess);
  EXPECT_EQ(plan.syndromes[0].vendor_syndrome, 0x88);
  EXPECT_EQ(plan.syndromes[0].qpn, 0x101u);
  EXPECT_EQ(plan.syndromes[0].index, 3);
  EXPECT_FALSE(plan.syndromes[1].qpn.has_value());
  EXPECT_EQ(plan.seed, 7u);
}

TEST(FaultPlan, NamesRuleWordAndRemedyWhenItRefuses) {
  const std::pair<const char*, const char*> complaints[] = {
      {"flood", "'flood' is not a fault; use drop, "},
      {"drop:5", "'5' is not a percentage; write 5%"},
      {"drop:101%", "'101%' is not a percentage"},
      {"drop:-1%", "'-1%' is not a percentage"},
      {"drop:nan%", "'nan%' is not a percentage"},
      {"drop,colour=red", "'drop' does not take 'colour', only sent, received, op, qp, nth"},
      {"drop,by=3us", "'drop' does not take 'by'"},
      {"drop,op=WRITE", "'WRITE' is not a packet type; use a name such as WRITE_MIDDLE"},
      {"drop,nth=0", "nth counts from 1"},
      {"drop,nth=1,nth=2", "'nth' is given twice"},
      {"drop,sent,received", "sent and received exclude each other"},
      {"drop,sent=1", "'sent' takes no value"},
      {"drop,qp", "'qp' needs a value"},
      {"drop,qp=0x1000000", "'0x1000000' is not a number from 0 to 16777215"},
      {"drop,qp=12x", "'12x' is not a number"},
      {"drop,", "a word is empty"},
      {"", "a rule starts with its kind"},
      {"delay:5%", "a time is missing; write delay:10%,by=200us"},
      {"delay,by=5", "'5' is not a time; write 50us"},
      {"delay,by=99999999999s", "is not a time"},
      {"slow", "a time is missing; write slow,every=50us"},
      {"slow:5%,every=5us", "'slow' takes no value"},
      {"syndrome:0,index=1", "syndrome 0 is success"},
      {"syndrome:0x13", "a syndrome or an index is missing"},
      {"syndrome:0x100,index=1", "'0x100' is not a number from 0 to 255"},
      {"kill", "a time is missing; write kill,after=1s"},
      {"seed", "a number is missing; write seed:7"}};
  for (const auto& [rule, why] : complaints) {
    EXPECT_THAT(ErrorOf(rule), HasSubstr(std::string("--fault ") + rule + ": ")) << rule;
    EXPECT_THAT(ErrorOf(rule), HasSubstr(why)) << rule;
  }
}

TEST(FaultPlan, RefusesALinkOfAnUnknownPort) {
  const std::vector<DeviceConfig> devices = {{.name = "mlx5_0", .ports = {PortConfig{}}}};
  EXPECT_NO_THROW(CheckPorts(Parse({"link-down", "link-down,port=mlx5_0/1"}), devices));
  EXPECT_THROW(CheckPorts(Parse({"link-down,port=mlx5_0/2"}), devices), std::invalid_argument);
  EXPECT_THROW(CheckPorts(Parse({"link-down,port=mlx5_0"}), devices), std::invalid_argument);
}

}  // namespace
}  // namespace softhca
