#pragma once

#include "warpverbs/device/send_queue.hpp"
#include "warpverbs/device/signal.hpp"
#include "warpverbs/device_abi.h"

/// The operation of each post function of device_abi.h.
namespace warpverbs::inline v0_2::device {

WARPVERBS_DEVICE RemoteMemory Peer(uint64_t addr, uint32_t rkey) { return {addr, mlx5::Be32{rkey}}; }
WARPVERBS_DEVICE LocalMemory Own(uint64_t addr, uint64_t bytes, uint32_t lkey) {
  return {addr, bytes, mlx5::Be32{lkey}};
}

WARPVERBS_DEVICE Dump Flush(const LocalMemory& local) { return {local}; }
WARPVERBS_DEVICE WaitCq Await(uint32_t cqn, uint32_t count) { return {cqn, count}; }

/// Several words as one value of an inline write.
template <uint32_t kWords>
struct Words {
  uint64_t words[kWords];
};

template <InlineValue T>
WARPVERBS_DEVICE WriteInline<T> Inline(const RemoteMemory& remote, const T& value) {
  return {remote, value};
}

// The expression of each operation, of the arguments that device_abi.h names.
#define WARPVERBS_OPERATION_nop Nop()
#define WARPVERBS_OPERATION_fence Fence()
#define WARPVERBS_OPERATION_dump Flush(Own(local, bytes, lkey))
#define WARPVERBS_OPERATION_wait_cq Await(cqn, count)
#define WARPVERBS_OPERATION_write Write(Peer(remote, rkey), Own(local, bytes, lkey))
#define WARPVERBS_OPERATION_write_two \
  Write(Peer(remote, rkey), Own(local, bytes, lkey), Own(local2, bytes2, lkey2))
#define WARPVERBS_OPERATION_write_imm WriteImm(Peer(remote, rkey), Own(local, bytes, lkey), mlx5::Be32{imm})
#define WARPVERBS_OPERATION_write_imm_two \
  WriteImm(Peer(remote, rkey), Own(local, bytes, lkey), mlx5::Be32{imm}, Own(local2, bytes2, lkey2))
#define WARPVERBS_OPERATION_write_u8 Inline(Peer(remote, rkey), value)
#define WARPVERBS_OPERATION_write_u16 WARPVERBS_OPERATION_write_u8
#define WARPVERBS_OPERATION_write_u32 WARPVERBS_OPERATION_write_u8
#define WARPVERBS_OPERATION_write_u64 WARPVERBS_OPERATION_write_u8
#define WARPVERBS_OPERATION_write_u64x2 Inline(Peer(remote, rkey), Words<2>{{first, second}})
#define WARPVERBS_OPERATION_write_u64x3 Inline(Peer(remote, rkey), Words<3>{{first, second, third}})
#define WARPVERBS_OPERATION_read Read(Peer(remote, rkey), Own(local, bytes, lkey))
#define WARPVERBS_OPERATION_read_two \
  Read(Peer(remote, rkey), Own(local, bytes, lkey), Own(local2, bytes2, lkey2))
#define WARPVERBS_OPERATION_send Send(Own(local, bytes, lkey))
#define WARPVERBS_OPERATION_send_two Send(Own(local, bytes, lkey), Own(local2, bytes2, lkey2))
#define WARPVERBS_OPERATION_send_imm SendImm(Own(local, bytes, lkey), mlx5::Be32{imm})
#define WARPVERBS_OPERATION_send_imm_two \
  SendImm(Own(local, bytes, lkey), mlx5::Be32{imm}, Own(local2, bytes2, lkey2))
#define WARPVERBS_OPERATION_write_gather \
  WriteGather(Peer(remote, rkey), reinterpret_cast<const LocalMemory*>(entries), count)
#define WARPVERBS_OPERATION_send_gather SendGather(reinterpret_cast<const LocalMemory*>(entries), count)
#define WARPVERBS_OLD_VALUE Own(fetched, 0, lkey)
#define WARPVERBS_OPERATION_fetch_add_u32 FetchAdd(Peer(remote, rkey), addend, WARPVERBS_OLD_VALUE)
#define WARPVERBS_OPERATION_fetch_add_u64 WARPVERBS_OPERATION_fetch_add_u32
#define WARPVERBS_OPERATION_masked_fetch_add_u32 \
  MaskedFetchAdd(Peer(remote, rkey), addend, boundary, WARPVERBS_OLD_VALUE)
#define WARPVERBS_OPERATION_masked_fetch_add_u64 WARPVERBS_OPERATION_masked_fetch_add_u32
#define WARPVERBS_OPERATION_compare_swap_u32 \
  CompareSwap(Peer(remote, rkey), CompareSwapOperands<uint32_t>{compare, swap}, WARPVERBS_OLD_VALUE)
#define WARPVERBS_OPERATION_compare_swap_u64 \
  CompareSwap(Peer(remote, rkey), CompareSwapOperands<uint64_t>{compare, swap}, WARPVERBS_OLD_VALUE)
#define WARPVERBS_OPERATION_masked_compare_swap_u32                                        \
  MaskedCompareSwap(Peer(remote, rkey),                                                    \
                    CompareSwapOperands<uint32_t>{compare, swap, compare_mask, swap_mask}, \
                    WARPVERBS_OLD_VALUE)
#define WARPVERBS_OPERATION_masked_compare_swap_u64                                        \
  MaskedCompareSwap(Peer(remote, rkey),                                                    \
                    CompareSwapOperands<uint64_t>{compare, swap, compare_mask, swap_mask}, \
                    WARPVERBS_OLD_VALUE)
#define WARPVERBS_OPERATION_swap_u32 Swap(Peer(remote, rkey), value, WARPVERBS_OLD_VALUE)
#define WARPVERBS_OPERATION_swap_u64 WARPVERBS_OPERATION_swap_u32
#define WARPVERBS_OPERATION_fetch_and_u32 FetchAnd(Peer(remote, rkey), bits, WARPVERBS_OLD_VALUE)
#define WARPVERBS_OPERATION_fetch_and_u64 WARPVERBS_OPERATION_fetch_and_u32
#define WARPVERBS_OPERATION_fetch_or_u32 FetchOr(Peer(remote, rkey), bits, WARPVERBS_OLD_VALUE)
#define WARPVERBS_OPERATION_fetch_or_u64 WARPVERBS_OPERATION_fetch_or_u32
#define WARPVERBS_OPERATION_fetch_xor_u32 FetchXor(Peer(remote, rkey), bits, WARPVERBS_OLD_VALUE)
#define WARPVERBS_OPERATION_fetch_xor_u64 WARPVERBS_OPERATION_fetch_xor_u32
#define WARPVERBS_OPERATION_signal_add SignalAdd(Peer(signal, rkey), addend)
#define WARPVERBS_OPERATION_signal_set SignalSet(Peer(signal, rkey), value)
#define WARPVERBS_OPERATION_put_signal_add \
  PutSignal(Peer(remote, rkey), Own(local, bytes, lkey), SignalAdd(Peer(signal, signal_rkey), addend))
#define WARPVERBS_OPERATION_put_signal_set \
  PutSignal(Peer(remote, rkey), Own(local, bytes, lkey), SignalSet(Peer(signal, signal_rkey), value))
#define WARPVERBS_OPERATION_count_completions CountCompletions(Await(cqn, count), Peer(signal, rkey))

#define WARPVERBS_POST(name, ...) name,
#define WARPVERBS_ABI_LIST
/// The name of an operation in device_abi.h.
enum class Kind : uint32_t {
#include "warpverbs/device_abi.h"
};

/// The type of each operation. Make_write() and so on are not defined: only their types are asked for.
template <Kind kKind>
struct OperationOf;
template <class Result, class... Arguments>
Result ResultOf(Result (*)(Arguments...));

#define WARPVERBS_POST(name, ...)                                      \
  auto Make_##name(__VA_ARGS__)->decltype(WARPVERBS_OPERATION_##name); \
  template <>                                                          \
  struct OperationOf<Kind::name> {                                     \
    using Type = decltype(ResultOf(&Make_##name));                     \
  };
#define WARPVERBS_ABI_LIST
#include "warpverbs/device_abi.h"

/// An operation whose kind is known when it is posted: the functions share one slow path for all kinds. It
/// waits for the NIC anyway.
template <arch::Arch System>
struct AnyOperation {
  Kind kind;
  const void* operation;

  __attribute__((noinline, cold)) WARPVERBS_ABI_DEVICE uint32_t Slots(const QueueView& view) const {
    return Visit([&](const auto& known) { return known.Slots(view); });
  }
  template <arch::Arch A>
  WARPVERBS_DEVICE mlx5::Be64 Encode(const QueueView& view, uint32_t index, uint32_t flags) const {
    return EncodeAny(view, index, flags);
  }
  WARPVERBS_DEVICE RequestError Check(const RegionCheck& check) const {
    return Visit([&](const auto& known) { return known.Check(check); });
  }

 private:
  /// A WQE has the same bytes in each scope.
  __attribute__((noinline, cold)) WARPVERBS_ABI_DEVICE mlx5::Be64 EncodeAny(const QueueView& view,
                                                                            uint32_t index,
                                                                            uint32_t flags) const {
    return Visit([&](const auto& known) { return known.template Encode<System>(view, index, flags); });
  }

  template <class F>
  WARPVERBS_DEVICE auto Visit(const F& visit) const {
    switch (kind) {
#define WARPVERBS_POST(name, ...) \
  case Kind::name:                \
    return visit(*static_cast<const OperationOf<Kind::name>::Type*>(operation));
#define WARPVERBS_ABI_LIST
#include "warpverbs/device_abi.h"
    }
    __builtin_unreachable();
  }
};

}  // namespace warpverbs::inline v0_2::device
