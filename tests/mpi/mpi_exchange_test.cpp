// Two ranks run these tests in parallel.
#include "warpverbs/host/mpi_exchange.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <new>
#include <string>
#include <vector>

#include "warpverbs/host/exchange.hpp"
#include "warpverbs/host/tcp_exchange.hpp"

namespace warpverbs::host {
namespace {

size_t refused_bytes = ~size_t{0};  // operator new fails from this size on

int Rank() {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}

Deadline Soon() { return DeadlineIn(std::chrono::seconds(60)); }

/// Swaps. Returns the error text, or "" on success.
std::string SentenceOf(MpiExchange& exchange, Deadline deadline) {
  try {
    exchange.Swap({}, "a word", deadline);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

/// Returns an exchange between the two ranks that does not use MPI.
TcpExchange SideChannel() {
  uint16_t port = 0;
  if (Rank() == 0) {
    const TcpListener listener({.host = "127.0.0.1"});
    port = listener.port();
    MPI_Send(&port, 1, MPI_UINT16_T, 1, 0, MPI_COMM_WORLD);
    return listener.Accept(Soon());
  }
  MPI_Recv(&port, 1, MPI_UINT16_T, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  return TcpExchange::Connect({"127.0.0.1", port}, Soon());
}

/// Returns a rank's message of a round.
std::vector<uint8_t> MessageOf(int rank, size_t bytes) {
  std::vector<uint8_t> message(bytes);
  for (size_t i = 0; i < bytes; ++i) message[i] = static_cast<uint8_t>(i * 7 + (i >> 8) + rank);
  return message;
}

TEST(MpiExchange, CarriesShortAndLongMessagesInOrder) {
  MpiExchange exchange(MPI_COMM_WORLD, 1 - Rank());
  for (const size_t bytes : {3u, 0u, 5'000'000u, 1u}) {
    const std::vector<uint8_t> theirs = exchange.Swap(MessageOf(Rank(), bytes), "a word", Soon());
    EXPECT_TRUE(theirs == MessageOf(1 - Rank(), bytes)) << bytes;
  }
}

TEST(MpiExchange, SwapsWithItself) {
  MpiExchange exchange(MPI_COMM_WORLD, Rank());
  EXPECT_EQ(exchange.Swap(MessageOf(1, 9), "a word", Soon()), MessageOf(1, 9));
}

TEST(MpiExchange, SeparatesTags) {
  MpiExchange first(MPI_COMM_WORLD, 1 - Rank(), 1), second(MPI_COMM_WORLD, 1 - Rank(), 2);
  EXPECT_EQ(second.Swap(MessageOf(2, 9), "a word", Soon()), MessageOf(2, 9));
  EXPECT_EQ(first.Swap(MessageOf(1, 9), "a word", Soon()), MessageOf(1, 9));
}

TEST(MpiExchange, ReportsASilentRank) {
  if (Rank() == 0) {
    MpiExchange exchange(MPI_COMM_WORLD, 1, 3);
    const auto sentence = [&exchange] {
      return SentenceOf(exchange, DeadlineIn(std::chrono::milliseconds(50)));
    };
    EXPECT_THAT(sentence(), testing::StartsWith("Cannot swap a word with rank 1: no message came within "));
    EXPECT_THAT(sentence(), testing::HasSubstr("an earlier swap failed"));
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

TEST(MpiExchange, ReportsALongMessageThatDoesNotEnd) {
  constexpr int kTag = 5, kBegun = 6;
  TcpExchange aside = SideChannel();
  if (Rank() == 0) {
    const std::vector<uint8_t> message = MessageOf(0, 5'000'000);
    MPI_Request sending = MPI_REQUEST_NULL;
    MPI_Isend(message.data(), static_cast<int>(message.size()), MPI_BYTE, 1, kTag, MPI_COMM_WORLD, &sending);
    // MPI may send the message's beginning in a later call. After this one, this rank does not call MPI for a while.
    MPI_Recv(nullptr, 0, MPI_BYTE, 1, kBegun, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    aside.Swap({}, "that the other rank gave up", Soon());
    MPI_Recv(nullptr, 0, MPI_BYTE, 1, kTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Wait(&sending, MPI_STATUS_IGNORE);
  } else {
    MpiExchange exchange(MPI_COMM_WORLD, 0, kTag);
    MPI_Probe(0, kTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Send(nullptr, 0, MPI_BYTE, 0, kBegun, MPI_COMM_WORLD);
    EXPECT_THAT(
        SentenceOf(exchange, DeadlineIn(std::chrono::milliseconds(200))),
        testing::StartsWith("Cannot swap a word with rank 0: its message began and did not end within "));
    aside.Swap({}, "that this rank gave up", Soon());
  }
  MPI_Barrier(MPI_COMM_WORLD);  // receives the rest of the message into memory that MPI owns by now
}

TEST(MpiExchange, RejectsMessagesAboveTheLimit) {
  MpiExchange exchange(MPI_COMM_WORLD, 1 - Rank());
  EXPECT_THROW(exchange.Swap(std::vector<uint8_t>(kMaxSwapBytes + 1), "a word", Soon()), Error);
  EXPECT_EQ(exchange.Swap(MessageOf(0, 1), "a word", Soon()), MessageOf(0, 1)) << "nothing was sent";
}

TEST(MpiExchange, StopsAfterAMessageForWhichMemoryRanOut) {
  MpiExchange exchange(MPI_COMM_WORLD, 1 - Rank(), 4);
  if (Rank() == 0) {
    exchange.Swap(MessageOf(0, 2000), "a word", Soon());
  } else {
    refused_bytes = 1000;
    EXPECT_THROW(exchange.Swap({}, "a word", Soon()), std::bad_alloc);
    refused_bytes = ~size_t{0};
    EXPECT_THAT(SentenceOf(exchange, DeadlineIn(std::chrono::seconds(1))),
                testing::HasSubstr("an earlier swap failed"));
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

}  // namespace
}  // namespace warpverbs::host

void* operator new(size_t bytes) {
  void* const block = bytes >= warpverbs::host::refused_bytes ? nullptr : std::malloc(bytes);
  if (block == nullptr) throw std::bad_alloc();
  return block;
}
void operator delete(void* block) noexcept { std::free(block); }
void operator delete(void* block, size_t) noexcept { std::free(block); }

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  testing::InitGoogleMock(&argc, argv);
  int own = RUN_ALL_TESTS(), all = 0;
  MPI_Allreduce(&own, &all, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  MPI_Finalize();
  return all;
}
