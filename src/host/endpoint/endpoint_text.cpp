#include <cstdio>
#include <sstream>

#include "endpoint/endpoint_impl.hpp"

namespace warpverbs::inline v0_2::host {
namespace {

std::string Mac(const std::array<uint8_t, 6>& mac) {
  char text[18];
  std::snprintf(text, sizeof(text), "%02x:%02x:%02x:%02x:%02x:%02x", mac[0], mac[1], mac[2], mac[3], mac[4],
                mac[5]);
  return text;
}

std::string DescribeRetries(const RetryConfig& retry) {
  std::ostringstream text;
  if (retry.ack_timeout == 0) {
    text << "none, waits for an ACK forever";
  } else {
    const double wait_ms = 4.096e-3 * static_cast<double>(1U << retry.ack_timeout);
    text << int{retry.retry_count} << ", each after " << wait_ms << " ms without an ACK";
  }
  text << " (ack timeout " << int{retry.ack_timeout} << "); for a peer without a receive ";
  if (retry.rnr_retry == 7) {
    text << "forever";
  } else {
    text << int{retry.rnr_retry};
  }
  text << " (timer " << int{retry.min_rnr_timer} << ")";
  return text.str();
}

}  // namespace

std::string Endpoint::Impl::Describe() const {
  std::ostringstream text;
  text << "endpoint: QP " << qpn() << " on " << device_.name() << " (firmware "
       << device_.capabilities().firmware << "), port " << int{local_.port.number} << ", "
       << ToString(local_.port.link_layer) << (config_.port == 0 ? " (the first active port)" : " (as asked)")
       << "\n"
       << "  address: " << DescribeAddress() << ", pkey index " << config_.pkey_index << "\n"
       << "  posters: " << DescribePosters() << "\n"
       << "  queue memory: " << memory_.Describe() << "\n"
       << "  send queue: " << sizes_.depth << " WQEBBs (" << requested_depth_ << " requested)"
       << (config_.contended ? ", for contended posters" : "") << "\n"
       << "  completions: " << DescribeCompletions() << "\n"
       << "  receive queue: ";
  if (receive_cq_) {
    text << sizes_.receive_depth << " receives of up to " << config_.receive_scatter << " buffers\n";
  } else {
    text << "none\n";
  }
  text << "  doorbell: " << host::Describe(uar_->kind()) << DescribeSharing() << "; "
       << ToString(doorbell_.mode) << " (" << doorbell_.why << ")\n";
  text << "  retries: " << DescribeRetries(config_.retry) << "\n";
  text << "  path: " << DescribePath() << "\n";
  text << "  events: " << DescribeEvents() << "\n";
  return text.str();
}

std::string Endpoint::Impl::name() const { return "QP " + std::to_string(qpn()) + " on " + device_.name(); }

std::string Endpoint::Impl::DescribeSharing() const {
  if (endpoints_per_register_ <= 1) return "";
  return ", for up to " + std::to_string(endpoints_per_register_) + " endpoints of a pool";
}

std::string Endpoint::Impl::DescribeCompletions() const {
  if (completions_) {
    return "a ring of " + std::to_string(completions_->ring().depth()) +
           " CQEs that queues share, as user index " + std::to_string(completions_->user_index());
  }
  if (!has_own_ring()) return "collapsed into one CQE";
  return config_.cq_depth > RingDepth(config_.depth)
             ? "a ring of " + std::to_string(config_.cq_depth) + " CQEs"
             : std::string("a ring as deep as the send queue");
}

std::string Endpoint::Impl::DescribePosters() const {
  const std::string dump =
      std::string(dumps_after_read() ? "a DUMP follows each read" : "no DUMP follows a read") +
      (config_.dump_after_read ? " (as asked)" : "");
  if (!gpu_) return "threads of the CPU; " + dump;
  const GpuAttributes& attributes = gpu_->attributes();
  return "kernels of " + gpu_->name() + ", " + gpu_->model() + " at " + gpu_->pci_address() +
         "; NIC writes to its memory are ordered " + ToString(attributes.writes_ordering) + ", so " + dump +
         "; the host " + (attributes.host_flush ? "can" : "cannot") + " flush them; NICs " +
         (attributes.gpu_direct_vmm ? "can" : "cannot") + " reach memory of cuMemCreate()";
}

std::string Endpoint::Impl::DescribeAddress() const {
  const std::string why = config_.gid_index >= 0              ? "as asked"
                          : paired_with_ && !config_.peer_gid ? DescribePair(local_.gid.gid, *paired_with_)
                                                              : DescribeChoice(local_.gid, config_.peer_gid);
  return ToString(local_.gid.gid) + ", " + ToString(local_.gid.type) + ", GID " +
         std::to_string(local_.gid.index) + " (" + why + ")";
}

std::string Endpoint::Impl::DescribePath() const {
  if (!peer_) return attempted_ ? "connecting or resetting failed" : "not connected";
  std::ostringstream text;
  text << "to QP " << peer_->qpn << " at " << ToString(path_.peer_gid) << ", MTU " << Bytes(path_.mtu)
       << " (the minimum of both ports and the option)";
  if (path_.link_layer == LinkLayer::kEthernet) {
    text << ", MAC " << Mac(path_.peer_mac);
    if (path_.udp_source_port != 0) {
      text << ", UDP source port " << path_.udp_source_port
           << (config_.path.udp_source_port == 0 ? " (from the QP numbers)" : " (as asked)");
    }
  } else {
    text << ", LID " << path_.peer_lid << (path_.grh ? " with GRH" : "");
  }
  text << ", traffic class " << int{path_.traffic_class} << ", service level " << int{path_.service_level}
       << ", hop limit " << int{path_.hop_limit};
  return text.str();
}

}  // namespace warpverbs::inline v0_2::host
