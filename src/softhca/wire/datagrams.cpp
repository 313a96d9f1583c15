#include "wire/datagrams.hpp"

#include <algorithm>
#include <array>

#include "core/hca.hpp"
#include "core/packets.hpp"
#include "core/receive.hpp"
#include "core/send_queue.hpp"
#include "dma/copy.hpp"

namespace softhca {
namespace {

constexpr size_t kGrhBytes = 40;  ///< at the start of every receive, before the payload

Packet PacketOf(const QueuePair& qp, const Request& request) {
  Packet packet;
  packet.service = PacketService::kUd;
  packet.op = request.opcode == mlx5::WqeOpcode::kSendImm ? PacketOp::kSendOnlyImm : PacketOp::kSendOnly;
  packet.solicited = request.solicited;
  packet.dest_qpn = request.destination.qpn;
  packet.psn = qp.next_send_psn;
  packet.imm = request.imm;
  packet.datagram = {.qkey = request.destination.qkey, .source_qpn = qp.qpn};
  return packet;
}

/// Returns the first 40 bytes of a receive: the GRH or IPv6 header, or an IPv4 header in the last 20.
std::array<uint8_t, kGrhBytes> GrhOf(const Frame& frame) {
  std::array<uint8_t, kGrhBytes> grh{};
  std::copy_backward(frame.ip.begin(), frame.ip.end(), grh.end());
  return grh;
}

mlx5::CqeL3Header L3HeaderOf(const Flow& flow) {
  if (flow.version == mlx5::RoceVersion::kV1) return mlx5::CqeL3Header::kGrh;
  return IsIpv4(flow.source) ? mlx5::CqeL3Header::kIpv4 : mlx5::CqeL3Header::kIpv6;
}

}  // namespace

bool SendDatagrams(QueuePair& qp, DatagramSink& sink) {
  if (qp.paused) return false;
  constexpr int kBurst = 64;
  bool progress = false;
  SendWqe wqe;
  for (int i = 0; i < kBurst; ++i) {
    const uint32_t available = PostedWqebbs(qp, qp.send_index);
    if (available == 0) {
      qp.doorbell_pending = false;
      break;
    }
    WqeAction action = Classify(qp, wqe, wqe.Read(qp, qp.send_index, available));
    if (action.kind == WqeAction::Kind::kWait) break;
    if (action.kind == WqeAction::Kind::kSend) {
      const Request& request = wqe.request();
      if (!sink.SendDatagram(qp, request.destination, PacketOf(qp, request),
                             {request.local, 0, static_cast<uint32_t>(request.bytes)})) {
        action.result = {mlx5::Syndrome::kLocalProtection};
      }
      qp.next_send_psn = (qp.next_send_psn + 1) & kPsnMask;
    }
    CompleteSend(qp, wqe.entry(), action.result);
    progress = true;
  }
  return progress;
}

void OnDatagram(QueuePair& qp, const Packet& packet, const Frame& frame) {
  if (qp.config.service != mlx5::ServiceType::kUd || !Listens(qp)) return;
  if (packet.service != PacketService::kUd || packet.datagram.qkey != qp.attributes.qkey) return;
  if (frame.ip.size() > kGrhBytes || RefuseWithoutReceive(qp)) return;
  OpenReceive(qp);
  const Scatter memory = FindReceiveMemory(qp, 0, kGrhBytes + packet.payload.size());
  if (memory.fault == mlx5::Syndrome::kLocalLength)
    return;  // the receive stays open for a datagram that fits
  if (memory.fault != mlx5::Syndrome::kNone) return Fail(qp, RejectedReceive(memory.fault));
  const Flow& flow = frame.flow;
  const bool arrived = (!flow.grh || CopyPart(memory.span(), 0, GrhOf(frame))) &&
                       CopyPart(memory.span(), kGrhBytes, packet.payload);
  if (!arrived) return Fail(qp, RejectedReceive(mlx5::Syndrome::kLocalProtection));
  const bool imm = packet.op == PacketOp::kSendOnlyImm;
  CompleteReceive(qp, {.opcode = imm ? mlx5::CqeOpcode::kResponderSendImm : mlx5::CqeOpcode::kResponderSend,
                       .bytes = static_cast<uint32_t>(kGrhBytes + packet.payload.size()),
                       .imm = packet.imm,
                       .remote_qpn = packet.datagram.source_qpn,
                       .solicited = packet.solicited,
                       .l3_header = flow.grh ? std::optional(L3HeaderOf(flow)) : std::nullopt,
                       .slid = flow.local ? flow.local->source : uint16_t{0},
                       .service_level = flow.local ? flow.local->service_level : uint8_t{0}});
  if (Observer* const observer = qp.hca->observer()) observer->OnExecuted(qp, packet);
}

}  // namespace softhca
