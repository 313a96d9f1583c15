#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <memory>
#include <optional>
#include <thread>

#include "verbs/peer.hpp"

// Connections between two processes, of which one is stopped, or dies, or invalidates the other's key; and
// datagrams from one to the other. On RoCE and on InfiniBand.

namespace verbs {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr uint8_t kTimeout = 15;  ///< 134 ms: longer than a busy machine makes a thread wait
constexpr uint8_t kRetries = 7;

/// One end of the connection, as its process describes it to the other.
struct End {
  ibv_gid gid{};
  uint16_t lid = 0;
  uint32_t qpn = 0, rkey = 0;
  uint64_t address = 0;
};

bool Send(int to, const End& end) { return write(to, &end, sizeof end) == sizeof end; }
bool Take(int from, End& end) { return read(from, &end, sizeof end) == sizeof end; }

/// A queue pair and a page of memory.
struct Side {
  explicit Side(ibv_qp_type type = IBV_QPT_RC)
      : context(Open()),
        peer(std::make_unique<Peer>(context.get(), PeerOptions{.type = type})),
        buffer(peer->pd.get(), 4096) {
    ibv_port_attr port{};
    EXPECT_EQ(ibv_query_port(context.get(), 1, &port), 0);
    lid = port.lid;
  }

  /// Index of the IPv4 address as a RoCE v2 GID, and of InfiniBand's only GID.
  uint8_t Gid() const { return lid == 0 ? 3 : 0; }
  End Describe() {
    End end{.lid = lid, .qpn = peer->qp->qp_num, .rkey = buffer.rkey(), .address = buffer.Address()};
    EXPECT_EQ(ibv_query_gid(context.get(), 1, Gid(), &end.gid), 0);
    return end;
  }
  ibv_ah_attr PathTo(const End& other, bool global) const {
    ibv_ah_attr path{};
    path.port_num = 1;
    path.dlid = other.lid;
    path.is_global = global;
    path.grh.dgid = other.gid;
    path.grh.sgid_index = Gid();
    path.grh.hop_limit = 64;
    return path;
  }
  bool Connect(const End& other) {
    peer->ToInit();
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_RTR;
    attr.path_mtu = IBV_MTU_1024;
    attr.dest_qp_num = other.qpn;
    attr.max_dest_rd_atomic = 1;
    attr.min_rnr_timer = 12;
    attr.ah_attr = PathTo(other, other.lid == 0);
    constexpr int kMask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                          IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
    if (ibv_modify_qp(peer->qp.get(), &attr, kMask) != 0) return false;
    peer->ToRts({.timeout = kTimeout, .retries = kRetries});
    return true;
  }

  Context context;
  std::unique_ptr<Peer> peer;
  Buffer buffer;
  uint16_t lid = 0;  ///< 0 on RoCE
};

/// This process writes to the memory of another one, which runs `answer`.
class TwoProcesses : public testing::Test {
 protected:
  explicit TwoProcesses(void (*answer)(int in, int out) = Answer) {
    int there[2], back[2];
    EXPECT_EQ(pipe(there), 0);
    EXPECT_EQ(pipe(back), 0);
    process = fork();  // before any device is open
    if (process == 0) {
      close(there[1]);
      close(back[0]);
      answer(there[0], back[1]);
      _exit(0);
    }
    close(there[0]);
    close(back[1]);
    end = there[1];
    near.emplace();
    EXPECT_TRUE(Send(end, near->Describe()));
    EXPECT_TRUE(Take(back[0], far)) << "the other process has died";
    EXPECT_TRUE(near->Connect(far));
    close(back[0]);
  }
  ~TwoProcesses() override {
    if (process != 0) {
      kill(process, SIGKILL);
      waitpid(process, nullptr, 0);
    }
    close(end);
  }

  void Post(uint32_t bytes = 8) {
    Work(IBV_WR_RDMA_WRITE, {near->buffer.Sge(0, bytes)}).To(far.address, far.rkey).Post(*near->peer);
  }
  ibv_wc_status Status() { return Wait(near->peer->send_cq.get()).status; }
  void Stop() const {
    siginfo_t stopped{};
    kill(process, SIGSTOP);
    EXPECT_EQ(waitid(P_PID, static_cast<id_t>(process), &stopped, WSTOPPED), 0);
  }

  pid_t process = 0;
  int end = -1;
  std::optional<Side> near;
  End far;

 private:
  static void Answer(int in, int out) {
    Side side;
    End other;
    if (!Take(in, other) || !side.Connect(other)) _exit(1);
    if (fork() == 0) {  // keeps the descriptors
      close(out);
      _exit(read(in, &other, 1) == 0 ? 0 : 1);
    }
    if (Send(out, side.Describe())) static_cast<void>(!read(in, &other, 1));
  }
};

TEST_F(TwoProcesses, AWriteWaitsForAStoppedPeer) {
  Post();
  EXPECT_EQ(Status(), IBV_WC_SUCCESS);
  Stop();
  Post();
  // Twice as long as all retries together.
  const auto until = steady_clock::now() + 2 * (kRetries + 1) * milliseconds(134);
  ibv_wc wc{};
  while (steady_clock::now() < until) {
    ASSERT_EQ(ibv_poll_cq(near->peer->send_cq.get(), 1, &wc), 0) << wc.status;
    std::this_thread::sleep_for(milliseconds(1));
  }
  kill(process, SIGCONT);
  EXPECT_EQ(Status(), IBV_WC_SUCCESS);
}

/// Sends datagrams to the process at the other end of the pipes: with a GRH, and on InfiniBand without.
void SendDatagrams(int in, int out) {
  Side side(IBV_QPT_UD);
  End other;
  side.peer->Connect(*side.peer);
  if (!Send(out, side.Describe()) || !Take(in, other)) _exit(1);
  side.buffer.Put(0, "far away");
  for (const bool global : {true, other.lid == 0}) {
    ibv_ah_attr path = side.PathTo(other, global);
    const AddressHandle handle(ibv_create_ah(side.peer->pd.get(), &path));
    Work send(IBV_WR_SEND, {side.buffer.Sge(0, 8)});
    if (send.To(handle, other.qpn).Run(*side.peer).status != IBV_WC_SUCCESS) _exit(2);
  }
  static_cast<void>(!read(in, &other, 1));
}

TEST(Datagram, ComesFromAnotherProcess) {
  int there[2], back[2];
  ASSERT_EQ(pipe(there), 0);
  ASSERT_EQ(pipe(back), 0);
  const pid_t process = fork();  // before any device is open
  if (process == 0) {
    close(there[1]);
    close(back[0]);
    SendDatagrams(there[0], back[1]);
    _exit(0);
  }
  close(there[0]);
  close(back[1]);
  {
    Side side(IBV_QPT_UD);
    side.peer->Connect(*side.peer);
    constexpr size_t kGrhBytes = sizeof(ibv_grh), kHalf = 2048;
    for (const size_t half : {size_t{0}, kHalf}) side.peer->PostReceive({side.buffer.Sge(half, kHalf)});
    End other;
    ASSERT_TRUE(Take(back[0], other) && Send(there[1], side.Describe()));
    for (const size_t half : {size_t{0}, kHalf}) {
      const ibv_wc wc = Wait(side.peer->receive_cq.get());
      EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
      EXPECT_EQ(wc.src_qp, other.qpn);
      EXPECT_EQ(wc.slid, other.lid);
      EXPECT_EQ(wc.wc_flags, half == 0 || other.lid == 0 ? unsigned{IBV_WC_GRH} : 0u);
      EXPECT_EQ(side.buffer.Text(half + kGrhBytes, 8), "far away");
    }
  }
  close(there[1]);
  close(back[0]);
  int status = 0;
  EXPECT_EQ(waitpid(process, &status, 0), process);
  EXPECT_EQ(status, 0);
}

TEST_F(TwoProcesses, AWriteToADeadPeerFailsAsConfigured) {
  Stop();
  Post();
  kill(process, SIGKILL);  // it stays a zombie, and a child of it has its descriptors
  EXPECT_EQ(Status(), IBV_WC_RETRY_EXC_ERR);
}

/// On InfiniBand the packets are more than the peer's socket queues, which nobody empties.
TEST_F(TwoProcesses, ALongWriteToADeadPeerFailsAsConfigured) {
  Stop();
  Post(4096);
  kill(process, SIGKILL);
  EXPECT_EQ(Status(), IBV_WC_RETRY_EXC_ERR);
}

/// The other process writes through a window of this one, and invalidates it.
class WindowForAProcess : public TwoProcesses {
 protected:
  WindowForAProcess() : TwoProcesses(UseAndInvalidate) {}

  /// Ends the process with the number of the step that failed; 0: none.
  static void UseAndInvalidate(int in, int out) {
    Side side;
    End other, window;
    if (!Take(in, other) || !side.Connect(other) || !Send(out, side.Describe()) || !Take(in, window))
      _exit(1);
    side.buffer.Put(0, "far away");
    const auto write = [&] {
      return Work(IBV_WR_RDMA_WRITE, {side.buffer.Sge(0, 8)})
          .To(window.address, window.rkey)
          .Run(*side.peer)
          .status;
    };
    if (write() != IBV_WC_SUCCESS) _exit(2);
    Work send(IBV_WR_SEND_WITH_INV, {side.buffer.Sge(0, 3000)});  // several packets
    if (send.Invalidate(window.rkey).Run(*side.peer).status != IBV_WC_SUCCESS) _exit(3);
    if (write() != IBV_WC_REM_ACCESS_ERR) _exit(4);
  }
};

TEST_F(WindowForAProcess, ClosesByItsSendWithInvalidate) {
  Peer& peer = *near->peer;
  const Buffer region(peer.pd.get(), 4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
  ibv_mw* const window = ibv_alloc_mw(peer.pd.get(), IBV_MW_TYPE_2);
  ASSERT_NE(window, nullptr);
  const uint32_t key = ibv_inc_rkey(window->rkey);
  const ibv_mw_bind_info part{region.mr(), region.Address(64), 8, IBV_ACCESS_REMOTE_WRITE};
  EXPECT_EQ(Work(IBV_WR_BIND_MW).Bind(window, key, part).Run(peer).status, IBV_WC_SUCCESS);
  peer.PostReceive({near->buffer.Sge(0, 4096)});
  ASSERT_TRUE(Send(end, {.rkey = key, .address = part.addr}));
  const ibv_wc wc = Wait(peer.receive_cq.get());
  EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
  EXPECT_EQ(wc.byte_len, 3000u);
  EXPECT_EQ(wc.wc_flags & IBV_WC_WITH_INV, unsigned{IBV_WC_WITH_INV});
  EXPECT_EQ(wc.invalidated_rkey, key);
  EXPECT_EQ(region.Text(64, 8), "far away");
  int status = 0;
  EXPECT_EQ(waitpid(process, &status, 0), process);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "step " << WEXITSTATUS(status);
  process = 0;
  EXPECT_EQ(ibv_dealloc_mw(window), 0);
}

}  // namespace
}  // namespace verbs
