// Compares the values of all enumerators with the tables in tests/data/prm and with rdma-core's mlx5dv.h. The
// test reads the headers as text, so a new enumerator fails here until it is compared with a table.
#include <gtest/gtest.h>
#include <infiniband/mlx5dv.h>

#include <cctype>
#include <map>
#include <optional>
#include <regex>
#include <string>

#include "prm.hpp"
#include "warpverbs/mlx5/commands.hpp"
#include "warpverbs/mlx5/cqe.hpp"
#include "warpverbs/mlx5/syndrome.hpp"
#include "warpverbs/mlx5/wqe.hpp"

namespace warpverbs::mlx5 {
namespace {

// The group of values.csv for each enumeration.
const std::map<std::string, std::string> kGroups = {
    {"AtomicMode", "qpc_atomic_mode"},
    {"AtomicOperation", "atomic_operations"},
    {"AtomicOpmod", "atomic_opmod"},
    {"CapabilityPage", "hca_cap_type"},
    {"CommandOpcode", "cmd_opcode"},
    {"CommandStatus", "cmd_status"},
    {"CqeL3Header", "cqe_roce_l3_header_type"},
    {"CqeOpcode", "cqe_opcode"},
    {"CtrlFlags", "wqe_ctrl_flags"},
    {"DctState", "dctc_state"},
    {"MkeyAccess", "wqe_mkey_access"},
    {"Mtu", "qpc_mtu"},
    {"OptParam", "qpc_opt_param"},
    {"PathMigration", "qpc_pm_state"},
    {"PortType", "port_type"},
    {"QpState", "qpc_state"},
    {"RoceVersion", "roce_version"},
    {"RqType", "qpc_rq_type"},
    {"ServiceType", "qpc_st"},
    {"Syndrome", "cqe_syndrome"},
    {"TimestampFormat", "qpc_ts_format"},
    {"UmrFlags", "wqe_umr_flags"},
    {"UmrMask", "wqe_umr_mask"},
    {"WaitOpmod", "wait_opmod"},
    {"WqeOpcode", "wqe_opcode"},
};

// Enumerators that have another name in the table. The empty name is 0, "nothing", which no table lists.
const std::map<std::string, std::string> kOtherNames = {
    {"AtomicMode::kNone", ""},
    {"AtomicMode::kOnly8", "ONLY_8B"},
    {"AtomicMode::kUpTo8", "UP_TO_8B"},
    {"AtomicOperation::kAtomicCompareSwap", "CMP_SWAP"},
    {"AtomicOperation::kAtomicFetchAdd", "FETCH_ADD"},
    {"AtomicOperation::kAtomicMaskedCompareSwap", "MASKED_CMP_SWAP"},
    {"AtomicOperation::kAtomicMaskedFetchAdd", "MASKED_FETCH_ADD"},
    {"AtomicOpmod::kPlain", ""},
    {"AtomicOpmod::kExtended4", "4B_EXT"},
    {"AtomicOpmod::kExtended8", "8B_EXT"},
    {"CapabilityPage::kGeneral2", "CAP_2_GENERAL"},
    {"CommandStatus::kInternalError", "INT_ERR"},
    {"CommandStatus::kBadOperation", "BAD_OP_ERR"},
    {"CommandStatus::kBadParameter", "BAD_PARAM_ERR"},
    {"CommandStatus::kBadSystemState", "BAD_SYS_STATE_ERR"},
    {"CommandStatus::kBadResource", "BAD_RES_ERR"},
    {"CommandStatus::kResourceBusy", "RES_BUSY"},
    {"CommandStatus::kLimitExceeded", "LIM_ERR"},
    {"CommandStatus::kBadResourceState", "BAD_RES_STATE_ERR"},
    {"CommandStatus::kBadIndex", "IX_ERR"},
    {"CommandStatus::kNoResources", "NO_RES_ERR"},
    {"CommandStatus::kBadQpState", "BAD_QP_STATE_ERR"},
    {"CommandStatus::kBadCqSize", "BAD_SIZE_OUTS_CQES_ERR"},
    {"CommandStatus::kBadInputLength", "BAD_INP_LEN_ERR"},
    {"CommandStatus::kBadOutputLength", "BAD_OUTP_LEN_ERR"},
    {"CqeOpcode::kRequester", "REQ"},
    {"CqeOpcode::kResponderWriteImm", "RESP_WR_IMM"},
    {"CqeOpcode::kResponderSend", "RESP_SEND"},
    {"CqeOpcode::kResponderSendImm", "RESP_SEND_IMM"},
    {"CqeOpcode::kResponderSendInval", "RESP_SEND_INV"},
    {"CqeOpcode::kResize", "RESIZE_CQ"},
    {"CqeOpcode::kRequesterError", "REQ_ERR"},
    {"CqeOpcode::kResponderError", "RESP_ERR"},
    {"CtrlFlags::kCqeOnError", ""},
    {"CtrlFlags::kCqeAlways", "CQ_UPDATE"},
    {"CtrlFlags::kFenceInitiatorSmall", "INITIATOR_SMALL_FENCE"},
    {"Mtu::k256", "256_BYTES"},
    {"Mtu::k512", "512_BYTES"},
    {"Mtu::k1024", "1K_BYTES"},
    {"Mtu::k2048", "2K_BYTES"},
    {"Mtu::k4096", "4K_BYTES"},
    {"OptParam::kOptRre", "RRE"},
    {"OptParam::kOptRae", "RAE"},
    {"OptParam::kOptRwe", "RWE"},
    {"OptParam::kOptPkeyIndex", "PKEY_INDEX"},
    {"OptParam::kOptMinRnrNak", "MIN_RNR_NAK"},
    {"PortType::kInfiniBand", "IB"},
    {"PortType::kEthernet", "ETH"},
    {"QpState::kReset", "RST"},
    {"QpState::kSqError", "SQER"},
    {"QpState::kError", "ERR"},
    {"RoceVersion::kV1", "VERSION_1_0"},
    {"RoceVersion::kV2", "VERSION_2_0"},
    {"RqType::kSrq", "SRQ_RMP_XRC_SRQ_XRQ"},
    {"RqType::kNone", "ZERO_SIZE_RQ"},
    {"Syndrome::kNone", ""},
    {"Syndrome::kLocalLength", "LOCAL_LENGTH_ERR"},
    {"Syndrome::kLocalQpOperation", "LOCAL_QP_OP_ERR"},
    {"Syndrome::kLocalProtection", "LOCAL_PROT_ERR"},
    {"Syndrome::kFlushed", "WR_FLUSH_ERR"},
    {"Syndrome::kMemoryWindowBind", "MW_BIND_ERR"},
    {"Syndrome::kBadResponse", "BAD_RESP_ERR"},
    {"Syndrome::kLocalAccess", "LOCAL_ACCESS_ERR"},
    {"Syndrome::kRemoteInvalidRequest", "REMOTE_INVAL_REQ_ERR"},
    {"Syndrome::kRemoteAccess", "REMOTE_ACCESS_ERR"},
    {"Syndrome::kRemoteOperation", "REMOTE_OP_ERR"},
    {"Syndrome::kTransportRetryExceeded", "TRANSPORT_RETRY_EXC_ERR"},
    {"Syndrome::kReceiverNotReadyRetryExceeded", "RNR_RETRY_EXC_ERR"},
    {"Syndrome::kRemoteAborted", "REMOTE_ABORTED_ERR"},
    {"WaitOpmod::kCqProducerIndex", "CQ_PI"},
};

// "kRdmaWriteImm" and "RDMA_WRITE_IMM" -> "rdmawriteimm"
std::string Normalised(const std::string& name) {
  std::string plain;
  for (const char c : name) {
    if (c != '_') plain += static_cast<char>(std::tolower(c));
  }
  return plain;
}

std::optional<uint64_t> TableValue(const std::string& enumeration, const std::string& enumerator) {
  const auto other = kOtherNames.find(enumeration + "::" + enumerator);
  if (other != kOtherNames.end() && other->second.empty()) return 0;
  const std::string wanted = Normalised(other != kOtherNames.end() ? other->second : enumerator.substr(1));
  const auto group = kGroups.find(enumeration);
  if (group == kGroups.end()) return std::nullopt;
  for (const auto& [name, value] : prm::Values().at(group->second)) {
    if (Normalised(name) == wanted) return value;
  }
  return std::nullopt;
}

void ExpectTableValues(const std::string& enumeration, const std::string& body) {
  static const std::regex kEnumerator(R"((k\w+)\s*=\s*(0x[0-9a-f]+|\d+)\s*(?:,|$))");
  size_t found = 0;
  for (std::sregex_iterator i(body.begin(), body.end(), kEnumerator), end; i != end; ++i, ++found) {
    const std::optional<uint64_t> expected = TableValue(enumeration, (*i)[1]);
    EXPECT_TRUE(expected) << enumeration << "::" << (*i)[1] << " is not in tests/data/prm/values.csv";
    EXPECT_EQ(std::stoull((*i)[2], nullptr, 0), expected.value_or(0)) << enumeration << "::" << (*i)[1];
  }
  EXPECT_EQ(found, prm::Count(body, R"(\bk\w+)")) << "an enumerator of " << enumeration << " escapes";
}

TEST(Enums, HaveTheValuesOfTheTables) {
  static const std::regex kEnumeration(R"(\benum\s+(?:class\s+)?(\w+)[^{]*\{([^}]*)\})");
  size_t enumerations = 0;
  for (const std::string& header : prm::Headers()) {
    const std::string text = prm::Header(header);
    for (std::sregex_iterator i(text.begin(), text.end(), kEnumeration), end; i != end; ++i, ++enumerations) {
      ExpectTableValues((*i)[1], (*i)[2]);
    }
  }
  EXPECT_EQ(enumerations, kGroups.size());
}

TEST(Enums, AgreeWithRdmaCore) {
  EXPECT_EQ(static_cast<int>(WqeOpcode::kSendInval), MLX5_OPCODE_SEND_INVAL);
  EXPECT_EQ(static_cast<int>(WqeOpcode::kRdmaWrite), MLX5_OPCODE_RDMA_WRITE);
  EXPECT_EQ(static_cast<int>(WqeOpcode::kRdmaWriteImm), MLX5_OPCODE_RDMA_WRITE_IMM);
  EXPECT_EQ(static_cast<int>(WqeOpcode::kSend), MLX5_OPCODE_SEND);
  EXPECT_EQ(static_cast<int>(WqeOpcode::kSendImm), MLX5_OPCODE_SEND_IMM);
  EXPECT_EQ(static_cast<int>(WqeOpcode::kRdmaRead), MLX5_OPCODE_RDMA_READ);
  EXPECT_EQ(static_cast<int>(WqeOpcode::kAtomicCs), MLX5_OPCODE_ATOMIC_CS);
  EXPECT_EQ(static_cast<int>(WqeOpcode::kAtomicFa), MLX5_OPCODE_ATOMIC_FA);
  EXPECT_EQ(static_cast<int>(WqeOpcode::kAtomicMaskedCs), MLX5_OPCODE_ATOMIC_MASKED_CS);
  EXPECT_EQ(static_cast<int>(WqeOpcode::kAtomicMaskedFa), MLX5_OPCODE_ATOMIC_MASKED_FA);
  EXPECT_EQ(static_cast<int>(WqeOpcode::kLocalInval), MLX5_OPCODE_LOCAL_INVAL);
  EXPECT_EQ(static_cast<int>(WqeOpcode::kUmr), MLX5_OPCODE_UMR);
  EXPECT_EQ(static_cast<int>(CqeOpcode::kRequesterError), MLX5_CQE_REQ_ERR);
  EXPECT_EQ(static_cast<int>(CqeOpcode::kResponderError), MLX5_CQE_RESP_ERR);
  EXPECT_EQ(static_cast<int>(CqeOpcode::kInvalid), MLX5_CQE_INVALID);
  EXPECT_EQ(static_cast<int>(Syndrome::kFlushed), MLX5_CQE_SYNDROME_WR_FLUSH_ERR);
  EXPECT_EQ(static_cast<int>(Syndrome::kRemoteAccess), MLX5_CQE_SYNDROME_REMOTE_ACCESS_ERR);
  EXPECT_EQ(kCqeAlways, MLX5_WQE_CTRL_CQ_UPDATE);
  EXPECT_EQ(kSolicited, MLX5_WQE_CTRL_SOLICITED);
  EXPECT_EQ(kFence, MLX5_WQE_CTRL_FENCE);
  EXPECT_EQ(kFenceInitiatorSmall, MLX5_WQE_CTRL_INITIATOR_SMALL_FENCE);
}

TEST(Enums, DescribesEverySyndrome) {
  const std::string unknown = Describe(static_cast<Syndrome>(0xff));
  for (const auto& [name, value] : prm::Values().at("cqe_syndrome")) {
    EXPECT_NE(Describe(static_cast<Syndrome>(value)), unknown) << name;
  }
}

TEST(Enums, DescribesUnknownCauses) {
  EXPECT_STREQ(Describe(static_cast<Syndrome>(0xff)), "unknown syndrome");
  EXPECT_STREQ(Describe(static_cast<CommandStatus>(0xff)), "unknown command status");
}

}  // namespace
}  // namespace warpverbs::mlx5
