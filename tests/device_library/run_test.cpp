#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "operations.hpp"
#include "pair.hpp"
#include "warpverbs/device/raw_send_queue.hpp"
#include "warpverbs/host/shared_completions.hpp"

/// Runs every function of the device library on an endpoint, to its completion.
namespace warpverbs::device_library {
namespace {

using arch::Cpu;
using device::RawSendQueue;
using e2e::Pair;

constexpr uint32_t kDepth = 4096;  // no slot is used twice, so that all WQEs can be compared at the end
constexpr uint32_t kReceives = 1024;

uint64_t Deadline() { return wv_now_ns() + 60'000'000'000; }

/// Two endpoints and the views that a kernel gets the address of.
struct Connection {
  /// @param a  settings of the endpoint that posts
  explicit Connection(const host::EndpointConfig& a = {.depth = kDepth},
                      std::shared_ptr<host::Device> device = e2e::OpenNic())
      : pair({.a = a, .b = {.receive_depth = kReceives, .receive_scatter = 2}}, std::move(device)) {
    pair.Connect();
    view = pair.a.View();
    receives = pair.b.ReceiveView();
  }

  Sample MakeSample() const {
    return {.remote = pair.Remote(64),
            .signal = pair.Remote(128),
            .local = pair.Local(0, 24),
            .second = pair.Local(512, 8),
            .fetched = pair.Local(1024, 8),
            .count = 0};  // a wait for nothing
  }

  uint64_t PostReceive(const std::string& function, uint32_t submit) {
    const device::LocalMemory local = pair.TargetLocal(2048, 16), second = pair.TargetLocal(2064, 48);
    return Call(function, {{"receives", AddressOf(receives)},
                           {"local", local.addr},
                           {"bytes", local.bytes},
                           {"lkey", local.lkey.raw},
                           {"local2", second.addr},
                           {"bytes2", second.bytes},
                           {"lkey2", second.lkey.raw},
                           {"submit", submit}});
  }

  Pair pair;
  device::QueueView view;
  device::ReceiveQueueView receives;
};

TEST(DeviceLibraryOnANic, ExecutesEveryPostAndTheNicReadsTheBytesOfTheHeaders) {
  Connection connection;
  const Sample sample = connection.MakeSample();
  for (uint32_t i = 0; i < kReceives; ++i)
    ASSERT_EQ(connection.PostReceive("wv_receive_post_thread_system", i + 1 == kReceives), WV_OK);
  std::vector<mlx5::Wqebb> expected(kDepth);
  device::QueueView copy = connection.view;
  copy.sq = expected[0].bytes;
  uint32_t index = 0;
  ForEachOperation(sample, [&](const std::string& name, const auto& operation) {
    for (const Variant& variant : Variants()) {
      const std::string function = "wv_" + name + variant.Suffix();
      SCOPED_TRACE(function);
      Arguments named = sample.Named();
      if (name.starts_with("signal") || name == "count_completions") named["rkey"] = sample.signal.rkey.raw;
      named["queue"] = AddressOf(connection.view);
      named["deadline_ns"] = Deadline();
      const std::string group = variant.group == "lanes" ? "thread" : variant.group;
      uint64_t posted = 0, waited = 1;
      RunAs(variant.group, [&](uint32_t thread) {
        const uint64_t post = Call(function, named);
        Arguments wait = named;
        wait["posted"] = post;
        const uint64_t result = Call("wv_wait_" + group, wait);
        if (thread != 0) return;
        posted = post;
        waited = result;
      });
      ASSERT_EQ(wv_code(posted), static_cast<uint32_t>(WV_OK));
      EXPECT_EQ(waited, static_cast<uint64_t>(WV_OK));
      static_cast<void>(RawSendQueue<Cpu>(copy).Post(index, operation));
      const uint32_t slots = operation.Slots(copy);
      for (uint32_t i = 0; i < slots; ++i, ++index) {
        const uint8_t* const slot = connection.view.sq + index % kDepth * sizeof(mlx5::Wqebb);
        ASSERT_EQ(std::memcmp(slot, expected[index % kDepth].bytes, sizeof(mlx5::Wqebb)), 0);
      }
      EXPECT_EQ(wv_ticket(posted), index - 1);
    }
  });
  EXPECT_EQ(wv_queue_error(AddressOf(connection.view)), static_cast<uint64_t>(WV_OK));
}

TEST(DeviceLibraryOnANic, ReceivesWhatThePeerSends) {
  Connection connection;
  connection.pair.SourceAt<uint64_t>(0) = 42;
  Arguments named = connection.MakeSample().Named();
  named["queue"] = AddressOf(connection.view);
  named["deadline_ns"] = Deadline();
  named["receives"] = AddressOf(connection.receives);
  uint32_t index = 0;
  for (const std::string group : {"thread", "warp", "block"}) {
    for (const std::string scope : {"gpu", "system"}) {
      SCOPED_TRACE(group + " " + scope);
      wv_received received{};
      named["received"] = AddressOf(received);
      for (const uint32_t submit : {1u, 0u}) {
        uint64_t waited = 1, polled = 1;
        RunAs(group, [&](uint32_t thread) {
          EXPECT_EQ(connection.PostReceive("wv_receive_post_" + group + "_" + scope, submit), WV_OK);
          if (submit == 0) {
            EXPECT_EQ(Call("wv_receive_submit_" + group + "_" + scope, named), WV_OK);
          }
          Arguments wait = named;
          wait["posted"] = Call("wv_send_imm_" + group + "_shared_" + scope, named);
          const uint64_t sent = Call("wv_wait_" + group, wait);
          const uint64_t result = Call("wv_receive_poll_" + group, named);
          if (thread != 0) return;
          waited = sent;
          polled = result;
        });
        EXPECT_EQ(waited, static_cast<uint64_t>(WV_OK));
        EXPECT_EQ(wv_code(polled), static_cast<uint32_t>(WV_OK));
        EXPECT_EQ(received.index, index++);
        EXPECT_EQ(received.bytes, 24u);
        EXPECT_EQ(received.imm, 0x01020304u);
        EXPECT_EQ(received.flags, static_cast<uint32_t>(WV_RECEIVED_IMM));
        EXPECT_EQ(connection.pair.TargetAt<uint64_t>(2048), 42u);
      }
    }
  }
  named["deadline_ns"] = 0;
  EXPECT_EQ(Call("wv_receive_poll_thread", named) & 0xff, static_cast<uint64_t>(WV_PENDING));
}

void ExpectFlushAndTestTellWhatIsDone(const Connection& connection) {
  Arguments named = connection.MakeSample().Named();
  named["queue"] = AddressOf(connection.view);
  for (const std::string group : {"thread", "warp", "block"}) {
    SCOPED_TRACE(group);
    wv_poster poster{};
    named["poster"] = AddressOf(poster);
    named["deadline_ns"] = Deadline();
    RunAs(group, [&](uint32_t) {
      Arguments done = named;
      done["posted"] = Call("wv_write_" + group + "_shared_system", named);
      EXPECT_EQ(Call("wv_flush_" + group, named), static_cast<uint64_t>(WV_OK));
      EXPECT_EQ(Call("wv_test_" + group, done), static_cast<uint64_t>(WV_OK));
    });
  }
}

TEST(DeviceLibraryOnANic, FlushAndTestTellWhatIsDoneOnEveryKindOfCq) {
  const auto device = e2e::OpenNic();
  host::SharedCompletions shared(*device, {.depth = 64, .max_queues = 1});
  const host::EndpointConfig kinds[] = {{.depth = 64},
                                        {.depth = 64, .cq_mode = host::CqMode::kCollapsed},
                                        {.depth = 64, .completions = &shared}};
  for (const host::EndpointConfig& kind : kinds) {
    SCOPED_TRACE(&kind - kinds);
    ExpectFlushAndTestTellWhatIsDone(Connection(kind, device));
  }
}

TEST(DeviceLibraryOnANic, ErrorsShowTheirSyndrome) {
  Connection connection;
  Arguments named = connection.MakeSample().Named();
  named["queue"] = AddressOf(connection.view);
  named["deadline_ns"] = Deadline();
  named["rkey"] = ~named["rkey"] & 0xffffffff;
  Arguments wait = named;
  wait["posted"] = Call("wv_write_thread_shared_system", named);
  const uint64_t waited = Call("wv_wait_thread", wait);
  EXPECT_EQ(wv_code(waited), static_cast<uint32_t>(WV_ERROR));
  EXPECT_EQ(wv_syndrome(waited), static_cast<uint32_t>(mlx5::Syndrome::kRemoteAccess));
  EXPECT_EQ(wv_opcode(waited), static_cast<uint32_t>(mlx5::WqeOpcode::kRdmaWrite));
  EXPECT_EQ(wv_wqe_index(waited), 0u);
  EXPECT_EQ(wv_request_error(waited), 0u);
  EXPECT_EQ(wv_queue_error(named["queue"]), waited);
  EXPECT_EQ(wv_vendor_syndrome(waited), wv_vendor_syndrome(wv_queue_error(named["queue"])));
}

}  // namespace
}  // namespace warpverbs::device_library
