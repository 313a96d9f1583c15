#pragma once

#define FUSE_USE_VERSION 35
#include <fuse_lowlevel.h>

#include <asio/posix/stream_descriptor.hpp>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "warpverbs/transport/event_loop.hpp"
#include "warpverbs/version.hpp"

namespace warpverbs::inline v0_2::gpuio {

/// The kernel's side of a mount: takes its requests on the loop, and answers each once.
///
/// All calls are on the loop's thread.
class FuseConnection : public std::enable_shared_from_this<FuseConnection> {
 public:
  /// @param options     of the mount, for "-o"
  /// @param operations  get `user` by fuse_req_userdata(), and call Begin() first
  /// @errors  host::Error: the folder cannot be mounted on
  FuseConnection(transport::EventLoop& loop, const std::string& folder, const std::string& options,
                 const fuse_lowlevel_ops& operations, void* user);
  ~FuseConnection();

  /// Begins to take requests.
  ///
  /// @param on_unmounted  called when somebody else has unmounted it
  void Start(std::function<void()> on_unmounted);

  /// Notes a request that is answered later.
  void Begin(fuse_req_t request) { pending_.insert(request); }

  /// Says whether a request still wants an answer, which the caller gives now.
  bool End(fuse_req_t request) { return pending_.erase(request) != 0; }

  /// Unmounts, and answers what is pending.
  void Close();

 private:
  void Wait();
  void Take();

  fuse_session* session_ = nullptr;
  asio::posix::stream_descriptor device_;
  fuse_buf buffer_{};
  std::set<fuse_req_t> pending_;
  std::function<void()> on_unmounted_;
  bool mounted_ = false, closed_ = false;
};

}  // namespace warpverbs::inline v0_2::gpuio
