#pragma once

#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "verbs/memory.hpp"

/// Shorthands for plain verbs. Use nothing of this project.
namespace verbs {

/// Destroys a verbs object, which must succeed.
template <auto kDestroy>
struct Destroy {
  template <class Object>
  void operator()(Object* object) const {
    EXPECT_EQ(kDestroy(object), 0);
  }
};
using Context = std::unique_ptr<ibv_context, Destroy<ibv_close_device>>;
using Pd = std::unique_ptr<ibv_pd, Destroy<ibv_dealloc_pd>>;
using Mr = std::unique_ptr<ibv_mr, Destroy<ibv_dereg_mr>>;
using Channel = std::unique_ptr<ibv_comp_channel, Destroy<ibv_destroy_comp_channel>>;
using Cq = std::unique_ptr<ibv_cq, Destroy<ibv_destroy_cq>>;
using AddressHandle = std::unique_ptr<ibv_ah, Destroy<ibv_destroy_ah>>;
using Srq = std::unique_ptr<ibv_srq, Destroy<ibv_destroy_srq>>;
using Qp = std::unique_ptr<ibv_qp, Destroy<ibv_destroy_qp>>;

inline constexpr auto kDeadline = std::chrono::seconds(20);
inline constexpr int kAllAccess =
    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

/// Opens the device at this position of the device list.
Context Open(int device = 0);

/// libmlx5 orders the program's accesses to a buffer and the hardware's by doorbell records and completions.
/// It is not instrumented, so these functions repeat the order for ThreadSanitizer: before a post, and after
/// a poll that found a completion.
void Publish(ibv_qp* qp);
void Publish(ibv_srq* srq);
void Observe(ibv_cq* cq);

/// Waits for the next completion.
ibv_wc Wait(ibv_cq* cq);

/// Zeroed, registered memory.
class Buffer {
 public:
  Buffer(ibv_pd* pd, size_t bytes, int access = kAllAccess);

  ibv_sge Sge(size_t offset, uint32_t bytes) { return {Address(offset), bytes, mr_->lkey}; }
  uint64_t Address(size_t offset = 0) const { return memory_.address() + offset; }
  uint32_t rkey() const { return mr_->rkey; }
  ibv_mr* mr() const { return mr_.get(); }
  uint8_t& operator[](size_t offset) { return memory_[offset]; }
  template <class T>
  T& As(size_t offset = 0) {
    return *reinterpret_cast<T*>(memory_.data() + offset);
  }
  std::string Text(size_t offset, size_t bytes) const {
    return {reinterpret_cast<const char*>(memory_.data() + offset), bytes};
  }
  void Put(size_t offset, const std::string& text) {
    text.copy(reinterpret_cast<char*>(&memory_[offset]), text.size());
  }

 private:
  Memory memory_;
  Mr mr_;
};

struct PeerOptions {
  ibv_qp_type type = IBV_QPT_RC;
  uint32_t send_depth = 64;
  uint32_t receive_depth = 64;
  uint32_t pieces = 4;  ///< longest scatter or gather list
  uint32_t inline_bytes = 64;
  int cqes = 256;
  bool shared = false;  ///< receives from a shared queue
  ibv_comp_channel* channel = nullptr;
};

/// One end's parameters of a connection.
struct Connection {
  int access = kAllAccess;
  ibv_mtu mtu = IBV_MTU_1024;
  uint32_t send_psn = 0, receive_psn = 0;
  uint8_t timeout = 14, retries = 7, rnr_retries = 7, min_rnr_timer = 12;
  uint32_t qkey = 0x11111111;
  uint16_t pkey_index = 0;
  std::optional<ibv_ah_attr> path{};  ///< path to the peer; otherwise to its LID or RoCE v2 GID
};

/// An end of a connection or of datagrams: a queue pair, its completion queues and its protection domain.
class Peer {
 public:
  explicit Peer(ibv_context* context, const PeerOptions& options = {});

  void Connect(const Peer& other, const Connection& connection = {});
  void ToInit(const Connection& connection = {});
  void ToRtr(const Peer& other, const Connection& connection = {});
  void ToRts(const Connection& connection = {});
  void To(ibv_qp_state state);
  ibv_qp_state State() const;

  void PostReceive(std::vector<ibv_sge> sges, uint64_t id = 0);

  /// Returns an address handle to `other`, for datagrams.
  AddressHandle AddressOf(const Peer& other, int gid_index) const;
  AddressHandle AddressOf(const ibv_gid& gid, int gid_index) const;

  ibv_context* context;
  Pd pd;
  Cq send_cq, receive_cq;
  Srq srq;
  Qp qp;
};

/// A work request; signalled by default.
class Work {
 public:
  explicit Work(ibv_wr_opcode opcode, std::vector<ibv_sge> sges = {}) : sges_(std::move(sges)) {
    wr_.opcode = opcode;
    wr_.send_flags = IBV_SEND_SIGNALED;
  }

  Work& To(const Buffer& target, size_t offset = 0) { return To(target.Address(offset), target.rkey()); }
  Work& To(uint64_t address, uint32_t rkey) {
    wr_.wr.rdma.remote_addr = address;
    wr_.wr.rdma.rkey = rkey;
    return *this;
  }
  Work& To(const AddressHandle& address, uint32_t qpn, uint32_t qkey = Connection{}.qkey) {
    wr_.wr.ud = {address.get(), qpn, qkey};
    return *this;
  }
  Work& FetchAdd(const Buffer& target, size_t offset, uint64_t add) {
    return FetchAdd(target.Address(offset), target.rkey(), add);
  }
  Work& FetchAdd(uint64_t address, uint32_t rkey, uint64_t add) { return Atomic(address, rkey, add, 0); }
  Work& CompareSwap(const Buffer& target, size_t offset, uint64_t compare, uint64_t swap) {
    return CompareSwap(target.Address(offset), target.rkey(), compare, swap);
  }
  Work& CompareSwap(uint64_t address, uint32_t rkey, uint64_t compare, uint64_t swap) {
    return Atomic(address, rkey, compare, swap);
  }
  Work& ToXrc(uint32_t srqn) {
    wr_.qp_type.xrc.remote_srqn = srqn;
    return *this;
  }
  Work& Imm(uint32_t imm) {
    wr_.imm_data = htobe32(imm);
    return *this;
  }
  /// Names the key that a send or a local operation invalidates.
  Work& Invalidate(uint32_t rkey) {
    wr_.invalidate_rkey = rkey;
    return *this;
  }
  Work& Bind(ibv_mw* window, uint32_t rkey, const ibv_mw_bind_info& info) {
    wr_.bind_mw = {window, rkey, info};
    return *this;
  }
  Work& Flags(unsigned flags) {
    wr_.send_flags = flags;
    return *this;
  }
  Work& Id(uint64_t id) {
    wr_.wr_id = id;
    return *this;
  }

  /// @return  the result of ibv_post_send()
  int TryPost(Peer& peer);
  void Post(Peer& peer) { ASSERT_EQ(TryPost(peer), 0); }
  /// Posts, waits for the completion and returns it.
  ibv_wc Run(Peer& peer) {
    Post(peer);
    return Wait(peer.send_cq.get());
  }

 private:
  Work& Atomic(uint64_t address, uint32_t rkey, uint64_t compare_add, uint64_t swap) {
    wr_.wr.atomic = {address, compare_add, swap, rkey};
    return *this;
  }

  std::vector<ibv_sge> sges_;
  ibv_send_wr wr_{};
};

/// Two peers with a buffer each.
class TwoPeers : public testing::Test {
 protected:
  explicit TwoPeers(int device_of_b = 0, const PeerOptions& options = {})
      : context_a(Open()),
        context_b(Open(device_of_b)),
        a(context_a.get(), options),
        b(context_b.get(), options) {}

  void Connect(const Connection& connection_a = {}, const Connection& connection_b = {}) {
    a.Connect(b, connection_a);
    b.Connect(a, connection_b);
  }

  Context context_a, context_b;
  Peer a, b;
  Buffer local{a.pd.get(), 65536};
  Buffer remote{b.pd.get(), 65536};
};

}  // namespace verbs
