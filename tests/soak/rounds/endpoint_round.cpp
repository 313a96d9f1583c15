#include <dlfcn.h>
#include <sys/resource.h>

#include <charconv>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <vector>

#include "soak/rounds/forks.hpp"
#include "soak/rounds/poster.hpp"
#include "soak/rounds/random.hpp"
#include "soak/rounds/receiver.hpp"
#include "softhca_control.h"
#include "warpverbs/device/cooperation.hpp"
#include "warpverbs/host/connect_all.hpp"
#include "warpverbs/host/device.hpp"
#include "warpverbs/host/doorbell_thread.hpp"
#include "warpverbs/host/endpoint.hpp"
#include "warpverbs/host/error.hpp"
#include "warpverbs/host/event_thread.hpp"
#include "warpverbs/host/memory.hpp"
#include "warpverbs/host/peer_table.hpp"
#include "warpverbs/host/queue_error.hpp"
#include "warpverbs/host/queue_pool.hpp"
#include "warpverbs/host/shared_completions.hpp"
#include "warpverbs/host/tcp_exchange.hpp"
#include "warpverbs/mlx5/syndrome.hpp"

namespace soak {
namespace {

using namespace warpverbs;
using std::chrono::milliseconds;

constexpr host::Access kPeerMay{.remote_read = true, .remote_write = true, .remote_atomic = true};

/// What both sides agree on for a life.
struct LifePlan {
  uint32_t pairs;
  int gid_index;
  bool recreate;  ///< instead of a reset of what the life before had
  bool round_trip;
  std::vector<PairPlan> plans;
};

LifePlan LifePlanOf(const RoundPlan& round, uint32_t life, uint32_t pairs_before) {
  Random random(SeedOf(round.seed, 1000 + life));
  LifePlan plan{};
  plan.recreate = pairs_before == 0 || random.Chance(50);
  plan.pairs = random.Between(1, kMaxPairs);
  if (!plan.recreate) plan.pairs = pairs_before;
  plan.gid_index = random.Pick({-1, -1, -1, 0, 1, 2, 3, 3});
  plan.round_trip = random.Chance(50);
  const bool is_short = round.kind == RoundKind::kLives;
  for (uint32_t i = 0; i < plan.pairs; ++i) {
    PairPlan pair{};
    for (uint32_t& posters : pair.posters) posters = random.Between(1, kMaxPosters);
    pair.cell_bytes = random.Pick({64u, 512u, 4096u, 32768u});
    if (is_short) pair.cell_bytes = random.Pick({64u, 512u});
    pair.cells = random.Between(1, 8);
    pair.operations = is_short ? random.Between(1, 12) : random.Between(10, 400);
    pair.receive_bytes = random.Pick({64u, 300u, 4096u});
    plan.plans.push_back(pair);
  }
  // Receive queues cannot be added by a reset, so all lives of a round have them, or none.
  const bool receives = Random(round.seed).Chance(60);
  for (PairPlan& pair : plan.plans) pair.receives = receives;
  return plan;
}

enum class SharingKind : uint8_t { kExclusive, kShared, kRelaxed };

/// An endpoint and what belongs to it.
struct Own {
  SharingKind sharing{};
  bool keeps_cause = false;
  bool waits = false;     ///< WAIT may be posted
  uint32_t weakness = 0;  ///< deeds that its configuration amounts to
  std::unique_ptr<host::Endpoint> endpoint{};
  std::unique_ptr<Causes> causes{};
  std::vector<std::unique_ptr<Shadow>> shadows{};
  std::unique_ptr<Receiver> receiver{};
};

/// Everything that one side sets up, in the order of construction.
class Objects {
 public:
  Objects(const Context& context, const LifePlan& life, Random& random)
      : local_(2 * kSideSpace + kReceiveSpace),
        local_region_(device_, local_.data(), local_.size()),
        target_region_(device_, context.board.memory[context.side].data(), kSideSpace, kPeerMay) {
    const bool shared = random.Chance(30);
    if (random.Chance(30)) pool_ = std::make_unique<host::QueuePool>(device_);
    if (random.Chance(30)) bell_ = std::make_unique<host::DoorbellThread>();
    if (random.Chance(40)) events_ = std::make_unique<host::EventThread>();
    if (random.Chance(30)) peers_ = std::make_unique<host::PeerTable>(life.pairs);
    if (shared) {
      completions_ = std::make_unique<host::SharedCompletions>(
          device_, host::SharedCompletionsConfig{.depth = life.pairs * 128, .max_queues = life.pairs});
    }
    for (uint32_t i = 0; i < life.pairs; ++i) {
      Own& own = owns_.emplace_back();
      own.endpoint = std::make_unique<host::Endpoint>(device_, ConfigOf(context, life, i, own, random));
      context.counts().Add(Tally::kEndpoints);
    }
  }

  std::vector<Own>& owns() { return owns_; }
  const host::Device& device() const { return device_; }
  std::vector<host::Endpoint*> Endpoints() const {
    std::vector<host::Endpoint*> endpoints;
    for (const Own& own : owns_) endpoints.push_back(own.endpoint.get());
    return endpoints;
  }

  device::RemoteMemory Target() const { return target_region_.View().Remote(); }

  std::span<uint8_t> Local(size_t offset, size_t bytes) const {
    return {reinterpret_cast<uint8_t*>(local_.data()) + offset, bytes};
  }
  device::LocalMemory LocalView(size_t offset, size_t bytes) const {
    return local_region_.View().Subrange(offset, bytes).Local();
  }

  static constexpr size_t kReceiveSpaceOfOne = 64 * 4096;
  static constexpr size_t kReceiveSpace = kMaxPairs * kReceiveSpaceOfOne;

 private:
  host::EndpointConfig ConfigOf(const Context& context, const LifePlan& life, uint32_t pair, Own& own,
                                Random& random) const {
    host::EndpointConfig config;
    config.depth = random.Pick({1u, 2u, 4u, 8u, 16u, 64u, 128u, 128u, 1024u, 8192u});
    if (completions_ != nullptr && random.Chance(70)) {
      config.depth = std::min(config.depth, 128u);
      config.completions = completions_.get();
      own.keeps_cause = true;
    } else if (random.Chance(60)) {
      config.cq_mode = random.Chance(50) ? host::CqMode::kRing : host::CqMode::kCollapsed;
      if (config.cq_mode == host::CqMode::kRing && random.Chance(30)) config.cq_depth = 2 * config.depth;
    }
    if (config.cq_mode == host::CqMode::kRing) own.keeps_cause = true;
    if (pool_ != nullptr && random.Chance(70)) {
      config.pool = pool_.get();
    } else if (random.Chance(20)) {
      config.queue_alignment = size_t{4096} << random.Below(10);
    }
    if (life.plans[pair].receives) {
      config.receive_depth = random.Pick({1u, 2u, 8u, 64u});
      config.receive_scatter = random.Between(1, 2);
    }
    if (random.Chance(20)) config.dump_after_read = true;
    own.waits = config.wait_on_cq = random.Chance(30);
    config.doorbell = random.Pick({host::DoorbellMode::kAuto, host::DoorbellMode::kAuto,
                                   host::DoorbellMode::kHostProxy, host::DoorbellMode::kHostPosts});
    if (random.Chance(70)) config.doorbell_thread = bell_.get();
    if (random.Chance(70)) config.events = events_.get();
    if (random.Chance(70)) config.peers = peers_.get();
    config.peer_rank = pair;
    config.gid_index = life.gid_index;
    if (random.Chance(10)) {
      config.retry = {.ack_timeout = static_cast<uint8_t>(random.Between(8, 14)),
                      .retry_count = static_cast<uint8_t>(random.Between(0, 2))};
    }
    if (random.Chance(10)) config.retry.rnr_retry = static_cast<uint8_t>(random.Below(7));
    if (life.plans[pair].receives && config.retry.rnr_retry < 7) own.weakness |= kBoundedRnr;
    if (context.IsImpatient(config.retry)) own.weakness |= kImpatient;
    own.sharing = static_cast<SharingKind>(random.Below(3));
    return config;
  }

  host::Device device_;
  host::HostPages local_;
  host::MemoryRegion local_region_, target_region_;
  std::unique_ptr<host::QueuePool> pool_;
  std::unique_ptr<host::DoorbellThread> bell_;
  std::unique_ptr<host::EventThread> events_;
  std::unique_ptr<host::PeerTable> peers_;
  std::unique_ptr<host::SharedCompletions> completions_;
  std::vector<Own> owns_;
};

/// One side's lives.
class EndpointSide {
 public:
  explicit EndpointSide(const Context& context)
      : context_(context), random_(SeedOf(context.plan.seed, context.side)) {}

  void Run() {
    bool more = true;
    for (uint32_t life = 0; more; ++life) {
      const uint32_t pairs_before = objects_ == nullptr ? 0 : static_cast<uint32_t>(objects_->owns().size());
      life_ = LifePlanOf(context_.plan, life, pairs_before);
      try {
        SetUp(life + 1);
      } catch (const std::exception& error) {
        if (!context_.ExcusesRefusal())
          Fail(context_, std::string("the set-up fails without a cause: ") + error.what());
        std::fprintf(stderr, "side %u is refused: %s\n", context_.side, error.what());
        context_.own().troubles |= kRefused;
        context_.counts().Add(Tally::kRefusedSetUps);
        return;
      }
      Live();
      more = context_.MeetForAnotherLife(life + 1);
      context_.counts().Add(Tally::kLives);
    }
  }

 private:
  void SetUp(uint64_t life) {
    const host::Deadline deadline = host::DeadlineIn(std::chrono::seconds(90));
    for (Link& link : context_.own().links) {
      link.deeds = 0;
      for (uint32_t poster = 0; poster < kMaxPosters; ++poster)
        link.posted[poster] = link.arrived[poster] = 0;
    }
    if (life_.recreate) {
      objects_.reset();
      exchange_.reset();
      CheckDescriptors();
      objects_ = std::make_unique<Objects>(context_, life_, random_);
      Meet(life, deadline);
    } else {
      for (Own& own : objects_->owns()) own.endpoint->Reset();
    }
    context_.Meet();  // nothing of the life before reaches the memory any more
    FillTargets();
    const std::vector<host::Endpoint*> endpoints = objects_->Endpoints();
    for (uint32_t i = 0; i < endpoints.size(); ++i) {  // before the peer can send
      Own& own = objects_->owns()[i];
      own.causes = std::make_unique<Causes>(context_, i, own.keeps_cause);
      own.causes->own().deeds = own.weakness;
    }
    host::ConnectAll(endpoints, *exchange_, deadline, {.round_trip = life_.round_trip});
    remote_ = exchange_->Swap(objects_->Target(), "the memory", deadline);
  }

  /// Checks that the objects of a life leave no descriptors open.
  void CheckDescriptors() {
    if (context_.plan.processes == 1) return;  // the other side's objects live
    size_t open = 0;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
      std::error_code closed;
      const std::string target = std::filesystem::read_symlink(entry.path(), closed).string();
      open +=
          target.starts_with("socket:") ? size_t{0} : size_t{1};  // softhca keeps one for each source port
    }
    if (recreated_++ == 1) descriptors_ = open;  // after the first life: softhca has opened what it keeps
    if (recreated_ > 2 && open > descriptors_) {
      Fail(context_, std::to_string(open) + " descriptors are open where there were " +
                         std::to_string(descriptors_) + " after the first life");
    }
  }

  void Meet(uint64_t life, host::Deadline deadline) {
    if (context_.side == 0) {
      const host::TcpListener listener({"localhost", 0});
      context_.own().address.Set(life, std::to_string(listener.port()));
      while (exchange_ == nullptr) {
        try {
          exchange_ =
              std::make_unique<host::TcpExchange>(listener.Accept(host::DeadlineIn(milliseconds(500))));
        } catch (const host::Error&) {
          if (context_.PeerIsGone() || host::Deadline::clock::now() > deadline) throw;
        }
      }
    } else {
      const std::string port = context_.Await(context_.other().address, life);
      uint16_t number = 0;
      std::from_chars(port.data(), port.data() + port.size(), number);
      exchange_ =
          std::make_unique<host::TcpExchange>(host::TcpExchange::Connect({"localhost", number}, deadline));
    }
  }

  static size_t SlotOffset(uint32_t pair, uint32_t poster) {
    return (size_t{pair} * kMaxPosters + poster) * kSlotSpace;
  }
  uint32_t Posters(uint32_t pair) const {
    const bool alone = objects_->owns()[pair].sharing == SharingKind::kExclusive;
    return alone ? 1 : life_.plans[pair].posters[context_.side];
  }

  /// Fills the parts of the peer's memory that this side's posters use.
  ///
  /// @pre  the queue pairs of both sides are new or reset, so that they drop all frames
  void FillTargets() {
    auto& memory = context_.board.memory[1 - context_.side];
    for (uint32_t pair = 0; pair < life_.pairs; ++pair) {
      Own& own = objects_->owns()[pair];
      own.shadows.clear();
      for (uint32_t poster = 0; poster < Posters(pair); ++poster) {
        const std::span<uint8_t> slot(&memory[SlotOffset(pair, poster)], life_.plans[pair].slot_bytes());
        own.shadows.push_back(std::make_unique<Shadow>(slot, random_.Next()));
      }
    }
  }

  /// Runs all posters and receivers to their ends, and checks what they leave.
  void Live() {
    errors_.assign(life_.pairs, {});
    std::vector<std::jthread> receivers, posters;
    try {
      StartThreads(receivers, posters);
      Disturb();
    } catch (const std::exception& error) {  // others may wait for the threads that run
      Refuse(context_, error);
    }
    posters.clear();
    context_.Meet();  // nothing is posted any more
    for (const Own& own : objects_->owns()) {
      if (own.receiver != nullptr) own.receiver->Finish();
    }
    receivers.clear();
    Check();
  }

  void StartThreads(std::vector<std::jthread>& receivers, std::vector<std::jthread>& posters) {
    for (uint32_t pair = 0; pair < life_.pairs; ++pair) {
      Own& own = objects_->owns()[pair];
      if (!life_.plans[pair].receives) continue;
      const device::ReceiveQueueView view = own.endpoint->ReceiveView();
      const size_t bytes = size_t{view.depth} * life_.plans[pair].receive_bytes;
      const size_t offset = 2 * kSideSpace + pair * Objects::kReceiveSpaceOfOne;
      own.receiver =
          std::make_unique<Receiver>(context_, life_.plans[pair], *own.causes, pair, view,
                                     objects_->Local(offset, bytes), objects_->LocalView(offset, bytes));
      receivers.emplace_back([this, &own] {
        try {
          own.receiver->Run();
        } catch (const std::exception& error) {
          Refuse(context_, error);
        }
      });
    }
    for (uint32_t pair = 0; pair < life_.pairs; ++pair) {
      errors_[pair].resize(Posters(pair));
      for (uint32_t poster = 0; poster < Posters(pair); ++poster) {
        posters.emplace_back([this, pair, poster, seed = random_.Fork()] { Post(pair, poster, seed); });
      }
    }
  }

  void Post(uint32_t pair, uint32_t poster, uint64_t seed) {
    try {
      Own& own = objects_->owns()[pair];
      const size_t offset = SlotOffset(pair, poster), bytes = life_.plans[pair].slot_bytes();
      const PosterSetUp set_up{.context = context_,
                               .plan = life_.plans[pair],
                               .causes = *own.causes,
                               .shadow = *own.shadows[poster],
                               .pair = pair,
                               .poster = poster,
                               .seed = seed,
                               .view = own.endpoint->View(),
                               .source = objects_->Local(offset, bytes),
                               .landing = objects_->Local(kSideSpace + offset, bytes),
                               .local_source = objects_->LocalView(offset, bytes),
                               .local_landing = objects_->LocalView(kSideSpace + offset, bytes),
                               .remote = {remote_.addr + offset, remote_.rkey},
                               .abort = own.endpoint->AbortWord(),
                               .wait_cqn = own.waits ? own.endpoint->send_cqn() : 0,
                               .misbehaves = context_.plan.misbehaves};
      errors_[pair][poster] = own.sharing == SharingKind::kExclusive ? RunPoster<device::Exclusive>(set_up)
                              : own.sharing == SharingKind::kShared
                                  ? RunPoster<device::Shared>(set_up)
                                  : RunPoster<device::RelaxedShared>(set_up);
    } catch (const std::exception& error) {
      Refuse(context_, error);
    }
  }

  /// Forks, disconnects, aborts and forces failures while posters run.
  void Disturb() {
    if (context_.plan.forks) {
      const uint32_t forks = random_.Between(1, 3);
      for (uint32_t i = 0; i < forks; ++i) {
        std::this_thread::sleep_for(milliseconds(random_.Below(20)));
        ForkAndWait(context_, random_.Next(), [this] { objects_.reset(); });
      }
    }
    if (!context_.plan.misbehaves || !random_.Chance(40)) return;
    std::this_thread::sleep_for(milliseconds(random_.Below(30)));
    Own& own = objects_->owns()[random_.Below(life_.pairs)];
    switch (random_.Below(3)) {
      case 0:
        own.causes->own().deeds |= kDisconnected;
        own.endpoint->Disconnect();
        break;
      case 1:
        own.endpoint->Abort();
        break;
      default:
        Force(own);
    }
  }

  void Force(const Own& own) {
    auto* const force =
        reinterpret_cast<decltype(&softhca_force_syndrome)>(dlsym(RTLD_DEFAULT, "softhca_force_syndrome"));
    if (force == nullptr) Fail(context_, "softhca does not export softhca_force_syndrome");
    const auto syndrome = static_cast<uint8_t>(
        random_.Pick({mlx5::Syndrome::kLocalQpOperation, mlx5::Syndrome::kRemoteOperation,
                      mlx5::Syndrome::kRemoteAborted}));
    own.causes->own().forced = syndrome;
    own.causes->own().deeds |= kForced;
    force(objects_->device().name().c_str(), own.endpoint->qpn(), random_.Between(1, 1000), syndrome, 0);
  }

  void Check() {
    for (uint32_t pair = 0; pair < life_.pairs; ++pair) {
      const Own& own = objects_->owns()[pair];
      const std::string name = "pair " + std::to_string(pair) + ": ";
      bool failed = false;
      for (const device::Status& error : errors_[pair]) {
        if (error.ok()) continue;
        failed = true;
        if (const std::string wrong = own.causes->Judge(error); !wrong.empty())
          Fail(context_, name + wrong + "\n" + own.endpoint->Describe());
      }
      CheckLastError(own, failed, name);
      for (uint32_t poster = 0; poster < own.shadows.size(); ++poster) {
        Shadow& shadow = *own.shadows[poster];
        const size_t wrong = shadow.Compare();
        context_.counts().Add(Tally::kBytesCompared, shadow.size());
        if (wrong != shadow.size())
          Fail(context_, name + "the byte at offset " + std::to_string(wrong) + " of poster " +
                             std::to_string(poster) + "'s memory at the peer is wrong");
      }
      if (own.receiver != nullptr) own.receiver->CheckCounts();
    }
  }

  void CheckLastError(const Own& own, bool failed, const std::string& name) const {
    const std::optional<host::QueueError> error = own.endpoint->LastError();
    if (failed && !error) Fail(context_, name + "LastError() is empty although a poster saw an error");
    if (!error) return;
    if (error->Describe().empty()) Fail(context_, name + "an error has no description");
    if (error->syndrome != 0) {
      if (const std::string wrong = own.causes->Judge(error->syndrome, error->receiving); !wrong.empty())
        Fail(context_, name + "LastError() reports: " + wrong);
    }
    if (error->stopped && !own.causes->MayFail())
      Fail(context_, name + "the queue pair stopped without a cause");
  }

  const Context& context_;
  Random random_;
  LifePlan life_{};
  std::unique_ptr<Objects> objects_;
  std::unique_ptr<host::TcpExchange> exchange_;
  uint32_t recreated_ = 0;
  size_t descriptors_ = 0;  ///< open after the first life
  device::RemoteMemory remote_{};
  std::vector<std::vector<device::Status>> errors_;  ///< errors of each pair's posters
};

}  // namespace

void RunEndpoints(const Context& context) { EndpointSide(context).Run(); }

}  // namespace soak
