#pragma once

#include <gtest/gtest.h>

#include "core/message_requester.hpp"
#include "core/queues.hpp"
#include "wire/message_link.hpp"

namespace softhca {

/// Two connected queue pairs of one device, executed by hand: the clock moves only when a test moves it.
class ConnectedPair : public testing::Test {
 protected:
  explicit ConnectedPair(DeviceConfig device = TestDevice(), const QpOptions& options = {})
      : hca(std::move(device)), a(hca, pd, options), b(hca, pd, options) {}

  void Connect(const QpChange& change_a = {}, const QpChange& change_b = {}) {
    a.Connect(b, change_a);
    b.Connect(a, change_b);
  }

  /// Executes the posted WQEs of both queue pairs until both wait or have nothing left.
  void Run() {
    while (requester.Run(a.qp(), now_ns) || requester.Run(b.qp(), now_ns)) {
    }
    for (QpUser* user : {&a, &b}) {
      if (user->qp().state == mlx5::QpState::kError) requester.FlushReceives(user->qp(), 0);
    }
  }

  /// Posts and executes a WQE, and returns the sender's completion.
  Cqe Complete(QpUser& user, const WqeBuilder& wqe) {
    user.Post(wqe);
    Run();
    const std::optional<Cqe> cqe = user.send_cq.Poll();
    EXPECT_TRUE(cqe.has_value());
    return cqe.value_or(Cqe{});
  }

  uint64_t now_ns = 1'000'000'000;
  Hca hca;
  uint32_t pd = hca.AllocPd();
  MessageLink link{{&hca}};
  MessageRequester requester{link};
  QpUser a, b;
  Region local{hca, pd, 16384};
  Region remote{hca, pd, 16384};
};

inline mlx5::DataSegment Data(const Region& region, size_t offset, uint32_t bytes) {
  return {mlx5::ToBe32(bytes), mlx5::ToBe32(region.key), mlx5::ToBe64(region.Address(offset))};
}

}  // namespace softhca
