#include "wire/request_packets.hpp"

#include <algorithm>

#include "core/packets.hpp"

namespace softhca {
namespace {

using mlx5::WqeOpcode;

/// Returns the opcode of a packet of a send or write. Both have the same six opcodes, in the same order; a
/// send has two more.
PacketOp PartOp(PacketOp first_op, bool first, bool last, WqeOpcode opcode) {
  const auto after = [&](PacketOp op) {
    return static_cast<int>(op) - static_cast<int>(PacketOp::kSendFirst);
  };
  if (last && opcode == WqeOpcode::kSendInval) {
    return first ? PacketOp::kSendOnlyInvalidate : PacketOp::kSendLastInvalidate;
  }
  const bool imm = opcode == WqeOpcode::kSendImm || opcode == WqeOpcode::kRdmaWriteImm;
  const PacketOp part = first && last ? PacketOp::kSendOnly
                        : first       ? PacketOp::kSendFirst
                        : last        ? PacketOp::kSendLast
                                      : PacketOp::kSendMiddle;
  return static_cast<PacketOp>(static_cast<int>(first_op) + after(part) + (last && imm ? 1 : 0));
}

void AddAtomic(const Request& request, Packet& packet) {
  const AtomicOperands& operands = request.atomic;
  packet.op = operands.compare_swap ? PacketOp::kCompareSwap : PacketOp::kFetchAdd;
  packet.masked_atomic =
      request.opcode == WqeOpcode::kAtomicMaskedCs || request.opcode == WqeOpcode::kAtomicMaskedFa;
  packet.atomic = {.address = request.remote_address,
                   .rkey = request.rkey,
                   .swap_add = operands.swap_add,
                   .compare = operands.compare,
                   .bytes = static_cast<uint8_t>(operands.bytes),
                   .swap_mask = operands.swap_mask,
                   .compare_mask = operands.compare_mask,
                   .boundary = operands.boundary};
}

}  // namespace

RequestPacket CutPacket(const Request& request, uint32_t number, mlx5::Mtu mtu) {
  RequestPacket cut;
  const uint64_t offset = uint64_t{number} * MtuBytes(mtu), rest = request.bytes - offset;
  const bool first = number == 0, last = number + 1 == PsnCount(request, mtu);
  Packet& packet = cut.packet;
  switch (request.opcode) {
    case WqeOpcode::kSend:
    case WqeOpcode::kSendImm:
    case WqeOpcode::kSendInval:
    case WqeOpcode::kRdmaWrite:
    case WqeOpcode::kRdmaWriteImm: {
      const bool write =
          request.opcode == WqeOpcode::kRdmaWrite || request.opcode == WqeOpcode::kRdmaWriteImm;
      packet.op = PartOp(write ? PacketOp::kWriteFirst : PacketOp::kSendFirst, first, last, request.opcode);
      packet.memory = {request.remote_address, request.rkey, static_cast<uint32_t>(request.bytes)};
      packet.imm = request.imm;
      packet.invalidate_rkey = mlx5::FromBe(request.imm);
      // For packets that consume a receive.
      packet.solicited = request.solicited && last && request.opcode != WqeOpcode::kRdmaWrite;
      cut.offset = offset;
      cut.bytes = static_cast<uint32_t>(std::min<uint64_t>(rest, MtuBytes(mtu)));
      break;
    }
    case WqeOpcode::kRdmaRead:
      packet.op = PacketOp::kReadRequest;
      packet.memory = {request.remote_address + offset, request.rkey, static_cast<uint32_t>(rest)};
      break;
    default:
      AddAtomic(request, packet);
  }
  packet.srqn = request.srqn;
  return cut;
}

}  // namespace softhca
