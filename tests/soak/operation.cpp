#include "soak/operation.hpp"

#include <iterator>

#include "soak/bytes.hpp"

namespace soak {
namespace {

uint64_t KeyOf(const Stream& stream, uint64_t number) {
  return Mix(Mix(stream.seed ^ (uint64_t{stream.end} << 32 | stream.queue)) + number);
}

ibv_wr_opcode OpcodeOf(uint64_t random, bool announces) {
  constexpr ibv_wr_opcode kAnnouncing[] = {IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_WRITE_WITH_IMM};
  constexpr ibv_wr_opcode kAll[] = {IBV_WR_SEND,
                                    IBV_WR_SEND_WITH_IMM,
                                    IBV_WR_RDMA_WRITE,
                                    IBV_WR_RDMA_WRITE,
                                    IBV_WR_RDMA_WRITE,
                                    IBV_WR_RDMA_WRITE_WITH_IMM,
                                    IBV_WR_RDMA_READ,
                                    IBV_WR_RDMA_READ,
                                    IBV_WR_ATOMIC_FETCH_AND_ADD,
                                    IBV_WR_ATOMIC_CMP_AND_SWP};
  return announces ? kAnnouncing[random % std::size(kAnnouncing)] : kAll[random % std::size(kAll)];
}

/// Returns a size: small, long, or around a packet's payload.
uint32_t BytesOf(uint64_t random) {
  constexpr uint32_t kMtu = 1024;
  const auto size = static_cast<uint32_t>(random >> 8);
  switch (random % 4) {
    case 0:
      return size % 64;
    case 1:
      return kMtu * (1 + size % 4) - 1 + (size >> 8) % 3;
    case 2:
      return size % 4096;
    default:
      return size % kSlotBytes + 1;
  }
}

const char* OpcodeName(ibv_wr_opcode opcode) {
  switch (opcode) {
    case IBV_WR_SEND:
      return "send";
    case IBV_WR_SEND_WITH_IMM:
      return "send with immediate data";
    case IBV_WR_RDMA_WRITE:
      return "write";
    case IBV_WR_RDMA_WRITE_WITH_IMM:
      return "write with immediate data";
    case IBV_WR_RDMA_READ:
      return "read";
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
      return "fetch and add";
    default:
      return "compare and swap";
  }
}

}  // namespace

bool Operation::Announces() const {
  return opcode == IBV_WR_SEND || opcode == IBV_WR_SEND_WITH_IMM || opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

std::string Operation::ToString() const {
  return std::string("operation ") + std::to_string(index) + ", a " + OpcodeName(opcode) + " of " +
         std::to_string(bytes) + " bytes";
}

Operation OperationOf(const Stream& stream, uint64_t index) {
  const uint64_t key = KeyOf(stream, index + 1);
  Operation operation{.index = index,
                      .opcode = OpcodeOf(Mix(key + 1), index % kRound == kRound - 1),
                      .bytes = BytesOf(Mix(key + 2)),
                      .offset = 0,
                      .key = Mix(key + 3)};
  if (operation.IsAtomic()) operation.bytes = 8;
  operation.offset = static_cast<uint32_t>(Mix(key + 4) % (kRingBytes - operation.bytes));
  return operation;
}

uint64_t SourceKey(const Stream& stream) { return KeyOf(stream, 0); }

}  // namespace soak
