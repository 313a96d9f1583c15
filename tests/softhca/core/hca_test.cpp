#include "core/hca.hpp"

#include <gtest/gtest.h>

#include "core/queues.hpp"

namespace softhca {
namespace {

using mlx5::CommandStatus;

template <class Command>
CommandStatus StatusOf(Command command) {
  try {
    command();
  } catch (const CommandError& error) {
    EXPECT_STRNE(error.what(), "");
    return error.status();
  }
  return CommandStatus::kOk;
}

class HcaTest : public testing::Test {
 protected:
  CqConfig Cq(uint32_t log_depth = 4) {
    CqConfig config = cq.Config();
    config.uar_page = uar;
    config.log_depth = log_depth;
    return config;
  }
  QpConfig Qp(uint32_t cqn) {
    return {.pdn = pd,
            .uar_page = uar,
            .cqn_send = cqn,
            .send_ring = ring.data(),
            .send_depth = 16,
            .send_dbr = &dbr.send};
  }
  ReceiveQueueConfig Receives(uint32_t depth, uint32_t stride) {
    return {.ring = ring.data(), .dbr = &dbr.receive, .depth = depth, .stride = stride};
  }

  Hca hca{TestDevice()};
  alignas(64) std::array<uint8_t, mlx5::kUarPageBytes> page{};
  std::vector<uint8_t> ring = std::vector<uint8_t>(16 * mlx5::kWqebbBytes);
  mlx5::QpDbr dbr{};
  CqMemory cq{4};
  uint32_t pd = hca.AllocPd();
  uint32_t uar = hca.AllocUar(page.data());
};

TEST_F(HcaTest, CountsItsObjects) {
  const uint32_t key = hca.RegisterMemory({.pdn = pd, .memory = ring.data(), .bytes = ring.size()});
  const uint32_t umem = hca.RegisterUmem({ring});
  const uint32_t cqn = hca.CreateCq(Cq());
  const uint32_t srqn = hca.CreateSrq({.pdn = pd, .queue = Receives(4, 64)});
  const uint32_t qpn = hca.CreateQp(Qp(cqn));
  const ObjectCounts counts = hca.Counts();
  EXPECT_EQ(counts.pds, 1u);
  EXPECT_EQ(counts.mkeys, 1u);
  EXPECT_EQ(counts.uars, 1u);
  EXPECT_EQ(counts.umems, 1u);
  EXPECT_EQ(counts.cqs, 1u);
  EXPECT_EQ(counts.srqs, 1u);
  EXPECT_EQ(counts.qps, 1u);

  hca.DestroyQp(qpn);
  hca.DestroySrq(srqn);
  hca.DestroyCq(cqn);
  hca.DeregisterUmem(umem);
  hca.DeregisterMemory(key);
  EXPECT_EQ(hca.FreeUar(uar), page.data());
  hca.DeallocPd(pd);
  const ObjectCounts none = hca.Counts();
  EXPECT_EQ(none.pds + none.mkeys + none.uars + none.umems + none.cqs + none.srqs + none.qps, 0u);
}

TEST_F(HcaTest, RefusesToDestroyObjectsThatAQueuePairUses) {
  const uint32_t cqn = hca.CreateCq(Cq());
  const uint32_t srqn = hca.CreateSrq({.pdn = hca.AllocPd(), .queue = Receives(4, 64)});
  QpConfig config = Qp(cqn);
  config.srqn = srqn;
  config.cqn_receive = hca.CreateCq(Cq());
  config.umems = {hca.RegisterUmem({ring})};
  const uint32_t qpn = hca.CreateQp(config);
  const auto destroy_all = [&](CommandStatus expected) {
    EXPECT_EQ(StatusOf([&] { hca.DestroyCq(cqn); }), expected);
    EXPECT_EQ(StatusOf([&] { hca.DestroyCq(config.cqn_receive); }), expected);
    EXPECT_EQ(StatusOf([&] { hca.DestroySrq(srqn); }), expected);
    EXPECT_EQ(StatusOf([&] { hca.DeregisterUmem(config.umems[0]); }), expected);
    EXPECT_EQ(StatusOf([&] { hca.FreeUar(uar); }), expected);
    EXPECT_EQ(StatusOf([&] { hca.DeallocPd(pd); }), expected);
  };
  destroy_all(CommandStatus::kResourceBusy);
  hca.DestroyQp(qpn);
  destroy_all(CommandStatus::kOk);
  destroy_all(CommandStatus::kBadResource);
}

TEST_F(HcaTest, RefusesToFreeObjectsThatACompletionQueueUses) {
  CqConfig config = Cq();
  config.umems = {hca.RegisterUmem({ring})};
  const uint32_t cqn = hca.CreateCq(config);
  EXPECT_EQ(StatusOf([&] { hca.FreeUar(uar); }), CommandStatus::kResourceBusy);
  EXPECT_EQ(StatusOf([&] { hca.DeregisterUmem(config.umems[0]); }), CommandStatus::kResourceBusy);
  hca.DestroyCq(cqn);
  EXPECT_NO_THROW(hca.DeregisterUmem(config.umems[0]));
  EXPECT_NO_THROW(hca.FreeUar(uar));
}

TEST_F(HcaTest, RefusesToFreeAProtectionDomainInUse) {
  const uint32_t key = hca.RegisterMemory({.pdn = pd, .memory = ring.data(), .bytes = ring.size()});
  EXPECT_EQ(StatusOf([&] { hca.DeallocPd(pd); }), CommandStatus::kResourceBusy);
  hca.DeregisterMemory(key);
  const uint32_t srqn = hca.CreateSrq({.pdn = pd, .queue = Receives(4, 64)});
  EXPECT_EQ(StatusOf([&] { hca.DeallocPd(pd); }), CommandStatus::kResourceBusy);
  hca.DestroySrq(srqn);
  EXPECT_NO_THROW(hca.DeallocPd(pd));
}

TEST_F(HcaTest, RefusesParentsThatDoNotExist) {
  const uint32_t cqn = hca.CreateCq(Cq());
  const auto refuses = [&](auto change) {
    QpConfig config = Qp(cqn);
    change(config);
    return StatusOf([&] { hca.CreateQp(config); }) == CommandStatus::kBadResource;
  };
  EXPECT_TRUE(refuses([](QpConfig& config) { config.pdn = 0xbad; }));
  EXPECT_TRUE(refuses([](QpConfig& config) { config.uar_page = 0xbad; }));
  EXPECT_TRUE(refuses([](QpConfig& config) { config.cqn_send = 0xbad; }));
  EXPECT_TRUE(refuses([&](QpConfig& config) { config.receive = Receives(4, 64); }));
  EXPECT_TRUE(refuses([&](QpConfig& config) { config.srqn = 0xbad, config.cqn_receive = cqn; }));
  CqConfig config = Cq();
  config.uar_page = 0xbad;
  EXPECT_EQ(StatusOf([&] { hca.CreateCq(config); }), CommandStatus::kBadResource);
  EXPECT_EQ(StatusOf([&] { hca.RegisterMemory({.pdn = 0xbad}); }), CommandStatus::kBadResource);
  EXPECT_EQ(StatusOf([&] { hca.CreateSrq({.pdn = 0xbad, .queue = Receives(4, 64)}); }),
            CommandStatus::kBadResource);
  EXPECT_EQ(hca.Counts().qps, 0u);
}

TEST_F(HcaTest, RefusesQueuesThatNoConnectXSupports) {
  const uint32_t cqn = hca.CreateCq(Cq());
  const auto status = [&](auto change) {
    QpConfig config = Qp(cqn);
    config.cqn_receive = cqn;
    change(config);
    return StatusOf([&] { hca.CreateQp(config); });
  };
  EXPECT_EQ(status([](QpConfig& config) { config.send_depth = 24; }), CommandStatus::kBadParameter);
  EXPECT_EQ(status([](QpConfig& config) { config.send_depth = 65536; }), CommandStatus::kBadParameter);
  EXPECT_EQ(status([](QpConfig& config) { config.send_depth = 32768; }), CommandStatus::kOk);
  EXPECT_EQ(status([&](QpConfig& config) { config.receive = Receives(5, 64); }),
            CommandStatus::kBadParameter);
  EXPECT_EQ(status([&](QpConfig& config) { config.receive = Receives(4, 8); }), CommandStatus::kBadParameter);
  EXPECT_EQ(status([&](QpConfig& config) { config.receive = Receives(4, 1024); }),
            CommandStatus::kBadParameter);
  EXPECT_EQ(status([&](QpConfig& config) { config.receive = Receives(4, 512); }), CommandStatus::kOk);
  EXPECT_EQ(status([](QpConfig& config) { config.service = mlx5::ServiceType::kXrc; }),
            CommandStatus::kBadParameter);
  EXPECT_EQ(StatusOf([&] { hca.CreateCq(Cq(kMaxLogCqDepth + 1)); }), CommandStatus::kBadParameter);
  CqConfig config = Cq();
  config.cqe_bytes = 96;
  EXPECT_EQ(StatusOf([&] { hca.CreateCq(config); }), CommandStatus::kBadParameter);
}

TEST_F(HcaTest, RefusesUmemAddressesOutOfBounds) {
  const uint32_t umem = hca.RegisterUmem({ring});
  EXPECT_EQ(hca.UmemAddress(umem, 64, 64), ring.data() + 64);
  EXPECT_EQ(hca.UmemAddress(umem, ring.size(), 0), ring.data() + ring.size());
  EXPECT_EQ(StatusOf([&] { hca.UmemAddress(umem, ring.size() - 8, 9); }), CommandStatus::kBadParameter);
  EXPECT_EQ(StatusOf([&] { hca.UmemAddress(umem, ~uint64_t{0}, 2); }), CommandStatus::kBadParameter);
  EXPECT_EQ(StatusOf([&] { hca.UmemAddress(umem + 1, 0, 1); }), CommandStatus::kBadResource);
}

TEST_F(HcaTest, DoesNotReuseANumberAtOnce) {
  const uint32_t first = hca.CreateCq(Cq());
  hca.DestroyCq(first);
  EXPECT_NE(hca.CreateCq(Cq()), first);
}

}  // namespace
}  // namespace softhca
