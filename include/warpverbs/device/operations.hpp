#pragma once

#include "warpverbs/device/detail/region_check.hpp"
#include "warpverbs/device/detail/wqe_writer.hpp"
#include "warpverbs/mlx5/doorbell.hpp"

/// The operations that SendQueue, its batches and RawSendQueue post. More of them: atomics.hpp, signal.hpp.
///
/// An operation takes Slots() slots (WQEBBs). The last slot is a WQE of its own, so that an index past it is
/// past all of them. Encode() writes the WQEs from slot `index` on, and returns the doorbell value of the
/// last; only that one has the caller's completion flags. Check() validates the operation in a checked build.
namespace warpverbs::inline v0_2::device {

/// The result of Slots() for a message that is too long and cannot be split.
inline constexpr uint32_t kTooLong = ~0u;
/// The result of Slots() for a gathered message of more than kMaxGatherEntries: more than any queue has.
inline constexpr uint32_t kTooManyEntries = kTooLong - 1;

/// Entries that one message gathers at most, as ConnectX-7 reports it (`max_sge`): a write of 8 slots.
inline constexpr uint32_t kMaxGatherEntries = 30;

/// An operation that a SendQueue of `A` can post.
template <class T, class A>
concept Operation = requires(const T& operation, const QueueView& view, const RegionCheck& check) {
  { operation.Slots(view) } -> std::same_as<uint32_t>;
  { operation.template Encode<A>(view, uint32_t{}, uint32_t{}) } -> std::same_as<mlx5::Be64>;
  { operation.Check(check) } -> std::same_as<RequestError>;
};

/// An operation of one slot that can be encoded before it is known whether the slot is the caller's.
template <class T, class A>
concept EncodesEarly = requires(const T& operation, const QueueView& view) {
  operation.template EncodeOneIf<A, true>(true, view, uint32_t{}, uint32_t{});
};

/// Flags for every WQE of an operation except the last: completes only on error.
WARPVERBS_HOST_DEVICE constexpr uint32_t WithoutCompletion(uint32_t flags) {
  return flags & ~uint32_t{mlx5::kCompletionMask | mlx5::kSolicited};
}

/// Writes an operation that takes one slot, as most do, without the code that the others need.
///
/// @pre  operation.Slots(view) is 1
template <arch::Arch A, class Operation>
WARPVERBS_DEVICE mlx5::Be64 EncodeOne(const Operation& operation, const QueueView& view, uint32_t index,
                                      uint32_t flags) {
  if constexpr (requires { operation.template EncodeOne<A>(view, index, flags); }) {
    return operation.template EncodeOne<A>(view, index, flags);
  } else {
    return operation.template Encode<A>(view, index, flags);
  }
}

/// Lets the NIC read the first byte of local memory, which flushes its earlier writes there. Devices and
/// memory with kDumpAfterRead need it after a read. With 0 bytes it does nothing.
struct Dump {
  LocalMemory local;

  WARPVERBS_DEVICE uint32_t Slots(const QueueView&) const { return 1; }
  template <arch::Arch A>
  WARPVERBS_DEVICE mlx5::Be64 Encode(const QueueView& view, uint32_t index, uint32_t flags) const {
    const WqeWriter<A> wqe(view, index);
    const uint32_t data = wqe.Data(1, {local.addr, local.bytes != 0, local.lkey});
    return wqe.Control({data != 0 ? WqeOpcode::kDump : WqeOpcode::kNop, 1 + data, flags});
  }
  WARPVERBS_DEVICE RequestError Check(const RegionCheck& check) const { return check.Find({.local = local}); }
};

/// Does nothing, in order.
WARPVERBS_DEVICE Dump Nop() { return {}; }

/// Delays all later operations until the queue's earlier reads and atomics are done. Writes and sends keep
/// their order without it.
struct Fence : Dump {
  template <arch::Arch A>
  WARPVERBS_DEVICE mlx5::Be64 Encode(const QueueView& view, uint32_t index, uint32_t flags) const {
    return Dump::Encode<A>(view, index, flags | mlx5::kFence);
  }
};

/// Stops the queue until a completion queue of the same device has received `count` completions since its
/// creation, modulo 2^24. The queue pair must have been created for that: host::EndpointConfig::wait_on_cq.
struct WaitCq {
  uint32_t cqn;
  uint32_t count;

  WARPVERBS_DEVICE uint32_t Slots(const QueueView&) const { return 1; }
  template <arch::Arch A>
  WARPVERBS_DEVICE mlx5::Be64 Encode(const QueueView& view, uint32_t index, uint32_t flags) const {
    if (count == 0) return Nop().Encode<A>(view, index, flags);
    const WqeWriter<A> wqe(view, index);
    wqe.Quad32(1, {0, 0, (count - 1) & mlx5::kCqDbrIndexMask, cqn});
    return wqe.Control(
        {WqeOpcode::kWait, 2, flags, {}, static_cast<uint32_t>(mlx5::WaitOpmod::kCqProducerIndex)});
  }
  WARPVERBS_DEVICE RequestError Check(const RegionCheck&) const { return RequestError::kNone; }
};

/// A write, read or send: its payload is one entry of local memory, or two in sequence. The functions below
/// make them.
template <WqeOpcode kOpcode>
struct Message {
  RemoteMemory remote;
  LocalMemory local, second;
  mlx5::Be32 imm = {};

  /// A message of one entry is split if it is longer than the device's longest; a send cannot be split.
  WARPVERBS_DEVICE uint32_t Slots(const QueueView& view) const {
    const uint32_t messages = Messages(view);
    return messages == kTooLong ? kTooLong : messages + Dumps(view);
  }

  template <arch::Arch A>
  WARPVERBS_DEVICE mlx5::Be64 Encode(const QueueView& view, uint32_t index, uint32_t flags) const {
    if (!Dumps(view)) return EncodeMessages<A>(view, index, flags);
    EncodeMessages<A>(view, index, WithoutCompletion(flags));
    const Dump dump{local.bytes != 0 ? local : second};
    return dump.Encode<A>(view, index + Messages(view), flags | mlx5::kFence);
  }

  /// Writes the one WQE of a message that is short enough, without a DUMP.
  ///
  /// @tparam kFills  fills its last sector: see WqeWriter::Fill()
  template <arch::Arch A, bool kFills = false>
  WARPVERBS_DEVICE mlx5::Be64 EncodeOne(const QueueView& view, uint32_t index, uint32_t flags) const {
    return EncodeBy<kFills>(WqeWriter<A>(view, index), {kOpcode, kHeaderSegments, flags, imm});
  }

  /// Computes the WQE as EncodeOne() does, and stores it only if `writes`. On CUDA the computation does not
  /// wait for `writes`.
  template <arch::Arch A, bool kFills>
  WARPVERBS_DEVICE mlx5::Be64 EncodeOneIf(bool writes, const QueueView& view, uint32_t index,
                                          uint32_t flags) const {
    return EncodeBy<kFills>(WqeWriter<A, true>(view, index, writes), {kOpcode, kHeaderSegments, flags, imm});
  }

  /// @param in_order  a signal follows the data
  WARPVERBS_DEVICE RequestError Check(const RegionCheck& check, bool in_order = false) const {
    const uint32_t rights = kIsRead ? uint32_t{kReadable} : kHasRemote ? uint32_t{kWritable} : 0;
    return check.Find({remote, local.bytes + second.bytes, rights, local, second, kIsRead, 1, in_order});
  }

 private:
  static constexpr bool kIsRead = kOpcode == WqeOpcode::kRdmaRead;
  static constexpr bool kIsWriteImm = kOpcode == WqeOpcode::kRdmaWriteImm;
  static constexpr bool kHasRemote = kOpcode == WqeOpcode::kRdmaWrite || kIsWriteImm || kIsRead;
  static constexpr uint32_t kHeaderSegments = kHasRemote ? 2 : 1;
  /// Opcode of all pieces of a long message except the last.
  static constexpr WqeOpcode kPiece = kIsWriteImm ? WqeOpcode::kRdmaWrite : kOpcode;

  /// The DUMP needs a fence: on its own it would not wait for the response.
  ///
  /// @source  NVIDIA/nvshmem 2d7d25f, gpunetio transport, get with consistency
  WARPVERBS_DEVICE bool Dumps(const QueueView& view) const {
    return kIsRead && (view.flags & kDumpAfterRead) != 0;
  }

  WARPVERBS_DEVICE uint32_t Messages(const QueueView& view) const {
    constexpr uint64_t kMore = 0xffff;  // more than any queue has slots
    const uint64_t longest = view.max_message;
    if (second.bytes != 0 || !kHasRemote) {
      return local.bytes <= longest && second.bytes <= longest - local.bytes ? 1 : kTooLong;
    }
    if (local.bytes <= longest) [[likely]]
      return 1;
    const uint64_t more = (local.bytes - 1) >> (63 - __builtin_clzll(longest));
    return 1 + static_cast<uint32_t>(more < kMore ? more : kMore);
  }

  template <arch::Arch A>
  WARPVERBS_DEVICE mlx5::Be64 EncodeMessages(const QueueView& view, uint32_t index, uint32_t flags) const {
    if constexpr (kHasRemote) {
      const uint64_t longest = view.max_message;
      if (local.bytes > longest) {
        Message piece{remote, local, {}};
        for (uint64_t rest = local.bytes;; rest -= longest, ++index) {
          const bool is_last = rest <= longest;
          piece.local.bytes = is_last ? rest : longest;
          const ControlFields last{kOpcode, 2, flags, imm}, other{kPiece, 2, WithoutCompletion(flags)};
          const mlx5::Be64 doorbell =
              piece.template EncodeBy<false>(WqeWriter<A>(view, index), is_last ? last : other);
          if (is_last) return doorbell;
          piece.remote.addr += longest;
          piece.local.addr += longest;
        }
      }
    }
    return EncodeOne<A>(view, index, flags);
  }

  /// @param control  counts the segments before the first entry
  template <bool kFills, class Writer>
  WARPVERBS_DEVICE mlx5::Be64 EncodeBy(const Writer& wqe, ControlFields control) const {
    if constexpr (kHasRemote) wqe.Remote(remote);
    control.segments += wqe.Data(control.segments, local);
    control.segments += wqe.Data(control.segments, second);
    if constexpr (kFills) wqe.Fill(control.segments);
    return wqe.Control(control);
  }
};

/// Writes local memory to the peer.
WARPVERBS_DEVICE Message<WqeOpcode::kRdmaWrite> Write(const RemoteMemory& remote, const LocalMemory& local,
                                                      const LocalMemory& second = {}) {
  return {remote, local, second};
}

/// Writes, and completes a receive of the peer. Its completion shows `imm` byte for byte.
WARPVERBS_DEVICE Message<WqeOpcode::kRdmaWriteImm> WriteImm(const RemoteMemory& remote,
                                                            const LocalMemory& local, mlx5::Be32 imm,
                                                            const LocalMemory& second = {}) {
  return {remote, local, second, imm};
}

/// Reads the peer's memory into local memory.
WARPVERBS_DEVICE Message<WqeOpcode::kRdmaRead> Read(const RemoteMemory& remote, const LocalMemory& local,
                                                    const LocalMemory& second = {}) {
  return {remote, local, second};
}

/// Sends a message into the peer's next receive.
WARPVERBS_DEVICE Message<WqeOpcode::kSend> Send(const LocalMemory& local, const LocalMemory& second = {}) {
  return {{}, local, second};
}

/// Sends a message. The peer's completion shows `imm` byte for byte.
WARPVERBS_DEVICE Message<WqeOpcode::kSendImm> SendImm(const LocalMemory& local, mlx5::Be32 imm,
                                                      const LocalMemory& second = {}) {
  return {{}, local, second, imm};
}

/// A write or send whose payload is up to kMaxGatherEntries pieces of local memory in sequence, in one WQE of
/// 1 to 8 slots. The functions below make them. Entries of 0 bytes are skipped.
///
/// The entries are in memory that the caller can read; they may change right after the post. A message cannot
/// be split: all entries together are at most as long as the device's longest message.
template <WqeOpcode kOpcode>
struct Gather {
  RemoteMemory remote;
  const LocalMemory* entries;
  uint32_t count;
  mlx5::Be32 imm = {};

  WARPVERBS_DEVICE uint32_t Slots(const QueueView& view) const {
    if (count > kMaxGatherEntries) return kTooManyEntries;
    uint64_t room = view.max_message;
    uint32_t segments = kHeaderSegments;
    for (uint32_t i = 0; i < count; ++i) {
      const uint64_t bytes = entries[i].bytes;
      if (bytes > room) return kTooLong;
      room -= bytes;
      segments += bytes != 0;
    }
    const uint32_t slots = SlotsOf(segments);
    return slots + HasTrailer(slots);
  }

  /// A WQE of several slots is followed by a NOP that completes for it.
  template <arch::Arch A>
  WARPVERBS_DEVICE mlx5::Be64 Encode(const QueueView& view, uint32_t index, uint32_t flags) const {
    const WqeWriter<A> wqe(view, index);
    if constexpr (kHasRemote) wqe.Remote(remote);
    uint32_t segments = kHeaderSegments;
    for (uint32_t i = 0; i < count; ++i) segments += wqe.Data(segments, entries[i]);
    const uint32_t slots = SlotsOf(segments);
    if (!HasTrailer(slots)) return wqe.Control({kOpcode, segments, flags, imm});
    wqe.Control({kOpcode, segments, flags & ~uint32_t{mlx5::kCompletionMask}, imm});
    return Nop().Encode<A>(view, index + slots, flags);
  }

  WARPVERBS_DEVICE RequestError Check(const RegionCheck& check) const {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < count; ++i) {
      const RequestError error = check.Find({.local = entries[i]});
      if (error != RequestError::kNone) return error;
      bytes += entries[i].bytes;
    }
    return check.Find({remote, bytes, kHasRemote ? uint32_t{kWritable} : 0});
  }

 private:
  static constexpr bool kHasRemote = kOpcode == WqeOpcode::kRdmaWrite || kOpcode == WqeOpcode::kRdmaWriteImm;
  static constexpr uint32_t kHeaderSegments = kHasRemote ? 2 : 1;

  WARPVERBS_DEVICE static uint32_t SlotsOf(uint32_t segments) {
    return (segments + kSegmentsPerSlot - 1) / kSegmentsPerSlot;
  }
  WARPVERBS_DEVICE static bool HasTrailer(uint32_t slots) { return slots > 1; }
};

/// Writes the entries to the peer, one behind the other.
WARPVERBS_DEVICE Gather<WqeOpcode::kRdmaWrite> WriteGather(const RemoteMemory& remote,
                                                           const LocalMemory* entries, uint32_t count) {
  return {remote, entries, count};
}

/// Writes the entries, and completes a receive of the peer. Its completion shows `imm` byte for byte.
WARPVERBS_DEVICE Gather<WqeOpcode::kRdmaWriteImm> WriteImmGather(const RemoteMemory& remote,
                                                                 const LocalMemory* entries, uint32_t count,
                                                                 mlx5::Be32 imm) {
  return {remote, entries, count, imm};
}

/// Sends the entries as one message.
WARPVERBS_DEVICE Gather<WqeOpcode::kSend> SendGather(const LocalMemory* entries, uint32_t count) {
  return {{}, entries, count};
}

/// Sends the entries as one message. The peer's completion shows `imm` byte for byte.
WARPVERBS_DEVICE Gather<WqeOpcode::kSendImm> SendImmGather(const LocalMemory* entries, uint32_t count,
                                                           mlx5::Be32 imm) {
  return {{}, entries, count, imm};
}

/// Writes a value that the WQE contains: it need not be registered, and may change right after the post.
template <InlineValue T>
struct WriteInline {
  RemoteMemory remote;
  T value;

  WARPVERBS_DEVICE uint32_t Slots(const QueueView&) const { return 1; }
  template <arch::Arch A>
  WARPVERBS_DEVICE mlx5::Be64 Encode(const QueueView& view, uint32_t index, uint32_t flags) const {
    const WqeWriter<A> wqe(view, index);
    wqe.Remote(remote);
    return wqe.Control({WqeOpcode::kRdmaWrite, 2 + wqe.Inline(value), flags});
  }
  WARPVERBS_DEVICE RequestError Check(const RegionCheck& check) const {
    return check.Find({remote, sizeof(T), kWritable});
  }
};

template <class T>
WriteInline(RemoteMemory, T) -> WriteInline<T>;

/// Two operations in sequence, with one reservation and one doorbell.
template <class First, class Second>
struct Sequence {
  First first;
  Second second;

  WARPVERBS_DEVICE uint32_t Slots(const QueueView& view) const {
    const uint32_t slots = first.Slots(view), more = second.Slots(view);
    return slots == kTooLong || more == kTooLong ? kTooLong : slots + more;
  }
  template <arch::Arch A>
  WARPVERBS_DEVICE mlx5::Be64 Encode(const QueueView& view, uint32_t index, uint32_t flags) const {
    first.template Encode<A>(view, index, WithoutCompletion(flags));
    return second.template Encode<A>(view, index + first.Slots(view), flags);
  }
  WARPVERBS_DEVICE RequestError Check(const RegionCheck& check) const {
    const RequestError error = first.Check(check);
    return error != RequestError::kNone ? error : second.Check(check);
  }
};
template <class First, class Second>
Sequence(First, Second) -> Sequence<First, Second>;

}  // namespace warpverbs::inline v0_2::device
