#include "core/wqe_reader.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/data_segment.hpp"
#include "core/hca.hpp"

namespace softhca {
namespace {

using mlx5::Syndrome;
using mlx5::WqeOpcode;

/// The shared receive queue of an XRC request; it follows the control segment.
///
/// @source  rdma-core v44, providers/mlx5/wqe.h, mlx5_wqe_xrc_seg
struct XrcSegment {
  mlx5::Be32 srqn;
  uint8_t reserved[12];
};

bool IsLocal(WqeOpcode opcode) {
  return opcode == WqeOpcode::kNop || opcode == WqeOpcode::kWait || opcode == WqeOpcode::kDump ||
         opcode == WqeOpcode::kUmr;
}

bool IsSend(WqeOpcode opcode) {
  return opcode == WqeOpcode::kSend || opcode == WqeOpcode::kSendImm || opcode == WqeOpcode::kSendInval;
}

bool HasRemoteAddress(WqeOpcode opcode) { return !IsSend(opcode) && !IsLocal(opcode); }

bool IsAtomic(WqeOpcode opcode) {
  return opcode == WqeOpcode::kAtomicCs || opcode == WqeOpcode::kAtomicFa ||
         opcode == WqeOpcode::kAtomicMaskedCs || opcode == WqeOpcode::kAtomicMaskedFa;
}

/// Returns whether a service supports an operation.
///
/// @source  IBTA 1.4, table 80
bool IsSupported(WqeOpcode opcode, mlx5::ServiceType service) {
  switch (opcode) {
    case WqeOpcode::kSend:
    case WqeOpcode::kSendImm:
      return true;
    case WqeOpcode::kRdmaWrite:
    case WqeOpcode::kRdmaWriteImm:
      return service != mlx5::ServiceType::kUd;
    case WqeOpcode::kRdmaRead:
      return IsReliable(service);
    case WqeOpcode::kSendInval:
      return service == mlx5::ServiceType::kRc;
    case WqeOpcode::kUmr:
      return service == mlx5::ServiceType::kRc || service == mlx5::ServiceType::kUc;
    default:
      return IsLocal(opcode) || (IsAtomic(opcode) && IsReliable(service));
  }
}

/// Appends the memory of a data segment to a list.
///
/// @return  false if the queue pair may not access it
bool Translate(const QueuePair& qp, const mlx5::DataSegment& segment, Access access, Pieces& to) {
  return qp.hca->mkeys().Translate(
      {mlx5::FromBe(segment.lkey), qp.config.pdn, mlx5::FromBe(segment.address), SizeOf(segment)}, access,
      to);
}

uint32_t AccessOf(const mlx5::MkeySegment& mkey) {
  const auto has = [&](mlx5::MkeyAccess flag, Access right) {
    return (mkey.access_flags & flag) != 0 ? right : uint32_t{0};
  };
  return has(mlx5::kMkeyLocalWrite, kAccessLocalWrite) | has(mlx5::kMkeyRemoteWrite, kAccessRemoteWrite) |
         has(mlx5::kMkeyRemoteRead, kAccessRemoteRead) | has(mlx5::kMkeyAtomic, kAccessRemoteAtomic);
}

}  // namespace

template <class Segment>
bool SendWqe::Next(Segment& segment) {
  if (end_ - cursor_ < sizeof segment) return false;
  std::memcpy(&segment, raw_.data() + cursor_, sizeof segment);
  cursor_ += sizeof segment;
  return true;
}

bool SendWqe::local() const { return IsLocal(request_.opcode); }

SendEntry SendWqe::entry() const {
  return {.index = index_,
          .wqebbs = wqebbs_,
          .opcode = request_.opcode,
          .signalled = signalled_,
          .fetched_bytes = request_.fetches() ? static_cast<uint32_t>(request_.bytes) : 0};
}

Syndrome SendWqe::Read(const QueuePair& qp, uint32_t index, uint32_t available) {
  Fetch(qp, index);
  const bool posted = wqebbs_ <= available && available <= qp.config.send_depth;
  wqebbs_ = std::min(wqebbs_, available);  // else the send index would pass the record and never meet it
  return posted ? Decode(qp) : Syndrome::kLocalQpOperation;
}

void SendWqe::Fetch(const QueuePair& qp, uint32_t index) {
  const auto fetch_block = [&](uint32_t block) {
    std::memcpy(raw_.data() + size_t{block} * mlx5::kWqebbBytes, qp.sends.Entry(index + block),
                mlx5::kWqebbBytes);
  };
  fetch_block(0);
  mlx5::CtrlSegment ctrl;
  std::memcpy(&ctrl, raw_.data(), sizeof ctrl);
  index_ = static_cast<uint16_t>(index);
  end_ = (mlx5::FromBe(ctrl.qpn_ds) & mlx5::kMaxSegments) * mlx5::kSegmentBytes;
  wqebbs_ = std::max(1u, (end_ + mlx5::kWqebbBytes - 1) / mlx5::kWqebbBytes);
  for (uint32_t block = 1; block < wqebbs_; ++block) fetch_block(block);

  signalled_ = (ctrl.fm_ce_se & mlx5::kCompletionMask) == mlx5::kCqeAlways;
  const auto fence = static_cast<uint8_t>(ctrl.fm_ce_se & mlx5::kFenceMask);
  fenced_ = fence > mlx5::kFenceInitiatorSmall;
  waits_ = false;
  window_change_.reset();
  layout_change_.reset();
  request_ = {};
  request_.opcode = static_cast<WqeOpcode>(mlx5::FromBe(ctrl.opmod_index_opcode) & 0xff);
  request_.imm = ctrl.imm;
  request_.solicited = (ctrl.fm_ce_se & mlx5::kSolicited) != 0;
  cursor_ = 0;
}

Syndrome SendWqe::Decode(const QueuePair& qp) {
  mlx5::CtrlSegment ctrl;
  if (!Next(ctrl)) return Syndrome::kLocalQpOperation;
  const uint32_t word = mlx5::FromBe(ctrl.opmod_index_opcode);
  // A slot with another index or queue pair number is stale: its doorbell came too early.
  const bool ours = (word >> 8 & 0xffff) == index_ && mlx5::FromBe(ctrl.qpn_ds) >> 8 == qp.qpn;
  if (!ours || !IsSupported(request_.opcode, qp.config.service)) return Syndrome::kLocalQpOperation;
  const auto opmod = static_cast<uint8_t>(word >> 24);
  if (request_.opcode == WqeOpcode::kNop) return Syndrome::kNone;
  if (request_.opcode == WqeOpcode::kWait) {
    return DecodeWait(qp, opmod) ? Syndrome::kNone : Syndrome::kLocalQpOperation;
  }
  if (request_.opcode == WqeOpcode::kUmr) {
    return DecodeUmr() ? Syndrome::kNone : Syndrome::kLocalQpOperation;
  }
  if (request_.opcode == WqeOpcode::kDump && end_ != sizeof ctrl + sizeof(mlx5::DataSegment)) {
    return Syndrome::kLocalQpOperation;
  }
  if (IsAddressedByEntry(qp.config.service) && !local() && !DecodeDestination(qp)) {
    return Syndrome::kLocalQpOperation;
  }
  if (qp.config.xrc == XrcRole::kInitiator && !local()) {
    XrcSegment segment;
    if (!Next(segment)) return Syndrome::kLocalQpOperation;
    request_.srqn = mlx5::FromBe(segment.srqn) & 0xffffff;
  }
  if (HasRemoteAddress(request_.opcode)) {
    mlx5::RemoteAddressSegment remote;
    if (!Next(remote)) return Syndrome::kLocalQpOperation;
    request_.remote_address = mlx5::FromBe(remote.address);
    request_.rkey = mlx5::FromBe(remote.rkey);
  }
  if (IsAtomic(request_.opcode)) {
    if (!qp.hca->config().atomics || !DecodeAtomic(opmod)) return Syndrome::kLocalQpOperation;
    const bool plain = request_.opcode == WqeOpcode::kAtomicCs || request_.opcode == WqeOpcode::kAtomicFa;
    if (qp.config.xrc != XrcRole::kNone && !plain) return Syndrome::kLocalQpOperation;
  }
  return DecodeData(qp);
}

bool SendWqe::DecodeDestination(const QueuePair& qp) {
  mlx5::DatagramSegment segment;
  if (qp.attributes.port == 0) return false;  // not even in INIT
  if (!Next(segment) || (mlx5::FromBe(segment.dest_qpn) & mlx5::kExtendedAddress) == 0) return false;
  const DeviceConfig& device = qp.hca->config();
  const bool ethernet = device.link == mlx5::PortType::kEthernet;
  const uint32_t qkey = mlx5::FromBe(segment.qkey);
  const uint32_t grh_gid_flow = mlx5::FromBe(segment.grh_gid_flow);
  request_.destination = {.qpn = mlx5::FromBe(segment.dest_qpn) & 0xffffff};
  if (qp.config.service == mlx5::ServiceType::kDci) {
    request_.destination.dc_access_key = uint64_t{qkey} << 32 | mlx5::FromBe(segment.dc_key_low);
  } else {
    request_.destination.qkey = (qkey & mlx5::kOwnQkey) != 0 ? qp.attributes.qkey : qkey;
  }
  AddressPath& path = request_.destination.path;
  path.grh = ethernet || (grh_gid_flow >> 30 & 1) != 0;
  std::copy_n(segment.gid, path.remote_gid.size(), path.remote_gid.begin());
  std::copy_n(segment.mac, path.remote_mac.size(), path.remote_mac.begin());
  (ethernet ? path.udp_source_port : path.remote_lid) = mlx5::FromBe(segment.lid_udp_sport);
  path.local_gid_index = static_cast<uint8_t>(grh_gid_flow >> 20);
  path.hop_limit = segment.hop_limit;
  path.traffic_class = segment.traffic_class;
  path.service_level = ethernet ? segment.rate_sl >> 1 & 7 : segment.rate_sl & 15;
  path.flow_label = grh_gid_flow & 0xfffff;
  return !path.grh || path.local_gid_index < device.ports.at(qp.attributes.port - 1).gids.size();
}

bool SendWqe::DecodeAtomic(uint8_t opmod) {
  const bool masked =
      request_.opcode == WqeOpcode::kAtomicMaskedCs || request_.opcode == WqeOpcode::kAtomicMaskedFa;
  const bool four = opmod == static_cast<uint8_t>(mlx5::AtomicOpmod::kExtended4);
  const bool eight = opmod == static_cast<uint8_t>(mlx5::AtomicOpmod::kExtended8);
  if (masked ? !four && !eight : opmod != 0) return false;
  AtomicOperands& atomic = request_.atomic;
  atomic = {.bytes = four ? 4u : 8u, .swap_mask = ~uint64_t{0}, .compare_mask = ~uint64_t{0}};
  atomic.compare_swap =
      request_.opcode == WqeOpcode::kAtomicCs || request_.opcode == WqeOpcode::kAtomicMaskedCs;
  if (!masked) {
    mlx5::AtomicSegment segment;
    if (!Next(segment)) return false;
    atomic.swap_add = mlx5::FromBe(segment.swap_add);
    atomic.compare = mlx5::FromBe(segment.compare);
  } else if (atomic.compare_swap && four) {
    mlx5::MaskedCompareSwap4Segment segment;
    if (!Next(segment)) return false;
    atomic.swap_add = mlx5::FromBe(segment.swap);
    atomic.compare = mlx5::FromBe(segment.compare);
    atomic.swap_mask = mlx5::FromBe(segment.swap_mask);
    atomic.compare_mask = mlx5::FromBe(segment.compare_mask);
  } else if (atomic.compare_swap) {
    mlx5::MaskedCompareSwap8Segment segment;
    if (!Next(segment)) return false;
    atomic.swap_add = mlx5::FromBe(segment.swap);
    atomic.compare = mlx5::FromBe(segment.compare);
    atomic.swap_mask = mlx5::FromBe(segment.swap_mask);
    atomic.compare_mask = mlx5::FromBe(segment.compare_mask);
  } else if (four) {
    mlx5::MaskedFetchAdd4Segment segment;
    if (!Next(segment)) return false;
    atomic.swap_add = mlx5::FromBe(segment.add);
    atomic.boundary = mlx5::FromBe(segment.field_boundary);
  } else {
    mlx5::MaskedFetchAdd8Segment segment;
    if (!Next(segment)) return false;
    atomic.swap_add = mlx5::FromBe(segment.add);
    atomic.boundary = mlx5::FromBe(segment.field_boundary);
  }
  return true;
}

/// Decodes the entry that changes a memory key: a window that is bound or freed, or an indirect key. Only the
/// change of an indirect key leaves the start address as it is.
bool SendWqe::DecodeUmr() {
  mlx5::UmrControlSegment control;
  mlx5::MkeySegment mkey;
  if (!Next(control) || !Next(mkey)) return false;
  const bool starts = (mlx5::FromBe(control.mkey_mask) & mlx5::kUmrStartAddress) != 0;
  const bool frees = (mkey.free & mlx5::kMkeyFree) != 0;
  return starts || frees ? DecodeWindowChange(control, mkey) : DecodeLayoutChange(control, mkey);
}

bool SendWqe::DecodeWindowChange(const mlx5::UmrControlSegment& control, const mlx5::MkeySegment& mkey) {
  using namespace mlx5;
  constexpr uint64_t kBind = kUmrLength | kUmrStartAddress | kUmrAccess;
  const uint64_t mask = FromBe(control.mkey_mask);
  const bool frees = (mkey.free & kMkeyFree) != 0;
  const uint64_t expected = kUmrKeyByte | kUmrFree | (frees ? uint64_t{0} : kBind);
  if ((mask & ~uint64_t{kUmrQpn}) != expected) return false;
  const uint32_t qpn_mkey = FromBe(mkey.qpn_mkey);
  WindowChange change{.key = FromBe(request_.imm),
                      .variant = static_cast<uint8_t>(qpn_mkey),
                      .only_free = (control.flags & kUmrCheckFree) != 0,
                      .only_own = (control.flags & kUmrCheckQpn) != 0,
                      .free = frees};
  if ((mask & kUmrQpn) != 0) change.qpn = qpn_mkey >> 8;
  if (!frees) {
    KlmSegment klm;
    if ((control.flags & kUmrInline) == 0 || !Next(klm) || Be64{} == mkey.length) return false;
    change.access = AccessOf(mkey);
    change.iova = FromBe(mkey.start_address);
    change.bytes = FromBe(mkey.length);
    change.target = {FromBe(klm.key), FromBe(klm.address)};
  }
  window_change_ = change;
  return true;
}

/// @source  rdma-core v44, providers/mlx5/qp.c, mlx5_send_wr_mkey_configure() and its setters
bool SendWqe::DecodeLayoutChange(const mlx5::UmrControlSegment& control, const mlx5::MkeySegment& mkey) {
  using namespace mlx5;
  constexpr uint64_t kAlways = kUmrKeyByte | kUmrFree;
  const uint64_t mask = FromBe(control.mkey_mask);
  const uint64_t access = mask & kUmrAccess;
  // Another size at the place of the offset is that of a signature or of encryption.
  if ((mask & ~uint64_t{kUmrLength} & ~access) != kAlways || control.flags != kUmrInline ||
      FromBe(control.translation_offset) != 0 || (access != 0 && access != kUmrAccess)) {
    return false;
  }
  LayoutChange change{.key = FromBe(request_.imm),
                      .variant = static_cast<uint8_t>(FromBe(mkey.qpn_mkey)),
                      .layout_size = FromBe(control.klm_octowords)};
  if (access != 0) {
    change.changed_access = kAccessAll;
    change.access = AccessOf(mkey);
  }
  if ((mask & kUmrLength) != 0) change.bytes = FromBe(mkey.length);
  if (change.layout_size != 0) {
    change.layout.emplace();
    if (!DecodeLayout(change.layout_size, *change.layout)) return false;
  }
  layout_change_ = std::move(change);
  return true;
}

bool SendWqe::DecodeLayout(uint32_t size, Layout& layout) {
  using namespace mlx5;
  if (size * kSegmentBytes > end_ - cursor_) return false;
  UmrRepeatSegment repeat;
  std::memcpy(&repeat, raw_.data() + cursor_, sizeof repeat);
  if (FromBe(repeat.operation) != kUmrRepeat) {
    for (KlmSegment klm; size != 0 && Next(klm); --size) layout.pieces.push_back(PieceOf(klm));
    return true;
  }
  cursor_ += sizeof repeat;
  const uint32_t count = FromBe(repeat.entries);
  if (count >= size) return false;
  layout.repetitions = FromBe(repeat.repetitions);
  UmrRepeatEntry entry;
  for (uint32_t i = 0; i < count && Next(entry); ++i) {
    layout.pieces.push_back(
        {FromBe(entry.key), FromBe(entry.address), FromBe(entry.bytes), FromBe(entry.stride)});
  }
  return true;
}

bool SendWqe::DecodeWait(const QueuePair& qp, uint8_t opmod) {
  mlx5::WaitSegment segment;
  if (opmod != static_cast<uint8_t>(mlx5::WaitOpmod::kCqProducerIndex) || !Next(segment)) return false;
  const CompletionQueue* const cq = qp.hca->FindCq(mlx5::FromBe(segment.cqn));
  if (!qp.config.cd_master || cq == nullptr || cursor_ != end_) return false;
  const uint32_t newest = cq->producer_index() - 1;
  const uint32_t past = (newest - mlx5::FromBe(segment.max_index)) & mlx5::kCqDbrIndexMask;
  waits_ = past > mlx5::kCqDbrIndexMask / 2;
  return true;
}

bool SendWqe::FindResponseMemory(const QueuePair& qp) {
  local_.Clear();
  mlx5::DataSegment segment;
  for (cursor_ = data_; cursor_ < end_ && Next(segment);) {
    request_.takes_response = Translate(qp, segment, kAccessLocalWrite, local_);
    if (!request_.takes_response) return false;
  }
  request_.local = local_.span();
  return true;
}

Syndrome SendWqe::DecodeData(const QueuePair& qp) {
  const DeviceConfig& device = qp.hca->config();
  const bool datagram = qp.config.service == mlx5::ServiceType::kUd;
  const uint64_t longest = datagram ? MtuBytes(device.mtu) : uint64_t{1} << device.log_max_message;
  const bool lands_here = request_.fetches();
  const bool takes_inline = !lands_here && !IsLocal(request_.opcode);
  local_.Clear();
  data_ = cursor_;
  while (cursor_ < end_) {
    mlx5::DataSegment segment;
    if (!Next(segment)) return Syndrome::kLocalQpOperation;
    const uint32_t count = mlx5::FromBe(segment.bytes);
    if ((count & mlx5::kInlineFlag) != 0) {
      const uint32_t bytes = count & ~mlx5::kInlineFlag;
      const uint32_t payload = cursor_ - sizeof segment + sizeof(mlx5::InlineSegment);
      if (!takes_inline || bytes > end_ - payload) return Syndrome::kLocalQpOperation;
      local_.Add({raw_.data() + payload, bytes});
      cursor_ = (payload + bytes + mlx5::kSegmentBytes - 1) / mlx5::kSegmentBytes * mlx5::kSegmentBytes;
      request_.bytes += bytes;
      if (request_.bytes > longest) return Syndrome::kLocalLength;
      continue;
    }
    request_.bytes += SizeOf(segment);
    if (request_.bytes > longest) return Syndrome::kLocalLength;
    if (lands_here) continue;
    if (!Translate(qp, segment, kAccessLocalRead, local_)) return Syndrome::kLocalProtection;
  }
  request_.local = local_.span();
  if (IsAtomic(request_.opcode) && request_.bytes != request_.atomic.bytes) return Syndrome::kLocalLength;
  return Syndrome::kNone;
}

}  // namespace softhca
