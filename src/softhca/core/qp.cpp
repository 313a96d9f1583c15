#include "core/qp.hpp"

#include <string>
#include <utility>

#include "core/error.hpp"
#include "core/hca.hpp"
#include "dma/device_memory.hpp"

namespace softhca {
namespace {

using mlx5::CommandStatus;
using mlx5::QpState;
using mlx5::ServiceType;

bool IsTransition(QpState from, QpState to) {
  switch (to) {
    case QpState::kReset:
    case QpState::kError:
      return true;
    case QpState::kInit:
      return from == QpState::kReset || from == QpState::kInit;
    case QpState::kRtr:
      return from == QpState::kInit;
    case QpState::kRts:
      return from == QpState::kRtr || from == QpState::kRts;
    default:
      return false;
  }
}

/// Returns the first attribute that a transition requires and `change` lacks; null if none.
///
/// @source  IBTA 1.4, table 92; for DC Linux v6.1, drivers/infiniband/hw/mlx5/qp.c, modify_dci_qp_is_ok() and
///          mlx5_ib_modify_dct(); for XRC core/verbs.c there, qp_state_table
const char* MissingAttribute(const QueuePair& qp, QpState to, const QpChange& change) {
  const ServiceType service = qp.config.service;
  const bool reliable = IsReliable(service);
  const bool datagram = service == ServiceType::kUd, target = service == ServiceType::kDct;
  const bool connected = !IsAddressedByEntry(service) && !target;
  const bool responds = service == ServiceType::kRc && qp.config.xrc != XrcRole::kInitiator;
  const bool requests = reliable && qp.config.xrc != XrcRole::kTarget;
  if (qp.state == QpState::kReset && to == QpState::kInit) {
    if (!change.port) return "port";
    if (!change.pkey_index) return "pkey_index";
    if ((connected || target) && !change.access) return "access flags";
    if (datagram && !change.qkey) return "Q_Key";
  } else if (to == QpState::kRtr) {
    if ((connected || target) && !change.path) return "address path";
    if (!datagram && !change.mtu) return "path MTU";
    if (connected && !change.remote_qpn) return "remote qpn";
    if (connected && !change.receive_psn) return "receive PSN";
    if (responds && !change.max_reads_in) return "responder resources";
    if ((responds || target) && !change.min_rnr_timer) return "minimum RNR timer";
  } else if (qp.state == QpState::kRtr && to == QpState::kRts) {
    if (reliable && !change.ack_timeout) return "acknowledge timeout";
    if (requests && !change.retry_count) return "retry count";
    if (requests && !change.rnr_retry) return "RNR retry count";
    if (!change.send_psn) return "send PSN";
    if (requests && !change.max_reads_out) return "initiator depth";
  }
  return nullptr;
}

[[noreturn]] void Refuse(const QueuePair& qp, CommandStatus status, const std::string& why) {
  throw CommandError(status, "queue pair " + std::to_string(qp.qpn) + ": " + why);
}

void CheckValues(const QueuePair& qp, const QpChange& change) {
  const DeviceConfig& device = qp.hca->config();
  const auto bad = [&](const std::string& why) { Refuse(qp, CommandStatus::kBadParameter, why); };
  if (change.port && (*change.port == 0 || *change.port > device.ports.size())) {
    bad("port " + std::to_string(*change.port) + " does not exist");
  }
  if (change.mtu && (*change.mtu < mlx5::Mtu::k256 || *change.mtu > device.mtu)) {
    bad("the path MTU is larger than the port's");
  }
  if (change.path) {
    const uint8_t port = change.port.value_or(qp.attributes.port);
    const bool ethernet = device.link == mlx5::PortType::kEthernet;
    if (ethernet && !change.path->grh) bad("an Ethernet path needs a GID");
    if (change.path->grh && change.path->local_gid_index >= device.ports.at(port - 1).gids.size()) {
      bad("local GID " + std::to_string(change.path->local_gid_index) + " does not exist");
    }
  }
}

void SetState(QueuePair& qp, QpState to) {
  const QpState from = std::exchange(qp.state, to);
  if (qp.serves_dc_target) return;  // the target's own state stays
  if (Observer* const observer = qp.hca->observer()) observer->OnState(qp, from);
}

template <class T>
void Apply(T& attribute, const std::optional<T>& change) {
  if (change) attribute = *change;
}

void ApplyAll(QpAttributes& attributes, const QpChange& change) {
  Apply(attributes.access, change.access);
  Apply(attributes.pkey_index, change.pkey_index);
  Apply(attributes.port, change.port);
  Apply(attributes.path, change.path);
  Apply(attributes.mtu, change.mtu);
  Apply(attributes.remote_qpn, change.remote_qpn);
  Apply(attributes.receive_psn, change.receive_psn);
  Apply(attributes.send_psn, change.send_psn);
  Apply(attributes.log_max_message, change.log_max_message);
  Apply(attributes.max_reads_in, change.max_reads_in);
  Apply(attributes.max_reads_out, change.max_reads_out);
  Apply(attributes.min_rnr_timer, change.min_rnr_timer);
  Apply(attributes.ack_timeout, change.ack_timeout);
  Apply(attributes.retry_count, change.retry_count);
  Apply(attributes.rnr_retry, change.rnr_retry);
  Apply(attributes.qkey, change.qkey);
}

}  // namespace

const char* ToString(QpState state) {
  switch (state) {
    case QpState::kReset:
      return "RESET";
    case QpState::kInit:
      return "INIT";
    case QpState::kRtr:
      return "RTR";
    case QpState::kRts:
      return "RTS";
    case QpState::kSqError:
      return "SQ error";
    case QpState::kSqDrained:
      return "SQ drained";
    case QpState::kError:
      return "ERROR";
  }
  return "unknown";
}

void ModifyQp(QueuePair& qp, QpState to, const QpChange& change) {
  if (!IsTransition(qp.state, to)) {
    Refuse(qp, CommandStatus::kBadQpState,
           std::string("cannot go from ") + ToString(qp.state) + " to " + ToString(to));
  }
  if (to == QpState::kError) return EnterError(qp);
  if (to == QpState::kReset) {
    WaitForDevices();  // the program may overwrite the queues next
    qp.attributes = {};
    qp.send_index = 0;
    qp.doorbell_pending = false;
    qp.sends.Reset();
    qp.retry = {};
    qp.injected_failures.clear();
    qp.own_receives.Reset();
    qp.open_receive.reset();
    qp.channel.reset();
  } else {
    if (const char* missing = MissingAttribute(qp, to, change)) {
      Refuse(qp, CommandStatus::kBadParameter,
             std::string("the transition to ") + ToString(to) + " must set the " + missing);
    }
    CheckValues(qp, change);
    ApplyAll(qp.attributes, change);
    if (change.receive_psn) qp.next_receive_psn = *change.receive_psn;
    if (change.send_psn) qp.next_send_psn = *change.send_psn;
  }
  SetState(qp, to);
}

void Raise(const QueuePair& qp, QpEvent event) {
  if (qp.config.on_event) qp.config.on_event(event);
  for (const auto& [owner, on_event] : qp.sharers) on_event(event);
}

void EnterError(QueuePair& qp) {
  if (qp.state == QpState::kError) return;
  SetState(qp, QpState::kError);
  qp.retry = {};
  if (qp.config.srqn != 0) Raise(qp, QpEvent::kLastWqeReached);
}

}  // namespace softhca
