// A long run of mixed operations, for fabrics that lose, duplicate, reorder and corrupt packets.
#include <arpa/inet.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "conversation.hpp"

namespace interop {
namespace {

/// Each operation in flight has a slot of its own, so the memory does not depend on the order of execution.
class ManyOperations : public Conversation {
 protected:
  static constexpr uint32_t kOperations = 120;
  static constexpr uint32_t kSlots = 8;
  static constexpr uint32_t kSlotBytes = kReceives / kSlots;
  static constexpr uint32_t kCounter = kReceives - 8;  // the last word of the last slot

  struct Operation {
    PostSend post;
    bool takes_receive = false;
  };

  Operation Make(uint32_t index);
  void Finish(const Operation& operation);

  std::mt19937 random_{20240607};
  uint64_t counter_ = 0;
  uint64_t receives_ = 0;
};

ManyOperations::Operation ManyOperations::Make(uint32_t index) {
  constexpr std::array<ibv_wr_opcode, 6> kKinds{
      IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM,  IBV_WR_SEND,
      IBV_WR_RDMA_READ,  IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_SEND_WITH_IMM};
  const uint32_t slot = index % kSlots * kSlotBytes;
  Operation operation;
  PostSend& post = operation.post;
  post.opcode = kKinds[random_() % kKinds.size()];
  post.id = index;
  post.offset = slot;
  post.bytes = static_cast<uint32_t>(random_() % (kSlotBytes - 8));
  post.immediate = index;
  uint32_t remote = slot;
  if (post.opcode == IBV_WR_RDMA_READ) post.offset += kReceives;
  if (post.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
    post.offset += kReceives;
    post.bytes = 8;
    post.compare_add = index;
    remote = kCounter;
  }
  operation.takes_receive = post.opcode == IBV_WR_RDMA_WRITE_WITH_IMM || post.opcode == IBV_WR_SEND ||
                            post.opcode == IBV_WR_SEND_WITH_IMM;
  post = ToResponder(post, remote);
  return operation;
}

/// Polls the completions of the oldest operation on both sides, and applies it to the expected memory.
void ManyOperations::Finish(const Operation& operation) {
  const PostSend& post = operation.post;
  ExpectCompletion(requester(), post.id);
  const auto remote = static_cast<uint32_t>(post.remote - responder_address_.region);
  const bool writes = post.opcode == IBV_WR_RDMA_WRITE || post.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
  if (writes) CopyToResponder(post.offset, remote, post.bytes);
  if (post.opcode == IBV_WR_RDMA_READ) CopyToRequester(remote, post.offset, post.bytes);
  if (post.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
    std::memcpy(requester_memory_.data() + post.offset, &counter_, sizeof(counter_));
    counter_ += post.compare_add;
    std::memcpy(responder_memory_.data() + kCounter, &counter_, sizeof(counter_));
  }
  if (!operation.takes_receive) return;
  const ibv_wc completion =
      ExpectReceived(writes ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV, post.bytes, receives_);
  if (post.opcode != IBV_WR_SEND) {
    EXPECT_EQ(ntohl(completion.imm_data), post.immediate);
  }
  const uint32_t receive = kReceives + static_cast<uint32_t>(receives_++ % kSlots) * kSlotBytes;
  if (!writes) CopyToResponder(post.offset, receive, post.bytes);
}

TEST_P(ManyOperations, CompletesEachOnceInOrderWithCorrectData) {
  Start({.timeout = 15, .rnr_timer = 1});  // 134 ms, eight attempts: an emulated processor may pause
  responder().Ask(Store{.offset = kCounter, .value = 0});
  std::fill_n(responder_memory_.begin() + kCounter, 8, 0);
  std::vector<Operation> in_flight;
  uint64_t receives = 0;
  for (uint32_t index = 0; index < kOperations || !in_flight.empty();) {
    if (index < kOperations && in_flight.size() < kSlots) {
      in_flight.push_back(Make(index++));
      if (in_flight.back().takes_receive) {
        PostReceiveOf(kSlotBytes, kReceives + static_cast<uint32_t>(receives % kSlots) * kSlotBytes,
                      receives);
        ++receives;
      }
      Post(in_flight.back().post);
      continue;
    }
    Finish(in_flight.front());
    if (HasFailure()) FAIL() << "at operation " << in_flight.front().post.id;
    in_flight.erase(in_flight.begin());
  }
  ExpectNoCompletion(requester(), 0);
  ExpectNoCompletion(responder(), 0);
  ExpectMemory();
}

INTEROP_BOTH_ROLES(ManyOperations);

}  // namespace
}  // namespace interop
