#include "core.hpp"

#include <algorithm>
#include <asio/post.hpp>
#include <bit>
#include <new>
#include <random>
#include <utility>

#include "host/log/shortage.hpp"
#include "registration.hpp"
#include "sync/mutex.hpp"
#include "warpverbs/host/error.hpp"

namespace warpverbs::inline v0_2::transport {
namespace {

/// Number of operations that one poll usually completes at most.
constexpr size_t kExpectedFinished = 64;

/// "queue_pairs is 33".
std::string Setting(const char* option, uint64_t value) {
  return std::string(option) + " is " + std::to_string(value);
}

/// Checks what is the same on every device. Bind() checks the rest.
TransportConfig Validated(const TransportConfig& config) {
  const auto require = [](bool valid, const std::string& setting, const char* range) {
    if (!valid) throw host::Error("create", "a transport", setting, std::string("Choose ") + range);
  };
  require(config.max_nics >= 1 && config.max_nics <= AccessKey::kMaxNics,
          Setting("max_nics", config.max_nics), "1 to 8");
  require(config.queue_pairs >= 1, Setting("queue_pairs", config.queue_pairs), "at least 1");
  const uint64_t queue_pairs = uint64_t{config.queue_pairs} * config.max_nics;
  const std::string all = std::to_string(queue_pairs) + " queue pairs on all NICs together";
  require(queue_pairs <= Url::kMaxQueuePairs,
          Setting("queue_pairs", config.queue_pairs) + ", which makes " + all,
          "so that there are at most 32");
  require(config.depth >= 4, Setting("depth", config.depth), "at least 4");
  require(config.receive_depth >= 4, Setting("receive_depth", config.receive_depth), "at least 4");
  const uint64_t entries =
      std::bit_ceil(uint64_t{config.depth}) + std::bit_ceil(uint64_t{config.receive_depth});
  require(queue_pairs * entries <= NotificationOrder::kMaxEntries,
          Setting("depth", config.depth) + " and " + Setting("receive_depth", config.receive_depth) +
              ", with " + all,
          "so that both, as powers of two, times all queue pairs are at most 524288");
  require(config.piece_bytes >= TransportConfig::kMinPieceBytes, Setting("piece_bytes", config.piece_bytes),
          "at least 256, the smallest packet of a path");
  const auto require_time = [&](const char* option, std::chrono::nanoseconds time) {
    require(time.count() >= 0, std::string(option) + " is negative", "0 or more");
  };
  require_time("connect_timeout", config.connect_timeout);
  require_time("spin", config.spin);
  const host::RetryConfig& retry = config.retry;
  require(retry.ack_timeout <= 31, Setting("retry.ack_timeout", retry.ack_timeout), "0 to 31");
  require(retry.retry_count <= 7, Setting("retry.retry_count", retry.retry_count), "0 to 7");
  require(retry.rnr_retry <= 7, Setting("retry.rnr_retry", retry.rnr_retry), "0 to 7");
  require(retry.min_rnr_timer <= 31, Setting("retry.min_rnr_timer", retry.min_rnr_timer), "0 to 31");
  const host::PathConfig& path = config.path;
  require(path.max_mtu >= mlx5::Mtu::k256 && path.max_mtu <= mlx5::Mtu::k4096,
          Setting("path.max_mtu", static_cast<uint64_t>(path.max_mtu)), "256 to 4096 bytes");
  require(path.service_level <= 15, Setting("path.service_level", path.service_level),
          "0 to 7, on InfiniBand 0 to 15");
  return config;
}

/// Returns the end of a time from now, or max() if the clock cannot represent it.
Clock::time_point DeadlineAfter(std::chrono::nanoseconds time) {
  const Clock::time_point now = Clock::now();
  return time < Clock::time_point::max() - now ? now + time : Clock::time_point::max();
}

Clock::time_point DeadlineAfter(const std::optional<std::chrono::nanoseconds>& timeout) {
  return timeout ? DeadlineAfter(*timeout) : Clock::time_point::max();
}

Part PartOf(const ListWrite& write) {
  return {.local = reinterpret_cast<uint64_t>(write.local.data()),
          .remote = reinterpret_cast<uint64_t>(write.remote.ptr),
          .bytes = write.local.size(),
          .registered = write.local->keys(),
          .rkeys = write.remote.access_key.rkeys};
}

/// Adds the parts of a list to a transfer. A list without bytes is one empty part, which no NIC looks at.
void AddParts(const std::vector<ListWrite>& list, Transfer& transfer) {
  Part* last = nullptr;
  for (const ListWrite& write : list) {
    Part part = PartOf(write);
    if (part.bytes == 0) continue;
    const bool joins = last != nullptr && last->local + last->bytes == part.local &&
                       last->remote + last->bytes == part.remote && last->registered == part.registered &&
                       last->rkeys == part.rkeys;
    if (joins) {
      last->bytes += part.bytes;
    } else if (last == nullptr) {
      last = &(transfer.first = std::move(part));
    } else {
      last = &transfer.rest.emplace_back(std::move(part));
    }
  }
}

}  // namespace

RdmaTransport::Core::Core(int device, asio::io_context& context, const TransportConfig& config)
    : device_(device),
      config_(Validated(config)),
      context_(context),
      work_(context.get_executor()),
      nics_(Nics::Of(device, config.max_nics)),
      sender_(config.piece_bytes),
      timer_(context) {
  finished_.reserve(kExpectedFinished);
  spare_.reserve(kExpectedFinished);
  std::random_device random;
  std::generate(id_.begin(), id_.end(), [&] { return static_cast<uint8_t>(random()); });
}

Bound RdmaTransport::Core::Bind() {
  const sync::LockGuard lock(mutex_);
  if (!end_status_.ok()) return {end_status_, {}};
  if (bound_) return {{Code::kInvalid, "the transport is bound already: bind once, and keep the URL"}, {}};
  try {
    auto channels = CreateChannels();
    Url url{.transport = id_};
    for (const auto& channel : channels) url.queue_pairs.push_back({channel->nic(), channel->Info()});
    Bound bound{{}, url.ToText()};
    channels_ = std::move(channels);  // all or none, so that the caller may bind again
    bound_ = true;
    return bound;
  } catch (const std::exception& error) {
    return {InternalError(error.what()), {}};
  }
}

// Adjacent channels are on different NICs.
std::vector<std::unique_ptr<Channel>> RdmaTransport::Core::CreateChannels() const {
  const auto& devices = nics_->devices();
  std::vector<std::unique_ptr<Channel>> channels;
  for (uint32_t i = 0; i < config_.queue_pairs; ++i) {
    for (size_t nic = 0; nic < devices.size(); ++nic) {
      channels.push_back(std::make_unique<Channel>(*devices[nic], static_cast<uint8_t>(nic), config_));
    }
  }
  return channels;
}

Status RdmaTransport::Core::Connect(std::string_view text) {
  const sync::LockGuard lock(mutex_);
  if (!end_status_.ok()) return end_status_;
  if (!bound_) return {Code::kInvalid, "the transport is not bound: call Bind() first"};
  if (connected_) return {Code::kInvalid, "the transport is connected already: create one for each peer"};
  Url url;
  try {
    url = Url::FromText(text);
    if (url.transport == id_) return {Code::kInvalid, "the URL is the transport's own: pass the peer's"};
    for (size_t i = 0; i < std::min(channels_.size(), url.queue_pairs.size()); ++i)
      channels_[i]->CheckPeer(url.queue_pairs[i].endpoint);
  } catch (const host::Error& error) {
    if (host::IsShortage(error.error_number())) return InternalError(error.what());
    return {Code::kInvalid, error.what()};
  } catch (const std::exception& error) {
    return InternalError(error.what());
  }
  try {
    channels_.resize(std::min(channels_.size(), url.queue_pairs.size()));
    for (size_t i = 0; i < channels_.size(); ++i)
      channels_[i]->Connect(url.queue_pairs[i].endpoint, url.queue_pairs[i].nic);
    completion_events_.emplace(context_, channels_);
    for (size_t i = 0; i < completion_events_->sources().size(); ++i) Listen(i);
  } catch (const std::exception& error) {
    Fail(error.what());
    return end_status_;
  }
  connected_ = true;
  connect_deadline_ = DeadlineAfter(config_.connect_timeout);
  Wake();
  return {};
}

bool RdmaTransport::Core::Connected() const {
  const sync::LockGuard lock(mutex_);
  return connected_ && end_status_.ok();
}

Status RdmaTransport::Core::GetStatus() const {
  const sync::LockGuard lock(mutex_);
  return end_status_;
}

void RdmaTransport::Core::Submit(const Request& request, detail::Handler handler) {
  const sync::LockGuard lock(mutex_);
  if (Status error = Validate(request); !error.ok()) return Complete(std::move(handler), std::move(error));
  Transfer& transfer = sender_.New();
  transfer.is_read = request.is_read;
  transfer.notify = request.notify;
  if (request.is_list) {
    AddParts(request.list, transfer);
  } else {
    transfer.first = PartOf(request.memory);
  }
  transfer.pending = {std::move(handler), request.timeout.value_or(std::chrono::nanoseconds(0))};
  const Clock::time_point deadline = DeadlineAfter(request.timeout);
  sender_.Submit(transfer, deadline);
  WakeFor(deadline);
}

Status RdmaTransport::Core::Validate(const Request& request) const {
  if (!end_status_.ok()) return end_status_;
  if (!connected_) return {Code::kInvalid, "the transport is not connected: call Connect() first"};
  if (!request.is_list) {
    const std::string reason = WhyInvalid(request.memory);
    return reason.empty() ? Status{} : Status{Code::kInvalid, reason};
  }
  for (size_t i = 0; i < request.list.size(); ++i) {
    const std::string reason = WhyInvalid(request.list[i]);
    if (!reason.empty()) return {Code::kInvalid, "entry " + std::to_string(i) + " of the list: " + reason};
  }
  return {};
}

/// Returns why the memory of a transfer cannot be used here; empty: it can.
std::string RdmaTransport::Core::WhyInvalid(const ListWrite& write) const {
  const Registration* const registration = write.local.operator->();
  if (registration == nullptr) {
    return "the local view has no registered memory: create it from an RdmaMemory";
  }
  if (registration->GetDevice() != device_) {
    return "the local memory is registered for device " + std::to_string(registration->GetDevice()) +
           ", but the transport uses device " + std::to_string(device_);
  }
  if (write.remote.len != 0 && write.local.size() > write.remote.len) {
    return std::to_string(write.local.size()) + " bytes are more than the peer's buffer has, " +
           std::to_string(write.remote.len);
  }
  for (const auto& channel : channels_) {
    if (!registration->keys()->AreOf(channel->nic(), channel->device())) {
      return "the local memory is not registered on " + channel->device().name() +
             ", which the transport uses: choose the same max_nics for both";
    }
    if (channel->peer_nic() >= write.remote.access_key.nics) {
      return "the access key has no key for one of the peer's NICs: the peer must choose the same max_nics "
             "for its memory and its transport";
    }
  }
  return {};
}

void RdmaTransport::Core::Wait(const WaitOptions& options, detail::Handler handler) {
  const sync::LockGuard lock(mutex_);
  if (end_status_.ok() && !connected_) {
    return Complete(std::move(handler),
                    {Code::kInvalid, "the transport is not connected: call Connect() first"});
  }
  if (!end_status_.ok() && inbox_.available() == 0) return Complete(std::move(handler), end_status_);
  const Clock::time_point deadline = DeadlineAfter(options.timeout);
  inbox_.Wait({std::move(handler), options.timeout.value_or(std::chrono::nanoseconds(0))}, deadline,
              finished_);
  if (!finished_.empty()) Wake();
  WakeFor(deadline);
}

void RdmaTransport::Core::Complete(detail::Handler handler, Status status) {
  finished_.push_back({std::move(handler), std::move(status)});
  Wake();
}

Status RdmaTransport::Core::MakeStatus(Code code, std::string_view reason) const noexcept try {
  return {code, std::string(reason)};
} catch (const std::bad_alloc&) {
  return out_of_memory_;
}

Status RdmaTransport::Core::InternalError(std::string_view reason) const noexcept {
  return MakeStatus(Code::kInternalError, reason);
}

void RdmaTransport::Core::Fail(std::string_view reason) noexcept { TearDown(InternalError(reason)); }

std::shared_ptr<RdmaTransport::Core> RdmaTransport::Core::MakeUnbound() const {
  return std::make_shared<Core>(device_, context_, config_);
}

void RdmaTransport::Core::Close(End end) {
  const sync::LockGuard lock(mutex_);
  TearDown(end == End::kReset ? reset_ : destroyed_);
  // The loop releases the work guard: a context whose work ends while no thread runs it would never run
  // again.
  asio::post(context_, InMemory{&close_memory_, [self = shared_from_this(), work = std::move(work_)] {}});
}

// Destroys the queue pairs first: after that the NIC touches no memory, and nothing completes.
void RdmaTransport::Core::TearDown(const Status& status) noexcept {
  end_status_ = status;
  completion_events_.reset();
  channels_.clear();
  timer_.cancel();
  if (!CompleteAll() || !finished_.empty()) Wake();
}

/// Completes all operations of a broken or closed transport.
///
/// @return  false: memory ran out after some; the next poll completes more
bool RdmaTransport::Core::CompleteAll() noexcept try {
  sender_.Drop(end_status_, finished_);
  inbox_.Drop(end_status_, finished_);
  return true;
} catch (const std::bad_alloc&) {
  return false;
}

std::string RdmaTransport::Core::Describe() const {
  const sync::LockGuard lock(mutex_);
  std::string text = "transport of device " + std::to_string(device_) + ": " +
                     (!end_status_.ok() ? end_status_.Describe()
                      : !bound_         ? "not bound"
                      : !connected_     ? "bound"
                      : !open_          ? "connected; the peer has not connected yet"
                                        : "connected; the peer is connected too") +
                     "\n";
  for (const auto& device : nics_->devices()) text += "NIC: " + device->name() + "\n";
  if (completion_events_) {
    text += "sleeps until " +
            (completion_events_->unavailable().empty()
                 ? std::string("a queue announces a completion")
                 : "the next poll, at least every 4 ms: " + completion_events_->unavailable()) +
            "\n";
    if (!completion_events_->unannounced().empty())
      text += "does not notice that a completion queue fails: " + completion_events_->unannounced() + "\n";
  }
  for (const auto& channel : channels_) text += channel->Describe();
  return text;
}

}  // namespace warpverbs::inline v0_2::transport
