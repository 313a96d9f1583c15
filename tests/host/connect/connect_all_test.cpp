#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>

#include "host/connect/connect_all_fixture.hpp"
#include "host/device/softhca.hpp"
#include "host/endpoint/link.hpp"
#include "warpverbs/host/exchange.hpp"

namespace warpverbs::host {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

constexpr size_t kPlaceBytes = 12;  // end of a description: address, rkey

TEST_F(ConnectAllTest, ConnectsAHundredEndpointsThatCarryData) {
  Side a(device_, 100, {.depth = 16}), b(device_, 100, {.depth = 16});
  ExpectConnects(a, b);
}

TEST_F(ConnectAllTest, ConnectsWithoutARoundTrip) {
  Side a(device_, 3), b(device_, 3);
  const Sentences sentences = Connect(Plainly(a), Plainly(b));
  EXPECT_EQ(sentences.here + sentences.there, "");
  EXPECT_TRUE(a.AllAre(mlx5::QpState::kRts));
  EXPECT_TRUE(b.AllAre(mlx5::QpState::kRts));
  EXPECT_EQ(a.list()[0]->View().control->tail, 0u) << "the queue is unused";
}

TEST_F(ConnectAllTest, AcceptsEmptyLists) {
  Side a(device_, 0), b(device_, 0);
  ExpectConnects(a, b);
}

TEST_F(ConnectAllTest, MakesTheRoundTripOnContendedQueues) {
  Side a(device_, 2, {.depth = 4, .contended = true}), b(device_, 2, {.depth = 4, .contended = true});
  ExpectConnects(a, b);
  EXPECT_EQ(a.list()[0]->View().control->ready, 1u);
}

TEST_F(ConnectAllTest, LeavesQueuesUsableAfterTheRoundTrip) {
  for (const CqMode mode : {CqMode::kCollapsed, CqMode::kRing}) {
    Side a(device_, 1, {.depth = 4, .cq_mode = mode}), b(device_, 1, {.depth = 4, .cq_mode = mode});
    ExpectConnects(a, b);
    const Words source(device_), target(device_);
    Queue queue(a.list()[0]->View());
    for (uint64_t i = 1; i < 20; ++i) {
      source[0] = i;
      const device::Posted posted = queue.Post(device::Write(target.Remote(0), source.Local(0)), Within());
      ASSERT_TRUE(posted.status.ok() && queue.Wait(posted.ticket, Within()).ok());
      ASSERT_EQ(target[0], i);
    }
  }
}

TEST_F(ConnectAllTest, ReportsDifferentCountsOnBothSides) {
  Side a(device_, 3), b(device_, 1);
  const Sentences sentences = Connect(Plainly(a), Plainly(b));
  EXPECT_THAT(sentences.here,
              AllOf(StartsWith("Cannot connect 3 endpoints to 127.0.0.1 port "),
                    HasSubstr(": the two sides disagree: 3 endpoints here, 1 there. Pass the same number")));
  EXPECT_THAT(sentences.there, HasSubstr("the two sides disagree: 1 endpoint here, 3 there"));
}

TEST_F(ConnectAllTest, ReportsDifferentOptionsOnBothSides) {
  Side a(device_, 2), b(device_, 2);
  const Sentences sentences = Connect(Plainly(a, kTrip), Plainly(b));
  EXPECT_THAT(sentences.here, HasSubstr("the two sides disagree: a round trip here, none there"));
  EXPECT_THAT(sentences.there, HasSubstr("the two sides disagree: no round trip here, one there"));
  ExpectConnects(a, b);
}

TEST_F(ConnectAllTest, ReportsThePeersFailureInItsWords) {
  Side a(device_, 2), b(device_, 2), other(device_, 1);
  b.list()[1]->Connect(other.list()[0]->Info());
  const Sentences sentences = Connect(Plainly(a), Plainly(b));
  const std::string reason = "endpoint 1 (QP " + std::to_string(b.list()[1]->qpn()) + ") is in state RTS";
  EXPECT_THAT(sentences.there, HasSubstr(reason + ". Call Reset() on both sides first."));
  EXPECT_THAT(sentences.here, AllOf(HasSubstr("the peer failed: Cannot connect 2 endpoints to "),
                                    HasSubstr(reason + ". Call Reset() on both sides first. Fix it there.")));
  EXPECT_EQ(b.list()[1]->State(), mlx5::QpState::kRts) << "an earlier connection stays";
  b.list()[1]->Reset();
  ExpectConnects(a, b);
}

TEST_F(ConnectAllTest, RejectsInvalidLists) {
  Side a(device_, 2), b(device_, 2);
  a.list()[1] = nullptr;
  EXPECT_THAT(Connect(Plainly(a), Plainly(b)).here, HasSubstr("endpoint 1 is a null pointer"));
  a.list()[1] = a.list()[0];
  EXPECT_THAT(Connect(Plainly(a), Plainly(b)).there, HasSubstr("endpoint 1 is in the list twice"));
}

TEST_F(ConnectAllTest, FailsOnBothSidesWhereverOneIsCutOff) {
  const EndpointConfig config{.retry = {.ack_timeout = 8, .retry_count = 1}};
  Side a(device_, 2, config), b(device_, 2, config);
  constexpr int kSwaps = 4;
  for (int last = 0; last < kSwaps; ++last) {
    const auto cut = [last](int swap, auto&) {
      if (swap == last) throw Error("swap", "a word", "power failed", "Wait");
    };
    const Sentences sentences = Connect(Tampered(a, cut, kTrip), Plainly(b, kTrip));
    EXPECT_THAT(sentences.here, HasSubstr("power failed"));
    if (last == kSwaps - 1) {
      EXPECT_EQ(sentences.there, "") << "no side can know whether the last message arrives";
      break;
    }
    EXPECT_NE(sentences.there, "") << last;  // the peer left, or nothing acknowledges the writes
    ExpectConnects(a, b);
    for (Side* const side : {&a, &b})
      for (Endpoint* const one : side->list()) one->Reset();
  }
}

TEST_F(ConnectAllTest, ObeysTheDeadlineWithASilentPeer) {
  Side a(device_, 1);
  TcpPair tcp;
  EXPECT_THAT(SentenceOf([&] { ConnectAll(a.list(), tcp.here, AtOnce()); }),
              AllOf(StartsWith("Cannot swap the descriptions of 1 endpoint with 127.0.0.1 port "),
                    HasSubstr("no byte of its message arrived within ")));
  EXPECT_TRUE(a.AllAre(mlx5::QpState::kReset));
}

TEST_F(ConnectAllTest, NamesEndpointsThatAreConnectedToOthers) {
  Side a(device_, 2), b(device_, 2);
  const Sentences sentences = Connect(Tampered(a,
                                               [](int swap, auto& answer) {
                                                 if (swap == 1)
                                                   answer.at(8 + 8 + 3) ^=
                                                       1;  // QP number of the second endpoint
                                               }),
                                      Plainly(b));
  EXPECT_THAT(sentences.here,
              AllOf(HasSubstr("endpoint 1 is connected from QP "), HasSubstr(" there. Check that the "
                                                                             "exchange does not mix")));
  EXPECT_THAT(sentences.there, HasSubstr("the peer failed: "));
  ExpectConnects(a, b);
}

TEST_F(ConnectAllTest, RejectsForeignMessagesAndVersions) {
  const auto answered = [this](const Tampering::Change& change) {
    Side a(device_, 1), b(device_, 1);
    const Sentences sentences = Connect(Tampered(a, change), Plainly(b));
    EXPECT_NE(sentences.there, "");
    return sentences.here;
  };
  EXPECT_THAT(answered([](int, auto& answer) { answer = BytesOf("hello"); }),
              HasSubstr("its message is not from ConnectAll()"));
  EXPECT_THAT(answered([](int, auto& answer) { answer.at(5) = 1; }),
              HasSubstr("its ConnectAll() has version 1, not 2"));
  EXPECT_THAT(answered([](int, auto& answer) { answer.at(7) = 9; }),
              HasSubstr("it is at step 9 instead of 1"));
  EXPECT_THAT(answered([](int swap, auto& answer) {
                if (swap == 0) answer.pop_back();
              }),
              HasSubstr("have the wrong size"));
  EXPECT_THAT(
      answered([](int swap, auto& answer) {
        if (swap == 0) answer.at(20) ^= 1;
      }),
      HasSubstr("its lists of GIDs and partition keys are damaged. Check that the exchange delivers"));
  EXPECT_THAT(answered([](int swap, auto& answer) {
                if (swap == 0) answer.at(answer.size() - kPlaceBytes - 1) ^= 1;
              }),
              HasSubstr("Cannot read the peer's endpoint information ("));
}

TEST_F(ConnectAllTest, ReportsARefusedWriteOfTheRoundTrip) {
  Side a(device_, 1), b(device_, 1, {.remote_write = false});
  const Sentences sentences = Connect(Plainly(a, kTrip), Plainly(b, kTrip));
  EXPECT_THAT(sentences.here, AllOf(StartsWith("Cannot write to the peer from QP "),
                                    HasSubstr("that both endpoints allow remote writes")));
  EXPECT_NE(sentences.there, "") << "its own write is flushed, or this side's failure comes first";
  EXPECT_TRUE(a.AllAre(mlx5::QpState::kReset));
}

TEST_F(ConnectAllTest, ReportsAPortThatWentDownMeanwhile) {
  const EndpointConfig config{.retry = {.ack_timeout = 8, .retry_count = 1}};
  Side a(device_, 2, config), b(device_, 2, config);
  const Sentences sentences = Connect(Tampered(
                                          a,
                                          [this](int swap, auto&) {
                                            if (swap == 1) SetLink(device_, false);  // both are connected
                                          },
                                          kTrip),
                                      Plainly(b, kTrip));
  const std::string down = "(" + device_.name() + " port 1 is down): ";
  EXPECT_THAT(sentences.here, AllOf(StartsWith("Cannot write to the peer from QP "), HasSubstr(down)));
  EXPECT_THAT(sentences.there, HasSubstr(down));
  SetLink(device_, true);
  ExpectConnects(a, b);
}

bool interrupts = false;
void InterruptOnce() {
  if (std::exchange(interrupts, false)) throw std::logic_error("interrupted");
}

TEST_F(ConnectAllTest, DoesNotWaitForThePeerOnceInterrupted) {
  Side a(device_, 1, {.retry = {.ack_timeout = 0}});  // 0: the write is never given up
  Side b(device_, 1, {.retry = {.ack_timeout = 8, .retry_count = 1}});
  std::promise<void> ended;
  const Sentences sentences = Connect(
      [&](Exchange& exchange) {
        Tampering tampering(exchange, [&](int swap, auto&) {
          if (swap != 1) return;
          SetLink(device_, false);  // both are connected
          interrupts = true;
        });
        const WaitCheck check(InterruptOnce);
        EXPECT_THROW(ConnectAll(a.list(), tampering, DeadlineIn(std::chrono::hours(1)), kTrip),
                     std::logic_error);
        ended.set_value();
      },
      Tampered(
          b,
          [&](int swap, auto&) {
            if (swap == 1) {
              EXPECT_EQ(ended.get_future().wait_for(std::chrono::minutes(1)), std::future_status::ready);
            }
          },
          kTrip));
  EXPECT_EQ(sentences.here, "") << "it threw no Error";
  EXPECT_NE(sentences.there, "");
  EXPECT_TRUE(a.AllAre(mlx5::QpState::kReset));
  SetLink(device_, true);
}

TEST_F(ConnectAllTest, ReportsThePortStateIfThePeerIsSilent) {
  Side a(device_, 2);
  TcpPair tcp;
  EXPECT_THAT(
      SentenceOf([&] { ConnectAll(a.list(), tcp.here, AtOnce()); }),
      AllOf(StartsWith("Cannot swap the descriptions of 2 endpoints with " + tcp.here.PeerName() + " ("),
            HasSubstr(" (" + device_.name() + " port 1 is active): no byte of its message arrived within ")));
}

TEST_F(ConnectAllTest, ReportsWrongDataOfTheRoundTrip) {
  Side a(device_, 1), b(device_, 1);
  // The other side writes 256 bytes further, in the same page: the write succeeds, but its data is in the
  // wrong place.
  const Sentences sentences = Connect(
      [&a](Exchange& exchange) {
        ConnectAll(a.list(), exchange, DeadlineIn(std::chrono::seconds(1)), kTrip);
      },
      Tampered(
          b,
          [](int swap, auto& answer) {
            if (swap == 0) answer.at(answer.size() - kPlaceBytes + 6) += 1;
          },
          kTrip));
  EXPECT_THAT(sentences.here, AllOf(StartsWith("Cannot verify the peer's write from QP "),
                                    HasSubstr("only 0 of 64 bytes are correct")));
  EXPECT_NE(sentences.there, "");
  ExpectConnects(a, b);
}

TEST_F(ConnectAllTest, SurvivesDamagedMessages) {
  std::mt19937 random(7);
  Side a(device_, 1), b(device_, 1);
  for (int i = 0; i < 200; ++i) {
    const int which = static_cast<int>(random() % 2);
    const uint32_t place = random(), cut = random() % 4, value = 1 + random() % 255;
    Connect(Tampered(a,
                     [=](int swap, auto& answer) {
                       if (swap != which || answer.empty()) return;
                       if (cut == 0) answer.resize(place % answer.size());
                       if (cut != 0) answer[place % answer.size()] ^= static_cast<uint8_t>(value);
                     }),
            Plainly(b));
    for (Side* const side : {&a, &b})
      for (Endpoint* const one : side->list()) one->Reset();
  }
  ExpectConnects(a, b);
}

}  // namespace
}  // namespace warpverbs::host
