#include "warpverbs/transport/rdma_transport.hpp"

#include <string>

#include "core.hpp"
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

bool RdmaTransport::Supported() noexcept {
  static const bool supported = Probe();
  return supported;
}

RdmaTransport::RdmaTransport(int device, EventLoop* loop, std::optional<int> max_cqe,
                             std::optional<int> max_nics)
    : RdmaTransport(device, Config(max_cqe, max_nics), loop) {}

RdmaTransport::RdmaTransport(int device, const TransportConfig& config, EventLoop* loop)
    : own_loop_(loop == nullptr ? std::make_unique<EventLoop>() : nullptr),
      loop_(loop == nullptr ? own_loop_.get() : loop),
      core_(std::make_shared<Core>(device, loop_->context(), config)) {}

RdmaTransport::~RdmaTransport() {
  if (core_->InOwnProcess()) {
    core_->Close();
  } else {
    static_cast<void>(new std::shared_ptr(core_));  // its loop and its NICs are the parent's
  }
}

Bound RdmaTransport::Bind() { return core_->Bind(); }
Status RdmaTransport::Connect(std::string_view url) { return core_->Connect(url); }
bool RdmaTransport::Connected() const { return core_->Connected(); }
Status RdmaTransport::GetStatus() const { return core_->GetStatus(); }
std::string RdmaTransport::Describe() const { return core_->Describe(); }

void RdmaTransport::StartTransfer(const Request& request, detail::Handler handler) {
  core_->Submit(request, std::move(handler));
}
void RdmaTransport::StartWait(const WaitOptions& options, detail::Handler handler) {
  core_->Wait(options, std::move(handler));
}

}  // namespace warpverbs::inline v0_2::transport
