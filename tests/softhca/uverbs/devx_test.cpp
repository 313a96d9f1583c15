#include <gtest/gtest.h>

#include <array>
#include <cstring>

#include "uverbs/devx_objects.hpp"
#include "verbs/peer.hpp"
#include "warpverbs/mlx5/hca_cap.hpp"

namespace kernel_abi {
namespace {

using mlx5::CommandOpcode;
using mlx5::CommandStatus;
using mlx5::QpState;

class Devx : public testing::Test {
 protected:
  using Command = mlx5::Mailbox<mlx5::modify_qp_in::kBytes>;

  static Command Modify(CommandOpcode opcode, uint32_t qpn) {
    Command in;
    in.Set(mlx5::command_in::kOpcode, opcode).Set(mlx5::command_in::kObjectNumber, qpn);
    return in;
  }
  template <class T>
  static void SetContext(Command& in, mlx5::Field<T> field, std::type_identity_t<T> value) {
    in.Set(field.At(mlx5::modify_qp_in::kQpc), value);
  }
  template <class T>
  static void SetPath(Command& in, mlx5::Field<T> field, std::type_identity_t<T> value) {
    SetContext(in, field.At(mlx5::qpc::kPrimaryAddressPath), value);
  }

  CommandStatus Run(const Command& in) const {
    mlx5::Mailbox<mlx5::kCommandOutBytes> out;
    const int error = mlx5dv_devx_obj_modify(queues.qp(), in.data(), in.size(), out.data(), out.size());
    const auto status = out.Get(mlx5::command_out::kStatus);
    EXPECT_EQ(error, status == CommandStatus::kOk ? 0 : EREMOTEIO);
    return status;
  }

  Command ToInit() const {
    Command in = Modify(CommandOpcode::kRst2InitQp, queues.qpn());
    SetPath(in, mlx5::ads::kVhcaPortNum, 1);
    SetContext(in, mlx5::qpc::kPmState, mlx5::PathMigration::kMigrated);
    SetContext(in, mlx5::qpc::kRwe, true);
    SetContext(in, mlx5::qpc::kRae, true);
    SetContext(in, mlx5::qpc::kAtomicMode, mlx5::AtomicMode::kUpTo8);
    return in;
  }
  Command ToRtr() const {
    Command in = Modify(CommandOpcode::kInit2RtrQp, queues.qpn());
    SetContext(in, mlx5::qpc::kMtu, mlx5::Mtu::k1024);
    SetContext(in, mlx5::qpc::kLogMsgMax, 30);
    SetContext(in, mlx5::qpc::kRemoteQpn, 0x1234);
    SetContext(in, mlx5::qpc::kLogRraMax, 4);
    SetContext(in, mlx5::qpc::kMinRnrNak, 12);
    SetContext(in, mlx5::qpc::kNextRcvPsn, 0x777);
    SetPath(in, mlx5::ads::kSrcAddrIndex, 3);
    SetPath(in, mlx5::ads::kRmac4732, 0x0253);
    SetPath(in, mlx5::ads::kRmac310, 0x48000001);
    return in;
  }
  Command ToRts() const {
    Command in = Modify(CommandOpcode::kRtr2RtsQp, queues.qpn());
    SetContext(in, mlx5::qpc::kRetryCount, 7);
    SetContext(in, mlx5::qpc::kRnrRetry, 6);
    SetContext(in, mlx5::qpc::kLogSraMax, 3);
    SetContext(in, mlx5::qpc::kNextSendPsn, 0x888);
    SetPath(in, mlx5::ads::kAckTimeout, 14);
    return in;
  }

  template <class T>
  T Query(mlx5::Field<T> field) const {
    mlx5::Mailbox<mlx5::kCommandHeaderBytes> in;
    mlx5::Mailbox<mlx5::query_qp_out::kBytes> out;
    in.Set(mlx5::command_in::kOpcode, CommandOpcode::kQueryQp)
        .Set(mlx5::command_in::kObjectNumber, queues.qpn());
    EXPECT_EQ(mlx5dv_devx_obj_query(queues.qp(), in.data(), in.size(), out.data(), out.size()), 0);
    return out.Get(field.At(mlx5::query_qp_out::kQpc));
  }

  verbs::Context context = verbs::Open();
  DevxQueues queues{context.get()};
};

TEST_F(Devx, CreatesQueues) {
  ASSERT_NE(queues.cq(), nullptr);
  ASSERT_NE(queues.qp(), nullptr);
  EXPECT_EQ(Query(mlx5::qpc::kState), QpState::kReset);
  EXPECT_EQ(Query(mlx5::qpc::kUserIndex), 0x5a5au);
  EXPECT_EQ(Query(mlx5::qpc::kLogSqSize), DevxQueues::kLogDepth);
  EXPECT_EQ(Query(mlx5::qpc::kCqnSnd), queues.cqn());
  EXPECT_EQ(Query(mlx5::qpc::kPd), queues.pdn());
}

TEST_F(Devx, PassesThroughTheStatesAndReturnsWhatWasSet) {
  ASSERT_EQ(Run(ToInit()), CommandStatus::kOk);
  EXPECT_EQ(Query(mlx5::qpc::kState), QpState::kInit);
  EXPECT_TRUE(Query(mlx5::qpc::kRwe));
  EXPECT_TRUE(Query(mlx5::qpc::kRae));
  EXPECT_FALSE(Query(mlx5::qpc::kRre));
  ASSERT_EQ(Run(ToRtr()), CommandStatus::kOk);
  EXPECT_EQ(Query(mlx5::qpc::kMtu), mlx5::Mtu::k1024);
  EXPECT_EQ(Query(mlx5::qpc::kRemoteQpn), 0x1234u);
  EXPECT_EQ(Query(mlx5::qpc::kNextRcvPsn), 0x777u);
  EXPECT_EQ(Query(mlx5::qpc::kLogRraMax), 4u);
  EXPECT_EQ(Query(mlx5::ads::kRmac310.At(mlx5::qpc::kPrimaryAddressPath)), 0x48000001u);
  ASSERT_EQ(Run(ToRts()), CommandStatus::kOk);
  EXPECT_EQ(Query(mlx5::qpc::kState), QpState::kRts);
  EXPECT_EQ(Query(mlx5::qpc::kRnrRetry), 6u);
  EXPECT_EQ(Query(mlx5::qpc::kNextSendPsn), 0x888u);
  ASSERT_EQ(Run(Modify(CommandOpcode::k2ErrQp, queues.qpn())), CommandStatus::kOk);
  EXPECT_EQ(Query(mlx5::qpc::kState), QpState::kError);
  ASSERT_EQ(Run(Modify(CommandOpcode::k2RstQp, queues.qpn())), CommandStatus::kOk);
  EXPECT_EQ(Query(mlx5::qpc::kState), QpState::kReset);
}

TEST_F(Devx, ChangesOnlyTheRightsInTheMask) {
  ASSERT_EQ(Run(ToInit()), CommandStatus::kOk);
  Command in = ToRtr();
  in.Set(mlx5::modify_qp_in::kOptParamMask, uint32_t{mlx5::kOptRre});
  SetContext(in, mlx5::qpc::kRre, true);
  ASSERT_EQ(Run(in), CommandStatus::kOk);
  EXPECT_TRUE(Query(mlx5::qpc::kRre));
  EXPECT_TRUE(Query(mlx5::qpc::kRwe));  // not in the mask, so not changed
}

TEST_F(Devx, RefusesTransitionsFromAnotherState) {
  EXPECT_EQ(Run(ToRtr()), CommandStatus::kBadQpState);
  EXPECT_EQ(Run(ToRts()), CommandStatus::kBadQpState);
  ASSERT_EQ(Run(ToInit()), CommandStatus::kOk);
  EXPECT_EQ(Run(ToInit()), CommandStatus::kBadQpState);
}

TEST_F(Devx, RefusesImpossibleValues) {
  Command bad_port = ToInit();
  SetPath(bad_port, mlx5::ads::kVhcaPortNum, 0);
  EXPECT_EQ(Run(bad_port), CommandStatus::kBadParameter);
  ASSERT_EQ(Run(ToInit()), CommandStatus::kOk);
  Command long_message = ToRtr();
  SetContext(long_message, mlx5::qpc::kLogMsgMax, 31);
  EXPECT_EQ(Run(long_message), CommandStatus::kBadParameter);
  Command many_reads = ToRtr();
  SetContext(many_reads, mlx5::qpc::kLogRraMax, 5);
  EXPECT_EQ(Run(many_reads), CommandStatus::kBadParameter);
  Command no_mtu = ToRtr();
  SetContext(no_mtu, mlx5::qpc::kMtu, mlx5::Mtu{});
  EXPECT_EQ(Run(no_mtu), CommandStatus::kBadParameter);
  EXPECT_EQ(Query(mlx5::qpc::kState), QpState::kInit);
}

TEST_F(Devx, RefusesQueuesOutsideTheirUmem) {
  auto cq = queues.CqCommand();
  EXPECT_EQ(queues.Refusal(cq.Set(mlx5::create_cq_in::kCqUmemOffset, Unmap::kBytes - 64)),
            CommandStatus::kBadParameter);
  EXPECT_EQ(queues.Refusal(cq.Set(mlx5::create_cq_in::kCqUmemOffset, 8)), CommandStatus::kBadParameter);
  cq = queues.CqCommand();
  EXPECT_EQ(queues.Refusal(cq.Set(mlx5::create_cq_in::kCqUmemId, 0xffff)), CommandStatus::kBadResource);
  auto qp = queues.QpCommand();
  EXPECT_EQ(queues.Refusal(qp.Set(mlx5::create_qp_in::kWqUmemOffset, Unmap::kBytes)),
            CommandStatus::kBadParameter);
}

TEST_F(Devx, RefusesQueuesWhoseUmemsOrEventQueueAreNotSet) {
  constexpr uint32_t kCqc = mlx5::create_cq_in::kCqc, kQpc = mlx5::create_qp_in::kQpc;
  auto cq = queues.CqCommand();
  EXPECT_EQ(queues.Refusal(cq.Set(mlx5::create_cq_in::kCqUmemValid, false)), CommandStatus::kBadParameter);
  cq = queues.CqCommand();
  EXPECT_EQ(queues.Refusal(cq.Set(mlx5::cqc::kDbrUmemValid.At(kCqc), false)), CommandStatus::kBadParameter);
  cq = queues.CqCommand();
  EXPECT_EQ(queues.Refusal(cq.Set(mlx5::cqc::kCEqn.At(kCqc), 0)), CommandStatus::kBadParameter);
  auto qp = queues.QpCommand();
  EXPECT_EQ(queues.Refusal(qp.Set(mlx5::create_qp_in::kWqUmemValid, false)), CommandStatus::kBadParameter);
  qp = queues.QpCommand();
  EXPECT_EQ(queues.Refusal(qp.Set(mlx5::qpc::kDbrUmemValid.At(kQpc), false)), CommandStatus::kBadParameter);
}

TEST_F(Devx, RefusesMisalignedQueuesAndRecords) {
  constexpr uint32_t kCqc = mlx5::create_cq_in::kCqc, kQpc = mlx5::create_qp_in::kQpc;
  auto* const odd = static_cast<uint8_t*>(queues.memory()) + 4;
  const Umem umem(mlx5dv_devx_umem_reg(context.get(), odd, Unmap::kBytes - 4, IBV_ACCESS_LOCAL_WRITE));
  ASSERT_NE(umem, nullptr);
  auto cq = queues.CqCommand();
  EXPECT_EQ(queues.Refusal(cq.Set(mlx5::create_cq_in::kCqUmemId, umem->umem_id)),
            CommandStatus::kBadParameter);
  cq = queues.CqCommand();
  EXPECT_EQ(queues.Refusal(cq.Set(mlx5::cqc::kDbrUmemId.At(kCqc), umem->umem_id)),
            CommandStatus::kBadParameter);
  auto qp = queues.QpCommand();
  EXPECT_EQ(queues.Refusal(qp.Set(mlx5::create_qp_in::kWqUmemId, umem->umem_id)),
            CommandStatus::kBadParameter);
  qp = queues.QpCommand();
  EXPECT_EQ(queues.Refusal(qp.Set(mlx5::qpc::kDbrUmemId.At(kQpc), umem->umem_id)),
            CommandStatus::kBadParameter);
}

TEST_F(Devx, RefusesQueuesOfUnknownObjects) {
  constexpr uint32_t kCqc = mlx5::create_cq_in::kCqc, kQpc = mlx5::create_qp_in::kQpc;
  auto cq = queues.CqCommand();
  EXPECT_EQ(queues.Refusal(cq.Set(mlx5::cqc::kUarPage.At(kCqc), 0xfff)), CommandStatus::kBadResource);
  auto qp = queues.QpCommand();
  EXPECT_EQ(queues.Refusal(qp.Set(mlx5::qpc::kCqnSnd.At(kQpc), 0xfff)), CommandStatus::kBadResource);
  qp = queues.QpCommand();
  EXPECT_EQ(queues.Refusal(qp.Set(mlx5::qpc::kPd.At(kQpc), 0xfff)), CommandStatus::kBadResource);
  qp = queues.QpCommand();
  EXPECT_EQ(queues.Refusal(qp.Set(mlx5::qpc::kSt.At(kQpc), mlx5::ServiceType::kUd)),
            CommandStatus::kBadParameter);
}

TEST_F(Devx, RefusesACompletionQueueInAUmemWithoutLocalWrite) {
  const Umem umem(mlx5dv_devx_umem_reg(context.get(), queues.memory(), Unmap::kBytes, 0));
  ASSERT_NE(umem, nullptr);
  auto cq = queues.CqCommand();
  EXPECT_EQ(queues.Refusal(cq.Set(mlx5::create_cq_in::kCqUmemId, umem->umem_id)),
            CommandStatus::kBadParameter);
}

TEST_F(Devx, RecordOfACompletionQueueMayBeReadOnly) {
  alignas(4096) static const std::array<uint8_t, 4096> kPage{};
  const Umem umem(mlx5dv_devx_umem_reg(context.get(), const_cast<uint8_t*>(kPage.data()), kPage.size(), 0));
  ASSERT_NE(umem, nullptr);
  auto in = queues.CqCommand();
  in.Set(mlx5::cqc::kDbrUmemId.At(mlx5::create_cq_in::kCqc), umem->umem_id)
      .Set(mlx5::cqc::kDbrAddr.At(mlx5::create_cq_in::kCqc), 0);
  uint32_t number = 0;
  const DevxObject cq(queues.Create(in, &number));
  EXPECT_NE(cq, nullptr);
}

TEST_F(Devx, DemandsThePathMigrationStateOfANewQueuePair) {
  constexpr auto kArmed = mlx5::PathMigration{};
  auto qp = queues.QpCommand();
  EXPECT_EQ(queues.Refusal(qp.Set(mlx5::qpc::kPmState.At(mlx5::create_qp_in::kQpc), kArmed)),
            CommandStatus::kBadParameter);
  Command init = ToInit();
  SetContext(init, mlx5::qpc::kPmState, kArmed);
  EXPECT_EQ(Run(init), CommandStatus::kOk) << "Linux leaves it 0";
}

TEST_F(Devx, RefusesObjectsOfAnotherContext) {
  const verbs::Context other = verbs::Open();
  const DevxQueues foreign(other.get());
  auto qp = queues.QpCommand();
  EXPECT_EQ(queues.Refusal(qp.Set(mlx5::qpc::kCqnSnd.At(mlx5::create_qp_in::kQpc), foreign.cqn())),
            CommandStatus::kBadResource);
}

TEST_F(Devx, RefusesToDestroyObjectsInUse) {
  EXPECT_EQ(mlx5dv_devx_obj_destroy(queues.cq()), EBUSY);
  EXPECT_EQ(mlx5dv_devx_umem_dereg(queues.umem()), EBUSY);
  EXPECT_EQ(ibv_dealloc_pd(queues.pd()), EBUSY);
}

TEST_F(Devx, RefusesEventChannels) {
  EXPECT_EQ(
      mlx5dv_devx_create_event_channel(context.get(), MLX5DV_DEVX_CREATE_EVENT_CHANNEL_FLAGS_OMIT_EV_DATA),
      nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  EXPECT_EQ(mlx5dv_devx_create_cmd_comp(context.get()), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
}

TEST_F(Devx, RefusesAMailboxThatIsTooShort) {
  const auto in = queues.CqCommand();
  mlx5::Mailbox<mlx5::kCommandOutBytes> out;
  EXPECT_EQ(mlx5dv_devx_obj_create(context.get(), in.data(), 64, out.data(), out.size()), nullptr);
  EXPECT_EQ(errno, EREMOTEIO);
  EXPECT_EQ(out.Get(mlx5::command_out::kStatus), CommandStatus::kBadInputLength);
  EXPECT_EQ(mlx5dv_devx_obj_create(context.get(), in.data(), in.size(), out.data(), 8), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

TEST_F(Devx, RefusesACommandForAnotherObjectThanTheHandles) {
  const Command in = Modify(CommandOpcode::k2RstQp, queues.qpn() + 1);
  mlx5::Mailbox<mlx5::kCommandOutBytes> out;
  EXPECT_EQ(mlx5dv_devx_obj_modify(queues.qp(), in.data(), in.size(), out.data(), out.size()), EINVAL);
}

TEST_F(Devx, CreatesAnMkeyWithTheProgramsVariant) {
  using namespace mlx5;
  constexpr uint32_t kMkc = create_mkey_in::kMkc, kPages = 1;
  Mailbox<create_mkey_in::kBytes> in;
  in.Set(command_in::kOpcode, CommandOpcode::kCreateMkey)
      .Set(mkc::kAccessMode10.At(kMkc), kPages)
      .Set(mkc::kLw.At(kMkc), true)
      .Set(mkc::kLr.At(kMkc), true)
      .Set(mkc::kRw.At(kMkc), true)
      .Set(mkc::kPd.At(kMkc), queues.pdn())
      .Set(mkc::kMkey70.At(kMkc), 0x42)
      .Set(mkc::kStartAddr.At(kMkc), 0x10000)
      .Set(mkc::kLen.At(kMkc), 4096)
      .Set(create_mkey_in::kMkeyUmemId, queues.umem()->umem_id);
  uint32_t index = 0;
  const DevxObject mkey(queues.Create(in, &index));
  ASSERT_NE(mkey, nullptr);
  EXPECT_NE(index, 0u);
  EXPECT_EQ(queues.Refusal(in.Set(mkc::kLen.At(kMkc), Unmap::kBytes + 1)), CommandStatus::kBadParameter);
}

TEST_F(Devx, CapabilitiesAgreeWithVerbs) {
  using namespace mlx5;
  Mailbox<kCommandHeaderBytes> in;
  Mailbox<query_hca_cap_out::kBytes> out;
  in.Set(command_in::kOpcode, CommandOpcode::kQueryHcaCap).Set(command_in::kOpMod, 1);
  ASSERT_EQ(mlx5dv_devx_general_cmd(context.get(), in.data(), in.size(), out.data(), out.size()), 0);
  const auto get = [&](auto field) { return out.Get(field.At(query_hca_cap_out::kCapability)); };
  ibv_device_attr device{};
  ibv_port_attr port{};
  ASSERT_EQ(ibv_query_device(context.get(), &device), 0);
  ASSERT_EQ(ibv_query_port(context.get(), 1, &port), 0);
  EXPECT_EQ(1 << get(cmd_hca_cap::kLogMaxQp), device.max_qp);
  EXPECT_EQ(1 << get(cmd_hca_cap::kLogMaxQpSz), device.max_qp_wr);
  EXPECT_EQ((1 << get(cmd_hca_cap::kLogMaxCqSz)) - 1, device.max_cqe);
  EXPECT_EQ(1 << get(cmd_hca_cap::kLogMaxRaReqQp), device.max_qp_init_rd_atom);
  EXPECT_EQ(1u << get(cmd_hca_cap::kLogMaxMsg), port.max_msg_sz);
  EXPECT_EQ(get(cmd_hca_cap::kAtomic), device.atomic_cap != IBV_ATOMIC_NONE);
  EXPECT_EQ(get(cmd_hca_cap::kPortType), PortType::kEthernet);
  EXPECT_EQ(8 << get(cmd_hca_cap::kGidTableSize), port.gid_tbl_len);
}

TEST_F(Devx, CapabilitiesFillAShortAnswer) {
  using namespace mlx5;
  Mailbox<kCommandHeaderBytes> in;
  in.Set(command_in::kOpcode, CommandOpcode::kQueryHcaCap).Set(command_in::kOpMod, 1);
  Mailbox<query_hca_cap_out::kBytes> whole;
  ASSERT_EQ(mlx5dv_devx_general_cmd(context.get(), in.data(), in.size(), whole.data(), whole.size()), 0);
  Mailbox<64> start;
  ASSERT_EQ(mlx5dv_devx_general_cmd(context.get(), in.data(), in.size(), start.data(), start.size()), 0);
  EXPECT_EQ(std::memcmp(start.data(), whole.data(), start.size()), 0);
}

TEST_F(Devx, UnknownCapabilitiesAreZero) {
  using namespace mlx5;
  constexpr uint32_t kNoPage = 0x7e;
  Mailbox<kCommandHeaderBytes> in;
  in.Set(command_in::kOpcode, CommandOpcode::kQueryHcaCap).Set(command_in::kOpMod, kNoPage << 1);
  Mailbox<query_hca_cap_out::kBytes> out, zero;
  ASSERT_EQ(mlx5dv_devx_general_cmd(context.get(), in.data(), in.size(), out.data(), out.size()), 0);
  EXPECT_EQ(std::memcmp(out.data(), zero.data(), out.size()), 0);
}

TEST_F(Devx, RefusesAnUnknownFirmwareCommandInItsMailbox) {
  mlx5::Mailbox<mlx5::kCommandHeaderBytes> in;
  mlx5::Mailbox<mlx5::kCommandOutBytes> out;
  in.Set(mlx5::command_in::kOpcode, CommandOpcode::kDestroyDct);
  EXPECT_EQ(mlx5dv_devx_general_cmd(context.get(), in.data(), in.size(), out.data(), out.size()), EREMOTEIO);
  EXPECT_EQ(out.Get(mlx5::command_out::kStatus), CommandStatus::kBadOperation);
}

}  // namespace
}  // namespace kernel_abi
