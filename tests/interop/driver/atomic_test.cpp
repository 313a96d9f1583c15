// Atomic operations on a word of the responder's memory.
#include <cerrno>
#include <cstring>

#include "conversation.hpp"

namespace interop {
namespace {

constexpr uint32_t kWordOffset = 64;  // offset of the word in the responder's region
constexpr uint32_t kOriginal = 16;    // offset of its old value in the requester's region

class Atomic : public Conversation {
 protected:
  void Prepare(uint64_t value) {
    Start();
    responder().Ask(Store{.offset = kWordOffset, .value = value});
    std::memcpy(responder_memory_.data() + kWordOffset, &value, sizeof(value));
  }

  void Run(PostSend post, uint64_t original, uint64_t result) {
    post.offset = kOriginal;
    post.bytes = sizeof(uint64_t);
    Post(ToResponder(post, kWordOffset));
    ExpectCompletion(requester(), 1);
    std::memcpy(requester_memory_.data() + kOriginal, &original, sizeof(original));
    std::memcpy(responder_memory_.data() + kWordOffset, &result, sizeof(result));
    ExpectMemory();
  }
};

TEST_P(Atomic, FetchAndAddReturnsTheOldValueAndAdds) {
  Prepare(0x1122334455667788);
  Run({.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD, .compare_add = 0x10}, 0x1122334455667788, 0x1122334455667798);
}

TEST_P(Atomic, FetchAndAddWraps) {
  Prepare(~0ULL);
  Run({.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD, .compare_add = 3}, ~0ULL, 2);
}

TEST_P(Atomic, CompareAndSwapSwapsWhenEqual) {
  Prepare(0xa5a5a5a55a5a5a5a);
  Run({.opcode = IBV_WR_ATOMIC_CMP_AND_SWP, .compare_add = 0xa5a5a5a55a5a5a5a, .swap = 0x0123456789abcdef},
      0xa5a5a5a55a5a5a5a, 0x0123456789abcdef);
}

TEST_P(Atomic, CompareAndSwapChangesNothingWhenUnequal) {
  Prepare(0x1111111111111111);
  Run({.opcode = IBV_WR_ATOMIC_CMP_AND_SWP, .compare_add = 0x2222222222222222, .swap = 0x3333333333333333},
      0x1111111111111111, 0x1111111111111111);
}

TEST_P(Atomic, ExecutesEachOfManyAdditionsOnce) {
  Prepare(0);
  constexpr uint64_t kAdditions = 40;
  for (uint64_t id = 0; id < kAdditions; ++id) {
    Post(ToResponder({.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD, .id = id, .bytes = 8, .compare_add = 1},
                     kWordOffset));
  }
  for (uint64_t id = 0; id < kAdditions; ++id) ExpectCompletion(requester(), id);
  EXPECT_EQ(responder().Ask(Load{kWordOffset}).value, kAdditions);
  EXPECT_EQ(requester().Ask(Load{0}).value, kAdditions - 1);  // the last addition's old value
}

TEST_P(Atomic, RejectsUnalignedAddress) {
  Start();
  const PostSend post =
      ToResponder({.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD, .bytes = 8, .compare_add = 1}, kWordOffset + 4);
  if (requester().is_rxe()) {  // it checks before it sends
    EXPECT_EQ(requester().Ask(post).error, EINVAL);
  } else {
    ExpectError(post, IBV_WC_REM_INV_REQ_ERR);
  }
}

INTEROP_BOTH_ROLES(Atomic);

}  // namespace
}  // namespace interop
