#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "host/topology/fake_sysfs.hpp"
#include "warpverbs/host/error.hpp"
#include "warpverbs/host/topology.hpp"

namespace warpverbs::host {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string Hex2(unsigned number) {
  char text[3];
  std::snprintf(text, sizeof text, "%02x", number & 0xff);
  return text;
}

/// A machine of switches, each on its own host bridge, with two or more host bridges per NUMA node.
struct Machine {
  /// Returns the path of slot `slot` of switch `index`.
  static std::string Slot(unsigned index, unsigned slot) {
    const std::string bus = Hex2(0x10 + 0x20 * index);
    const std::string up = Hex2(0x11 + 0x20 * index), down = Hex2(0x12 + 0x20 * index);
    return "pci0000:" + bus + "/0000:" + bus + ":01.0/0000:" + up + ":00.0/0000:" + down + ":" + Hex2(slot) +
           ".0/0000:" + Hex2(0x13 + 0x20 * index + slot) + ":00.0";
  }

  void AddSwitch(unsigned index, unsigned gpus, unsigned nics, int numa_node) {
    for (unsigned i = 0; i < gpus; ++i) sysfs.AddGpu(Slot(index, i), numa_node);
    for (unsigned i = 0; i < nics; ++i) {
      sysfs.AddNic(Slot(index, gpus + i), "mlx5_" + std::to_string(made++), numa_node);
    }
  }

  std::vector<GpuNics> Assign(const NicAssignmentConfig& config = {}) const {
    return AssignNics(ReadTopology(sysfs.root()), config);
  }

  FakeSysfs sysfs;
  int made = 0;
};

/// A machine like a DGX: 8 GPUs and 8 NICs behind 4 switches on 2 NUMA nodes.
struct Dgx : Machine {
  Dgx() {
    for (unsigned i = 0; i < 4; ++i) AddSwitch(i, 2, 2, static_cast<int>(i / 2));
  }
};

std::vector<std::string> FirstNics(const std::vector<GpuNics>& assignment) {
  std::vector<std::string> names;
  for (const GpuNics& gpu : assignment) names.push_back(gpu.nics.at(0).name);
  return names;
}

TEST(NicAssignment, GivesEachGpuOfADgxItsOwnNicOfItsSwitch) {
  const std::vector<GpuNics> assignment = Dgx().Assign();
  EXPECT_THAT(FirstNics(assignment),
              ElementsAre("mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3", "mlx5_4", "mlx5_5", "mlx5_6", "mlx5_7"));
  for (const GpuNics& gpu : assignment) {
    ASSERT_EQ(gpu.nics.size(), 1u);
    EXPECT_EQ(gpu.nics[0].distance, PciDistance::kPix);
    EXPECT_EQ(gpu.nics[0].gpus, 1u);
    EXPECT_EQ(gpu.nics[0].port, 1);
    EXPECT_EQ(gpu.nics[0].reason,
              "One of 2 NICs that are equally near, through at most one PCIe switch; no other GPU uses it.");
  }
}

TEST(NicAssignment, GivesTwoGpusOnASwitchOneNicEach) {
  Machine machine;
  machine.AddSwitch(0, 2, 2, 0);
  EXPECT_THAT(FirstNics(machine.Assign()), ElementsAre("mlx5_0", "mlx5_1"));
}

TEST(NicAssignment, SharesTheRemainingNicOfASwitchIfOneIsDown) {
  Dgx dgx;
  dgx.sysfs.AddPort(Machine::Slot(1, 2), "mlx5_2", 1, "1: DOWN", "10 Gb/sec (4X SDR)");
  const std::vector<GpuNics> assignment = dgx.Assign();
  EXPECT_THAT(FirstNics(assignment),
              ElementsAre("mlx5_0", "mlx5_1", "mlx5_3", "mlx5_3", "mlx5_4", "mlx5_5", "mlx5_6", "mlx5_7"));
  EXPECT_EQ(assignment[2].nics[0].reason,
            "The nearest NIC, through at most one PCIe switch; 2 GPUs share it.");
}

TEST(NicAssignment, SharesDistantNicsEvenly) {
  Machine machine;
  machine.AddSwitch(0, 0, 2, 0);
  for (unsigned i = 1; i < 5; ++i) machine.AddSwitch(i, 2, 0, i < 3 ? 0 : 1);
  const std::vector<GpuNics> assignment = machine.Assign();
  std::map<std::pair<std::string, PciDistance>, int> uses;
  for (const GpuNics& gpu : assignment) ++uses[{gpu.nics[0].name, gpu.nics[0].distance}];
  for (const char* name : {"mlx5_0", "mlx5_1"}) {
    EXPECT_EQ((uses[{name, PciDistance::kNode}]), 2) << name;
    EXPECT_EQ((uses[{name, PciDistance::kSystem}]), 2) << name;
  }
}

TEST(NicAssignment, UsesADistantNicOnlyWithoutANearOne) {
  Machine machine;
  machine.AddSwitch(0, 4, 1, 0);
  machine.AddSwitch(1, 0, 1, 0);
  EXPECT_THAT(FirstNics(machine.Assign()), ElementsAre("mlx5_0", "mlx5_0", "mlx5_0", "mlx5_0"));
}

TEST(NicAssignment, GivesSeveralNicsNearestFirst) {
  Machine machine;
  machine.AddSwitch(0, 2, 2, 0);
  machine.AddSwitch(1, 0, 1, 0);
  const std::vector<GpuNics> assignment = machine.Assign({.nics_per_gpu = 3});
  const auto names = [](const GpuNics& gpu) {
    std::vector<std::string> all;
    for (const NicChoice& nic : gpu.nics) all.push_back(nic.name);
    return all;
  };
  EXPECT_THAT(names(assignment[0]), ElementsAre("mlx5_0", "mlx5_1", "mlx5_2"));
  EXPECT_THAT(names(assignment[1]), ElementsAre("mlx5_1", "mlx5_0", "mlx5_2"));
  EXPECT_EQ(assignment[1].nics[2].distance, PciDistance::kNode);
  EXPECT_EQ(assignment[1].nics[2].reason,
            "The nearest NIC that the GPU did not have yet, between host bridges of one NUMA node; 2 GPUs "
            "share it.");
}

TEST(NicAssignment, GivesAllNicsIfMoreAreRequested) {
  EXPECT_EQ(Dgx().Assign({.nics_per_gpu = 100}).at(0).nics.size(), 8u);
}

TEST(NicAssignment, MovesAGpuIfAnotherHasNoChoice) {
  // The first GPU is on the host bridge of both NICs. The second one shares a switch with the first NIC.
  Machine machine;
  machine.sysfs.AddGpu("pci0000:10/0000:10:00.1");
  machine.sysfs.AddNic("pci0000:10/0000:10:01.0/0000:11:00.0/0000:12:00.0/0000:13:00.0", "mlx5_0");
  machine.sysfs.AddGpu("pci0000:10/0000:10:01.0/0000:11:00.0/0000:12:01.0/0000:14:00.0");
  machine.sysfs.AddNic("pci0000:10/0000:10:02.0/0000:21:00.0", "mlx5_1");
  EXPECT_THAT(FirstNics(machine.Assign()), ElementsAre("mlx5_1", "mlx5_0"));
}

TEST(NicAssignment, SkipsSlowNicsAmongEquallyNearOnes) {
  Machine machine;
  machine.AddSwitch(0, 2, 1, 0);
  machine.sysfs.AddNic(Machine::Slot(0, 3), "mlx5_7", 0, "100 Gb/sec (4X EDR)");
  EXPECT_THAT(FirstNics(machine.Assign()), ElementsAre("mlx5_0", "mlx5_0"));
  machine.sysfs.AddNic(Machine::Slot(0, 4), "mlx5_8", 0, "200 Gb/sec (4X HDR)");
  EXPECT_THAT(FirstNics(machine.Assign()), ElementsAre("mlx5_0", "mlx5_8"));
}

TEST(NicAssignment, UsesTheFirstAllowedPort) {
  Machine machine;
  machine.AddSwitch(0, 1, 1, 0);
  machine.sysfs.AddPort(Machine::Slot(0, 1), "mlx5_0", 2, "4: ACTIVE", "400 Gb/sec (4X NDR)");
  EXPECT_EQ(machine.Assign().at(0).nics.at(0).port, 1);
  const auto not_first = [](const Nic&, const NicPort& port) { return port.number != 1; };
  EXPECT_EQ(machine.Assign({.may_use = not_first}).at(0).nics.at(0).port, 2);
}

TEST(NicAssignment, AcceptsGpusThatSysfsDoesNotShow) {
  const Dgx dgx;
  const std::vector<PciAddress> hidden = {PciAddress::Parse("ff:00.0"), PciAddress::Parse("ff:01.0")};
  const std::vector<GpuNics> assignment = AssignNics(ReadTopology(dgx.sysfs.root()), hidden);
  ASSERT_EQ(assignment.size(), 2u);
  EXPECT_EQ(assignment[0].nics[0].distance, PciDistance::kUnknown);
  EXPECT_NE(assignment[0].nics[0].name, assignment[1].nics[0].name);
}

TEST(NicAssignment, SaysWhyEachNicIsUnusable) {
  Machine machine;
  machine.AddSwitch(0, 1, 2, 0);
  machine.sysfs.AddPort(Machine::Slot(0, 1), "mlx5_0", 1, "1: DOWN", "10 Gb/sec (4X SDR)");
  machine.sysfs.AddRdmaDevice("virtual", "rxe0");
  try {
    machine.Assign({.may_use = [](const Nic&, const NicPort&) { return false; }});
    FAIL() << "assigned a NIC";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "Cannot assign NICs to GPUs: no NIC can be used (mlx5_0: no port is active; mlx5_1: "
                 "may_use() excludes it; rxe0: it is not a ConnectX). Bring a link up (`ip link set DEV "
                 "up`), or allow "
                 "other NICs.");
  }
}

TEST(NicAssignment, RejectsInvalidRequests) {
  EXPECT_THROW(AssignNics(Topology{}), Error);
  const Dgx dgx;
  EXPECT_THROW(dgx.Assign({.nics_per_gpu = 0}), Error);
  const std::vector<PciAddress> twice(2, PciAddress::Parse("13:00.0"));
  EXPECT_THROW(AssignNics(ReadTopology(dgx.sysfs.root()), twice), Error);
}

TEST(NicAssignment, PrintsOneLinePerChoice) {
  Machine machine;
  machine.AddSwitch(0, 1, 1, 0);
  EXPECT_EQ(Describe(machine.Assign()),
            "GPU 0000:13:00.0: mlx5_0 port 1 (PIX). The nearest NIC, through at most one PCIe switch; no "
            "other GPU uses it.\n");
}

/// Makes a random machine: functions on one to three host bridges, below up to two levels of switches.
Topology RandomTopology(std::mt19937& random) {
  const auto dice = [&](unsigned sides) { return static_cast<uint8_t>(random() % sides); };
  const auto function = [&](uint8_t bus) {
    const uint8_t bridge = dice(3);
    PciFunction made{.address = {.bus = bus}, .numa_node = bridge / 2 - (dice(8) == 0 ? 1 : 0)};
    made.host_bridge = "pci0000:" + std::to_string(bridge);
    for (uint8_t level = dice(4), i = 0; i < level; ++i) {
      made.bridges.push_back({.domain = bridge, .bus = i, .device = dice(2)});
    }
    return made;
  };
  Topology topology;
  for (unsigned i = 0, count = 1 + dice(8); i < count; ++i) {
    topology.gpus.push_back(function(static_cast<uint8_t>(i)));
  }
  for (unsigned i = 0, count = 1 + dice(8); i < count; ++i) {
    Nic nic{.name = "mlx5_" + std::to_string(i), .connectx = true};
    if (dice(8) != 0) nic.pci = function(static_cast<uint8_t>(0x80 + i));
    nic.ports = {{.number = 1, .active = dice(8) != 0, .state = "active", .rate_gbps = 400}};
    topology.nics.push_back(nic);
  }
  topology.nics[0].ports[0].active = true;
  return topology;
}

const Nic& Named(const Topology& topology, const std::string& name) {
  return *std::find_if(topology.nics.begin(), topology.nics.end(),
                       [&](const Nic& nic) { return nic.name == name; });
}

TEST(NicAssignmentOnAnyMachine, GivesEachGpuTheNearestNicsWithoutDuplicates) {
  std::mt19937 random(1);
  for (int run = 0; run < 2000; ++run) {
    const Topology topology = RandomTopology(random);
    const uint32_t wanted = 1 + random() % 3;
    const std::vector<GpuNics> assignment = AssignNics(topology, {.nics_per_gpu = wanted});
    ASSERT_EQ(assignment.size(), topology.gpus.size());
    for (size_t i = 0; i < assignment.size(); ++i) {
      std::vector<PciDistance> distances, chosen;
      for (const Nic& nic : topology.nics) {
        if (nic.ports[0].active) distances.push_back(Distance(topology.gpus[i], nic));
      }
      std::sort(distances.begin(), distances.end());
      distances.resize(std::min<size_t>(distances.size(), wanted));
      std::set<std::string> names;
      for (const NicChoice& nic : assignment[i].nics) {
        chosen.push_back(nic.distance);
        names.insert(nic.name);
        EXPECT_TRUE(Named(topology, nic.name).ports[0].active);
        EXPECT_EQ(nic.distance, Distance(topology.gpus[i], Named(topology, nic.name)));
      }
      EXPECT_EQ(chosen, distances);
      EXPECT_EQ(names.size(), chosen.size());
    }
  }
}

TEST(NicAssignmentOnAnyMachine, LeavesNoEquallyNearNicWithTwoFewerUsers) {
  std::mt19937 random(2);
  for (int run = 0; run < 2000; ++run) {
    const Topology topology = RandomTopology(random);
    const std::vector<GpuNics> assignment = AssignNics(topology);
    std::map<std::string, uint32_t> loads;
    for (const GpuNics& gpu : assignment) ++loads[gpu.nics.at(0).name];
    for (size_t i = 0; i < assignment.size(); ++i) {
      const NicChoice& own = assignment[i].nics[0];
      EXPECT_EQ(own.gpus, loads[own.name]);
      for (const Nic& other : topology.nics) {
        if (!other.ports[0].active || Distance(topology.gpus[i], other) != own.distance) continue;
        EXPECT_LE(loads[own.name], loads[other.name] + 1);
      }
    }
  }
}

TEST(NicAssignmentOnAnyMachine, DependsOnNeitherOrderNorNames) {
  std::mt19937 random(3);
  for (int run = 0; run < 1000; ++run) {
    const Topology topology = RandomTopology(random);
    Topology other = topology;
    std::shuffle(other.gpus.begin(), other.gpus.end(), random);
    std::shuffle(other.nics.begin(), other.nics.end(), random);
    std::map<std::string, std::string> old_name;
    for (size_t i = 0; i < other.nics.size(); ++i) {
      // A NIC without an address has only its name.
      const std::string name = other.nics[i].pci ? "renamed_" + std::to_string(i) : other.nics[i].name;
      old_name[name] = other.nics[i].name;
      other.nics[i].name = name;
    }
    const uint32_t wanted = 1 + random() % 3;
    const std::vector<GpuNics> a = AssignNics(topology, {.nics_per_gpu = wanted});
    const std::vector<GpuNics> b = AssignNics(other, {.nics_per_gpu = wanted});
    ASSERT_EQ(a.size(), b.size());
    for (size_t i = 0; i < a.size(); ++i) {
      EXPECT_EQ(a[i].gpu, b[i].gpu);
      ASSERT_EQ(a[i].nics.size(), b[i].nics.size());
      for (size_t j = 0; j < a[i].nics.size(); ++j) EXPECT_EQ(a[i].nics[j].name, old_name[b[i].nics[j].name]);
    }
  }
}

TEST(NicAssignmentOnASwitch, IsBalancedWithinOne) {
  for (unsigned gpus = 1; gpus <= 9; ++gpus) {
    for (unsigned nics = 1; nics <= 9; ++nics) {
      for (uint32_t each = 1; each <= nics; ++each) {
        Topology topology;
        const auto function = [](unsigned bus) {
          PciFunction made{.address = {.bus = static_cast<uint8_t>(bus)}, .numa_node = 0};
          made.host_bridge = "pci0000:00";
          made.bridges = {{.device = 1}};
          return made;
        };
        for (unsigned i = 0; i < gpus; ++i) topology.gpus.push_back(function(i));
        std::map<std::string, unsigned> loads, first_loads;
        for (unsigned i = 0; i < nics; ++i) {
          Nic nic{.name = "mlx5_" + std::to_string(i), .pci = function(0x80 + i), .connectx = true};
          nic.ports = {{.number = 1, .active = true}};
          loads[nic.name] = first_loads[nic.name] = 0;
          topology.nics.push_back(nic);
        }
        for (const GpuNics& gpu : AssignNics(topology, {.nics_per_gpu = each})) {
          ++first_loads[gpu.nics.at(0).name];
          for (const NicChoice& nic : gpu.nics) ++loads[nic.name];
        }
        for (const auto& all : {loads, first_loads}) {
          const auto less = [](const auto& a, const auto& b) { return a.second < b.second; };
          const auto [least, most] = std::minmax_element(all.begin(), all.end(), less);
          EXPECT_LE(most->second, least->second + 1) << gpus << " GPUs, " << nics << " NICs, " << each;
        }
      }
    }
  }
}

}  // namespace
}  // namespace warpverbs::host
