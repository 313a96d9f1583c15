#include "observe/names.hpp"

#include <cstdio>

namespace softhca {

std::string ToString(const QueuePair& qp) {
  char number[16];
  std::snprintf(number, sizeof number, "0x%x", qp.qpn);
  return qp.hca->config().name + " QP " + number;
}

const char* ToString(mlx5::WqeOpcode opcode) {
  using mlx5::WqeOpcode;
  switch (opcode) {
    case WqeOpcode::kNop:
      return "NOP";
    case WqeOpcode::kSendInval:
      return "SEND_INVALIDATE";
    case WqeOpcode::kRdmaWrite:
      return "WRITE";
    case WqeOpcode::kRdmaWriteImm:
      return "WRITE_IMM";
    case WqeOpcode::kSend:
      return "SEND";
    case WqeOpcode::kSendImm:
      return "SEND_IMM";
    case WqeOpcode::kWait:
      return "WAIT";
    case WqeOpcode::kRdmaRead:
      return "READ";
    case WqeOpcode::kAtomicCs:
      return "COMPARE_SWAP";
    case WqeOpcode::kAtomicFa:
      return "FETCH_ADD";
    case WqeOpcode::kAtomicMaskedCs:
      return "MASKED_COMPARE_SWAP";
    case WqeOpcode::kAtomicMaskedFa:
      return "MASKED_FETCH_ADD";
    case WqeOpcode::kLocalInval:
      return "LOCAL_INVALIDATE";
    case WqeOpcode::kDump:
      return "DUMP";
    case WqeOpcode::kUmr:
      return "UMR";
  }
  return "UNKNOWN";
}

const char* ToString(mlx5::ServiceType service) {
  switch (service) {
    case mlx5::ServiceType::kRc:
      return "RC";
    case mlx5::ServiceType::kUc:
      return "UC";
    case mlx5::ServiceType::kUd:
      return "UD";
    case mlx5::ServiceType::kDci:
      return "DCI";
    case mlx5::ServiceType::kDct:
      return "DCT";
    default:
      return "other";
  }
}

}  // namespace softhca
