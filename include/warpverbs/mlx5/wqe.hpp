#pragma once

#include <cstddef>
#include <cstdint>

#include "warpverbs/mlx5/endian.hpp"

/// Work queue entries: a control segment, then 16-byte segments that depend on the opcode.
///
/// @source  rdma-core v44, providers/mlx5/mlx5dv.h (`mlx5_wqe_*`) and wqe.h; field by field in tests/mlx5
namespace warpverbs::inline v0_2::mlx5 {

inline constexpr uint32_t kWqebbBytes = 64;    ///< send queue slot: one WQE basic block
inline constexpr uint32_t kSegmentBytes = 16;  ///< the unit of a WQE's length (`ds`)
inline constexpr uint32_t kMaxSegments = 63;   ///< largest `ds`: six bits
inline constexpr uint32_t kInlineFlag = 1u << 31;
inline constexpr uint32_t kMaxDataBytes = 1u << 31;  ///< bytes that a data segment's length of 0 means
inline constexpr uint32_t kInvalidLkey = 0x100;      ///< ends the scatter list of a receive WQE

enum class WqeOpcode : uint8_t {
  kNop = 0x00,
  kSendInval = 0x01,
  kRdmaWrite = 0x08,
  kRdmaWriteImm = 0x09,
  kSend = 0x0a,
  kSendImm = 0x0b,
  kWait = 0x0f,
  kRdmaRead = 0x10,
  kAtomicCs = 0x11,
  kAtomicFa = 0x12,
  kAtomicMaskedCs = 0x14,
  kAtomicMaskedFa = 0x15,
  kLocalInval = 0x1b,
  kDump = 0x23,
  kUmr = 0x25,
};

/// Operand size of an extended (masked) atomic, in the control segment's opcode modifier.
enum class AtomicOpmod : uint8_t { kPlain = 0x00, kExtended4 = 0x08, kExtended8 = 0x09 };

/// The event that a WAIT waits for, in the control segment's opcode modifier.
///
/// @source  DPDK 004edb48d601, drivers/common/mlx5/mlx5_prm.h (`MLX5_OPC_MOD_WAIT_*`)
enum class WaitOpmod : uint8_t { kCqProducerIndex = 0x00, kData = 0x01, kTime = 0x02 };

/// `fm_ce_se`: when the NIC reports the WQE, and which earlier ones it waits for.
enum CtrlFlags : uint8_t {
  kSolicited = 0x02,            ///< the receiver's completion is a solicited event
  kCqeOnError = 0x00,           ///< a CQE only if the WQE fails
  kCqeAlways = 0x08,            ///< a CQE for success too
  kFenceInitiatorSmall = 0x20,  ///< after local invalidations
  kFence = 0x80,                ///< after all earlier reads and atomics of this queue pair
};
inline constexpr uint8_t kCompletionMask = 0x0c;
inline constexpr uint8_t kFenceMask =
    0xe0;  ///< all fences but kFenceInitiatorSmall look at reads and atomics

/// The control segment: the first 16 bytes of every WQE.
struct CtrlSegment {
  Be32 opmod_index_opcode;  ///< opmod << 24 | WQE index << 8 | opcode; index in WQEBBs, modulo 2^16
  Be32 qpn_ds;              ///< qpn << 8 | length in segments
  uint8_t signature;
  uint8_t dci_stream_high;
  uint8_t dci_stream_low;
  uint8_t fm_ce_se;  ///< CtrlFlags
  Be32 imm;          ///< immediate data, byte for byte as the peer's completion shows it
};
static_assert(sizeof(CtrlSegment) == 16);

/// The peer's memory of a write, read or atomic.
struct RemoteAddressSegment {
  Be64 address;
  Be32 rkey;
  Be32 reserved;
};
static_assert(sizeof(RemoteAddressSegment) == 16);

/// The destination of a datagram or of a DC initiator's message; it follows the control segment.
///
/// This is the extended form of rdma-core's address vector, 48 bytes; the short one is not used.
struct DatagramSegment {
  Be32 qkey;  ///< Q_Key to send; kOwnQkey: that of the sending queue pair. DC: upper half of the access key
  Be32 dc_key_low;     ///< DC: lower half of the access key
  Be32 dest_qpn;       ///< kExtendedAddress | number of the queue pair or DC target
  uint8_t rate_sl;     ///< static rate << 4 | service level, which Ethernet shifts by 1
  uint8_t path_bits;   ///< InfiniBand only
  Be16 lid_udp_sport;  ///< remote LID; UDP source port of RoCE v2
  uint8_t reserved1[4];
  uint8_t mac[6];
  uint8_t traffic_class;
  uint8_t hop_limit;
  Be32 grh_gid_flow;  ///< has GRH << 30 (InfiniBand only) | local GID index << 20 | flow label
  uint8_t gid[16];
};
static_assert(sizeof(DatagramSegment) == 48 && offsetof(DatagramSegment, gid) == 32);
inline constexpr uint32_t kOwnQkey = 1u << 31;
inline constexpr uint32_t kExtendedAddress = 1u << 31;

/// A piece of local memory to send from or to receive into.
struct DataSegment {
  Be32 bytes;
  Be32 lkey;
  Be64 address;
};
static_assert(sizeof(DataSegment) == 16);

/// The payload follows directly; the segment is padded to 16 bytes.
struct InlineSegment {
  Be32 bytes;  ///< kInlineFlag | length
};
static_assert(sizeof(InlineSegment) == 4);

/// The operands of a fetch and add, or of a compare and swap, of 8 bytes.
struct AtomicSegment {
  Be64 swap_add;
  Be64 compare;
};
static_assert(sizeof(AtomicSegment) == 16);

/// Compare the bits in `compare_mask`; if they match, replace the bits in `swap_mask`.
struct MaskedCompareSwap4Segment {
  Be32 swap;
  Be32 compare;
  Be32 swap_mask;
  Be32 compare_mask;
};
static_assert(sizeof(MaskedCompareSwap4Segment) == 16);

/// As MaskedCompareSwap4Segment, of 8 bytes.
struct MaskedCompareSwap8Segment {
  Be64 swap;
  Be64 compare;
  Be64 swap_mask;
  Be64 compare_mask;
};
static_assert(sizeof(MaskedCompareSwap8Segment) == 32);

/// Add field by field: a set bit in `field_boundary` is a field's top bit, so no carry leaves the field.
struct MaskedFetchAdd4Segment {
  Be32 add;
  Be32 field_boundary;
  Be64 reserved;
};
static_assert(sizeof(MaskedFetchAdd4Segment) == 16);

/// As MaskedFetchAdd4Segment, of 8 bytes.
struct MaskedFetchAdd8Segment {
  Be64 add;
  Be64 field_boundary;
};
static_assert(sizeof(MaskedFetchAdd8Segment) == 16);

/// The segment of a WAIT: the send queue stops until a completion queue has received the CQE of index
/// `max_index`.
///
/// That is the index of the last CQE to wait for, not a count: the first CQE of a completion queue has index
/// 0. Indices continue past the queue's depth, modulo 2^24. The queue pair must be a `cd_master`.
///
/// @source  DPDK 004edb48d601, drivers/common/mlx5/mlx5_prm.h (`mlx5_wqe_qseg`, `MLX5_CQ_INDEX_WIDTH`) and
///          drivers/net/mlx5/mlx5_txpp.c; libmlx5 41mlnx1, src/verbs.c, create_cq(), `wait_index`
struct WaitSegment {
  Be64 reserved;
  Be32 max_index;
  Be32 cqn;
};
static_assert(sizeof(WaitSegment) == 16);

/// First segment of a UMR: the NIC changes the fields of a memory key that `mkey_mask` names. The control
/// segment's `imm` is the key. A MkeySegment follows, then KlmSegments.
struct UmrControlSegment {
  uint8_t flags;  ///< UmrFlags
  uint8_t reserved0[3];
  Be16 klm_octowords;
  Be16 translation_offset;
  Be64 mkey_mask;  ///< UmrMask
  uint8_t reserved1[32];
};
static_assert(sizeof(UmrControlSegment) == 48);

enum UmrFlags : uint8_t {
  kUmrCheckQpn = 0x08,           ///< fail unless the key is of this queue pair
  kUmrTranslationOffset = 0x10,  ///< `translation_offset` holds, not the size of a BSF
  kUmrCheckFree = 0x20,          ///< fail unless the key is free
  kUmrInline = 0x80,             ///< the KLMs are in the WQE
};

enum UmrMask : uint64_t {
  kUmrLength = 0x1,
  kUmrStartAddress = 0x40,
  kUmrKeyByte = 0x2000,
  kUmrQpn = 0x4000,
  kUmrLocalWrite = 0x40000,
  kUmrRemoteRead = 0x80000,
  kUmrRemoteWrite = 0x100000,
  kUmrAtomic = 0x200000,
  kUmrFree = 0x20000000,
};
inline constexpr uint64_t kUmrAccess = kUmrLocalWrite | kUmrRemoteRead | kUmrRemoteWrite | kUmrAtomic;

/// The new contents of a memory key.
struct MkeySegment {
  uint8_t free;  ///< kMkeyFree
  uint8_t reserved0;
  uint8_t access_flags;  ///< MkeyAccess
  uint8_t sf;
  Be32 qpn_mkey;  ///< qpn << 8 | low byte of the key; qpn kAnyQpn: all queue pairs
  Be32 reserved1;
  Be32 flags_pd;
  Be64 start_address;
  Be64 length;
  Be32 bsf_octoword_size;
  Be32 reserved2[4];
  Be32 translations_octoword_size;
  uint8_t reserved3[3];
  uint8_t log_page_size;
  Be32 reserved4;
};
static_assert(sizeof(MkeySegment) == 64);
inline constexpr uint8_t kMkeyFree = 1 << 6;
inline constexpr uint32_t kAnyQpn = 0xffffff;

enum MkeyAccess : uint8_t {
  kMkeyLocalRead = 0x04,
  kMkeyLocalWrite = 0x08,
  kMkeyRemoteRead = 0x10,
  kMkeyRemoteWrite = 0x20,
  kMkeyAtomic = 0x40,
};

/// A piece of memory that a key is made of, by another key.
struct KlmSegment {
  Be32 bytes;
  Be32 key;
  Be64 address;
};
static_assert(sizeof(KlmSegment) == 16);

/// First of the segments that take the place of KlmSegments if a key is made of pieces that repeat at a
/// stride. UmrRepeatEntry segments follow.
struct UmrRepeatSegment {
  Be32 bytes;      ///< size of all entries together, once
  Be32 operation;  ///< kUmrRepeat
  Be32 repetitions;
  Be16 reserved;
  Be16 entries;
};
static_assert(sizeof(UmrRepeatSegment) == 16);
inline constexpr uint32_t kUmrRepeat = 0x400;

/// A piece of memory that repeats.
struct UmrRepeatEntry {
  Be16 stride;  ///< from the start of one repetition to the next
  Be16 bytes;
  Be32 key;
  Be64 address;
};
static_assert(sizeof(UmrRepeatEntry) == 16);

/// First segment of a shared receive queue's WQE; data segments follow.
struct SrqNextSegment {
  uint8_t reserved0[2];
  Be16 next_wqe_index;
  uint8_t signature;
  uint8_t reserved1[11];
};
static_assert(sizeof(SrqNextSegment) == 16);

/// One slot of a send queue.
struct alignas(64) Wqebb {
  uint8_t bytes[kWqebbBytes];
};

}  // namespace warpverbs::inline v0_2::mlx5
