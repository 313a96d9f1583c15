#include "gpuio/server/scheduler.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <asio/io_context.hpp>
#include <asio/thread_pool.hpp>
#include <deque>
#include <memory>
#include <mutex>
#include <semaphore>
#include <string>
#include <vector>

#include "gpuio/common/basics.hpp"
#include "gpuio/server/arena.hpp"
#include "gpuio/server/job_queue.hpp"

namespace warpverbs::inline v0_2::gpuio {
namespace {

using Share = Scheduler::Share;

/// Work of a number of pieces of one size. Notes what starts.
class Pieces : public BufferUser {
 public:
  Pieces(size_t pieces, size_t bytes, std::deque<uint8_t*>& started)
      : left_(pieces), bytes_(bytes), started_(started) {}

  bool WantsBuffer() const override { return left_ > 0; }
  size_t Start(uint8_t* buffer) override {
    --left_;
    done_ += bytes_;
    started_.push_back(buffer);
    return bytes_;
  }
  void Abandon() override { abandoned_ = true; }

  size_t done() const { return done_; }
  bool abandoned() const { return abandoned_; }

 private:
  size_t left_, bytes_, done_ = 0;
  std::deque<uint8_t*>& started_;
  bool abandoned_ = false;
};

struct ClientWork {
  std::shared_ptr<Share> share = std::make_shared<Share>();
  std::deque<uint8_t*> started{};
};

class Schedulers : public testing::Test {
 protected:
  Schedulers() {
    for (uint8_t& buffer : memory_) free_.push_back(&buffer);
  }

  std::shared_ptr<Pieces> Add(ClientWork& client, size_t pieces, size_t bytes) {
    auto work = std::make_shared<Pieces>(pieces, bytes, client.started);
    scheduler_.Add(client.share, work);
    return work;
  }
  /// Ends the oldest piece of a client.
  void End(ClientWork& client) {
    uint8_t* const buffer = client.started.front();
    client.started.pop_front();
    scheduler_.Return(*client.share, buffer);
  }

  std::vector<uint8_t> memory_ = std::vector<uint8_t>(16);
  std::vector<uint8_t*> free_;
  Scheduler scheduler_{{.free = [this] { return free_.size(); },
                        .take =
                            [this] {
                              uint8_t* const buffer = free_.back();
                              free_.pop_back();
                              return buffer;
                            },
                        .put = [this](uint8_t* buffer) { free_.push_back(buffer); }}};
};

TEST_F(Schedulers, LeaveHalfOfTheBuffersToNewcomers) {
  ClientWork first, second;
  Add(first, 100, kChunkBytes);
  EXPECT_EQ(first.share->held(), 8u);
  Add(second, 100, kChunkBytes);
  EXPECT_EQ(second.share->held(), 4u) << "even while the first returns none";
}

TEST_F(Schedulers, GiveClientsAsManyBytesWhateverTheirPieces) {
  free_.resize(1);  // for which all wait: turns decide, and not how many buffers a client may hold
  ClientWork large, small;
  const auto in_large = Add(large, 4000, kChunkBytes);
  const auto in_small = Add(small, 40000, kChunkBytes / 8);
  const size_t large_before = in_large->done(), small_before = in_small->done();
  for (int i = 0; i < 4000; ++i) End(large.started.empty() ? small : large);
  const auto of_large = static_cast<double>(in_large->done() - large_before);
  const auto of_small = static_cast<double>(in_small->done() - small_before);
  EXPECT_NEAR(of_small / of_large, 1, 0.2);
}

TEST_F(Schedulers, GiveAClientWithManyWorksNoMoreThanOneWithASingleWork) {
  ClientWork many, one;
  for (int i = 0; i < 50; ++i) Add(many, 1000, kChunkBytes);
  const auto work = Add(one, 10000, kChunkBytes);
  size_t many_ended = 0;
  const size_t before = work->done();
  while (work->done() - before < 500 * kChunkBytes) {
    if (!many.started.empty()) End(many), ++many_ended;
    if (!one.started.empty()) End(one);
    ASSERT_LT(many_ended, 2000u);
  }
  EXPECT_NEAR(static_cast<double>(many_ended), 500, 50);
}

TEST_F(Schedulers, LetWorksOfAClientTakeTurns) {
  ClientWork client;
  const auto long_one = Add(client, 1000, kChunkBytes), short_one = Add(client, 4, kChunkBytes);
  for (int i = 0; i < 12; ++i) End(client);
  EXPECT_EQ(short_one->done(), 4 * kChunkBytes) << "it does not wait for the end of the first";
  EXPECT_GT(long_one->done(), 4 * kChunkBytes);
}

TEST_F(Schedulers, AbandonWorksOfClientsThatAreGone) {
  ClientWork gone, other;
  const auto work = Add(gone, 100, kChunkBytes);
  scheduler_.Close(*gone.share);
  EXPECT_TRUE(work->abandoned());
  const size_t before = work->done();
  while (!gone.started.empty()) End(gone);
  EXPECT_EQ(work->done(), before);
  EXPECT_EQ(gone.share->held(), 0u);
  Add(gone, 1, kChunkBytes);
  EXPECT_TRUE(gone.started.empty());
  Add(other, 1, kChunkBytes);
  EXPECT_EQ(other.share->held(), 1u);
}

/// Jobs that wait until they may go on.
struct JobQueues : testing::Test {
  ~JobQueues() override {
    LetGo(1000);
    threads.join();
    loop.run();
  }

  void Add(const std::shared_ptr<JobQueue::Share>& client, const std::string& name) {
    queue.Add(client, {.call =
                           [this, name] {
                             {
                               const std::lock_guard lock(mutex);
                               started.push_back(name);
                             }
                             gate.acquire();
                           },
                       .then = [] {}});
  }
  void LetGo(int jobs) { gate.release(jobs); }

  /// Runs the loop until some jobs have started, and returns all that have.
  std::vector<std::string> Await(size_t jobs) {
    EXPECT_TRUE(Eventually([&] {
      loop.restart();
      loop.poll();
      const std::lock_guard lock(mutex);
      return started.size() >= jobs;
    }));
    const std::lock_guard lock(mutex);
    return started;
  }

  asio::io_context loop;
  asio::thread_pool threads{4};
  JobQueue queue{loop, threads, 4};
  std::counting_semaphore<2000> gate{0};
  std::mutex mutex;
  std::vector<std::string> started;
};

TEST_F(JobQueues, LetClientsTakeTurns) {
  const auto many = std::make_shared<JobQueue::Share>(), few = std::make_shared<JobQueue::Share>(),
             one = std::make_shared<JobQueue::Share>();
  for (int i = 0; i < 50; ++i) Add(many, "many");
  EXPECT_EQ(Await(2).size(), 2u) << "half of the threads";
  for (int i = 0; i < 10; ++i) Add(few, "few");
  EXPECT_EQ(Await(4).size(), 4u);
  Add(one, "one");
  LetGo(1);
  EXPECT_THAT(Await(5), testing::Contains("one")) << "before 57 others that have waited longer";
}

TEST_F(JobQueues, ForgetWhatIsCleared) {
  const auto client = std::make_shared<JobQueue::Share>(), other = std::make_shared<JobQueue::Share>();
  for (int i = 0; i < 10; ++i) Add(client, "cleared");
  Await(2);
  client->Clear();
  Add(other, "other");
  LetGo(1000);
  EXPECT_EQ(Await(3), (std::vector<std::string>{"cleared", "cleared", "other"}));
}

}  // namespace
}  // namespace warpverbs::inline v0_2::gpuio
