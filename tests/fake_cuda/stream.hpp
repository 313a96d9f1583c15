#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

struct CUctx_st;

/// Progress of the work before an event.
struct CUevent_st {
  struct Marks {
    std::mutex mutex;
    std::condition_variable changed;
    uint64_t recorded = 0;
    uint64_t reached = 0;
  };
  CUctx_st* context;
  std::shared_ptr<Marks> marks =
      std::make_shared<Marks>();  // shared: an event may be destroyed before its work ends
};

/// Executes work in order: at once, or later on a thread of its own if the settings have a delay.
struct CUstream_st {
  explicit CUstream_st(CUctx_st* in);
  ~CUstream_st();
  CUstream_st(const CUstream_st&) = delete;
  CUstream_st& operator=(const CUstream_st&) = delete;

  void Do(std::function<void()> work);
  void Synchronize();

  CUctx_st* context;

 private:
  void Run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> work_;  // the first one is being executed
  bool ends_ = false;
  std::thread thread_;
};
