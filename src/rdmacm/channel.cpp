#include "channel.hpp"

#include <fcntl.h>
#include <poll.h>

#include <cerrno>

namespace warpverbs::inline v0_2::host {
namespace {

// Reasons of a REJ message. IBTA 1.4, 12.6.7.2.
constexpr int kInvalidServiceId = 8, kConsumerReject = 28;

/// Returns the peer's text without its padding: private data is padded with zeros.
std::string PeerText(std::span<const uint8_t> data) {
  const std::string_view text(reinterpret_cast<const char*>(data.data()), data.size());
  std::string words = PrintableText(text.substr(0, text.find('\0')));
  while (words.ends_with('.')) words.pop_back();
  return words;
}

std::string Meaning(const CmEvent& event) {
  switch (event.kind) {
    case RDMA_CM_EVENT_ADDR_ERROR:
      return "no active local device has a route to that address";
    case RDMA_CM_EVENT_ROUTE_ERROR:
      return "no route leads to that address";
    case RDMA_CM_EVENT_UNREACHABLE:
      return "the peer's connection manager does not answer";
    case RDMA_CM_EVENT_CONNECT_ERROR:
      return "the connection manager failed";
    case RDMA_CM_EVENT_DEVICE_REMOVAL:
      return "the device was removed";
    case RDMA_CM_EVENT_DISCONNECTED:
      return "the peer closed the connection";
    case RDMA_CM_EVENT_REJECTED:
      if (event.NobodyListens()) return "nobody listens at that address";
      if (event.status == kConsumerReject) {
        const std::string words = PeerText(event.data);
        return words.empty() ? "the peer refused" : "the peer refused: " + words;
      }
      return "the peer's connection manager refused with reason " + std::to_string(event.status);
    default:
      return "an unexpected event arrived";
  }
}

}  // namespace

Error CmStep::FromErrno(const std::string& remedy) const {
  return Error::FromErrno(step, object, errno, remedy);
}

std::string CmEvent::Reason() const {
  return Meaning(*this) + " (" + rdma_event_str(kind) + ", status " + std::to_string(status) + ")";
}

bool CmEvent::NobodyListens() const { return kind == RDMA_CM_EVENT_REJECTED && status == kInvalidServiceId; }

bool CmEvent::IsRejectedByPeer() const { return kind == RDMA_CM_EVENT_REJECTED && status == kConsumerReject; }

CmChannel::CmChannel() : channel_(rdma_create_event_channel()) {
  const CmStep step{"open", "a channel of rdma_cm"};
  constexpr char kRemedy[] =
      "Load the module rdma_ucm, and check that this user may open /dev/infiniband/rdma_cm";
  if (!channel_) throw step.FromErrno(kRemedy);
  const int flags = fcntl(channel_->fd, F_GETFL);
  if (flags < 0 || fcntl(channel_->fd, F_SETFL, flags | O_NONBLOCK) != 0) throw step.FromErrno(kRemedy);
}

CmId CmChannel::MakeId() const {
  rdma_cm_id* id = nullptr;
  if (rdma_create_id(channel_.get(), &id, nullptr, RDMA_PS_TCP) != 0)
    throw CmStep{"make", "an id of rdma_cm"}.FromErrno("Close other connections");
  return CmId(id);
}

bool CmChannel::Next(const DeadlineWait& waiting, CmEvent& event) const {
  rdma_cm_event* raw = nullptr;
  while (rdma_get_cm_event(channel_.get(), &raw) != 0) {
    if (errno != EAGAIN && errno != EINTR)
      throw CmStep{"wait for", "an event of rdma_cm"}.FromErrno("Check the kernel log (dmesg)");
    if (!waiting.ForEvents(channel_->fd, POLLIN)) return false;
  }
  // Owned before anything can fail: rdma_destroy_id() blocks until every event is acknowledged.
  const Handle<rdma_cm_event, rdma_ack_cm_event> owner(raw);
  event.kind = raw->event;
  event.status = raw->status;
  event.id.reset(raw->event == RDMA_CM_EVENT_CONNECT_REQUEST ? raw->id : nullptr);
  event.data.clear();
  const auto* const data = static_cast<const uint8_t*>(raw->param.conn.private_data);
  if (data != nullptr) event.data.assign(data, data + raw->param.conn.private_data_len);
  return true;
}

CmEvent CmChannel::Expect(rdma_cm_event_type kind, const DeadlineWait& waiting, const CmStep& step) const {
  CmEvent event;
  if (!Next(waiting, event)) {
    throw Error(step.step, step.object,
                std::string("no ") + rdma_event_str(kind) + " came " + waiting.Within(),
                "Check what delays the peer, or pass a longer deadline");
  }
  if (event.kind != kind)
    throw Error(step.step, step.object, event.Reason(), "Check the address, the port and the peer");
  return event;
}

void CmChannel::Migrate(const CmId& id, const CmStep& step) const {
  if (rdma_migrate_id(id.get(), channel_.get()) != 0) throw step.FromErrno("Close other connections");
}

}  // namespace warpverbs::inline v0_2::host
