#include "soak/queue.hpp"

#include <stdexcept>

#include "soak/bytes.hpp"

namespace soak {
namespace {

constexpr uint32_t kReceives = 16;  // fewer than messages in flight: the receiver is not always ready
constexpr uint64_t kWindow = 32;
constexpr uint64_t kAhead = 48;          // limit ahead of the peer's checks: no slot is overwritten before
constexpr uint64_t kAdd = 0, kSwap = 8;  // offsets of the counters

/// Returns an IPv4 GID for even queues and an IPv6 GID for odd ones: they use different media.
int GidIndex(uint32_t queue) { return queue % 2 == 0 ? 3 : 1; }

std::span<uint8_t> Part(verbs::Buffer& buffer, size_t offset, size_t bytes) {
  return {&buffer[offset], bytes};
}

}  // namespace

Queue::Queue(ibv_context* context, const Stream& own, const Stream& peer)
    : own_stream_(own),
      peer_stream_(peer),
      peer_(context, {.send_depth = 2 * kWindow, .receive_depth = kReceives}),
      outbox_(peer_.pd.get(), kRingBytes),
      inbox_(peer_.pd.get(), kReceives * kSlotBytes),
      landing_(peer_.pd.get(), kRingBytes),
      target_(peer_.pd.get(), kRingBytes),
      source_(peer_.pd.get(), kRingBytes),
      counters_(peer_.pd.get(), 16) {
  Fill(Part(source_, 0, kRingBytes), SourceKey(own));
}

std::string Queue::Where() const {
  return "end " + std::to_string(own_stream_.end) + ", queue " + std::to_string(own_stream_.queue) + " (" +
         std::to_string(posted_) + " posted, " + std::to_string(completed_) + " completed, " +
         std::to_string(verified_) + " of the peer checked)";
}

void Queue::Require(bool good, const Operation& operation, const std::string& why) const {
  if (!good) throw std::runtime_error(Where() + ": " + operation.ToString() + ": " + why);
}

void Queue::Introduce(QueueInfo& own) {
  own_ = &own;
  own.qpn = peer_.qp->qp_num;
  ibv_query_gid(peer_.context, 1, GidIndex(own_stream_.queue), &own.gid);
  own.target_address = target_.Address();
  own.target_key = target_.rkey();
  own.source_address = source_.Address();
  own.source_key = source_.rkey();
  own.counters_address = counters_.Address();
  own.counters_key = counters_.rkey();
  own.total = kUnknown;
}

void Queue::Connect(QueueInfo& own, QueueInfo& peer, uint8_t timeout) {
  own_ = &own;
  other_ = &peer;
  peer_.ToInit();
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = IBV_MTU_1024;
  attr.dest_qp_num = peer.qpn;
  attr.max_dest_rd_atomic = 16;
  attr.min_rnr_timer = 5;
  attr.ah_attr.port_num = 1;
  attr.ah_attr.is_global = 1;
  attr.ah_attr.grh.dgid = peer.gid;
  attr.ah_attr.grh.sgid_index = static_cast<uint8_t>(GidIndex(own_stream_.queue));
  attr.ah_attr.grh.hop_limit = 64;
  const int error = ibv_modify_qp(peer_.qp.get(), &attr,
                                  IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                      IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
  if (error != 0) throw std::runtime_error(Where() + " cannot connect: errno " + std::to_string(error));
  peer_.ToRts({.timeout = timeout});
  for (uint32_t slot = 0; slot < kReceives; ++slot) PostReceive(slot);
}

void Queue::PostReceive(uint32_t slot) {
  peer_.PostReceive({inbox_.Sge(slot * kSlotBytes, kSlotBytes)}, slot);
}

bool Queue::Run(bool stop) {
  bool progress = Post(stop);
  while (TakeCompletion()) progress = true;
  while (TakeReceive()) progress = true;
  return progress;
}

bool Queue::Post(bool stop) {
  if (own_->total != kUnknown) return false;
  if (stop && posted_ % kRound == 0) {
    own_->total = posted_;
    return true;
  }
  if (posted_ - completed_ >= kWindow || posted_ - other_->verified >= kAhead) return false;
  PostOperation(OperationOf(own_stream_, posted_));
  ++posted_;
  return true;
}

void Queue::PostOperation(const Operation& operation) {
  const uint32_t slot = operation.Slot();
  const bool fetches = operation.opcode == IBV_WR_RDMA_READ || operation.IsAtomic();
  verbs::Work work(operation.opcode, {(fetches ? landing_ : outbox_).Sge(slot, operation.bytes)});
  work.Id(operation.index).Imm(static_cast<uint32_t>(operation.index));
  if (!fetches) Fill(Part(outbox_, slot, operation.bytes), operation.key);
  if (operation.Writes()) work.To(other_->target_address + slot, other_->target_key);
  if (operation.opcode == IBV_WR_RDMA_READ)
    work.To(other_->source_address + operation.offset, other_->source_key);
  if (operation.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
    work.FetchAdd(other_->counters_address + kAdd, other_->counters_key, 1);
    ++added_;
  }
  if (operation.opcode == IBV_WR_ATOMIC_CMP_AND_SWP) {
    work.CompareSwap(other_->counters_address + kSwap, other_->counters_key, swapped_, swapped_ + 1);
    ++swapped_;
  }
  Require(work.TryPost(peer_) == 0, operation, "cannot be posted");
}

bool Queue::TakeCompletion() {
  ibv_wc wc{};
  if (ibv_poll_cq(peer_.send_cq.get(), 1, &wc) == 0) return false;
  verbs::Observe(peer_.send_cq.get());
  const Operation operation = OperationOf(own_stream_, completed_);
  Require(wc.wr_id == operation.index, operation,
          "operation " + std::to_string(wc.wr_id) + " completed in its place");
  Require(wc.status == IBV_WC_SUCCESS, operation, std::string("fails: ") + ibv_wc_status_str(wc.status));
  CheckFetched(operation);
  ++completed_;
  return true;
}

void Queue::CheckFetched(const Operation& operation) {
  if (operation.opcode == IBV_WR_RDMA_READ) {
    Require(
        Matches(Part(landing_, operation.Slot(), operation.bytes), SourceKey(peer_stream_), operation.offset),
        operation, "returned wrong bytes");
  }
  if (!operation.IsAtomic()) return;
  uint64_t& seen = operation.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ? adds_seen_ : swaps_seen_;
  const auto original = landing_.As<uint64_t>(operation.Slot());
  Require(original == seen, operation,
          "found " + std::to_string(original) + " instead of " + std::to_string(seen));
  ++seen;
}

bool Queue::TakeReceive() {
  ibv_wc wc{};
  if (ibv_poll_cq(peer_.receive_cq.get(), 1, &wc) == 0) return false;
  verbs::Observe(peer_.receive_cq.get());
  for (bool announced = false; !announced; ++verified_) {
    const Operation operation = OperationOf(peer_stream_, verified_);
    announced = operation.Announces();
    if (announced) CheckAnnounced(wc, operation);
    if (operation.Writes()) {
      Require(Matches(Part(target_, operation.Slot(), operation.bytes), operation.key), operation,
              "by the peer wrote wrong bytes");
    }
  }
  own_->verified = verified_;
  PostReceive(static_cast<uint32_t>(wc.wr_id));
  return true;
}

void Queue::CheckAnnounced(const ibv_wc& wc, const Operation& operation) {
  Require(wc.status == IBV_WC_SUCCESS, operation,
          std::string("by the peer failed the receive: ") + ibv_wc_status_str(wc.status));
  Require(wc.byte_len == operation.bytes, operation,
          "by the peer was expected, but " + std::to_string(wc.byte_len) + " bytes arrived");
  if (operation.opcode != IBV_WR_SEND) {
    Require((wc.wc_flags & IBV_WC_WITH_IMM) != 0 &&
                be32toh(wc.imm_data) == static_cast<uint32_t>(operation.index),
            operation, "by the peer was expected, but other immediate data arrived");
  }
  if (operation.Writes()) return;
  Require(Matches(Part(inbox_, wc.wr_id * kSlotBytes, operation.bytes), operation.key), operation,
          "by the peer sent wrong bytes");
}

bool Queue::Done() const { return completed_ == own_->total && verified_ == other_->total; }

void Queue::CheckEnd() {
  uint64_t adds = 0, swaps = 0;
  for (uint64_t i = 0; i < verified_; ++i) {
    const ibv_wr_opcode opcode = OperationOf(peer_stream_, i).opcode;
    adds += opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ? 1 : 0;
    swaps += opcode == IBV_WR_ATOMIC_CMP_AND_SWP ? 1 : 0;
  }
  if (counters_.As<uint64_t>(kAdd) != adds || counters_.As<uint64_t>(kSwap) != swaps) {
    throw std::runtime_error(Where() + ": the peer's atomics were not executed once each");
  }
  ibv_wc wc{};
  if (ibv_poll_cq(peer_.send_cq.get(), 1, &wc) != 0 || ibv_poll_cq(peer_.receive_cq.get(), 1, &wc) != 0) {
    throw std::runtime_error(Where() + ": there is an unexpected completion");
  }
}

}  // namespace soak
