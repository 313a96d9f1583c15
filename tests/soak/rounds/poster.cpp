#include "soak/rounds/poster.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <optional>
#include <thread>

#include "soak/rounds/random.hpp"
#include "warpverbs/arch/cpu.hpp"
#include "warpverbs/device/send_queue.hpp"
#include "warpverbs/device/signal.hpp"
#include "warpverbs/mlx5/endian.hpp"
#include "warpverbs/mlx5/syndrome.hpp"

namespace soak {
namespace {

using namespace warpverbs;
using arch::Cpu;
using device::Code;
using mlx5::Syndrome;

device::WaitLimit Within(uint64_t ns, const uint64_t* abort = nullptr) {
  return {.deadline_ns = Cpu::NowNs() + ns, .abort = abort};
}

/// The bits of a word of T that an atomic leaves.
template <class T>
T AddFieldwise(T old, T addend, T boundary) {
  T sum = 0, carry = 0;
  for (uint32_t bit = 0; bit < 8 * sizeof(T); ++bit) {
    const T one = T{1} << bit;
    const T column = static_cast<T>(((old >> bit) & 1) + ((addend >> bit) & 1) + carry);
    if ((column & 1) != 0) sum |= one;
    carry = (boundary & one) != 0 ? 0 : column >> 1;
  }
  return sum;
}

/// The operations of a thread on one queue.
template <class Sharing>
class Poster {
 public:
  explicit Poster(const PosterSetUp& set_up)
      : set_up_(set_up), random_(set_up.seed), queue_(set_up.view), busy_(set_up.plan.cells) {
    if (set_up.misbehaves && random_.Chance(40)) bad_at_ = random_.Between(0, set_up.plan.operations - 1);
  }

  device::Status Run() {
    try {
      for (uint32_t i = 0; i < set_up_.plan.operations && error_.ok(); ++i) {
        if (bad_at_ == i) {
          PostBad();
        } else {
          PostOne();
        }
        while (!pending_.empty() && random_.Chance(40)) CompleteOne(random_.Chance(50));
      }
    } catch (const QueueFailed&) {  // while an operation was prepared
    }
    while (!pending_.empty()) CompleteOne(true);
    return error_;
  }

 private:
  struct QueueFailed {};

  /// An operation that has not ended yet.
  struct Pending {
    OperationKind kind;
    device::Ticket ticket;
    std::optional<uint32_t> cell{};
    size_t offset = 0;  ///< in the peer's part of memory, and in the thread's own
    size_t bytes = 0;
    bool writes = false;   ///< to the peer
    bool fetches = false;  ///< into `landing`: what the peer had
    bool big_endian = false;
    bool message = false;
    uint32_t message_number = 0;
    bool bad = false;
    std::vector<uint8_t> fetched{};  ///< bytes that must come
  };

  Counts& counts() const { return set_up_.context.counts(); }
  Link& link() const { return set_up_.causes.own(); }
  [[noreturn]] void Fail(const Pending& operation, const std::string& what) const {
    soak::Fail(set_up_.context, "pair " + std::to_string(set_up_.pair) + ", poster " +
                                    std::to_string(set_up_.poster) + ": " + ToString(operation.kind) +
                                    " of " + std::to_string(operation.bytes) + " bytes at offset " +
                                    std::to_string(operation.offset) + ", index " +
                                    std::to_string(operation.ticket.index) + ": " + what);
  }

  // Where an operation takes and leaves its bytes.
  device::LocalMemory Source(size_t offset, size_t bytes) const {
    return {set_up_.local_source.addr + offset, bytes, set_up_.local_source.lkey};
  }
  device::LocalMemory Landing(size_t offset, size_t bytes) const {
    return {set_up_.local_landing.addr + offset, bytes, set_up_.local_landing.lkey};
  }
  device::RemoteMemory Remote(size_t offset) const {
    return {set_up_.remote.addr + offset, set_up_.remote.rkey};
  }

  device::WaitLimit PostLimit() {
    switch (random_.Below(3)) {
      case 0:
        return {};
      case 1:
        return Within(random_.Below(200'000));
      default:
        return Within(20'000'000);
    }
  }

  /// Posts as soon as there is room.
  ///
  /// @return  whether it was posted; otherwise the queue has failed
  template <class Operation>
  bool Post(Pending& pending, const Operation& operation) {
    const uint32_t slots = operation.Slots(set_up_.view);
    for (;;) {
      const device::Posted posted = queue_.Post(operation, PostLimit());
      pending.ticket = posted.ticket;
      switch (posted.status.code) {
        case Code::kOk:
          if (pending.bad) set_up_.causes.AddBad(posted.ticket.index + 1 - slots, posted.ticket.index);
          counts().Add(pending.kind);
          return true;
        case Code::kFull:
        case Code::kTimeout:
          if (pending_.empty()) {
            std::this_thread::yield();
          } else {
            CompleteOne(true);
            if (!error_.ok()) return false;
          }
          break;
        case Code::kError:
          SetError(posted.status);
          return false;
        case Code::kInvalid:
          if (slots > set_up_.view.depth &&
              posted.status.request_error == device::RequestError::kTooManySlots)
            return false;
          [[fallthrough]];
        default:
          Fail(pending, "the post returns code " + std::to_string(static_cast<int>(posted.status.code)) +
                            ", request error " +
                            std::to_string(static_cast<int>(posted.status.request_error)));
      }
    }
  }

  /// Takes a cell that no operation uses. One that failed may have changed its cell.
  ///
  /// @errors  QueueFailed
  uint32_t TakeCell() {
    for (;;) {
      if (!error_.ok()) throw QueueFailed();
      const auto first = static_cast<uint32_t>(random_.Below(busy_.size()));
      for (uint32_t i = 0; i < busy_.size(); ++i) {
        const auto cell = static_cast<uint32_t>((first + i) % busy_.size());
        if (!busy_[cell]) return cell;
      }
      CompleteOne(true);
    }
  }

  /// Chooses a range in a free cell.
  Pending InACell(OperationKind kind, uint32_t most, uint32_t alignment = 1) {
    Pending pending{.kind = kind, .ticket = {}};
    pending.cell = TakeCell();
    const uint32_t cell_bytes = set_up_.plan.cell_bytes;
    const auto in_cell = static_cast<uint32_t>(random_.Below(cell_bytes)) / alignment * alignment;
    pending.offset = size_t{*pending.cell} * cell_bytes + in_cell;
    const uint32_t room = std::min(most, cell_bytes - in_cell);
    pending.bytes = alignment > 1 ? alignment : random_.Between(random_.Chance(10) ? 0 : 1, room);
    return pending;
  }

  void Keep(Pending&& pending) {
    if (pending.cell) busy_[*pending.cell] = true;
    pending_.push_back(std::move(pending));
  }

  /// Posts an operation that changes or reads the peer's memory.
  template <class Operation>
  void PostOn(Pending& pending, const Operation& operation) {
    if (pending.fetches) std::memset(&set_up_.landing[pending.offset], 0xee, pending.bytes);
    if (Post(pending, operation)) {
      Keep(std::move(pending));
    } else if (pending.writes && error_.ok()) {  // the queue is too short for it
      set_up_.shadow.Withdraw(pending.offset, pending.bytes);
    }
  }

  /// Fills the source of a write, and expects it at the peer.
  void Prepare(Pending& pending) {
    const std::span<uint8_t> bytes = set_up_.source.subspan(pending.offset, pending.bytes);
    Fill(bytes, random_.Next());
    pending.writes = true;
    set_up_.shadow.Expect(pending.offset, bytes);
  }

  void PostOne() {
    using enum OperationKind;
    constexpr OperationKind kAll[] = {
        kWrite,  kWrite,    kWrite,      kWriteOfTwoParts, kWriteInline, kRead,          kRead,
        kRead,   kFetchAdd, kFetchAdd32, kMaskedFetchAdd,  kCompareSwap, kCompareSwap32, kMaskedCompareSwap,
        kSwap,   kFetchAnd, kFetchOr,    kFetchXor,        kPutSignal,   kNop,           kFence,
        kWaitCq, kBatch,    kBatch};
    constexpr OperationKind kMessages[] = {kSend, kSendImm, kWriteImm};
    if (set_up_.plan.receives && random_.Chance(25)) return PostMessage(random_.Pick(kMessages));
    const OperationKind kind = random_.Pick(kAll);
    switch (kind) {
      case kWrite:
      case kWriteOfTwoParts:
      case kPutSignal:
        return PostWrite(kind);
      case kWriteInline:
        return PostInline();
      case kRead: {
        Pending pending = InACell(kind, set_up_.plan.cell_bytes);
        Fetch(pending);
        return PostOn(pending, device::Read(Remote(pending.offset), Landing(pending.offset, pending.bytes)));
      }
      case kNop:
      case kFence:
      case kWaitCq:
        return PostEmpty(kind);
      case kBatch:
        return PostBatch();
      default:
        return random_.Chance(50) ? PostAtomic<uint64_t>(kind) : PostAtomic<uint32_t>(kind);
    }
  }

  void Fetch(Pending& pending) {
    pending.fetches = true;
    const uint8_t* const sure = set_up_.shadow.at(pending.offset);
    pending.fetched.assign(sure, sure + pending.bytes);
  }

  void PostWrite(OperationKind kind) {
    if (kind == OperationKind::kPutSignal) {
      Pending pending = InACell(kind, 8, 8);  // the signal's word takes the place of the data, too
      Prepare(pending);
      uint64_t value = 0;
      std::memcpy(&value, &set_up_.source[pending.offset], sizeof value);
      return PostOn(pending, device::PutSignal(Remote(pending.offset), Source(pending.offset, 8),
                                               device::SignalSet(Remote(pending.offset), value)));
    }
    Pending pending = InACell(kind, set_up_.plan.cell_bytes);
    Prepare(pending);
    const size_t first = kind == OperationKind::kWriteOfTwoParts ? random_.Below(pending.bytes + 1) : 0;
    PostOn(pending, device::Write(Remote(pending.offset), Source(pending.offset, pending.bytes - first),
                                  Source(pending.offset + pending.bytes - first, first)));
  }

  void PostInline() {
    Pending pending = InACell(OperationKind::kWriteInline, 8, 8);
    Prepare(pending);
    uint64_t value = 0;
    std::memcpy(&value, &set_up_.source[pending.offset], sizeof value);
    PostOn(pending, device::WriteInline(Remote(pending.offset), value));
  }

  void PostEmpty(OperationKind kind) {
    Pending pending{.kind = kind, .ticket = {}};
    if (kind == OperationKind::kWaitCq) {
      if (set_up_.wait_cqn == 0 || !completed_) return;  // the queue's first completion has come
      if (Post(pending, device::WaitCq{set_up_.wait_cqn, 1})) Keep(std::move(pending));
      return;
    }
    const bool posted =
        kind == OperationKind::kNop ? Post(pending, device::Nop()) : Post(pending, device::Fence());
    if (posted) Keep(std::move(pending));
  }

  template <class T>
  void PostAtomic(OperationKind kind) {
    using enum OperationKind;
    if (sizeof(T) == 4 && kind == kFetchAdd) kind = kFetchAdd32;
    if (sizeof(T) == 4 && kind == kCompareSwap) kind = kCompareSwap32;
    if (sizeof(T) == 8 && kind == kFetchAdd32) kind = kFetchAdd;
    if (sizeof(T) == 8 && kind == kCompareSwap32) kind = kCompareSwap;
    Pending pending = InACell(kind, sizeof(T), sizeof(T));
    T old = 0;
    std::memcpy(&old, set_up_.shadow.at(pending.offset), sizeof old);
    const auto x = static_cast<T>(random_.Next()), y = static_cast<T>(random_.Next()),
               z = static_cast<T>(random_.Next());
    const T compare = random_.Chance(60) ? old : x;
    const bool fetches = random_.Chance(75);
    const device::LocalMemory landing = fetches ? Landing(pending.offset, sizeof(T)) : device::LocalMemory{};
    const device::RemoteMemory word = Remote(pending.offset);
    const auto expect = [&](T value) {
      pending.writes = true;
      pending.big_endian = sizeof(T) == 4;
      if (fetches) Fetch(pending);
      set_up_.shadow.Expect(pending.offset, {reinterpret_cast<const uint8_t*>(&value), sizeof value});
    };
    switch (kind) {
      case kFetchAdd:
      case kFetchAdd32:
        expect(static_cast<T>(old + x));
        return PostOn(pending, device::FetchAdd<T>(word, x, landing));
      case kMaskedFetchAdd:
        expect(AddFieldwise(old, x, y));
        return PostOn(pending, device::MaskedFetchAdd<T>(word, x, y, landing));
      case kCompareSwap:
      case kCompareSwap32:
        expect(compare == old ? y : old);
        return PostOn(pending, device::CompareSwap<T>(word, {.compare = compare, .swap = y}, landing));
      case kMaskedCompareSwap: {
        const device::CompareSwapOperands<T> operands{
            .compare = compare, .swap = y, .compare_mask = z, .swap_mask = static_cast<T>(~z)};
        const bool swaps = ((old ^ compare) & z) == 0;
        expect(swaps ? static_cast<T>((old & z) | (y & ~z)) : old);
        return PostOn(pending, device::MaskedCompareSwap<T>(word, operands, landing));
      }
      case kSwap:
        expect(y);
        return PostOn(pending, device::Swap<T>(word, y, landing));
      case kFetchAnd:
        expect(old & y);
        return PostOn(pending, device::FetchAnd<T>(word, y, landing));
      case kFetchOr:
        expect(old | y);
        return PostOn(pending, device::FetchOr<T>(word, y, landing));
      default:
        expect(old ^ y);
        return PostOn(pending, device::FetchXor<T>(word, y, landing));
    }
  }

  /// Posts writes and reads together; only the last one completes.
  void PostBatch() {
    const uint32_t most = std::min(std::min(4u, set_up_.view.depth), set_up_.plan.cells);
    const uint32_t count = random_.Between(1, most);
    while (pending_.size() + count > set_up_.plan.cells) CompleteOne(true);  // each needs a cell
    if (!error_.ok()) return;
    auto batch = queue_.Begin(count, Within(5'000'000));
    if (batch.status().code == Code::kError) return SetError(batch.status());
    if (!batch.status().ok()) return;
    counts().Add(OperationKind::kBatch);
    if (random_.Chance(5)) return;  // its end posts NOPs
    std::vector<Pending> added;
    for (uint32_t i = 0; i < count; ++i) {
      Pending pending = InACell(OperationKind::kWriteInline, 8, 8);
      Prepare(pending);
      uint64_t value = 0;
      std::memcpy(&value, &set_up_.source[pending.offset], sizeof value);
      const uint32_t flags = i + 1 == count ? mlx5::kCqeAlways : mlx5::kCqeOnError;
      const device::Posted posted = batch.Add(device::WriteInline(Remote(pending.offset), value), flags);
      if (!posted.status.ok()) Fail(pending, "cannot be added to a batch");
      pending.ticket = posted.ticket;
      busy_[*pending.cell] = true;
      counts().Add(pending.kind);
      added.push_back(std::move(pending));
    }
    const device::Posted submitted = batch.Submit();
    if (!submitted.status.ok()) SetError(submitted.status);
    for (Pending& pending : added) Keep(std::move(pending));
  }

  void PostMessage(OperationKind kind) {
    const uint32_t number = messages_;
    const mlx5::Be32 imm = mlx5::ToBe32(set_up_.poster << 24 | number);
    Pending pending{.kind = kind, .ticket = {}};
    pending.message = true;
    pending.message_number = number;
    if (kind == OperationKind::kWriteImm) {
      pending = InACell(kind, set_up_.plan.cell_bytes);
      pending.message = true;
      pending.message_number = number;
      Prepare(pending);
    } else {
      const uint32_t most = std::min(set_up_.plan.receive_bytes, set_up_.plan.cell_bytes);
      const uint32_t least = kind == OperationKind::kSend ? uint32_t{sizeof(MessageHeader)} : 0;
      if (least > most) return;
      pending.cell = TakeCell();
      pending.offset = size_t{*pending.cell} * set_up_.plan.cell_bytes;
      pending.bytes = random_.Between(least, most);
      const std::span<uint8_t> bytes = set_up_.source.subspan(pending.offset, pending.bytes);
      Fill(bytes,
           MessageKey(set_up_.context.plan, set_up_.context.side, set_up_.pair, set_up_.poster, number));
      if (kind == OperationKind::kSend) {
        const MessageHeader header{set_up_.poster, number, static_cast<uint32_t>(pending.bytes)};
        std::memcpy(bytes.data(), &header, sizeof header);
      }
    }
    const device::LocalMemory source = Source(pending.offset, pending.bytes);
    link().posted[set_up_.poster] = ++messages_;
    bool posted = false;
    if (kind == OperationKind::kWriteImm) {
      posted = Post(pending, device::WriteImm(Remote(pending.offset), source, imm));
    } else if (kind == OperationKind::kSend) {
      posted = Post(pending, device::Send(source));
    } else {
      posted = Post(pending, device::SendImm(source, imm));
    }
    if (posted) Keep(std::move(pending));
  }

  /// Posts an operation that must fail.
  void PostBad() {
    Pending pending = InACell(OperationKind::kWrite, 8, 8);
    pending.bad = true;
    const device::LocalMemory source = Source(pending.offset, 8);
    const device::RemoteMemory remote = Remote(pending.offset);
    const auto other_key = [](mlx5::Be32 key) { return mlx5::Be32{key.raw ^ 0x00a55a00}; };
    switch (random_.Below(5)) {
      case 0:
        link().deeds |= kBadRemoteKey;
        return PostOn(pending, device::Write({remote.addr, other_key(remote.rkey)}, source));
      case 1:
        link().deeds |= kBadRemoteKey;
        return PostOn(pending, device::Write({remote.addr + 2 * kSideSpace, remote.rkey}, source));
      case 2:
        link().deeds |= kBadLocalKey;
        return PostOn(pending, device::Write(remote, {source.addr, 8, other_key(source.lkey)}));
      case 3:
        link().deeds |= kBadRequest;
        pending.kind = OperationKind::kFetchAdd;
        return PostOn(pending, device::FetchAdd<uint64_t>({remote.addr + 1, remote.rkey}, 1));
      default:
        if (!set_up_.plan.receives || set_up_.plan.receive_bytes >= set_up_.source.size()) return;
        link().deeds |= kBadRequest;
        pending.kind = OperationKind::kSend;
        pending.cell.reset();
        return PostOn(pending, device::Send({set_up_.local_source.addr, set_up_.plan.receive_bytes + 1,
                                             set_up_.local_source.lkey}));
    }
  }

  /// Tests or waits for one of the pending operations.
  void CompleteOne(bool patiently) {
    const size_t which = random_.Chance(60) ? 0 : random_.Below(pending_.size());
    device::Status status;
    if (!patiently) {
      status = random_.Chance(50) ? queue_.Test(pending_[which].ticket)
                                  : queue_.Wait(pending_[which].ticket, Within(random_.Below(50'000)));
      if (status.code == Code::kPending || status.code == Code::kTimeout) return;
    } else {
      uint32_t waits = 0;
      do {  // the controller ends a wait that lasts too long
        status = queue_.Wait(pending_[which].ticket,
                             Within(200'000'000, random_.Chance(20) ? set_up_.abort : nullptr));
        if (++waits == 100) Complain(pending_[which]);
      } while (status.code == Code::kTimeout || status.code == Code::kAborted);
    }
    const Pending pending = std::move(pending_[which]);
    pending_.erase(pending_.begin() + static_cast<ptrdiff_t>(which));
    if (pending.cell) busy_[*pending.cell] = false;
    if (status.code == Code::kOk) return Succeed(pending);
    if (status.code != Code::kError)
      Fail(pending, "the wait returns code " + std::to_string(static_cast<int>(status.code)));
    SetError(status);
    CheckOrder(pending, status);
  }

  /// Says what a long wait waits for, to explain a hang.
  void Complain(const Pending& pending) const {
    const device::QueueControl& control = *set_up_.view.control;
    std::fprintf(stderr,
                 "side %u, pair %u, poster %u waits long for a %s, index %u; "
                 "tail %016llx, error %016llx, deeds %u and %u\n",
                 set_up_.context.side, set_up_.pair, set_up_.poster, ToString(pending.kind),
                 pending.ticket.index, static_cast<unsigned long long>(Cpu::Load(&control.tail)),
                 static_cast<unsigned long long>(Cpu::Load(&control.error)), link().deeds.load(),
                 set_up_.causes.other().deeds.load());
  }

  void Succeed(const Pending& pending) {
    completed_ = true;
    ++counts().results[0];
    if (pending.bad) Fail(pending, "succeeds, but it must fail");
    if (!error_.ok() && HasExactCause(error_) && !IsBefore(pending, error_))
      Fail(pending, "succeeds, although the queue failed before it");
    if (pending.message) {
      std::atomic<uint32_t>& arrived = link().arrived[set_up_.poster];
      if (arrived < pending.message_number + 1) arrived = pending.message_number + 1;
    }
    if (pending.fetches) {
      std::vector<uint8_t> expected = pending.fetched;
      if (pending.big_endian) std::reverse(expected.begin(), expected.end());
      if (std::memcmp(&set_up_.landing[pending.offset], expected.data(), pending.bytes) != 0)
        Fail(pending, "fetched wrong bytes");
    }
    if (pending.writes && !set_up_.shadow.Settle(pending.offset, pending.bytes))
      Fail(pending, "succeeded, but its bytes are not in the peer's memory");
    counts().Add(Tally::kBytesCompared, pending.bytes);
  }

  /// A ring tells which operations were done before the one that failed.
  void CheckOrder(const Pending& pending, const device::Status& status) {
    ++counts().results[status.syndrome];
    if (!HasExactCause(status)) return;
    if (IsBefore(pending, status)) Fail(pending, "failed, but an operation behind it failed first");
  }

  /// Returns whether an error tells exactly which operations were done: those before the index that it names.
  bool HasExactCause(const device::Status& status) const {
    return set_up_.causes.keeps_cause() && status.syndrome != static_cast<uint8_t>(Syndrome::kFlushed);
  }

  static bool IsBefore(const Pending& pending, const device::Status& error) {
    return static_cast<uint16_t>(pending.ticket.index - error.wqe_index) >= 0x8000;
  }

  void SetError(const device::Status& status) {
    if (error_.ok() || error_.syndrome == static_cast<uint8_t>(Syndrome::kFlushed)) error_ = status;
  }

  const PosterSetUp& set_up_;
  Random random_;
  device::SendQueue<Cpu, Sharing> queue_;
  std::vector<bool> busy_;  ///< cells
  std::vector<Pending> pending_;
  device::Status error_{};
  std::optional<uint32_t> bad_at_{};
  uint32_t messages_ = 0;
  bool completed_ = false;  ///< an operation has succeeded
};

}  // namespace

void Causes::AddBad(uint32_t first_index, uint32_t last_index) {
  const std::lock_guard lock(mutex_);
  bad_.emplace_back(first_index, last_index);
}

bool Causes::MayFail() const { return context_.Explains(kSilence, pair_); }

std::string Causes::Judge(uint8_t syndrome, bool receiving) const {
  const uint32_t mine = own().deeds, theirs = other().deeds;
  const uint32_t refused = kBadRemoteKey | kBadRequest;  // by the peer's NIC, which then stops, too
  bool fits = false;
  switch (static_cast<Syndrome>(syndrome)) {
    case Syndrome::kRemoteAccess:
      fits = (mine & kBadRemoteKey) != 0;
      break;
    case Syndrome::kLocalProtection:
      fits = (mine & kBadLocalKey) != 0;
      break;
    case Syndrome::kRemoteInvalidRequest:
      fits = (mine & kBadRequest) != 0;
      break;
    case Syndrome::kLocalLength:  // of a receive
      fits = (theirs & kBadRequest) != 0;
      break;
    case Syndrome::kTransportRetryExceeded:
      fits = MayFail();
      break;
    case Syndrome::kReceiverNotReadyRetryExceeded:
      fits = (mine & kBoundedRnr) != 0;
      break;
    case Syndrome::kFlushed:
      fits = (mine & kDisconnected) != 0 || (theirs & refused) != 0 ||
             ((receiving || !keeps_cause_) && MayFail());
      break;
    default:
      break;
  }
  if ((mine & kForced) != 0 && own().forced == syndrome) fits = true;
  if (fits) return "";
  return "syndrome " + std::to_string(syndrome) + " (" + mlx5::Describe(static_cast<Syndrome>(syndrome)) +
         ") has no cause: this side's deeds are " + std::to_string(mine) + ", the peer's " +
         std::to_string(theirs) + "; troubles " + std::to_string(context_.own().troubles) + " and " +
         std::to_string(context_.other().troubles);
}

std::string Causes::Judge(const device::Status& status) const {
  if (std::string wrong = Judge(status.syndrome); !wrong.empty()) return wrong;
  const auto syndrome = static_cast<Syndrome>(status.syndrome);
  const bool blames_wqe = syndrome == Syndrome::kRemoteAccess || syndrome == Syndrome::kLocalProtection ||
                          syndrome == Syndrome::kRemoteInvalidRequest;
  if (!blames_wqe || ((own().deeds & kForced) != 0 && own().forced == status.syndrome)) return "";
  const std::lock_guard lock(mutex_);
  for (const auto& [first, last] : bad_) {
    const auto offset = static_cast<uint16_t>(status.wqe_index - first);
    if (offset <= last - first) return "";
  }
  return std::string("syndrome ") + std::to_string(status.syndrome) + " at index " +
         std::to_string(status.wqe_index) + ", where the operation was faultless";
}

uint64_t MessageKey(const RoundPlan& plan, uint32_t side, uint32_t pair, uint32_t poster, uint32_t number) {
  return SeedOf(SeedOf(plan.seed, (uint64_t{side} << 16) | (pair << 8) | poster), number);
}

template <class Sharing>
device::Status RunPoster(const PosterSetUp& set_up) {
  return Poster<Sharing>(set_up).Run();
}
template device::Status RunPoster<device::Exclusive>(const PosterSetUp&);
template device::Status RunPoster<device::Shared>(const PosterSetUp&);
template device::Status RunPoster<device::RelaxedShared>(const PosterSetUp&);

}  // namespace soak
