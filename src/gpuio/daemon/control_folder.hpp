#pragma once

#include <array>
#include <asio/posix/stream_descriptor.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "gpuio/daemon/control_space.hpp"
#include "warpverbs/host/dma_buf.hpp"
#include "warpverbs/transport/event_loop.hpp"
#include "warpverbs/version.hpp"

namespace warpverbs::inline v0_2::gpuio {

/// The control folder of a mount that is an ordinary folder. One daemon has it at a time.
///
/// Removes what an earlier daemon has left behind; its applications publish their buffers again.
class ControlFolder final : public ControlSpace {
 public:
  /// Makes the folder if it is missing.
  ///
  /// @errors  host::Error: another daemon serves the mount, or it is not writable
  ControlFolder(std::string mount, transport::EventLoop& loop);
  ~ControlFolder() override { Close(); }
  ControlFolder(const ControlFolder&) = delete;
  ControlFolder& operator=(const ControlFolder&) = delete;

  void Open(const std::string& socket, const std::array<std::string, kPriorities.size()>& submit,
            std::function<void(const std::string&)> on_removed) override;
  void Close() override;
  int ReadLink(const std::string& name, std::string& target) const override;
  void Unlink(const std::string& name, const std::string& target) override;

 private:
  void Link(const std::string& path, const std::string& target);
  void Watch();
  void RemoveLeftovers() const;

  const std::string mount_;
  std::function<void(const std::string&)> on_removed_;
  host::FileDescriptor lock_;
  std::vector<std::string> made_;
  asio::posix::stream_descriptor events_;
  const std::shared_ptr<bool> is_alive_ = std::make_shared<bool>(true);  // a queued handler may outlive this
  alignas(8) std::array<char, 16384> buffer_{};
};

}  // namespace warpverbs::inline v0_2::gpuio
