// Commands of the driver and answers of a peer. Both programs are built from this file for the same
// processor, so the bytes of these structs are the protocol.
#pragma once

#include <infiniband/verbs.h>

#include <array>
#include <cstdint>
#include <type_traits>
#include <variant>

namespace interop {

/// Size of a peer's memory region.
constexpr uint32_t kRegionBytes = 256 * 1024;
constexpr uint32_t kQKey = 0x11111111;

constexpr uint32_t kRemoteAccess =
    IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

enum class Family : uint32_t { kIpv4, kIpv6, kLinkLocal };

/// Address of a queue pair and its memory, for the other side.
struct Address {
  union ibv_gid gid;
  uint32_t qpn;
  uint32_t psn;
  uint32_t rkey;
  uint64_t region;
};

/// Creates a queue pair, a completion queue and a region, in place of the old ones. Byte i of the region
/// becomes PatternByte(seed, i). Answers with the address, or with ENOENT if the device has no address of the
/// family.
struct Open {
  ibv_qp_type type = IBV_QPT_RC;
  Family family = Family::kIpv4;
  uint32_t psn = 0;
  uint32_t region_access = IBV_ACCESS_LOCAL_WRITE | kRemoteAccess;
  uint32_t seed = 0;
};

/// Moves the queue pair to RTS.
struct Connect {
  Address peer;
  ibv_mtu mtu = IBV_MTU_1024;
  uint32_t access = IBV_ACCESS_LOCAL_WRITE | kRemoteAccess;
  uint8_t timeout = 14;
  uint8_t retries = 7;
  uint8_t rnr_retries = 7;
  uint8_t rnr_timer = 12;
  uint8_t traffic_class = 0;
};

/// Posts to the send queue. Answers with the error of ibv_post_send(). The key of IBV_WR_LOCAL_INV and
/// IBV_WR_SEND_WITH_INV is the one to invalidate.
struct PostSend {
  ibv_wr_opcode opcode = IBV_WR_RDMA_WRITE;
  uint32_t flags = IBV_SEND_SIGNALED;
  uint64_t id = 1;
  uint32_t offset = 0;  // offset of the local bytes in the region
  uint32_t bytes = 0;
  uint64_t remote = 0;
  uint32_t rkey = 0;
  uint32_t immediate = 0;
  uint64_t compare_add = 0;
  uint64_t swap = 0;
  uint32_t q_key = kQKey;
};

/// Posts the request that binds the peer's memory window of a type to a part of the region, by ibv_bind_mw()
/// or, for type 2, by IBV_WR_BIND_MW. The first request allocates the window. Answers with the window's new
/// key.
struct Bind {
  ibv_mw_type type = IBV_MW_TYPE_2;
  uint32_t access = kRemoteAccess;
  uint64_t id = 1;
  uint32_t offset = 0;
  uint32_t bytes = 0;
};

struct PostReceive {
  uint64_t id = 1;
  uint32_t offset = 0;
  uint32_t bytes = 0;
};

/// Answers with the next completion, if one arrives in time.
struct Poll {
  uint32_t timeout_ms = 0;
};

/// Arms the completion queue.
struct Arm {
  bool solicited_only = false;
};

/// Answers 1 if an armed completion queue raises its event in time, else 0.
struct AwaitEvent {
  uint32_t timeout_ms = 0;
};

/// Answers with Checksum() of a part of the region.
struct Sum {
  uint32_t offset = 0;
  uint32_t bytes = kRegionBytes;
};

/// Writes 8 bytes of the region.
struct Store {
  uint32_t offset = 0;
  uint64_t value = 0;
};

/// Answers with 8 bytes of the region.
struct Load {
  uint32_t offset = 0;
};

/// Answers with the state of the queue pair, an ibv_qp_state.
struct QueryState {};

/// Runs a shell command line, and answers with its exit status and the end of its output.
struct RunProgram {
  std::array<char, 256> line{};
};

using Command = std::variant<Open, Connect, PostSend, Bind, PostReceive, Poll, Arm, AwaitEvent, Sum, Store,
                             Load, QueryState, RunProgram>;
static_assert(std::is_trivially_copyable_v<Command>);

struct Answer {
  int32_t error = 0;  // an errno
  std::array<char, 60> device{};
  uint64_t value = 0;
  Address address{};
  bool completed = false;
  ibv_wc completion{};
  std::array<char, 2048> text{};
};
static_assert(std::is_trivially_copyable_v<Answer>);

/// Returns the initial value of a region's byte. It differs between seeds, neighbours and blocks of 256.
constexpr uint8_t PatternByte(uint32_t seed, uint32_t index) {
  return static_cast<uint8_t>(seed + 7 * index + (index >> 8));
}

/// Returns the 64-bit FNV-1a hash.
inline uint64_t Checksum(const uint8_t* bytes, size_t size) {
  uint64_t sum = 0xcbf29ce484222325;
  for (size_t i = 0; i < size; ++i) sum = (sum ^ bytes[i]) * 0x100000001b3;
  return sum;
}

}  // namespace interop
