#include <fcntl.h>
#include <liburing.h>
#include <linux/falloc.h>
#include <sys/eventfd.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/post.hpp>
#include <cerrno>
#include <cstring>
#include <deque>
#include <functional>
#include <utility>
#include <vector>

#include "gpuio/server/disk.hpp"
#include "warpverbs/host/dma_buf.hpp"
#include "warpverbs/host/error.hpp"

namespace warpverbs::inline v0_2::gpuio {
namespace {

constexpr unsigned kEntries = 512;
constexpr unsigned kCompletions = 32768;            // more than there can be operations on buffers
constexpr size_t kMaxRegistered = size_t{1} << 30;  // bytes of one registered buffer

/// A ring whose completions an eventfd announces to the loop.
class UringDisk : public Disk {
 public:
  UringDisk(asio::io_context& context, std::span<uint8_t> buffers, size_t sockets)
      : ring_(std::make_shared<Ring>(context)) {
    ring_->Register(buffers);
    ring_->RegisterSockets(sockets);
    ring_->Wait();
  }
  ~UringDisk() override { ring_->Close(); }

  void Read(int fd, std::span<uint8_t> memory, uint64_t offset, Done done) override {
    ring_->Start(std::move(done), [=, ring = ring_.get()](io_uring_sqe* sqe) {
      const int index = ring->IndexOf(memory.data());
      const auto bytes = static_cast<unsigned>(memory.size());
      if (index >= 0) {
        io_uring_prep_read_fixed(sqe, fd, memory.data(), bytes, offset, index);
      } else {
        io_uring_prep_read(sqe, fd, memory.data(), bytes, offset);
      }
    });
  }
  void Write(int fd, std::span<const uint8_t> memory, uint64_t offset, Done done) override {
    ring_->Start(std::move(done), [=, ring = ring_.get()](io_uring_sqe* sqe) {
      const int index = ring->IndexOf(memory.data());
      const auto bytes = static_cast<unsigned>(memory.size());
      if (index >= 0) {
        io_uring_prep_write_fixed(sqe, fd, memory.data(), bytes, offset, index);
      } else {
        io_uring_prep_write(sqe, fd, memory.data(), bytes, offset);
      }
    });
  }
  void Sync(int fd, bool data_only, Done done) override {
    ring_->Start(std::move(done), [=](io_uring_sqe* sqe) {
      io_uring_prep_fsync(sqe, fd, data_only ? IORING_FSYNC_DATASYNC : 0);
    });
  }
  void PunchHole(int fd, uint64_t offset, uint64_t bytes, Done done) override {
    ring_->Start(std::move(done), [=](io_uring_sqe* sqe) {
      io_uring_prep_fallocate(sqe, fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
                              static_cast<off_t>(bytes));
    });
  }
  int Keep(int socket) override { return ring_->Keep(socket); }
  void Release(int kept) override { ring_->Release(kept); }
  std::string Describe() const override {
    std::string text = ring_->registered_ ? "io_uring with registered buffers"
                                          : std::string("io_uring; its buffers are not registered (") +
                                                std::strerror(ring_->register_error_) + "; raise ulimit -l)";
    if (!ring_->keeps_sockets_)
      text += "; clients do not wait for the last writes of this server if it is killed (raise ulimit -n)";
    return text;
  }

 private:
  using Prepare = std::function<void(io_uring_sqe*)>;

  /// Shared with the handlers that the loop has queued.
  struct Ring : std::enable_shared_from_this<Ring> {
    explicit Ring(asio::io_context& context) : context_(context), event_(context) {
      io_uring_params params{};
      params.flags = IORING_SETUP_CQSIZE;
      params.cq_entries = kCompletions;
      const int error = -io_uring_queue_init_params(kEntries, &ring_, &params);
      if (error != 0) {
        throw host::Error::FromErrno(
            "create", "an io_uring", error,
            "Allow io_uring (sysctl kernel.io_uring_disabled, the container's seccomp "
            "profile), or choose --io-engine threads");
      }
      host::FileDescriptor event(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
      const int event_error = event ? -io_uring_register_eventfd(&ring_, event.get()) : errno;
      if (event_error != 0) {
        io_uring_queue_exit(&ring_);
        throw host::Error::FromErrno("listen to", "an io_uring", event_error, "Raise ulimit -n");
      }
      event_.assign(dup(event.get()));
    }
    ~Ring() { Close(); }

    void Register(std::span<uint8_t> buffers) {
      std::vector<iovec> parts;
      for (size_t at = 0; at < buffers.size(); at += kMaxRegistered)
        parts.push_back({buffers.data() + at, std::min(kMaxRegistered, buffers.size() - at)});
      register_error_ = -io_uring_register_buffers(&ring_, parts.data(), static_cast<unsigned>(parts.size()));
      registered_ = register_error_ == 0;
      begin_ = buffers.data();
    }

    /// The kernel drops files that are registered with a ring once the ring's last operation has ended.
    ///
    /// @source  Linux 6.1, io_uring/io_uring.c, io_ring_exit_work() and io_ring_ctx_free()
    void RegisterSockets(size_t sockets) {
      const std::vector<int> none(sockets, -1);
      if (io_uring_register_files(&ring_, none.data(), static_cast<unsigned>(sockets)) != 0) return;
      keeps_sockets_ = true;
      for (size_t slot = sockets; slot != 0; --slot) free_slots_.push_back(static_cast<int>(slot - 1));
    }

    int Keep(int socket) {
      if (closed_ || free_slots_.empty()) return -1;
      const int slot = free_slots_.back();
      if (io_uring_register_files_update(&ring_, static_cast<unsigned>(slot), &socket, 1) != 1) return -1;
      free_slots_.pop_back();
      return slot;
    }

    void Release(int slot) {
      if (closed_ || slot < 0) return;
      const int none = -1;
      io_uring_register_files_update(&ring_, static_cast<unsigned>(slot), &none, 1);
      free_slots_.push_back(slot);
    }

    /// Returns the index of the registered buffer that has an address; -1: none is registered.
    int IndexOf(const void* address) const {
      return registered_
                 ? static_cast<int>(static_cast<size_t>(static_cast<const uint8_t*>(address) - begin_) /
                                    kMaxRegistered)
                 : -1;
    }

    void Start(Done done, Prepare prepare) {
      waiting_.push_back({std::move(done), std::move(prepare)});
      FillQueue();
      SubmitSoon();
    }

    /// Moves operations to the queue. Those that find no room wait: the kernel takes none while it is short
    /// of memory, or until completions are taken.
    void FillQueue() {
      while (!waiting_.empty()) {
        io_uring_sqe* sqe = io_uring_get_sqe(&ring_);
        if (sqe == nullptr) {
          io_uring_submit(&ring_);
          sqe = io_uring_get_sqe(&ring_);
        }
        if (sqe == nullptr) return;
        waiting_.front().prepare(sqe);
        io_uring_sqe_set_data(sqe, new Done(std::move(waiting_.front().done)));
        waiting_.pop_front();
        ++under_way_;
      }
    }

    /// Submits from the loop, so that one call submits what is started together.
    void SubmitSoon() {
      if (std::exchange(submitting_, true)) return;
      asio::post(context_, [self = shared_from_this()] {
        self->submitting_ = false;
        if (self->closed_) return;
        const bool fails = io_uring_submit(&self->ring_) < 0;
        self->Take();
        if (self->closed_) return;
        self->FillQueue();
        if (fails || !self->waiting_.empty()) self->SubmitSoon();
      });
    }

    void Wait() {
      event_.async_wait(asio::posix::stream_descriptor::wait_read,
                        [self = shared_from_this()](const std::error_code& error) {
                          if (error || self->closed_) return;
                          eventfd_t count = 0;
                          eventfd_read(self->event_.native_handle(), &count);
                          self->Take();
                          if (!self->closed_) self->Wait();
                        });
    }

    /// Takes completions and calls back. Callbacks start further I/O.
    void Take() {
      std::array<io_uring_cqe*, 64> cqes;
      while (!closed_) {
        const unsigned count = io_uring_peek_batch_cqe(&ring_, cqes.data(), cqes.size());
        if (count == 0) break;
        std::array<std::pair<std::unique_ptr<Done>, int>, 64> done;
        for (unsigned i = 0; i < count; ++i)
          done[i] = {std::unique_ptr<Done>(static_cast<Done*>(io_uring_cqe_get_data(cqes[i]))), cqes[i]->res};
        io_uring_cq_advance(&ring_, count);
        under_way_ -= count;
        for (unsigned i = 0; i < count && !closed_; ++i) (*done[i].first)(done[i].second);
      }
    }

    /// Waits until the kernel uses no buffer.
    void Close() {
      if (std::exchange(closed_, true)) return;
      waiting_.clear();
      while (under_way_ > 0) {
        // Submits each time: the kernel may have taken only a part, and it completes nothing that it has not.
        const int error = io_uring_submit_and_wait(&ring_, 1);
        io_uring_cqe* cqe = nullptr;
        if (io_uring_peek_cqe(&ring_, &cqe) != 0) {
          if (error >= 0 || error == -EINTR || error == -EAGAIN || error == -EBUSY) continue;
          break;
        }
        const std::unique_ptr<Done> dropped(static_cast<Done*>(io_uring_cqe_get_data(cqe)));
        io_uring_cqe_seen(&ring_, cqe);
        --under_way_;
      }
      io_uring_queue_exit(&ring_);
      std::error_code ignored;
      event_.close(ignored);
    }

    struct Waiting {
      Done done{};
      Prepare prepare{};
    };

    asio::io_context& context_;
    std::deque<Waiting> waiting_;  // for room in the queue
    io_uring ring_{};
    asio::posix::stream_descriptor event_;
    const uint8_t* begin_ = nullptr;
    int register_error_ = 0;
    std::vector<int> free_slots_;
    size_t under_way_ = 0;
    bool registered_ = false, keeps_sockets_ = false, submitting_ = false, closed_ = false;
  };

  const std::shared_ptr<Ring> ring_;
};

}  // namespace

std::unique_ptr<Disk> MakeUringDisk(asio::io_context& context, std::span<uint8_t> buffers, size_t sockets) {
  return std::make_unique<UringDisk>(context, buffers, sockets);
}

}  // namespace warpverbs::inline v0_2::gpuio
