#include "core.hpp"

#include <algorithm>
#include <asio/post.hpp>
#include <bit>
#include <new>
#include <random>
#include <utility>

#include "registration.hpp"
#include "warpverbs/host/error.hpp"
#include "warpverbs/host/shortage.hpp"

namespace warpverbs::transport {
namespace {

/// Operations that end at one look, more often than not.
constexpr size_t kManyFinished = 64;

/// "queue_pairs is 33".
std::string Is(const char* option, uint64_t value) {
  return std::string(option) + " is " + std::to_string(value);
}

TransportOptions Checked(TransportOptions options) {
  const auto demand = [](bool good, const std::string& what, const char* range) {
    if (!good) throw host::Error("create", "a transport", what, std::string("Choose ") + range);
  };
  demand(options.max_nics >= 1 && options.max_nics <= AccessKey::kMaxNics, Is("max_nics", options.max_nics),
         "1 to 8");
  demand(options.queue_pairs >= 1, Is("queue_pairs", options.queue_pairs), "at least 1");
  const uint64_t queue_pairs = uint64_t{options.queue_pairs} * options.max_nics;
  const std::string all = std::to_string(queue_pairs) + " queue pairs on all NICs together";
  demand(queue_pairs <= Url::kMaxLanes, Is("queue_pairs", options.queue_pairs) + ", which makes " + all,
         "so that there are at most 32");
  demand(options.depth >= 4, Is("depth", options.depth), "at least 4");
  demand(options.receive_depth >= 4, Is("receive_depth", options.receive_depth), "at least 4");
  const uint64_t entries =
      std::bit_ceil(uint64_t{options.depth}) + std::bit_ceil(uint64_t{options.receive_depth});
  demand(queue_pairs * entries <= NotificationOrder::kMaxEntries,
         Is("depth", options.depth) + " and " + Is("receive_depth", options.receive_depth) + ", with " + all,
         "so that both, as powers of two, times all queue pairs are at most 524288");
  demand(options.piece_bytes >= 1, Is("piece_bytes", options.piece_bytes), "at least 1");
  options.spin = std::max(options.spin, std::chrono::nanoseconds(0));
  return options;
}

/// When a time from now is over. What is longer than the clock can tell is for ever.
Clock::time_point In(std::chrono::nanoseconds time) {
  const Clock::time_point now = Clock::now();
  return time < Clock::time_point::max() - now ? now + time : Clock::time_point::max();
}

Clock::time_point In(const std::optional<std::chrono::nanoseconds>& timeout) {
  return timeout ? In(*timeout) : Clock::time_point::max();
}

}  // namespace

RdmaTransport::Core::Core(int device, asio::io_context& context, const TransportOptions& options)
    : device_(device),
      options_(Checked(options)),
      context_(context),
      work_(context.get_executor()),
      nics_(Nics::Of(device, options.max_nics)),
      sender_(options.piece_bytes),
      timer_(context) {
  finished_.reserve(kManyFinished);
  spare_.reserve(kManyFinished);
  std::random_device random;
  std::generate(id_.begin(), id_.end(), [&] { return static_cast<uint8_t>(random()); });
}

Bound RdmaTransport::Core::Bind() {
  const std::lock_guard lock(mutex_);
  if (!end_.ok()) return {end_, {}};
  if (bound_) return {{Code::kInvalid, "the transport is bound already: bind once, and keep the URL"}, {}};
  try {
    auto lanes = MakeLanes();
    Url url{.transport = id_};
    for (const auto& lane : lanes) url.lanes.push_back({lane->nic(), lane->Info()});
    Bound bound{{}, url.ToText()};
    lanes_ = std::move(lanes);  // all, or none: one may bind again
    bound_ = true;
    return bound;
  } catch (const std::exception& error) {
    return {InternalError(error.what()), {}};
  }
}

/// Neighbours are on different NICs.
std::vector<std::unique_ptr<Lane>> RdmaTransport::Core::MakeLanes() const {
  const auto& devices = nics_->devices();
  std::vector<std::unique_ptr<Lane>> lanes;
  for (uint32_t i = 0; i < options_.queue_pairs; ++i) {
    for (size_t nic = 0; nic < devices.size(); ++nic) {
      lanes.push_back(std::make_unique<Lane>(*devices[nic], static_cast<uint8_t>(nic), options_));
    }
  }
  return lanes;
}

Status RdmaTransport::Core::Connect(std::string_view text) {
  const std::lock_guard lock(mutex_);
  if (!end_.ok()) return end_;
  if (!bound_) return {Code::kInvalid, "the transport is not bound: call Bind() first"};
  if (connected_)
    return {Code::kInvalid, "the transport is connected already: make another one for each peer"};
  Url url;
  try {
    url = Url::FromText(text);
    if (url.transport == id_) return {Code::kInvalid, "the URL is the transport's own: pass the peer's"};
    for (size_t i = 0; i < std::min(lanes_.size(), url.lanes.size()); ++i)
      lanes_[i]->CheckPeer(url.lanes[i].endpoint);
  } catch (const host::Error& error) {
    if (host::IsShortage(error.error_number())) return InternalError(error.what());
    return {Code::kInvalid, error.what()};
  } catch (const std::exception& error) {
    return InternalError(error.what());
  }
  try {
    lanes_.resize(std::min(lanes_.size(), url.lanes.size()));
    for (size_t i = 0; i < lanes_.size(); ++i) lanes_[i]->Connect(url.lanes[i].endpoint, url.lanes[i].nic);
    alarms_.emplace(context_, lanes_);
    for (size_t i = 0; i < alarms_->bells().size(); ++i) Listen(i);
  } catch (const std::exception& error) {
    Break(error.what());
    return end_;
  }
  connected_ = true;
  connect_deadline_ = In(options_.connect_timeout);
  Wake();
  return {};
}

bool RdmaTransport::Core::Connected() const {
  const std::lock_guard lock(mutex_);
  return connected_ && end_.ok();
}

Status RdmaTransport::Core::GetStatus() const {
  const std::lock_guard lock(mutex_);
  return end_;
}

void RdmaTransport::Core::Submit(const Request& request, detail::Handler handler) {
  const std::lock_guard lock(mutex_);
  if (Status refusal = Refusal(request); !refusal.ok()) return Answer(std::move(handler), std::move(refusal));
  Transfer& transfer = sender_.New();
  transfer.is_read = request.is_read;
  transfer.notify = request.notify;
  transfer.local = reinterpret_cast<uint64_t>(request.local);
  transfer.remote = reinterpret_cast<uint64_t>(request.remote.ptr);
  transfer.registered = request.registration->keys();
  transfer.rkeys = request.remote.access_key.rkeys;
  transfer.pieces.bytes = request.size;
  transfer.waiter = {std::move(handler), request.timeout.value_or(std::chrono::nanoseconds(0))};
  const Clock::time_point deadline = In(request.timeout);
  sender_.Submit(transfer, deadline);
  WakeFor(deadline);
}

Status RdmaTransport::Core::Refusal(const Request& request) const {
  if (!end_.ok()) return end_;
  if (!connected_) return {Code::kInvalid, "the transport is not connected: call Connect() first"};
  if (request.registration == nullptr) {
    return {Code::kInvalid, "the local view is of no registered memory: take it from an RdmaMemory"};
  }
  if (request.registration->GetDevice() != device_) {
    return {Code::kInvalid, "the local memory is registered for device " +
                                std::to_string(request.registration->GetDevice()) +
                                ", but the transport is of device " + std::to_string(device_)};
  }
  if (request.remote.len != 0 && request.size > request.remote.len) {
    return {Code::kInvalid, std::to_string(request.size) + " bytes are more than the peer's buffer has, " +
                                std::to_string(request.remote.len)};
  }
  for (const auto& lane : lanes_) {
    if (!request.registration->keys()->AreOf(lane->nic(), lane->device())) {
      return {Code::kInvalid, "the local memory is not registered on " + lane->device().name() +
                                  ", which the transport uses: choose the same max_nics for both"};
    }
    if (lane->peer_nic() >= request.remote.access_key.nics) {
      return {Code::kInvalid,
              "the access key has no key for one of the peer's NICs: the peer must choose the "
              "same max_nics for its memory and its transport"};
    }
  }
  return {};
}

void RdmaTransport::Core::Wait(const WaitOptions& options, detail::Handler handler) {
  const std::lock_guard lock(mutex_);
  if (end_.ok() && !connected_) {
    return Answer(std::move(handler),
                  {Code::kInvalid, "the transport is not connected: call Connect() first"});
  }
  if (!end_.ok() && inbox_.available() == 0) return Answer(std::move(handler), end_);
  const Clock::time_point deadline = In(options.timeout);
  inbox_.Wait({std::move(handler), options.timeout.value_or(std::chrono::nanoseconds(0))}, deadline,
              finished_);
  if (!finished_.empty()) Wake();
  WakeFor(deadline);
}

void RdmaTransport::Core::Answer(detail::Handler handler, Status status) {
  finished_.push_back({std::move(handler), std::move(status)});
  Wake();
}

Status RdmaTransport::Core::InternalError(std::string_view why) const noexcept try {
  return {Code::kInternalError, std::string(why)};
} catch (const std::bad_alloc&) {
  return out_of_memory_;
}

void RdmaTransport::Core::Break(std::string_view why) noexcept { TearDown(InternalError(why)); }

void RdmaTransport::Core::Close() {
  const std::lock_guard lock(mutex_);
  TearDown(destroyed_);
  // Let go of on the loop: a context whose work ends while nobody runs it would never run again.
  asio::post(context_, InMemory(&close_memory_, [self = shared_from_this(), work = std::move(work_)] {}));
}

/// Destroys the queue pairs first: after that the NIC touches no memory, and nothing completes.
void RdmaTransport::Core::TearDown(const Status& status) noexcept {
  end_ = status;
  alarms_.reset();
  lanes_.clear();
  timer_.cancel();
  if (!AnswerAll() || !finished_.empty()) Wake();
}

/// Once broken or closed.
///
/// @return  false: there was memory for some alone; the next look answers more
bool RdmaTransport::Core::AnswerAll() noexcept try {
  sender_.Drop(end_, finished_);
  inbox_.Drop(end_, finished_);
  return true;
} catch (const std::bad_alloc&) {
  return false;
}

std::string RdmaTransport::Core::Describe() const {
  const std::lock_guard lock(mutex_);
  std::string text = "transport of device " + std::to_string(device_) + ": " +
                     (!end_.ok()    ? end_.What()
                      : !bound_     ? "not bound"
                      : !connected_ ? "bound"
                      : !open_      ? "connected; the peer is not there yet"
                                    : "connected; the peer is there") +
                     "\n";
  for (const auto& device : nics_->devices()) text += "NIC: " + device->name() + "\n";
  if (alarms_) {
    text +=
        "sleeps until " +
        (alarms_->why_not().empty() ? std::string("a queue announces a completion")
                                    : "it is time to look, every 4 ms at the latest: " + alarms_->why_not()) +
        "\n";
  }
  for (const auto& lane : lanes_) text += lane->Describe();
  return text;
}

}  // namespace warpverbs::transport
