#include "core/hca.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include "core/limits.hpp"
#include "core/network.hpp"
#include "dma/device_memory.hpp"

namespace softhca {
namespace {

using mlx5::CommandStatus;
using mlx5::QpState;

[[noreturn]] void ThrowNotFound(const char* kind, uint32_t number) {
  throw CommandError(CommandStatus::kBadResource,
                     std::string(kind) + " " + std::to_string(number) + " does not exist");
}

[[noreturn]] void ThrowInUse(const char* kind, uint32_t number, const char* user) {
  throw CommandError(CommandStatus::kResourceBusy,
                     std::string(kind) + " " + std::to_string(number) + " is in use by a " + user);
}

template <class Map>
auto* Find(Map& map, uint32_t number) {
  const auto found = map.find(number);
  return found == map.end() ? nullptr : found->second.get();
}

template <class Map, class Predicate>
bool Any(const Map& map, Predicate matches) {
  return std::any_of(map.begin(), map.end(), [&](const auto& entry) { return matches(*entry.second); });
}

/// Returns the next free number. Numbers are not reused soon, so a stale one is detected. Most have 24 bits.
template <class Container>
uint32_t NextNumber(uint32_t& last, const Container& used, uint32_t mask = 0xffffff) {
  do last = (last + 1) & mask;
  while (last == 0 || used.contains(last));
  return last;
}

bool Contains(const std::vector<uint32_t>& numbers, uint32_t number) {
  return std::find(numbers.begin(), numbers.end(), number) != numbers.end();
}

void CheckDepth(const char* queue, uint32_t depth) {
  if (depth != 0 && (!std::has_single_bit(depth) || depth > kMaxQueueDepth)) {
    throw CommandError(CommandStatus::kBadParameter, std::string(queue) + " depth " + std::to_string(depth) +
                                                         " is not a power of two of at most " +
                                                         std::to_string(kMaxQueueDepth));
  }
}

void CheckCqSize(uint32_t log_depth, uint32_t cqe_bytes) {
  if (log_depth <= kMaxLogCqDepth && (cqe_bytes == 64 || cqe_bytes == 128)) return;
  throw CommandError(CommandStatus::kBadParameter, "a completion queue of 2^" + std::to_string(log_depth) +
                                                       " entries of " + std::to_string(cqe_bytes) +
                                                       " bytes is out of range");
}

void CheckReceive(const ReceiveQueueConfig& receive) {
  CheckDepth("receive queue", receive.depth);
  const uint32_t links = receive.linked ? sizeof(mlx5::SrqNextSegment) : 0;
  const uint32_t most = ReceiveWqe::kMaxSegments * mlx5::kSegmentBytes + links;
  if (receive.depth != 0 && (receive.stride < mlx5::kSegmentBytes + links || receive.stride > most)) {
    throw CommandError(CommandStatus::kBadParameter,
                       "receive WQEs of " + std::to_string(receive.stride) + " bytes are not supported");
  }
}

}  // namespace

uint32_t Hca::AllocPd() {
  ++created_.pds;
  return *pds_.insert(NextNumber(last_pdn_, pds_)).first;
}

void Hca::DeallocPd(uint32_t pdn) {
  CheckPd(pdn);
  if (mkeys_.UsesPd(pdn)) ThrowInUse("protection domain", pdn, "memory region");
  const auto belongs = [&](const auto& object) { return object.config.pdn == pdn; };
  if (Any(srqs_, belongs)) ThrowInUse("protection domain", pdn, "shared receive queue");
  // An XRC target has the domain of a shared receive queue.
  if (Any(qps_, [&](const QueuePair& qp) { return qp.config.xrc != XrcRole::kTarget && belongs(qp); }))
    ThrowInUse("protection domain", pdn, "queue pair");
  pds_.erase(pdn);
}

void Hca::CheckPd(uint32_t pdn) const {
  if (!pds_.contains(pdn)) ThrowNotFound("protection domain", pdn);
}

uint32_t Hca::RegisterMemory(const Mkey& mkey, std::optional<uint8_t> variant) {
  CheckPd(mkey.pdn);
  ++created_.mkeys;
  return mkeys_.Add(mkey, variant);
}

void Hca::DeregisterMemory(uint32_t key) {
  if (!mkeys_.Remove(key)) ThrowNotFound("memory key", key);
}

void Hca::ReregisterMemory(uint32_t key, const Mkey& mkey) {
  CheckPd(mkey.pdn);
  if (mkeys_.Find(key) == nullptr) ThrowNotFound("memory key", key);
  WaitForDevices();  // the program may free the old memory next
  mkeys_.Replace(key, mkey);
}

uint32_t Hca::AllocWindow(uint32_t pdn, bool revocable) {
  return RegisterMemory({.pdn = pdn, .revocable = revocable, .free = true, .window = RegionAddress{}});
}

void Hca::DeallocWindow(uint32_t key) {
  if (!mkeys_.RemoveWindow(key)) ThrowNotFound("memory window", key);
}

uint32_t Hca::AllocUar(uint8_t* page) {
  constexpr uint32_t kMask = 0xffff;  // a completion queue names its page in 16 bits
  if (uars_.size() == kMask) throw CommandError(CommandStatus::kNoResources, "all UAR pages are in use");
  uars_.emplace(NextNumber(last_uar_, uars_, kMask), page);
  ++created_.uars;
  return last_uar_;
}

uint8_t* Hca::FreeUar(uint32_t uar) {
  CheckUar(uar);
  if (Any(qps_, [&](const QueuePair& qp) { return qp.config.uar_page == uar; }))
    ThrowInUse("UAR", uar, "queue pair");
  if (Any(cqs_, [&](const CompletionQueue& cq) { return cq.config().uar_page == uar; })) {
    ThrowInUse("UAR", uar, "completion queue");
  }
  uint8_t* const page = uars_.at(uar);
  uars_.erase(uar);
  return page;
}

void Hca::CheckUar(uint32_t uar) const {
  if (!uars_.contains(uar)) ThrowNotFound("UAR", uar);
}

uint32_t Hca::RegisterUmem(Umem umem) {
  umems_.emplace(NextNumber(last_umem_, umems_), std::move(umem));
  ++created_.umems;
  return last_umem_;
}

void Hca::DeregisterUmem(uint32_t umem) {
  if (!umems_.contains(umem)) ThrowNotFound("umem", umem);
  if (UsesUmem(umem)) ThrowInUse("umem", umem, "queue");
  umems_.erase(umem);
}

bool Hca::UsesUmem(uint32_t umem) const {
  return Any(cqs_, [&](const CompletionQueue& cq) { return Contains(cq.config().umems, umem); }) ||
         Any(qps_, [&](const QueuePair& qp) { return Contains(qp.config.umems, umem); });
}

uint8_t* Hca::UmemAddress(uint32_t umem, uint64_t offset, uint64_t bytes) const {
  const auto found = umems_.find(umem);
  if (found == umems_.end()) ThrowNotFound("umem", umem);
  const Bytes memory = found->second.memory;
  if (offset > memory.size() || bytes > memory.size() - offset) {
    throw CommandError(CommandStatus::kBadParameter, std::to_string(bytes) + " bytes at offset " +
                                                         std::to_string(offset) + " exceed umem " +
                                                         std::to_string(umem) + " of " +
                                                         std::to_string(memory.size()) + " bytes");
  }
  return memory.data() + offset;
}

uint32_t Hca::AddCardMemory(CardMemory memory) {
  uint64_t used = 0;
  for (const auto& [number, taken] : card_memories_) used += taken.memory.size();
  if (memory.memory.size() > limits::kCardMemoryBytes - used) {
    throw CommandError(
        CommandStatus::kLimitExceeded,
        "the card has " + std::to_string(limits::kCardMemoryBytes - used) + " bytes of memory left");
  }
  card_memories_.emplace(NextNumber(last_card_memory_, card_memories_), std::move(memory));
  return last_card_memory_;
}

void Hca::RemoveCardMemory(uint32_t number) {
  if (!card_memories_.contains(number)) ThrowNotFound("card memory", number);
  if (mkeys_.UsesCardMemory(number)) ThrowInUse("card memory", number, "memory region");
  card_memories_.erase(number);
}

uint32_t Hca::CreateCq(CqConfig config) {
  CheckUar(config.uar_page);
  CheckCqSize(config.log_depth, config.cqe_bytes);
  cqs_.emplace(NextNumber(last_cqn_, cqs_), std::make_unique<CompletionQueue>(std::move(config)));
  ++created_.cqs;
  return last_cqn_;
}

void Hca::ResizeCq(uint32_t cqn, uint8_t* ring, uint32_t log_depth, uint32_t cqe_bytes) {
  CheckCq(cqn);
  CheckCqSize(log_depth, cqe_bytes);
  for (const auto& [qpn, qp] : qps_) {
    if (network_ != nullptr && qp->config.cqn_send == cqn) network_->FinishDatagrams(*qp);
  }
  WaitForDevices();  // the program frees the old ring next
  cqs_.at(cqn)->Resize(ring, log_depth, cqe_bytes);
}

void Hca::DestroyCq(uint32_t cqn) {
  CheckCq(cqn);
  if (Any(qps_,
          [&](const QueuePair& qp) { return qp.config.cqn_send == cqn || qp.config.cqn_receive == cqn; })) {
    ThrowInUse("completion queue", cqn, "queue pair");
  }
  if (Any(srqs_, [&](const SharedReceiveQueue& srq) { return srq.config.cqn == cqn; }))
    ThrowInUse("completion queue", cqn, "shared receive queue");
  WaitForDevices();  // the program may use the memory for something else next
  cqs_.erase(cqn);
}

void Hca::CheckCq(uint32_t cqn) const {
  if (!cqs_.contains(cqn)) ThrowNotFound("completion queue", cqn);
}

void SharedReceiveQueue::CheckLimit() {
  if (limit == 0 || queue.Available() >= limit) return;
  limit = 0;
  if (config.on_limit) config.on_limit();
}

uint32_t Hca::FindXrcd(const XrcdFile& file) const {
  const auto found = std::find_if(xrcds_.begin(), xrcds_.end(),
                                  [&](const auto& entry) { return entry.second.file == file; });
  return found == xrcds_.end() ? 0 : found->first;
}

uint32_t Hca::OpenXrcd(const std::optional<XrcdFile>& file) {
  if (const uint32_t xrcd = file ? FindXrcd(*file) : 0; xrcd != 0) {
    ++xrcds_.at(xrcd).opened;
    return xrcd;
  }
  xrcds_.emplace(NextNumber(last_xrcd_, xrcds_), Xrcd{file});
  return last_xrcd_;
}

void Hca::CloseXrcd(uint32_t xrcd) {
  const auto found = xrcds_.find(xrcd);
  if (found == xrcds_.end()) ThrowNotFound("XRC domain", xrcd);
  if (found->second.opened > 1) {
    --found->second.opened;
    return;
  }
  const auto uses = [&](const auto& object) { return object.config.xrcd == xrcd; };
  if (Any(srqs_, uses)) ThrowInUse("XRC domain", xrcd, "shared receive queue");
  if (Any(qps_, uses)) ThrowInUse("XRC domain", xrcd, "queue pair");
  xrcds_.erase(found);
}

uint32_t Hca::CreateSrq(SrqConfig config) {
  CheckPd(config.pdn);
  if (config.xrcd != 0) CheckCq(config.cqn);
  CheckReceive(config.queue);
  ReceiveQueue queue(config.queue);
  srqs_.emplace(NextNumber(last_srqn_, srqs_),
                std::make_unique<SharedReceiveQueue>(SharedReceiveQueue{std::move(config), queue}));
  ++created_.srqs;
  return last_srqn_;
}

void Hca::DestroySrq(uint32_t srqn) {
  if (FindSrq(srqn) == nullptr) ThrowNotFound("shared receive queue", srqn);
  if (Any(qps_, [&](const QueuePair& qp) { return qp.config.srqn == srqn; })) {
    ThrowInUse("shared receive queue", srqn, "queue pair");
  }
  for (auto& [qpn, qp] : qps_) {  // XRC targets
    if (qp->srq != FindSrq(srqn)) continue;
    qp->srq = nullptr;
    qp->receives = &qp->own_receives;
    qp->receive_cq = nullptr;
    qp->open_receive.reset();
  }
  srqs_.erase(srqn);
}

void Hca::SetSrqLimit(uint32_t srqn, uint32_t limit) {
  SharedReceiveQueue* const srq = FindSrq(srqn);
  if (srq == nullptr) ThrowNotFound("shared receive queue", srqn);
  srq->limit = limit;
  srq->CheckLimit();
}

uint32_t Hca::CreateQp(QpConfig config) {
  if (config.xrc != XrcRole::kTarget) CheckPd(config.pdn);
  const bool target = config.service == mlx5::ServiceType::kDct;
  if (!target) CheckUar(config.uar_page);
  const bool receives = config.srqn != 0 || config.receive.depth != 0;
  if (config.send_depth != 0) CheckCq(config.cqn_send);
  if (receives) CheckCq(config.cqn_receive);
  CheckDepth("send queue", config.send_depth);
  CheckReceive(config.receive);
  if (config.service == mlx5::ServiceType::kXrc) {
    throw CommandError(CommandStatus::kBadParameter, "XRC queue pairs are not supported");
  }
  if (target && config.srqn == 0) {
    throw CommandError(CommandStatus::kBadParameter, "a DC target needs a shared receive queue");
  }
  auto qp = std::make_unique<QueuePair>();
  qp->hca = this;
  qp->qpn = NextNumber(last_qpn_, qps_);
  qp->sends = PostedRing(config.send_ring, config.send_dbr, config.send_depth, mlx5::kWqebbBytes);
  qp->own_receives = ReceiveQueue(config.receive);
  qp->receives = &qp->own_receives;
  if (config.srqn != 0) {
    qp->srq = FindSrq(config.srqn);
    if (qp->srq == nullptr) ThrowNotFound("shared receive queue", config.srqn);
    qp->receives = &qp->srq->queue;
  }
  qp->send_cq = FindCq(config.cqn_send);
  qp->receive_cq = FindCq(config.cqn_receive);
  qp->config = std::move(config);
  qps_.emplace(last_qpn_, std::move(qp));
  ++created_.qps;
  return last_qpn_;
}

void Hca::DestroyQp(uint32_t qpn) {
  QueuePair* const qp = FindQp(qpn);
  if (qp == nullptr) ThrowNotFound("queue pair", qpn);
  if (network_ != nullptr) network_->FinishDatagrams(*qp);
  const bool attached = !qp->groups.empty();
  qps_.erase(qpn);
  if (attached && network_ != nullptr) network_->OnGroups();
}

void Hca::OpenQp(uint32_t qpn, uint32_t xrcd, const void* owner, std::function<void(QpEvent)> on_event) {
  QueuePair* const qp = FindQp(qpn);
  if (qp == nullptr || qp->config.xrc != XrcRole::kTarget || qp->config.xrcd != xrcd) {
    throw CommandError(CommandStatus::kBadParameter,
                       "the XRC domain has no target of number " + std::to_string(qpn));
  }
  qp->sharers.emplace(owner, std::move(on_event));
}

void Hca::CloseQp(uint32_t qpn, const void* owner) {
  QueuePair* const qp = FindQp(qpn);
  if (qp == nullptr) ThrowNotFound("queue pair", qpn);
  const bool creator = !qp->sharers.contains(owner);
  if (qp->sharers.size() + (qp->left ? 0 : 1) == 1) return DestroyQp(qpn);
  if (creator) {
    qp->left = true;
    qp->config.on_event = {};
    qp->config.uar_page = 0;  // its context may free it: a target posts nothing
  } else {
    qp->sharers.erase(owner);
  }
}

void Hca::AttachMulticast(uint32_t qpn, const Gid& group) {
  QueuePair* const qp = FindQp(qpn);
  if (qp == nullptr) ThrowNotFound("queue pair", qpn);
  const auto attached = std::count_if(
      qps_.begin(), qps_.end(), [&](const auto& entry) { return entry.second->groups.contains(group); });
  if (attached >= limits::kGroupQps && !qp->groups.contains(group)) {
    throw CommandError(CommandStatus::kLimitExceeded,
                       "the group has " + std::to_string(attached) + " queue pairs, as many as it may have");
  }
  if (!qp->groups.insert(group).second) return;
  try {
    if (network_ != nullptr) network_->OnGroups();
  } catch (...) {  // a refused command changes nothing
    qp->groups.erase(group);
    throw;
  }
}

void Hca::DetachMulticast(uint32_t qpn, const Gid& group) {
  QueuePair* const qp = FindQp(qpn);
  if (qp == nullptr) ThrowNotFound("queue pair", qpn);
  if (qp->groups.erase(group) == 0) {
    throw CommandError(CommandStatus::kBadParameter,
                       "queue pair " + std::to_string(qpn) + " is not attached to that group");
  }
  if (network_ != nullptr) network_->OnGroups();
}

void Hca::ModifyQp(uint32_t qpn, QpState to, const QpChange& change) {
  QueuePair* const qp = FindQp(qpn);
  if (qp == nullptr) ThrowNotFound("queue pair", qpn);
  const QpState from = qp->state;
  const QpAttributes attributes = qp->attributes;
  softhca::ModifyQp(*qp, to, change);
  try {
    if (network_ != nullptr) network_->OnTransition(*qp);
  } catch (...) {  // a refused command changes nothing
    qp->state = from;
    qp->attributes = attributes;
    if (observer_ != nullptr) observer_->OnState(*qp, to);
    throw;
  }
}

void Hca::SetLink(uint8_t port, bool up) {
  if (port == 0 || port > config_.ports.size()) ThrowNotFound("port", port);
  bool& link = config_.ports[port - 1].up;
  if (link == up) return;
  link = up;
  if (observer_ != nullptr) observer_->OnLink(*this, port, up);
  for (const auto& [owner, listener] : listeners_) listener(port, up);
}

const QueuePair& Hca::Qp(uint32_t qpn) const {
  const auto* const qp = Find(qps_, qpn);
  if (qp == nullptr) ThrowNotFound("queue pair", qpn);
  return *qp;
}

QueuePair* Hca::FindQp(uint32_t qpn) { return Find(qps_, qpn); }
SharedReceiveQueue* Hca::FindSrq(uint32_t srqn) { return Find(srqs_, srqn); }
CompletionQueue* Hca::FindCq(uint32_t cqn) { return Find(cqs_, cqn); }

ObjectCounts Hca::Counts() const {
  return {pds_.size(), mkeys_.size(), uars_.size(), umems_.size(), cqs_.size(), srqs_.size(), qps_.size()};
}

}  // namespace softhca
