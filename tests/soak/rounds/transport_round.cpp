#include <atomic>
#include <chrono>
#include <cstring>
#include <future>
#include <memory>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <thread>
#include <vector>

#include "soak/rounds/context.hpp"
#include "soak/rounds/forks.hpp"
#include "soak/rounds/memory.hpp"
#include "soak/rounds/random.hpp"
#include "warpverbs/host/memory.hpp"
#include "warpverbs/transport/rdma_transport.hpp"

namespace soak {
namespace {

using namespace warpverbs;
using namespace warpverbs::transport;
using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;

/// What both sides agree on for a life.
struct LifePlan {
  uint32_t pairs = 0;
  bool recreate = false;  ///< instead of Reset()
  uint32_t nics = 1;
  uint32_t cells = 0, cell_bytes = 0, operations = 0;
};

LifePlan LifePlanOf(const RoundPlan& round, uint32_t life, const LifePlan& before) {
  Random random(SeedOf(round.seed, 1000 + life));
  LifePlan plan;
  plan.recreate = before.pairs == 0 || random.Chance(50);
  plan.pairs = plan.recreate ? random.Between(1, kMaxPairs) : before.pairs;
  plan.nics = plan.recreate ? random.Between(1, 2) : before.nics;
  plan.cells = random.Between(2, 12);
  plan.cell_bytes = random.Pick({100u, 1000u, 16384u, 60000u});
  plan.operations = random.Between(5, 120);
  return plan;
}

/// An operation, and how often and how it ended.
struct Operation {
  OperationKind kind{};
  std::optional<uint32_t> cell{};
  size_t offset = 0, bytes = 0;
  std::vector<uint8_t> fetched{};  ///< bytes that a read must bring
  bool timed = false, bad = false, notifies = false;
  std::future<Status> future{};
  std::atomic<uint32_t> ended = 0;
  Status status{};
};

/// Drives one transport of a side through a life.
class Driver {
 public:
  Driver(const Context& context, const LifePlan& life, uint32_t pair, RdmaTransport& transport,
         const RdmaMemory& local, const RdmaMemory& target, uint64_t seed)
      : context_(context),
        life_(life),
        pair_(pair),
        transport_(transport),
        local_(local),
        target_(target),
        random_(seed),
        shadow_({&context.board.memory[1 - context.side][offset()], size_t{life.cells} * life.cell_bytes},
                random_.Next()),
        busy_(life.cells) {}

  /// Connects, runs all operations to their ends.
  ///
  /// @param life  its number, from 1
  void Run(uint64_t life) {
    const Bound bound = transport_.Bind();
    if (!bound.status.ok()) Refuse(context_, std::runtime_error(bound.status.Describe()));
    context_.own().keys[pair_].Set(life, std::to_string(reinterpret_cast<uintptr_t>(target_.data())) + " " +
                                             target_.RemoteKey().ToText());
    context_.own().urls[pair_].Set(life, bound.url);
    std::this_thread::sleep_for(milliseconds(random_.Chance(50) ? 0 : random_.Below(100)));
    try {
      const std::string url = context_.Await(context_.other().urls[pair_], life);
      std::istringstream keys(context_.Await(context_.other().keys[pair_], life));
      std::string key;
      keys >> remote_ >> key;
      key_ = AccessKey::FromText(key);
      const Status status = transport_.Connect(url);
      if (!status.ok()) throw std::runtime_error(status.Describe());
    } catch (const std::exception& error) {
      Refuse(context_, error);
    }
    const bool destroys = context_.plan.misbehaves && random_.Chance(20);
    const uint32_t last = destroys ? random_.Between(1, life_.operations) : life_.operations;
    const uint32_t bad_at = context_.plan.misbehaves && random_.Chance(25) ? random_.Between(0, last) : ~0u;
    for (uint32_t i = 0; i < last && !broken_; ++i) {
      Start(i == bad_at);
      while (pending_.size() > kWindow || (!pending_.empty() && random_.Chance(30))) EndOne();
    }
    if (destroys) {
      deeds() |= kDestroyed;
      if (const Status status = transport_.Reset(); !status.ok())
        Refuse(context_, std::runtime_error(status.Describe()));
    }
    while (!pending_.empty()) EndOne();
  }

  /// Takes the notifications that have come, and checks their number. The peer starts nothing any more.
  void TakeNotifications() {
    const Link& peer = context_.other().links[pair_];
    while (taken_ < peer.arrived[0] && (deeds() & kDestroyed) == 0) {
      const Status status = transport_.WaitForWrite({.timeout = std::chrono::seconds(30)}).get();
      if (!status.ok()) {
        if (status.code() == Code::kTimeout || !Excuses(status.code()))
          Fail(context_, Name() + "a notification is lost: " + status.Describe());
        return;
      }
      ++taken_;
    }
    while (transport_.Connected() && transport_.WaitForWrite({.timeout = milliseconds(1)}).get().ok())
      ++taken_;
    context_.counts().Add(Tally::kNotifications, taken_);
    if (taken_ > peer.posted[0]) {
      Fail(context_,
           Name() + std::to_string(taken_) + " notifications of " + std::to_string(peer.posted[0]) + " came");
    }
  }

  void CheckMemory() {
    const size_t wrong = shadow_.Compare();
    context_.counts().Add(Tally::kBytesCompared, shadow_.size());
    if (wrong != shadow_.size())
      Fail(context_,
           Name() + "the byte at offset " + std::to_string(wrong) + " of its memory at the peer is wrong");
  }

 private:
  static constexpr size_t kWindow = 24;

  size_t offset() const { return size_t{pair_} * kMaxPosters * kSlotSpace; }
  std::atomic<uint32_t>& deeds() const { return context_.own().links[pair_].deeds; }
  std::string Name() const { return "transport " + std::to_string(pair_) + ": "; }

  /// Returns whether what was done to both sides explains a status.
  bool Excuses(Code code) const {
    switch (code) {
      case Code::kAborted:
        return (deeds() & kDestroyed) != 0;
      case Code::kAccessDenied:
        return ((deeds() | context_.other().links[pair_].deeds) & kBadRemoteKey) != 0;
      case Code::kInternalError:
        return context_.Explains(kSilence | kShortage, pair_);
      case Code::kInvalid:  // no connection any more
        return (deeds() & kDestroyed) != 0;
      default:
        return false;
    }
  }

  std::optional<uint32_t> FreeCell() {
    const auto first = static_cast<uint32_t>(random_.Below(busy_.size()));
    for (uint32_t i = 0; i < busy_.size(); ++i) {
      const auto cell = static_cast<uint32_t>((first + i) % busy_.size());
      if (!busy_[cell]) return cell;
    }
    return {};
  }

  void Start(bool bad) {
    auto operation = std::make_shared<Operation>();
    Operation& one = *operation;
    std::optional<nanoseconds> timeout;
    if (random_.Chance(20)) timeout = microseconds(random_.Below(3000));
    one.timed = timeout.has_value();
    if (!bad && random_.Chance(20)) {
      one.kind = OperationKind::kTransportWait;
      if (!timeout) timeout = milliseconds(random_.Below(50));
      one.timed = true;
      Begin(operation, [&](auto&& token) {
        return transport_.WaitForWrite({.timeout = timeout}, std::forward<decltype(token)>(token));
      });
      return;
    }
    one.cell = FreeCell();
    if (!one.cell) return;
    busy_[*one.cell] = true;
    const auto start = static_cast<uint32_t>(random_.Below(life_.cell_bytes));
    one.offset = size_t{*one.cell} * life_.cell_bytes + start;
    one.bytes = random_.Chance(10) && !bad ? 0 : random_.Between(1, life_.cell_bytes - start);
    RdmaRemoteBuffer remote{reinterpret_cast<void*>(remote_ + one.offset), key_, one.bytes};
    if (random_.Chance(30)) remote.len = 0;
    if (random_.Chance(40) && !bad) {
      one.kind = OperationKind::kTransportRead;
      one.fetched.assign(shadow_.at(one.offset), shadow_.at(one.offset) + one.bytes);
      const auto view = local_.CreateMutableView(half() + one.offset, one.bytes);
      std::memset(view.mutable_data(), 0xee, one.bytes);
      Begin(operation, [&](auto&& token) {
        return transport_.Read(view, remote, {.timeout = timeout}, std::forward<decltype(token)>(token));
      });
      return;
    }
    one.kind = OperationKind::kTransportWrite;
    one.bad = bad;
    if (bad) {
      deeds() |= kBadRemoteKey;
      for (uint32_t& rkey : remote.access_key.rkeys) rkey ^= 0x005aa500;
    }
    const std::span<uint8_t> source(static_cast<uint8_t*>(local_.data()) + one.offset, one.bytes);
    if (!bad) {
      Fill(source, random_.Next());
      shadow_.Expect(one.offset, source);
    }
    one.notifies = random_.Chance(40);
    if (one.notifies) ++context_.own().links[pair_].posted[0];
    Begin(operation, [&](auto&& token) {
      return transport_.Write(local_.CreateView(one.offset, one.bytes), remote,
                              {.notify = one.notifies, .timeout = timeout},
                              std::forward<decltype(token)>(token));
    });
  }

  size_t half() const { return local_.size() / 2; }

  /// Starts an operation that ends by a future or by a callback.
  template <class Call>
  void Begin(const std::shared_ptr<Operation>& operation, const Call& call) {
    context_.counts().Add(operation->kind);
    if (random_.Chance(50)) {
      operation->future = call(asio::use_future);
    } else {
      call([operation, &context = context_](const Status& status) {
        operation->status = status;
        if (++operation->ended != 1) Fail(context, "a transport's operation ends twice");
      });
    }
    pending_.push_back(operation);
  }

  /// Waits for one of the pending operations. The controller ends a wait that lasts too long.
  void EndOne() {
    const size_t which = random_.Below(pending_.size());
    const std::shared_ptr<Operation> operation = pending_[which];
    pending_.erase(pending_.begin() + static_cast<ptrdiff_t>(which));
    if (operation->future.valid()) {
      operation->status = operation->future.get();
    } else {
      while (operation->ended == 0) std::this_thread::sleep_for(microseconds(50));
    }
    End(*operation);
  }

  void End(Operation& operation) {
    const Status& status = operation.status;
    ++context_.counts().results[kTransportCodes + static_cast<size_t>(status.code())];
    const std::string name = Name() + ToString(operation.kind) + " of " + std::to_string(operation.bytes) +
                             " bytes at offset " + std::to_string(operation.offset) + ": ";
    if (status.code() == Code::kTimeout) {
      if (!operation.timed) Fail(context_, name + "a timeout that nobody asked for");
      return;  // the NIC may still use the cell
    }
    if (!status.ok()) {
      if (!Excuses(status.code())) Fail(context_, name + "ends without a cause: " + status.Describe());
      if (status.Describe().size() < 10) Fail(context_, name + "the status has no reason");
      broken_ = true;
    } else {
      Succeed(operation, name);
    }
    if (operation.cell && status.ok()) busy_[*operation.cell] = false;
  }

  void Succeed(const Operation& operation, const std::string& name) {
    if (operation.bad) Fail(context_, name + "succeeds, but it must fail");
    context_.counts().Add(Tally::kBytesCompared, operation.bytes);
    switch (operation.kind) {
      case OperationKind::kTransportWait:
        ++taken_;
        break;
      case OperationKind::kTransportRead:
        if (std::memcmp(static_cast<const uint8_t*>(local_.data()) + half() + operation.offset,
                        operation.fetched.data(), operation.bytes) != 0)
          Fail(context_, name + "it brought wrong bytes");
        break;
      default:
        if (!shadow_.Settle(operation.offset, operation.bytes))
          Fail(context_, name + "it succeeded, but its bytes are not in the peer's memory");
        if (operation.notifies) ++context_.own().links[pair_].arrived[0];
    }
  }

  const Context& context_;
  const LifePlan& life_;
  uint32_t pair_;
  RdmaTransport& transport_;
  const RdmaMemory& local_;
  const RdmaMemory& target_;
  Random random_;
  Shadow shadow_;
  std::vector<bool> busy_;
  std::vector<std::shared_ptr<Operation>> pending_{};
  uintptr_t remote_ = 0;
  AccessKey key_{};
  uint32_t taken_ = 0;
  bool broken_ = false;
};

/// One side's lives.
class TransportSide {
 public:
  explicit TransportSide(const Context& context)
      : context_(context), random_(SeedOf(context.plan.seed, context.side)) {}

  void Run() {
    bool more = true;
    for (uint32_t life = 0; more; ++life) {
      life_ = LifePlanOf(context_.plan, life, life_);
      try {
        SetUp();
      } catch (const std::exception& error) {
        Refuse(context_, error);
      }
      context_.Meet();  // nothing of the life before reaches the memory any more
      Live(life + 1);
      more = context_.MeetForAnotherLife(life + 1);
      context_.counts().Add(Tally::kLives);
    }
  }

 private:
  struct Own {
    std::unique_ptr<RdmaTransport> transport;
    uint32_t weakness;
    std::unique_ptr<host::HostPages> pages;
    std::unique_ptr<RdmaMemory> local, target;
  };

  void SetUp() {
    for (Link& link : context_.own().links) link.deeds = link.posted[0] = link.arrived[0] = 0;
    if (!life_.recreate) {
      for (Own& own : owns_) {
        if (const Status status = own.transport->Reset(); !status.ok())
          throw std::runtime_error(status.Describe());
      }
      return;
    }
    owns_.clear();
    loop_ = random_.Chance(50) ? std::make_unique<EventLoop>() : nullptr;
    for (uint32_t i = 0; i < life_.pairs; ++i) {
      TransportConfig config{.max_nics = life_.nics,
                             .queue_pairs = random_.Between(1, 4),
                             .depth = random_.Between(4, 128),
                             .receive_depth = random_.Between(4, 256),
                             .piece_bytes = random_.Between(TransportConfig::kMinPieceBytes, 60000),
                             .spin = microseconds(random_.Pick({0, 20, 500}))};
      if (random_.Chance(50)) config.retry.ack_timeout = 18;
      Own& own = owns_.emplace_back();
      own.weakness = context_.IsImpatient(config.retry) ? uint32_t{kImpatient} : 0u;
      own.transport = std::make_unique<RdmaTransport>(0, config, random_.Chance(70) ? loop_.get() : nullptr);
      own.pages = std::make_unique<host::HostPages>(2 * kMaxPosters * kSlotSpace);
      const RdmaMemoryConfig memory{.max_nics = life_.nics};
      own.local =
          std::make_unique<RdmaMemory>(static_cast<void*>(own.pages->data()), own.pages->size(), 0, memory);
      uint8_t* const target = &context_.board.memory[context_.side][size_t{i} * kMaxPosters * kSlotSpace];
      own.target =
          std::make_unique<RdmaMemory>(static_cast<void*>(target), kMaxPosters * kSlotSpace, 0, memory);
      context_.counts().Add(Tally::kTransports);
    }
  }

  void Live(uint64_t life) {
    std::vector<std::unique_ptr<Driver>> drivers;
    for (uint32_t i = 0; i < owns_.size(); ++i) {
      Own& own = owns_[i];
      context_.own().links[i].deeds = own.weakness;
      drivers.push_back(std::make_unique<Driver>(context_, life_, i, *own.transport, *own.local, *own.target,
                                                 random_.Fork()));
    }
    context_.Meet();  // both sides' memory is filled
    {
      std::vector<std::jthread> threads;
      for (const auto& driver : drivers) {
        threads.emplace_back([this, life, &driver] {
          try {
            driver->Run(life);
          } catch (const std::exception& error) {
            Refuse(context_, error);
          }
        });
      }
      if (context_.plan.forks) {
        const uint32_t forks = random_.Between(1, 3);
        for (uint32_t i = 0; i < forks; ++i) {
          std::this_thread::sleep_for(milliseconds(random_.Below(20)));
          ForkAndWait(context_, random_.Next(), [this] { owns_.clear(); });
        }
      }
    }
    context_.Meet();  // nothing is started any more
    for (const auto& driver : drivers) {
      driver->TakeNotifications();
      driver->CheckMemory();
    }
  }

  const Context& context_;
  Random random_;
  LifePlan life_{};
  std::unique_ptr<EventLoop> loop_;
  std::vector<Own> owns_;
};

}  // namespace

void RunTransports(const Context& context) { TransportSide(context).Run(); }

}  // namespace soak
