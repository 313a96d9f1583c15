#include "core/queues.hpp"

#include <atomic>
#include <cstring>

namespace softhca {
namespace {

template <class T>
void Replace(std::optional<T>& attribute, const std::optional<T>& by) {
  if (attribute && by) attribute = by;
}

/// Replaces the attributes that both `base` and `by` have: a transition accepts only its own.
QpChange Merge(QpChange base, const QpChange& by) {
  Replace(base.access, by.access);
  Replace(base.pkey_index, by.pkey_index);
  Replace(base.path, by.path);
  Replace(base.mtu, by.mtu);
  Replace(base.remote_qpn, by.remote_qpn);
  Replace(base.receive_psn, by.receive_psn);
  Replace(base.send_psn, by.send_psn);
  Replace(base.max_reads_in, by.max_reads_in);
  Replace(base.max_reads_out, by.max_reads_out);
  Replace(base.min_rnr_timer, by.min_rnr_timer);
  Replace(base.ack_timeout, by.ack_timeout);
  Replace(base.retry_count, by.retry_count);
  Replace(base.rnr_retry, by.rnr_retry);
  return base;
}

std::optional<mlx5::CqeL3Header> L3HeaderOf(uint32_t flags_rqpn) {
  if ((flags_rqpn & mlx5::kCqeHasL3Header) == 0) return std::nullopt;
  return static_cast<mlx5::CqeL3Header>(flags_rqpn >> 24 & 0xf);
}

void StoreRelease(mlx5::Be32& word, mlx5::Be32 value) {
  std::atomic_ref(word.raw).store(value.raw, std::memory_order_release);
}

}  // namespace

DeviceConfig TestDevice(uint8_t number) {
  DeviceConfig device{.name = "mlx5_" + std::to_string(number)};
  Gid gid{};
  gid[15] = number;
  device.ports = {PortConfig{.gids = {{gid, mlx5::RoceVersion::kV2}}}};
  return device;
}

CqMemory::CqMemory(uint32_t log_depth, uint32_t cqe_bytes)
    : log_depth_(log_depth), cqe_bytes_(cqe_bytes), ring_(size_t{cqe_bytes} << log_depth) {
  for (size_t end = cqe_bytes; end <= ring_.size(); end += cqe_bytes) {
    ring_[end - 1] = static_cast<uint8_t>(mlx5::CqeOpcode::kInvalid) << 4;
  }
}

CqConfig CqMemory::Config() {
  return {.ring = ring_.data(), .dbr = &dbr_, .log_depth = log_depth_, .cqe_bytes = cqe_bytes_};
}

std::optional<Cqe> CqMemory::Poll() {
  const uint32_t slot = consumer_index_ & ((1u << log_depth_) - 1);
  uint8_t* const entry = ring_.data() + size_t{slot + 1} * cqe_bytes_ - sizeof(mlx5::Cqe64);
  // The word that holds the owner bit is written last.
  auto* const last = reinterpret_cast<uint64_t*>(entry + sizeof(mlx5::Cqe64)) - 1;
  const uint64_t tail = std::atomic_ref(*last).load(std::memory_order_acquire);
  const auto op_own = static_cast<uint8_t>(tail >> 56);
  const auto opcode = static_cast<mlx5::CqeOpcode>(op_own >> 4);
  if (opcode == mlx5::CqeOpcode::kInvalid || (op_own & 1) != (consumer_index_ >> log_depth_ & 1)) return {};

  mlx5::Cqe64 cqe;
  std::memcpy(&cqe, entry, sizeof cqe);
  const bool failed =
      opcode == mlx5::CqeOpcode::kRequesterError || opcode == mlx5::CqeOpcode::kResponderError;
  const uint8_t syndrome = failed ? entry[offsetof(mlx5::ErrorCqe64, syndrome)] : 0;
  ++consumer_index_;
  StoreRelease(dbr_.consumer_index, mlx5::ToBe32(consumer_index_ & mlx5::kCqDbrIndexMask));
  const uint32_t sop_qpn = mlx5::FromBe(cqe.sop_qpn);
  return Cqe{.opcode = opcode,
             .syndrome = static_cast<mlx5::Syndrome>(syndrome),
             .qpn = sop_qpn & 0xffffff,
             .user_index = mlx5::FromBe(cqe.srqn_uidx),
             .wqe_opcode = static_cast<uint8_t>(sop_qpn >> 24),
             .wqe_index = mlx5::FromBe(cqe.wqe_counter),
             .bytes = mlx5::FromBe(cqe.byte_count),
             .imm = cqe.imm,
             .solicited = (op_own >> 1 & 1) != 0,
             .remote_qpn = mlx5::FromBe(cqe.flags_rqpn) & 0xffffff,
             .l3_header = L3HeaderOf(mlx5::FromBe(cqe.flags_rqpn))};
}

void CqMemory::Arm(bool solicited_only) {
  const uint32_t flags = (arms_++ & 3) << 28 | (solicited_only ? mlx5::kArmSolicitedOnly : 0);
  StoreRelease(dbr_.arm, mlx5::ToBe32(flags | (consumer_index_ & mlx5::kCqDbrIndexMask)));
}

Region::Region(Hca& hca, uint32_t pdn, size_t bytes, uint32_t access) : memory(bytes) {
  key = hca.RegisterMemory(
      {.pdn = pdn, .access = access, .iova = Address(), .memory = memory.data(), .bytes = bytes});
}

QpUser::QpUser(Hca& hca, uint32_t pdn, const QpOptions& options)
    : send_cq(options.log_cq_depth),
      receive_cq(options.log_cq_depth),
      hca_(hca),
      options_(options),
      send_ring_(size_t{options.send_depth} * mlx5::kWqebbBytes),
      receive_ring_(size_t{options.receive_depth} * kReceiveStride) {
  uar = options.uar != 0 ? options.uar : hca.AllocUar(uar_page_.data());
  const auto create_cq = [&](CqMemory& memory) {
    CqConfig config = memory.Config();
    config.uar_page = uar;
    return hca.CreateCq(std::move(config));
  };
  send_cqn = create_cq(send_cq);
  receive_cqn = create_cq(receive_cq);
  qpn = hca.CreateQp({.service = options.service,
                      .pdn = pdn,
                      .uar_page = uar,
                      .user_index = options.user_index,
                      .cqn_send = send_cqn,
                      .cqn_receive = receive_cqn,
                      .srqn = options.srqn,
                      .send_ring = send_ring_.data(),
                      .send_depth = options.send_depth,
                      .send_dbr = &dbr_.send,
                      .cd_master = options.cd_master,
                      .receive = {.ring = receive_ring_.data(),
                                  .dbr = &dbr_.receive,
                                  .depth = options.receive_depth,
                                  .stride = kReceiveStride},
                      .on_event = [this](QpEvent event) { events.push_back(event); }});
}

void QpUser::Connect(const QpUser& peer, const QpChange& change) {
  ConnectToRtr(peer, change);
  ConnectToRts(change);
}

void QpUser::ConnectToRtr(const QpUser& peer, const QpChange& change) {
  hca_.ModifyQp(qpn, mlx5::QpState::kInit, Merge(ToInit(), change));
  hca_.ModifyQp(qpn, mlx5::QpState::kRtr, Merge(ToRtr(peer.hca_.config(), peer.qpn), change));
}

void QpUser::ConnectToRts(const QpChange& change) {
  hca_.ModifyQp(qpn, mlx5::QpState::kRts, Merge(ToRts(), change));
}

void QpUser::Post(const WqeBuilder& wqe) {
  const std::vector<uint8_t> bytes = wqe.Build(static_cast<uint16_t>(send_index_), qpn);
  for (size_t offset = 0; offset < bytes.size(); offset += mlx5::kWqebbBytes) {
    std::memcpy(SendSlot(send_index_++), bytes.data() + offset, mlx5::kWqebbBytes);
  }
  std::memcpy(&doorbell_, bytes.data(), sizeof doorbell_);
  StoreRelease(dbr_.send, mlx5::ToBe32(send_index_ & mlx5::kQpDbrIndexMask));
}

void QpUser::Ring() {
  uint8_t* const page = hca_.uars().at(uar);
  std::atomic_ref(*reinterpret_cast<uint64_t*>(page + mlx5::kUarSendDoorbell))
      .store(doorbell_.raw, std::memory_order_release);
}

void QpUser::PostReceive(std::initializer_list<mlx5::DataSegment> segments) {
  uint8_t* slot = receive_ring_.data() + receive_index_++ % options_.receive_depth * kReceiveStride;
  uint8_t* const end = slot + kReceiveStride;
  for (const mlx5::DataSegment& segment : segments) {
    std::memcpy(slot, &segment, sizeof segment);
    slot += sizeof segment;
  }
  const mlx5::DataSegment last{{}, mlx5::ToBe32(mlx5::kInvalidLkey), {}};
  if (slot < end) std::memcpy(slot, &last, sizeof last);
  StoreRelease(dbr_.receive, mlx5::ToBe32(receive_index_ & mlx5::kQpDbrIndexMask));
}

void QpUser::Reset() {
  hca_.ModifyQp(qpn, mlx5::QpState::kReset, {});
  dbr_ = {};
  send_index_ = receive_index_ = 0;
}

QpChange ToInit() { return {.access = kAllAccess, .pkey_index = 0, .port = 1}; }

QpChange ToRtr(const DeviceConfig& peer, uint32_t remote_qpn) {
  QpChange change;
  change.path =
      AddressPath{.grh = true, .remote_gid = peer.ports[0].gids[0].gid, .remote_lid = peer.ports[0].lid};
  change.mtu = mlx5::Mtu::k1024;
  change.remote_qpn = remote_qpn;
  change.receive_psn = 0;
  change.max_reads_in = 16;
  change.min_rnr_timer = 12;
  return change;
}

QpChange ToRts() {
  QpChange change;
  change.send_psn = 0;
  change.max_reads_out = 16;
  change.ack_timeout = 14;
  change.retry_count = 7;
  change.rnr_retry = 7;
  return change;
}

}  // namespace softhca
