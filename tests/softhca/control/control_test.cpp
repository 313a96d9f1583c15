#include <dlfcn.h>
#include <gtest/gtest.h>
#include <infiniband/mlx5dv.h>
#include <poll.h>

#include <cerrno>

#include "softhca_control.h"
#include "verbs/peer.hpp"

namespace verbs {
namespace {

/// Returns the exported function `name`, as a program without this project's libraries finds it.
template <class Function>
Function* Find(const char* name) {
  auto* const function = reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
  if (function == nullptr) throw std::runtime_error(std::string(name) + " is not exported");
  return function;
}

class Control : public TwoPeers {
 protected:
  Control() : TwoPeers(1) {}

  Work Write(size_t offset = 0) { return Work(IBV_WR_RDMA_WRITE, {local.Sge(offset, 8)}).To(remote, offset); }
  int Force(uint32_t index, uint8_t syndrome, uint8_t vendor_syndrome = 0) {
    return force_syndrome("mlx5_0", a.qp->qp_num, index, syndrome, vendor_syndrome);
  }

  decltype(&softhca_force_syndrome) force_syndrome =
      Find<decltype(softhca_force_syndrome)>("softhca_force_syndrome");
  decltype(&softhca_hold) hold = Find<decltype(softhca_hold)>("softhca_hold");
  decltype(&softhca_set_link) set_link = Find<decltype(softhca_set_link)>("softhca_set_link");
};

TEST_F(Control, ForcedSyndromeFailsItsWqeAndFlushesTheRest) {
  Connect();
  ASSERT_EQ(Force(1, 0x13, 0x88), 0);
  local.Put(0, "first...");
  local.Put(8, "second..");
  Write(0).Id(1).Post(a);
  Write(8).Id(2).Post(a);
  Write(16).Id(3).Flags(0).Post(a);
  EXPECT_EQ(Wait(a.send_cq.get()).status, IBV_WC_SUCCESS);
  const ibv_wc failed = Wait(a.send_cq.get());
  EXPECT_EQ(failed.wr_id, 2u);
  EXPECT_EQ(failed.status, IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(failed.vendor_err, 0x88u);
  const ibv_wc flushed = Wait(a.send_cq.get());
  EXPECT_EQ(flushed.wr_id, 3u);
  EXPECT_EQ(flushed.status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(a.State(), IBV_QPS_ERR);
  EXPECT_EQ(b.State(), IBV_QPS_RTS) << "no request reached the peer";
  EXPECT_EQ(remote.Text(0, 8), "first...");
  EXPECT_EQ(remote.Text(8, 8), std::string(8, '\0'));
}

TEST_F(Control, EverySyndromeReachesTheProgramUnchanged) {
  const std::pair<uint8_t, ibv_wc_status> syndromes[] = {
      {0x01, IBV_WC_LOC_LEN_ERR},     {0x02, IBV_WC_LOC_QP_OP_ERR},     {0x04, IBV_WC_LOC_PROT_ERR},
      {0x06, IBV_WC_MW_BIND_ERR},     {0x10, IBV_WC_BAD_RESP_ERR},      {0x11, IBV_WC_LOC_ACCESS_ERR},
      {0x12, IBV_WC_REM_INV_REQ_ERR}, {0x13, IBV_WC_REM_ACCESS_ERR},    {0x14, IBV_WC_REM_OP_ERR},
      {0x15, IBV_WC_RETRY_EXC_ERR},   {0x16, IBV_WC_RNR_RETRY_EXC_ERR}, {0x22, IBV_WC_REM_ABORT_ERR}};
  for (const auto& [syndrome, status] : syndromes) {
    Connect();
    ASSERT_EQ(Force(0, syndrome, static_cast<uint8_t>(~syndrome)), 0);
    const ibv_wc wc = Write().Run(a);
    EXPECT_EQ(wc.status, status) << int{syndrome};
    EXPECT_EQ(wc.vendor_err, static_cast<uint8_t>(~syndrome));
    a.To(IBV_QPS_RESET);
    b.To(IBV_QPS_RESET);
  }
}

TEST_F(Control, ResetClearsForcedSyndromes) {
  Connect();
  ASSERT_EQ(Force(0, 0x15), 0);
  a.To(IBV_QPS_RESET);
  a.Connect(b);
  EXPECT_EQ(Write().Run(a).status, IBV_WC_SUCCESS);
}

TEST_F(Control, PausedQueuePairWaitsUntilItIsResumed) {
  Connect({.timeout = 1, .retries = 0});
  ASSERT_EQ(hold("mlx5_0", a.qp->qp_num, 1), 0);
  local.Put(0, "later...");
  Write().Post(a);
  for (int i = 0; i < 100; ++i) {  // meanwhile the peer sends, and the paused queue pair answers
    ASSERT_EQ(Work(IBV_WR_RDMA_READ, {remote.Sge(64, 8)}).To(local).Run(b).status, IBV_WC_SUCCESS);
  }
  ibv_wc wc{};
  EXPECT_EQ(ibv_poll_cq(a.send_cq.get(), 1, &wc), 0);
  EXPECT_EQ(remote.Text(0, 8), std::string(8, '\0'));
  ASSERT_EQ(hold("mlx5_0", a.qp->qp_num, 0), 0);
  EXPECT_EQ(Wait(a.send_cq.get()).status, IBV_WC_SUCCESS);
  EXPECT_EQ(remote.Text(0, 8), "later...");
}

TEST_F(Control, PausedQueuePairIsNotFlushed) {
  Connect();
  ASSERT_EQ(hold("mlx5_0", a.qp->qp_num, 1), 0);
  Write().Post(a);
  a.To(IBV_QPS_ERR);
  Peer witness(a.context);
  witness.Connect(witness);
  for (int i = 0; i < 100; ++i) ASSERT_EQ(Work(IBV_WR_RDMA_WRITE).Run(witness).status, IBV_WC_SUCCESS);
  ibv_wc wc{};
  EXPECT_EQ(ibv_poll_cq(a.send_cq.get(), 1, &wc), 0);
  ASSERT_EQ(hold("mlx5_0", a.qp->qp_num, 0), 0);
  EXPECT_EQ(Wait(a.send_cq.get()).status, IBV_WC_WR_FLUSH_ERR);
}

TEST_F(Control, PausedQueuePairCanBeReset) {
  Connect();
  ASSERT_EQ(hold("mlx5_0", a.qp->qp_num, 1), 0);
  Write().Post(a);
  a.To(IBV_QPS_RESET);
  a.Connect(b);
  Write().Id(7).Post(a);
  ASSERT_EQ(hold("mlx5_0", a.qp->qp_num, 0), 0);
  EXPECT_EQ(Wait(a.send_cq.get()).wr_id, 7u);
}

TEST_F(Control, RefusesUnknownDevicesAndQueuePairs) {
  const uint32_t qpn = a.qp->qp_num;
  EXPECT_EQ(force_syndrome("mlx5_9", qpn, 0, 0x13, 0), ENODEV);
  EXPECT_EQ(force_syndrome("mlx5_0", 0xfffffe, 0, 0x13, 0), ENOENT);
  EXPECT_EQ(force_syndrome(nullptr, qpn, 0, 0x13, 0), EINVAL);
  EXPECT_EQ(force_syndrome("mlx5_0", qpn, 0x10000, 0x13, 0), EINVAL);
  EXPECT_EQ(force_syndrome("mlx5_0", qpn, 0, 0, 0), EINVAL);
  EXPECT_EQ(hold("mlx5_9", qpn, 1), ENODEV);
  EXPECT_EQ(hold("mlx5_0", 0xfffffe, 1), ENOENT);
  EXPECT_EQ(hold(nullptr, qpn, 1), EINVAL);
}

TEST(ControlWithoutDevices, RefusesEveryDevice) {
  EXPECT_EQ(Find<decltype(softhca_hold)>("softhca_hold")("mlx5_0", 1, 1), ENODEV);
}

/// Returns the next asynchronous event of a device, which must concern port 1.
ibv_event_type NextPortEvent(ibv_context* context) {
  pollfd entry{.fd = context->async_fd, .events = POLLIN, .revents = 0};
  ibv_async_event event{};
  if (poll(&entry, 1, 20'000) != 1 || ibv_get_async_event(context, &event) != 0)
    return IBV_EVENT_DEVICE_FATAL;
  ibv_ack_async_event(&event);
  EXPECT_EQ(event.element.port_num, 1);
  return event.event_type;
}

TEST_F(Control, LinkChangeReachesEveryContextOfTheDevice) {
  const Context third = Open();
  const auto state = [&] {
    ibv_port_attr port{};
    EXPECT_EQ(ibv_query_port(context_a.get(), 1, &port), 0);
    return port.state;
  };
  ASSERT_EQ(set_link("mlx5_0", 1, 0), 0);
  ASSERT_EQ(set_link("mlx5_0", 1, 0), 0) << "no change, no event";
  EXPECT_EQ(state(), IBV_PORT_DOWN);
  ASSERT_EQ(set_link("mlx5_0", 1, 1), 0);
  EXPECT_EQ(state(), IBV_PORT_ACTIVE);
  for (ibv_context* const context : {context_a.get(), third.get()}) {
    EXPECT_EQ(NextPortEvent(context), IBV_EVENT_PORT_ERR);
    EXPECT_EQ(NextPortEvent(context), IBV_EVENT_PORT_ACTIVE);
  }
  pollfd other{.fd = context_b->async_fd, .events = POLLIN, .revents = 0};
  EXPECT_EQ(poll(&other, 1, 0), 0) << "an event of the other device";
}

TEST_F(Control, FailedCompletionQueueIsReportedOnce) {
  auto* const fail = Find<decltype(softhca_fail_cq)>("softhca_fail_cq");
  Connect();
  EXPECT_EQ(Write().Run(a).status, IBV_WC_SUCCESS);
  ibv_cq* const cq = a.send_cq.get();
  mlx5dv_cq shown{};
  mlx5dv_obj object{};
  object.cq = {.in = cq, .out = &shown};
  ASSERT_EQ(mlx5dv_init_obj(&object, MLX5DV_OBJ_CQ), 0);
  ASSERT_EQ(fail("mlx5_0", shown.cqn), 0);
  ASSERT_EQ(fail("mlx5_0", shown.cqn), 0) << "no change, no event";
  ibv_async_event event{};
  ASSERT_EQ(ibv_get_async_event(context_a.get(), &event), 0);
  EXPECT_EQ(event.event_type, IBV_EVENT_CQ_ERR);
  EXPECT_EQ(event.element.cq, cq);
  ibv_ack_async_event(&event);
  pollfd more{.fd = context_a->async_fd, .events = POLLIN, .revents = 0};
  EXPECT_EQ(poll(&more, 1, 0), 0);
  EXPECT_EQ(fail("mlx5_0", 0xffffff), ENOENT);
  EXPECT_EQ(fail("mlx5_9", shown.cqn), ENODEV);
}

TEST_F(Control, RaisedEventIsReportedAndChangesNothingElse) {
  auto* const raise = Find<decltype(softhca_raise_event)>("softhca_raise_event");
  ASSERT_EQ(raise("mlx5_0", IBV_EVENT_LID_CHANGE, 1), 0);
  EXPECT_EQ(NextPortEvent(context_a.get()), IBV_EVENT_LID_CHANGE);
  EXPECT_EQ(raise("mlx5_0", IBV_EVENT_LID_CHANGE, 9), ENOENT);
  EXPECT_EQ(raise("mlx5_9", IBV_EVENT_DEVICE_FATAL, 0), ENODEV);
  Connect();
  EXPECT_EQ(Write().Run(a).status, IBV_WC_SUCCESS);
}

TEST_F(Control, DeliversNothingWithoutALink) {
  Connect({.timeout = 10, .retries = 1});
  ASSERT_EQ(set_link("mlx5_1", 1, 0), 0);
  EXPECT_EQ(Write().Run(a).status, IBV_WC_RETRY_EXC_ERR);
  ASSERT_EQ(set_link("mlx5_1", 1, 1), 0);
  a.To(IBV_QPS_RESET);
  b.To(IBV_QPS_RESET);
  Connect();
  EXPECT_EQ(Write().Run(a).status, IBV_WC_SUCCESS);
}

TEST_F(Control, RefusesTheLinkOfAnUnknownPort) {
  EXPECT_EQ(set_link("mlx5_0", 0, 0), ENOENT);
  EXPECT_EQ(set_link("mlx5_0", 2, 0), ENOENT);
  EXPECT_EQ(set_link("mlx5_9", 1, 0), ENODEV);
  EXPECT_EQ(set_link(nullptr, 1, 0), EINVAL);
}

}  // namespace
}  // namespace verbs
