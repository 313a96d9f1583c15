#include "warpverbs/host/endpoint.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <random>
#include <sstream>

#include "warpverbs/host/error.hpp"
#include "warpverbs/mlx5/doorbell.hpp"
#include "warpverbs/mlx5/endian.hpp"

namespace warpverbs::host {
namespace {

constexpr int kInvalidCqe = 0xff;  // opcode 15 and the owner bit of a round that never comes

/// The options with the depth rounded; refuses what the firmware's fields cannot hold.
EndpointConfig Checked(const Device& device, LinkLayer link_layer, EndpointConfig config) {
  const uint8_t last_service_level = link_layer == LinkLayer::kEthernet ? 7 : 15;
  const auto demand = [&](bool ok, const char* option, const char* range) {
    if (!ok) {
      throw Error("create", "an endpoint on " + device.name(),
                  std::string("the ") + option + " is out of range", std::string("Choose ") + range);
    }
  };
  config.depth = RoundDepth(config.depth, device.capabilities().max_send_wqebbs);
  demand(config.retry.ack_timeout <= 31, "ack timeout", "0 to 31");
  demand(config.retry.retry_count <= 7, "retry count", "0 to 7");
  demand(config.retry.rnr_retry <= 7, "receiver-not-ready retry count", "0 to 7");
  demand(config.retry.min_rnr_timer <= 31, "receiver-not-ready timer", "0 to 31");
  demand(config.path.max_mtu >= mlx5::Mtu::k256 && config.path.max_mtu <= mlx5::Mtu::k4096, "path's MTU",
         "256 to 4096 bytes");
  demand(config.path.service_level <= last_service_level, "service level", "0 to 7, on InfiniBand 0 to 15");
  return config;
}

uint32_t RandomPsn() { return std::random_device{}() & 0xffffff; }

/// Masked operations on 4 bytes need the wider mode, which not every device has.
mlx5::AtomicMode AtomicModeOf(const Capabilities& capabilities) {
  if (!capabilities.atomics()) return mlx5::AtomicMode::kNone;
  return (capabilities.atomic_sizes & 4) ? mlx5::AtomicMode::kUpTo8 : mlx5::AtomicMode::kIbSpec;
}

HostPages PreparedPages(const QueueLayout& layout) {
  HostPages pages(layout.bytes);
  std::memset(pages.data() + layout.cqes, kInvalidCqe, layout.control - layout.cqes);
  return pages;
}

std::string Mac(const std::array<uint8_t, 6>& mac) {
  char text[18];
  std::snprintf(text, sizeof(text), "%02x:%02x:%02x:%02x:%02x:%02x", mac[0], mac[1], mac[2], mac[3], mac[4],
                mac[5]);
  return text;
}

}  // namespace

Endpoint::Endpoint(const Device& device, const EndpointConfig& config)
    : device_(device),
      local_(ChooseAddress(device, config.port, config.gid_index)),
      config_(Checked(device, local_.port.link_layer, config)),
      asked_depth_(config.depth),
      layout_(config_.depth, config_.cq_mode == CqMode::kCollapsed ? 1 : config_.depth),
      psn_(RandomPsn()),
      pages_(PreparedPages(layout_)),
      uar_(device.context()),
      umem_(device.context(), pages_.data(), pages_.size()),
      cq_(device.context(), {.mode = config_.cq_mode,
                             .depth = config_.cq_mode == CqMode::kCollapsed ? 1 : config_.depth,
                             .uar_page = uar_.page_id(),
                             .umem_id = umem_.id(),
                             .cqes_offset = layout_.cqes,
                             .dbr_offset = layout_.cq_dbr}),
      qp_(device.context(), {.pdn = device.pdn(),
                             .cqn = cq_.cqn(),
                             .uar_page = uar_.page_id(),
                             .umem_id = umem_.id(),
                             .sq_offset = layout_.sq,
                             .dbr_offset = layout_.qp_dbr,
                             .depth = config_.depth,
                             .timestamp_format = device.capabilities().timestamp_format}) {}

EndpointInfo Endpoint::Info() const {
  return {.qpn = qpn(),
          .psn = psn_,
          .link_layer = local_.port.link_layer,
          .gid_type = local_.gid.type,
          .gid = local_.gid.gid,
          .lid = local_.port.lid,
          .mtu = std::min(local_.port.active_mtu, config_.path.max_mtu),
          .max_reads_out = device_.capabilities().max_reads_out,
          .max_reads_in = device_.capabilities().max_reads_in};
}

void Endpoint::Connect(const EndpointInfo& peer) {
  if (attempted_) {
    throw Error("connect", "QP " + std::to_string(qpn()) + " on " + device_.name(),
                peer_ ? "it was connected before" : "connecting it failed half-way before",
                "Make a new endpoint for each connection");
  }
  peer.Check();
  path_ = ResolvePath(device_, config_.path, local_, qpn(), peer);
  attempted_ = true;
  const Capabilities& capabilities = device_.capabilities();
  const Session session{.peer_qpn = peer.qpn,
                        .send_psn = psn_,
                        .receive_psn = peer.psn,
                        .reads_out = std::min(capabilities.max_reads_out, peer.max_reads_in),
                        .reads_in = std::min(capabilities.max_reads_in, peer.max_reads_out),
                        .log_max_message = capabilities.log_max_message};
  const RemoteRights rights{
      .read = config_.remote_read,
      .write = config_.remote_write,
      .atomic = config_.remote_atomic ? AtomicModeOf(capabilities) : mlx5::AtomicMode::kNone};
  qp_.ToInit(local_.port.number, config_.pkey_index, rights);
  qp_.ToRtr(path_, session, config_.retry);
  qp_.ToRts(session, config_.retry);
  peer_ = peer;
}

device::QueueView Endpoint::View() const {
  return {.sq = At<uint8_t>(layout_.sq),
          .doorbell = uar_.doorbell(),
          .dbrec = At<uint32_t>(layout_.qp_dbr + offsetof(mlx5::QpDbr, send)),
          .cqe = At<uint8_t>(layout_.cqes),
          .control = At<device::QueueControl>(layout_.control),
          .qpn_be = mlx5::ToBe32(qpn() << 8).raw,
          .depth = config_.depth};
}

device::CqView Endpoint::CompletionView() const {
  if (config_.cq_mode != CqMode::kRing) {
    throw Error("view", "the completions of QP " + std::to_string(qpn()) + " as a ring", "they are collapsed",
                "Create the endpoint with cq_mode = CqMode::kRing");
  }
  return {.cqe = At<uint8_t>(layout_.cqes),
          .dbrec = At<uint32_t>(layout_.cq_dbr + offsetof(mlx5::CqDbr, consumer_index)),
          .depth = config_.depth};
}

std::string Endpoint::Describe() const {
  std::ostringstream text;
  text << "endpoint: QP " << qpn() << " on " << device_.name() << " (firmware "
       << device_.capabilities().firmware << "), port " << int{local_.port.number} << ", "
       << ToString(local_.port.link_layer) << (config_.port == 0 ? " (the first active port)" : " (as asked)")
       << "\n"
       << "  address: " << ToString(local_.gid.gid) << ", " << ToString(local_.gid.type) << ", GID "
       << local_.gid.index << (config_.gid_index < 0 ? " (the best by type and reach)" : " (as asked)")
       << "\n"
       << "  send queue: " << config_.depth << " WQEBBs (" << asked_depth_ << " asked for), " << pages_.size()
       << " bytes of host memory in all\n"
       << "  completions: "
       << (config_.cq_mode == CqMode::kRing ? "a ring as deep as the send queue" : "collapsed into one CQE")
       << "\n"
       << "  doorbell: " << host::Describe(uar_.kind()) << "\n";
  if (!peer_) {
    text << "  path: " << (attempted_ ? "connecting failed" : "not connected") << "\n";
    return text.str();
  }
  text << "  path: to QP " << peer_->qpn << " at " << ToString(path_.peer_gid) << ", MTU " << Bytes(path_.mtu)
       << " (the least of both ports' and the option)";
  if (path_.link_layer == LinkLayer::kEthernet) {
    text << ", MAC " << Mac(path_.peer_mac) << ", UDP source port " << path_.udp_source_port;
  } else {
    text << ", LID " << path_.peer_lid << (path_.grh ? " with GRH" : "");
  }
  text << ", traffic class " << int{path_.traffic_class} << ", service level " << int{path_.service_level}
       << ", hop limit " << int{path_.hop_limit} << "\n";
  return text.str();
}

}  // namespace warpverbs::host
