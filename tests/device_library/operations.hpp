#pragma once

#include <string>

#include "functions.hpp"
#include "warpverbs/device/signal.hpp"

/// The arguments of each post function, and the operation of the headers that must write the same bytes.
namespace warpverbs::device_library {

struct Sample {
  device::RemoteMemory remote, signal;
  device::LocalMemory local, second, fetched;
  mlx5::Be32 imm{0x01020304};
  uint32_t cqn = 0x1234, count = 5;
  device::LocalMemory entries[5] = {{0x6000, 8, mlx5::Be32{1}},
                                    {0x7000, 0, {}},
                                    {0x8000, 9, mlx5::Be32{2}},
                                    {0x9000, 1, mlx5::Be32{3}},
                                    {0xa000, 7, mlx5::Be32{4}}};

  Arguments Named() const {
    return {{"remote", remote.addr},
            {"rkey", remote.rkey.raw},
            {"local", local.addr},
            {"bytes", local.bytes},
            {"lkey", local.lkey.raw},
            {"local2", second.addr},
            {"bytes2", second.bytes},
            {"lkey2", second.lkey.raw},
            {"fetched", fetched.addr},
            {"signal", signal.addr},
            {"signal_rkey", signal.rkey.raw},
            {"imm", imm.raw},
            {"value", 0x1112131415161718},
            {"first", 0x21},
            {"second", 0x22},
            {"third", 0x23},
            {"addend", 0x3132333435363738},
            {"boundary", 0x80000000},
            {"compare", 0x41},
            {"swap", 0x42},
            {"compare_mask", 0xf0},
            {"swap_mask", 0x0f},
            {"bits", 0x5152535455565758},
            {"cqn", cqn},
            {"count", count},
            {"entries", AddressOf(entries)},
            {"flags", mlx5::kCqeAlways},
            {"poster", 0},
            {"deadline_ns", 0},
            {"abort_word", 0}};
  }
};

/// Calls `use(name, operation)` for each.
template <class Use>
void ForEachOperation(const Sample& s, const Use& use) {
  using namespace device;
  const Arguments named = s.Named();
  const uint64_t value = named.at("value"), addend = named.at("addend"), bits = named.at("bits");
  const auto low = [](uint64_t x) { return static_cast<uint32_t>(x); };
  struct Two {
    uint64_t words[2];
  };
  struct Three {
    uint64_t words[3];
  };
  use("nop", Nop());
  use("fence", Fence{});
  use("dump", Dump{s.local});
  use("wait_cq", WaitCq{s.cqn, s.count});
  use("write", Write(s.remote, s.local));
  use("write_two", Write(s.remote, s.local, s.second));
  use("write_imm", WriteImm(s.remote, s.local, s.imm));
  use("write_imm_two", WriteImm(s.remote, s.local, s.imm, s.second));
  use("write_u8", WriteInline<uint8_t>{s.remote, static_cast<uint8_t>(value)});
  use("write_u16", WriteInline<uint16_t>{s.remote, static_cast<uint16_t>(value)});
  use("write_u32", WriteInline<uint32_t>{s.remote, low(value)});
  use("write_u64", WriteInline<uint64_t>{s.remote, value});
  use("write_u64x2", WriteInline<Two>{s.remote, {{0x21, 0x22}}});
  use("write_u64x3", WriteInline<Three>{s.remote, {{0x21, 0x22, 0x23}}});
  use("read", Read(s.remote, s.local));
  use("read_two", Read(s.remote, s.local, s.second));
  use("send", Send(s.local));
  use("send_two", Send(s.local, s.second));
  use("send_imm", SendImm(s.local, s.imm));
  use("send_imm_two", SendImm(s.local, s.imm, s.second));
  use("write_gather", WriteGather(s.remote, s.entries, s.count));
  use("send_gather", SendGather(s.entries, s.count));
  use("fetch_add_u32", FetchAdd<uint32_t>(s.remote, low(addend), s.fetched));
  use("fetch_add_u64", FetchAdd<uint64_t>(s.remote, addend, s.fetched));
  use("masked_fetch_add_u32", MaskedFetchAdd<uint32_t>(s.remote, low(addend), 0x80000000, s.fetched));
  use("masked_fetch_add_u64", MaskedFetchAdd<uint64_t>(s.remote, addend, 0x80000000, s.fetched));
  use("compare_swap_u32", CompareSwap<uint32_t>(s.remote, {.compare = 0x41, .swap = 0x42}, s.fetched));
  use("compare_swap_u64", CompareSwap<uint64_t>(s.remote, {.compare = 0x41, .swap = 0x42}, s.fetched));
  const CompareSwapOperands<uint32_t> masked32{
      .compare = 0x41, .swap = 0x42, .compare_mask = 0xf0, .swap_mask = 0x0f};
  const CompareSwapOperands<uint64_t> masked64{
      .compare = 0x41, .swap = 0x42, .compare_mask = 0xf0, .swap_mask = 0x0f};
  use("masked_compare_swap_u32", MaskedCompareSwap<uint32_t>(s.remote, masked32, s.fetched));
  use("masked_compare_swap_u64", MaskedCompareSwap<uint64_t>(s.remote, masked64, s.fetched));
  use("swap_u32", Swap<uint32_t>(s.remote, low(value), s.fetched));
  use("swap_u64", Swap<uint64_t>(s.remote, value, s.fetched));
  use("fetch_and_u32", FetchAnd<uint32_t>(s.remote, low(bits), s.fetched));
  use("fetch_and_u64", FetchAnd<uint64_t>(s.remote, bits, s.fetched));
  use("fetch_or_u32", FetchOr<uint32_t>(s.remote, low(bits), s.fetched));
  use("fetch_or_u64", FetchOr<uint64_t>(s.remote, bits, s.fetched));
  use("fetch_xor_u32", FetchXor<uint32_t>(s.remote, low(bits), s.fetched));
  use("fetch_xor_u64", FetchXor<uint64_t>(s.remote, bits, s.fetched));
  use("signal_add", SignalAdd(s.signal, addend));
  use("signal_set", SignalSet(s.signal, value));
  use("put_signal_add", PutSignal(s.remote, s.local, SignalAdd(s.signal, addend)));
  use("put_signal_set", PutSignal(s.remote, s.local, SignalSet(s.signal, value)));
  use("count_completions", CountCompletions(WaitCq{s.cqn, s.count}, s.signal));
}

}  // namespace warpverbs::device_library
