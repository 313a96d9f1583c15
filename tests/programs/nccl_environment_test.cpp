#include "common/nccl_environment.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "warpverbs/host/endpoint_config.hpp"
#include "warpverbs/host/error.hpp"
#include "warpverbs/host/topology.hpp"

namespace warpverbs::programs {
namespace {

TEST(HcaFilter, AllowsAllPortsWhenEmpty) {
  EXPECT_TRUE(HcaFilter().Allows("mlx5_0", 1));
  EXPECT_TRUE(HcaFilter::Parse("").Allows("mlx5_0", 1));
}

using Ports = std::vector<std::pair<std::string, uint8_t>>;

/// Checks which ports a filter allows.
void ExpectFilter(const std::string& text, const Ports& allowed, const Ports& refused) {
  const HcaFilter filter = HcaFilter::Parse(text);
  for (const auto& [nic, port] : allowed)
    EXPECT_TRUE(filter.Allows(nic, port)) << text << " " << nic << ":" << +port;
  for (const auto& [nic, port] : refused)
    EXPECT_FALSE(filter.Allows(nic, port)) << text << " " << nic << ":" << +port;
}

TEST(HcaFilter, MatchesPrefixesOfNames) {
  ExpectFilter("mlx5_1", {{"mlx5_1", 1}, {"mlx5_1", 2}, {"mlx5_10", 1}}, {{"mlx5_2", 1}, {"mlx5_", 1}});
  ExpectFilter("mlx5", {{"mlx5_bond_0", 1}}, {});
}

TEST(HcaFilter, AllowsEachEntryOfAList) {
  ExpectFilter("mlx5_0:1,mlx5_3", {{"mlx5_0", 1}, {"mlx5_3", 1}, {"mlx5_3", 2}},
               {{"mlx5_0", 2}, {"mlx5_1", 1}});
}

TEST(HcaFilter, MatchesWholeNamesAfterAnEqualsSign) {
  ExpectFilter("=mlx5_1,mlx5_2:2", {{"mlx5_1", 1}, {"mlx5_2", 2}},
               {{"mlx5_10", 1}, {"mlx5_2", 1}, {"mlx5_20", 2}});
}

TEST(HcaFilter, ExcludesTheListAfterACaret) {
  ExpectFilter("^mlx5_1,mlx5_4:2", {{"mlx5_0", 1}, {"mlx5_4", 1}},
               {{"mlx5_1", 1}, {"mlx5_11", 1}, {"mlx5_4", 2}});
}

TEST(HcaFilter, ExcludesWholeNamesAfterCaretAndEqualsSign) {
  ExpectFilter("^=mlx5_1", {{"mlx5_10", 1}}, {{"mlx5_1", 1}});
}

TEST(HcaFilter, RejectsMalformedLists) {
  for (const char* text :
       {"^", "=", "^=", ",", "mlx5_0,", ",mlx5_0", ":1", "mlx5_0:", "mlx5_0:0", "mlx5_0:255", "mlx5_0:one",
        "mlx5_0:1:1", "=^mlx5_0", "mlx5_0, mlx5_1", "mlx5_0,=mlx5_1"}) {
    EXPECT_THROW(HcaFilter::Parse(text), host::Error) << text;
  }
  try {
    HcaFilter::Parse("mlx5_0:9999");
    FAIL() << "took port 9999";
  } catch (const host::Error& error) {
    EXPECT_STREQ(error.what(),
                 "Cannot use NCCL_IB_HCA=mlx5_0:9999: the port in 'mlx5_0:9999' is not a number from 1 to "
                 "254. Set it to a list such as mlx5_0,mlx5_1:1, with a leading = to match whole names or ^ "
                 "to exclude "
                 "the list, or unset it.");
  }
}

/// Reads made-up variables.
NcclEnvironment Read(const std::map<std::string, std::string>& variables) {
  return ReadNcclEnvironment([&](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

TEST(NcclEnvironment, HasTheDefaultsOfTheLibraryWhenNothingIsSet) {
  for (const NcclEnvironment& read :
       {Read({}),
        Read({{"NCCL_IB_HCA", ""}, {"NCCL_IB_GID_INDEX", ""}, {"NCCL_IB_TC", ""}, {"NCCL_IB_SL", ""}})}) {
    const host::EndpointConfig library;
    EXPECT_TRUE(read.hca.Allows("mlx5_0", 1));
    EXPECT_EQ(read.gid_index, library.gid_index);
    EXPECT_EQ(read.traffic_class, library.path.traffic_class);
    EXPECT_EQ(read.service_level, library.path.service_level);
  }
}

TEST(NcclEnvironment, ReadsTheVariables) {
  const NcclEnvironment read = Read(
      {{"NCCL_IB_HCA", "^mlx5_4"}, {"NCCL_IB_GID_INDEX", "3"}, {"NCCL_IB_TC", "106"}, {"NCCL_IB_SL", "5"}});
  EXPECT_FALSE(read.hca.Allows("mlx5_4", 1));
  EXPECT_EQ(read.gid_index, 3);
  EXPECT_EQ(read.traffic_class, 106);
  EXPECT_EQ(read.service_level, 5);
}

TEST(NcclEnvironment, AcceptsEndsOfRangesAndHexadecimalNumbers) {
  EXPECT_EQ(Read({{"NCCL_IB_GID_INDEX", "-1"}}).gid_index, -1);
  EXPECT_EQ(Read({{"NCCL_IB_GID_INDEX", "65535"}}).gid_index, 65535);
  EXPECT_EQ(Read({{"NCCL_IB_TC", "255"}}).traffic_class, 255);
  EXPECT_EQ(Read({{"NCCL_IB_TC", "0x6a"}}).traffic_class, 106);
  EXPECT_EQ(Read({{"NCCL_IB_SL", "15"}}).service_level, 15);
}

TEST(NcclEnvironment, RejectsAnythingElse) {
  for (const auto& [variable, value] : std::multimap<std::string, std::string>{{"NCCL_IB_GID_INDEX", "-2"},
                                                                               {"NCCL_IB_GID_INDEX", "65536"},
                                                                               {"NCCL_IB_GID_INDEX", "three"},
                                                                               {"NCCL_IB_TC", "256"},
                                                                               {"NCCL_IB_TC", "-1"},
                                                                               {"NCCL_IB_TC", "1 "},
                                                                               {"NCCL_IB_TC", "0x"},
                                                                               {"NCCL_IB_TC", "0x-1"},
                                                                               {"NCCL_IB_SL", "16"},
                                                                               {"NCCL_IB_SL", "99999999999"},
                                                                               {"NCCL_IB_HCA", "^"}}) {
    EXPECT_THROW(Read({{variable, value}}), host::Error) << variable << "=" << value;
  }
}

TEST(NcclEnvironment, NamesTheVariableItsValueAndTheValidRangeInErrors) {
  try {
    Read({{"NCCL_IB_TC", "300"}});
    FAIL() << "took traffic class 300";
  } catch (const host::Error& error) {
    EXPECT_STREQ(error.what(),
                 "Cannot use NCCL_IB_TC=300: a traffic class is a number from 0 to 255. Set it to a number "
                 "from 0 to 255, or unset it.");
  }
}

TEST(NcclEnvironment, ReadsTheEnvironmentOfTheProcessByDefault) {
  ASSERT_EQ(setenv("NCCL_IB_SL", "4", 1), 0);
  EXPECT_EQ(ReadNcclEnvironment().service_level, 4);
  ASSERT_EQ(unsetenv("NCCL_IB_SL"), 0);
  EXPECT_EQ(ReadNcclEnvironment().service_level, 0);
}

TEST(NcclEnvironment, FiltersTheNicsAssignedToGpus) {
  host::Topology topology;
  topology.gpus = {{.address = {.bus = 1}}};
  for (const char* name : {"mlx5_0", "mlx5_1"}) {
    topology.nics.push_back({.name = name, .connectx = true, .ports = {{.number = 1, .active = true}}});
  }
  const NcclEnvironment read = Read({{"NCCL_IB_HCA", "=mlx5_1:1"}});
  const auto assignment =
      host::AssignNics(topology, {.may_use = [&](const host::Nic& nic, const host::NicPort& port) {
                         return read.hca.Allows(nic.name, port.number);
                       }});
  EXPECT_EQ(assignment.at(0).nics.at(0).name, "mlx5_1");
}

}  // namespace
}  // namespace warpverbs::programs
