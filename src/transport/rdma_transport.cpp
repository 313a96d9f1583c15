#include "warpverbs/transport/rdma_transport.hpp"

#include <exception>
#include <memory>
#include <string>
#include <utility>

#include "core.hpp"
#include "nics.hpp"
#include "sync/mutex.hpp"
#include "warpverbs/host/device.hpp"
#include "warpverbs/host/error.hpp"

namespace warpverbs::inline v0_2::transport {
namespace {

bool Probe() noexcept try {
  const host::Device device;  // the first with an active port
  return true;
} catch (...) {
  return false;
}

uint32_t Positive(const char* name, std::optional<int> value, uint32_t default_value) {
  if (value && *value <= 0) {
    throw host::Error("create", "a transport", std::string(name) + " is " + std::to_string(*value),
                      "Choose at least 1");
  }
  return value ? static_cast<uint32_t>(*value) : default_value;
}

TransportConfig Config(std::optional<int> max_cqe, std::optional<int> max_nics) {
  TransportConfig config;
  config.depth = Positive("max_cqe", max_cqe, config.depth);
  config.max_nics = Positive("max_nics", max_nics, config.max_nics);
  return config;
}

}  // namespace

/// The core of a transport, which Reset() replaces while other threads use it.
class RdmaTransport::CurrentCore {
 public:
  explicit CurrentCore(std::shared_ptr<Core> core) : core_(std::move(core)) {}
  ~CurrentCore() {
    if (core_->InOwnProcess()) {
      core_->Close(Core::End::kDestroyed);
    } else {
      host::Abandon(core_);  // its loop and its NICs are the parent's
    }
  }
  CurrentCore(const CurrentCore&) = delete;
  CurrentCore& operator=(const CurrentCore&) = delete;

  std::shared_ptr<Core> Get() const {
    const sync::LockGuard lock(mutex_);
    return core_;
  }

  /// Returns the previous one.
  std::shared_ptr<Core> Replace(std::shared_ptr<Core> core) {
    const sync::LockGuard lock(mutex_);
    return std::exchange(core_, std::move(core));
  }

 private:
  mutable sync::Mutex mutex_;
  std::shared_ptr<Core> core_ WARPVERBS_GUARDED_BY(mutex_);
};

bool RdmaTransport::Supported() noexcept {
  static const bool supported = Probe();
  return supported;
}

std::vector<std::string> RdmaTransport::NicsOf(int device, uint32_t max_nics) {
  return Nics::NamesOf(device, max_nics);
}

RdmaTransport::RdmaTransport(int device, EventLoop* loop, std::optional<int> max_cqe,
                             std::optional<int> max_nics)
    : RdmaTransport(device, Config(max_cqe, max_nics), loop) {}

RdmaTransport::RdmaTransport(int device, const TransportConfig& config, EventLoop* loop)
    : own_loop_(loop == nullptr ? std::make_unique<EventLoop>() : nullptr),
      loop_(loop == nullptr ? own_loop_.get() : loop),
      core_(std::make_unique<CurrentCore>(std::make_shared<Core>(device, loop_->context(), config))) {}

RdmaTransport::~RdmaTransport() = default;

std::shared_ptr<RdmaTransport::Core> RdmaTransport::core() const { return core_->Get(); }

// A new core has no operation of the old one on its queues, which the loop may complete later.
Status RdmaTransport::Reset() try {
  core_->Replace(core()->MakeUnbound())->Close(Core::End::kReset);
  return {};
} catch (const std::exception& error) {
  return {Code::kInternalError, error.what()};
}

Bound RdmaTransport::Bind() { return core()->Bind(); }
Status RdmaTransport::Connect(std::string_view url) { return core()->Connect(url); }
bool RdmaTransport::Connected() const { return core()->Connected(); }
Status RdmaTransport::GetStatus() const { return core()->GetStatus(); }
std::string RdmaTransport::Describe() const { return core()->Describe(); }

void RdmaTransport::StartTransfer(const Request& request, detail::Handler handler) {
  core()->Submit(request, std::move(handler));
}
void RdmaTransport::StartWait(const WaitOptions& options, detail::Handler handler) {
  core()->Wait(options, std::move(handler));
}

}  // namespace warpverbs::inline v0_2::transport
