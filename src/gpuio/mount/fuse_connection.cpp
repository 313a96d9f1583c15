#include "gpuio/mount/fuse_connection.hpp"

#include <fcntl.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <system_error>
#include <utility>

#include "warpverbs/host/error.hpp"

namespace warpverbs::inline v0_2::gpuio {

FuseConnection::FuseConnection(transport::EventLoop& loop, const std::string& folder,
                               const std::string& options, const fuse_lowlevel_ops& operations, void* user)
    : device_(loop.context()) {
  constexpr const char* kRemedy =
      "Load the module fuse, install fuse3, and choose a folder that exists and that this user owns";
  std::string name = "warpverbs", flag = "-o", values = options;
  std::array<char*, 3> argv{name.data(), flag.data(), values.data()};
  fuse_args arguments = FUSE_ARGS_INIT(static_cast<int>(argv.size()), argv.data());
  session_ = fuse_session_new(&arguments, &operations, sizeof(operations), user);
  fuse_opt_free_args(&arguments);
  if (session_ == nullptr)
    throw host::Error("mount on", folder, "libfuse refuses the options " + options, kRemedy);
  errno = 0;
  if (fuse_session_mount(session_, folder.c_str()) != 0) {
    const int error = errno != 0 ? errno : EPERM;
    fuse_session_destroy(session_);
    throw host::Error::FromErrno("mount on", folder, error, kRemedy);
  }
  mounted_ = true;
  const int fd = fuse_session_fd(session_);
  fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
  device_.assign(fd);
}

FuseConnection::~FuseConnection() { Close(); }

void FuseConnection::Start(std::function<void()> on_unmounted) {
  on_unmounted_ = std::move(on_unmounted);
  Wait();
}

void FuseConnection::Wait() {
  device_.async_wait(asio::posix::stream_descriptor::wait_read,
                     [self = shared_from_this()](const std::error_code& error) {
                       if (!error && !self->closed_) self->Take();
                     });
}

/// Takes some requests, then lets others of the loop run.
void FuseConnection::Take() {
  constexpr int kRequests = 16;
  for (int i = 0; i < kRequests; ++i) {
    const int result = fuse_session_receive_buf(session_, &buffer_);
    if (result == -EAGAIN || result == -EINTR) break;
    if (result <= 0) {
      if (on_unmounted_) std::exchange(on_unmounted_, {})();
      return;
    }
    fuse_session_process_buf(session_, &buffer_);
    if (closed_) return;
  }
  Wait();
}

void FuseConnection::Close() {
  if (std::exchange(closed_, true)) return;
  for (fuse_req_t request : std::exchange(pending_, {})) fuse_reply_err(request, ENOTCONN);
  if (mounted_) {
    device_.release();  // libfuse closes it
    fuse_session_unmount(session_);
  }
  fuse_session_destroy(session_);
  std::free(buffer_.mem);
  on_unmounted_ = {};
}

}  // namespace warpverbs::inline v0_2::gpuio
