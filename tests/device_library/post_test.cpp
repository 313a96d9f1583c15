#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "operations.hpp"
#include "warpverbs/arch/cpu.hpp"
#include "warpverbs/device/send_queue.hpp"

/// Compares every byte that the functions of the device library hand to a NIC with what the headers write.
namespace warpverbs::device_library {
namespace {

using arch::Cpu;

constexpr uint32_t kDepth = 64;

/// A send queue in ordinary memory, whose NIC answers if the test does.
struct MemoryQueue {
  /// @param cq_depth  CQEs; 1: the CQ is collapsed
  explicit MemoryQueue(uint32_t cq_depth = kDepth) {
    view.cq_depth = cq_depth;
    std::memset(cqes, 0xff, sizeof cqes);
  }
  MemoryQueue(const MemoryQueue&) = delete;
  MemoryQueue& operator=(const MemoryQueue&) = delete;

  /// Completes the WQE of an index as the `number`-th completion.
  void Complete(uint32_t number, uint32_t index) {
    mlx5::Cqe64 written{};
    written.wqe_counter = mlx5::ToBe16(static_cast<uint16_t>(index));
    written.op_own = (number & view.cq_depth) != 0 ? 1 : 0;  // the opcode of a requester's success is 0
    std::memcpy(&cqes[number % view.cq_depth], &written, sizeof written);
  }

  alignas(64) mlx5::Wqebb ring[kDepth]{};
  alignas(64) mlx5::Cqe64 cqes[kDepth];
  uint32_t record = 0;
  uint64_t doorbell = 0;
  device::QueueControl control{};
  device::QueueView view{.sq = ring[0].bytes,
                         .doorbell = &doorbell,
                         .dbrec = &record,
                         .cqe = reinterpret_cast<const uint8_t*>(cqes),
                         .control = &control,
                         .qpn_be = mlx5::ToBe32(0x123456 << 8).raw,
                         .depth = kDepth,
                         .max_message = 1 << 30,
                         .sink_lkey_be = 0,
                         .flags = 0};
};

/// Returns the queue's slots without the address of its sink, which an atomic that fetches nothing names.
std::string Slots(const MemoryQueue& queue) {
  std::string slots(reinterpret_cast<const char*>(queue.ring), sizeof queue.ring);
  const mlx5::Be64 sink = mlx5::ToBe64(AddressOf(queue.control.sink));
  const std::string_view bytes(reinterpret_cast<const char*>(&sink), sizeof sink);
  for (size_t at = 0; (at = slots.find(bytes, at)) != std::string::npos;)
    slots.replace(at, bytes.size(), 8, '-');
  return slots;
}

void ExpectSame(const MemoryQueue& ours, const MemoryQueue& headers) {
  EXPECT_TRUE(Slots(ours) == Slots(headers)) << "the WQEs";
  EXPECT_EQ(ours.record, headers.record);
  EXPECT_EQ(ours.doorbell, headers.doorbell);
  EXPECT_EQ(ours.control.tail, headers.control.tail);
}

const Sample kSample{.remote = {0x1122334455667700, mlx5::Be32{0x0a0b0c0d}},
                     .signal = {0x2122334455667708, mlx5::Be32{0x1a1b1c1d}},
                     .local = {0x3132333435363700, 24, mlx5::Be32{0x2a2b2c2d}},
                     .second = {0x4142434445464700, 8, mlx5::Be32{0x3a3b3c3d}},
                     .fetched = {0x5152535455565700, 8, mlx5::Be32{0x2a2b2c2d}}};

/// Returns the arguments of an operation: a function that has a signal and no other address takes its key as
/// `rkey`.
Arguments Named(const std::string& operation, const MemoryQueue& queue) {
  Arguments named = kSample.Named();
  if (operation.starts_with("signal") || operation == "count_completions")
    named["rkey"] = kSample.signal.rkey.raw;
  named["queue"] = AddressOf(queue.view);
  return named;
}

TEST(DeviceLibrary, PostsTheBytesOfTheHeaders) {
  std::set<std::string> called;
  ForEachOperation(kSample, [&](const std::string& name, const auto& operation) {
    for (const Variant& variant : Variants()) {
      const std::string function = "wv_" + name + variant.Suffix();
      SCOPED_TRACE(function);
      MemoryQueue ours, headers;
      wv_poster poster{};
      // A poster that knows nothing, one that does, and none: the slow path, the fast one, the slow one.
      for (const uint64_t address : {AddressOf(poster), AddressOf(poster), uint64_t{0}}) {
        Arguments named = Named(name, ours);
        named["poster"] = address;
        uint64_t results[4] = {};
        RunAs(variant.group, [&](uint32_t thread) { results[thread] = Call(function, named); });
        device::SendQueue<Cpu, device::Exclusive> queue(headers.view);
        const device::Posted posted = queue.Post(operation);
        EXPECT_EQ(wv_code(results[0]), static_cast<uint32_t>(WV_OK));
        EXPECT_EQ(wv_ticket(results[0]), posted.ticket.index);
        if (variant.group == "warp" || variant.group == "block") {
          for (const uint64_t result : results) EXPECT_EQ(result, results[0]);
        }
        ExpectSame(ours, headers);
      }
      called.insert(function);
    }
  });
  for (const auto& [name, function] : Functions()) {
    const bool posts = std::find(function.arguments.begin(), function.arguments.end(), "flags") !=
                           function.arguments.end() &&
                       !name.starts_with("wv_add_") && !name.starts_with("wv_write_list_");
    EXPECT_EQ(called.contains(name), posts) << name;
  }
}

TEST(DeviceLibrary, PostsListsWithTheBytesOfTheHeaders) {
  std::vector<wv_list_entry> list;
  for (uint64_t i = 0; i < 11; ++i) list.push_back({0x1000 + 100 * i, 0x2000 + 200 * i, 10 + i, 1, 2});
  list.push_back({list[10].local + 20, list[10].remote + 20, 5, 1, 2});  // touches the one before
  list.push_back({0x9000, 0x9000, 0, 1, 2});
  for (const Variant& variant : Variants({"thread", "warp", "block"})) {
    const std::string function = "wv_write_list" + variant.Suffix();
    SCOPED_TRACE(function);
    MemoryQueue ours, headers;
    wv_poster poster{};
    for (const uint64_t address : {AddressOf(poster), AddressOf(poster), uint64_t{0}}) {
      Arguments named = Named("write_list", ours);
      named["poster"] = address;
      named["entries"] = reinterpret_cast<uint64_t>(list.data());
      named["count"] = list.size();
      uint64_t results[4] = {};
      RunAs(variant.group, [&](uint32_t thread) { results[thread] = Call(function, named); });
      device::SendQueue<Cpu, device::Exclusive> queue(headers.view);
      const device::Posted posted =
          queue.PostList(reinterpret_cast<const device::ListEntry*>(list.data()), 13);
      EXPECT_EQ(wv_code(results[0]), static_cast<uint32_t>(WV_OK));
      EXPECT_EQ(wv_ticket(results[0]), posted.ticket.index);
      if (variant.group != "thread") {
        for (const uint64_t result : results) EXPECT_EQ(result, results[0]);
      }
      ExpectSame(ours, headers);
    }
    EXPECT_EQ(ours.control.tail, uint64_t{33} << 32 | 33);
  }
}

TEST(DeviceLibrary, BatchesTheBytesOfTheHeaders) {
  std::set<std::string> called;
  for (const Variant& variant : Variants()) {
    ForEachOperation(kSample, [&](const std::string& name, const auto& operation) {
      const std::string add = "wv_add_" + name + "_" + (variant.group == "lanes" ? "thread" : variant.group);
      SCOPED_TRACE(add + " between wv_begin and wv_submit" + variant.Suffix());
      MemoryQueue ours, headers;
      wv_batch batch;
      wv_poster poster{};
      constexpr uint32_t kSlots = 7;  // more than two operations need: the others become NOPs
      device::SendQueue<Cpu, device::Exclusive> queue(headers.view);
      for (const uint64_t address : {AddressOf(poster), uint64_t{0}}) {
        Arguments named = Named(name, ours);
        named["poster"] = address;
        named["batch"] = AddressOf(batch);
        named["slots"] = kSlots;
        uint64_t began = 1, added[2] = {1, 1}, submitted = 1;
        RunAs(variant.group, [&](uint32_t thread) {
          const uint64_t results[] = {Call("wv_begin" + variant.Suffix(), named), Call(add, named),
                                      Call(add, named), Call("wv_submit" + variant.Suffix(), named)};
          if (thread != 0) return;
          began = results[0];
          added[0] = results[1];
          added[1] = results[2];
          submitted = results[3];
        });
        auto expected = queue.Begin(kSlots);
        EXPECT_EQ(began, static_cast<uint64_t>(WV_OK));
        for (const uint64_t result : added) {
          const device::Posted posted = expected.Add(operation);
          EXPECT_EQ(wv_code(result), static_cast<uint32_t>(WV_OK));
          EXPECT_EQ(wv_ticket(result), posted.ticket.index);
        }
        const device::Posted posted = expected.Submit();
        EXPECT_EQ(wv_code(submitted), static_cast<uint32_t>(WV_OK));
        EXPECT_EQ(wv_ticket(submitted), posted.ticket.index);
        ExpectSame(ours, headers);
      }
      called.insert(add);
    });
  }
  for (const auto& [name, function] : Functions()) {
    EXPECT_EQ(called.contains(name), name.starts_with("wv_add_")) << name;
  }
}

TEST(DeviceLibrary, PosterThatKnowsTheQueueLoadsNothing) {
  MemoryQueue queue;
  wv_poster poster{};
  Arguments named = Named("write", queue);
  named["poster"] = AddressOf(poster);
  EXPECT_EQ(wv_code(Call("wv_write_thread_exclusive_system", named)), static_cast<uint32_t>(WV_OK));
  queue.control.tail = 0;  // what a poster that loads it would post to again
  const uint64_t second = Call("wv_write_thread_exclusive_system", named);
  EXPECT_EQ(wv_ticket(second), 1u);
}

TEST(DeviceLibrary, RefusesWhatDoesNotFit) {
  MemoryQueue queue;
  Arguments named = Named("write", queue);
  named["bytes"] = uint64_t{1} << 40;
  const uint64_t send = Call("wv_send_thread_shared_system", named);
  EXPECT_EQ(wv_code(send), static_cast<uint32_t>(WV_INVALID));
  EXPECT_EQ(wv_request_error(send), static_cast<uint32_t>(WV_MESSAGE_TOO_LONG));
  EXPECT_EQ(wv_syndrome(send), 0u);
  EXPECT_EQ(wv_wait_thread(named["queue"], 0, send, 0, 0), send) << "a wait for it returns it";
  wv_batch batch;
  named["batch"] = AddressOf(batch);
  named["slots"] = kDepth + 1;
  const uint64_t begun = Call("wv_begin_thread_shared_system", named);
  EXPECT_EQ(wv_request_error(begun), static_cast<uint32_t>(WV_TOO_MANY_SLOTS));
  EXPECT_EQ(wv_code(Call("wv_submit_thread_shared_system", named)), static_cast<uint32_t>(WV_INVALID));
  EXPECT_EQ(queue.control.tail, 0u);
}

TEST(DeviceLibrary, FullQueueIsAResult) {
  MemoryQueue queue;
  const Arguments named = Named("nop", queue);
  for (uint32_t i = 0; i < kDepth; ++i)
    ASSERT_EQ(wv_code(Call("wv_nop_thread_shared_system", named)), static_cast<uint32_t>(WV_OK));
  EXPECT_EQ(wv_code(Call("wv_nop_thread_shared_system", named)), static_cast<uint32_t>(WV_FULL));
  Arguments waiting = named;
  waiting["deadline_ns"] = wv_now_ns() + 1'000'000;
  EXPECT_EQ(wv_code(Call("wv_nop_thread_shared_system", waiting)), static_cast<uint32_t>(WV_TIMEOUT));
  const uint64_t aborted = 1;
  waiting["deadline_ns"] = ~uint64_t{0};
  waiting["abort_word"] = AddressOf(aborted);
  EXPECT_EQ(wv_code(Call("wv_nop_thread_shared_system", waiting)), static_cast<uint32_t>(WV_ABORTED));
}

TEST(DeviceLibrary, WaitsFindCompletionsAndErrorsOnARingAndOnACollapsedCq) {
  for (const uint32_t cq_depth : {kDepth, 1u}) {
    for (const bool keeps : {true, false}) {
      SCOPED_TRACE(std::to_string(cq_depth) + " CQEs, " + (keeps ? "with a poster" : "without"));
      MemoryQueue queue(cq_depth);
      wv_poster kept{};
      Arguments named = Named("write", queue);
      named["poster"] = keeps ? AddressOf(kept) : 0;
      const auto post = [&] { named["posted"] = Call("wv_write_thread_shared_system", named); };
      const auto code = [&](const std::string& function) {
        return static_cast<int>(wv_code(Call(function, named)));
      };
      constexpr uint32_t kPosts = 3 * kDepth;  // the ring comes round, and the owner bit changes
      for (uint32_t i = 0; i < kPosts; ++i) {
        post();
        ASSERT_EQ(code("wv_test_thread"), WV_PENDING) << i;
        queue.Complete(i, i);
        ASSERT_EQ(code("wv_test_thread"), WV_OK) << i;
        ASSERT_EQ(code("wv_wait_thread"), WV_OK) << i;
      }
      ASSERT_EQ(code("wv_flush_thread"), WV_OK);
      post();
      queue.Complete(kPosts, kPosts);
      auto& cqe = reinterpret_cast<mlx5::ErrorCqe64&>(queue.cqes[kPosts % cq_depth]);
      cqe.syndrome = static_cast<uint8_t>(mlx5::Syndrome::kRemoteAccess);
      cqe.op_own |= static_cast<uint8_t>(static_cast<unsigned>(mlx5::CqeOpcode::kRequesterError) << 4);
      const uint64_t waited = Call("wv_wait_thread", named);
      EXPECT_EQ(wv_code(waited), static_cast<uint32_t>(WV_ERROR));
      EXPECT_EQ(wv_syndrome(waited), static_cast<uint32_t>(mlx5::Syndrome::kRemoteAccess));
      EXPECT_EQ(wv_wqe_index(waited), kPosts);
    }
  }
}

TEST(DeviceLibrary, SignalsCompareAsTheHeadersDo) {
  const uint64_t word = 5;
  for (const std::string group : {"thread", "warp", "block"}) {
    SCOPED_TRACE(group);
    const auto call = [&](const std::string& name, int compare, uint64_t value, uint64_t deadline_ns) {
      uint64_t result = ~uint64_t{0};
      RunAs(group, [&](uint32_t thread) {
        const uint64_t mine = Call(name + "_" + group, {{"signal", AddressOf(word)},
                                                        {"compare", static_cast<uint64_t>(compare)},
                                                        {"value", value},
                                                        {"deadline_ns", deadline_ns},
                                                        {"abort_word", 0}});
        if (thread == 0) result = mine;
      });
      return static_cast<int>(wv_code(result));
    };
    EXPECT_EQ(call("wv_signal_test", WV_EQUAL, 5, 0), WV_OK);
    EXPECT_EQ(call("wv_signal_test", WV_NOT_EQUAL, 5, 0), WV_PENDING);
    EXPECT_EQ(call("wv_signal_test", WV_GREATER_OR_EQUAL, 6, 0), WV_PENDING);
    EXPECT_EQ(call("wv_signal_wait", WV_GREATER_OR_EQUAL, 4, 1), WV_OK);
    EXPECT_EQ(call("wv_signal_wait", WV_EQUAL, 4, 1), WV_TIMEOUT);
  }
}

TEST(DeviceLibrary, LaneThatEndsEarlyAbortsTheCallsOfItsWarp) {
  struct Work {
    uint64_t signal = 0;
    uint64_t results[4] = {};
  } work;
  const auto kernel = [](void* argument, uint32_t thread) {
    if (thread == 3) return;
    auto& mine = *static_cast<Work*>(argument);
    mine.results[thread] = wv_signal_test_warp(AddressOf(mine.signal), WV_EQUAL, 0);
  };
  EXPECT_EQ(wv_run_block(kernel, &work, 4, 4), -1);
  for (int lane = 0; lane < 3; ++lane)
    EXPECT_EQ(wv_code(work.results[lane]), static_cast<uint32_t>(WV_ABORTED));
}

TEST(DeviceLibrary, ValuesComeOutAsTheyAre) {
  const uint32_t big_endian = 0x01020304;
  const uint64_t native = 0x0102030405060708;
  EXPECT_EQ(wv_fetched_u32(AddressOf(big_endian)), 0x04030201u);
  EXPECT_EQ(wv_fetched_u64(AddressOf(native)), native);
  const uint32_t states[] = {WV_PEER_CONNECTED, WV_PEER_FAILED};
  const struct {
    const uint32_t* states;
    uint32_t count;
  } peers{states, 2};
  EXPECT_EQ(wv_peer_state(AddressOf(peers), 0), static_cast<uint32_t>(WV_PEER_CONNECTED));
  EXPECT_EQ(wv_peer_state(AddressOf(peers), 1), static_cast<uint32_t>(WV_PEER_FAILED));
  EXPECT_EQ(wv_peer_state(AddressOf(peers), 2), static_cast<uint32_t>(WV_PEER_DISCONNECTED));
  const uint64_t now = wv_now_ns();
  EXPECT_GE(wv_now_ns(), now);
}

}  // namespace
}  // namespace warpverbs::device_library
