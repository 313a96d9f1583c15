#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <stop_token>
#include <thread>

namespace warpverbs::host {

/// The way of one send queue's doorbells from a word in host memory to the NIC.
struct DoorbellRoute {
  uint64_t* word = nullptr;      ///< where the poster rings; 0 once the doorbell is taken
  uint64_t* doorbell = nullptr;  ///< the NIC's register
  // Where the host posts; else all null:
  const uint8_t* staging = nullptr;  ///< the poster's WQEs: 64 B * depth
  uint8_t* sq = nullptr;             ///< the queue that the NIC reads
  uint32_t* dbrec = nullptr;         ///< its doorbell record
  uint32_t depth = 0;                ///< of both, in WQEBBs
};

/// A host thread that rings the doorbells of any number of queues.
///
/// It answers within microseconds while doorbells come, and naps once none has come for a while: the first
/// one after that may wait for four milliseconds.
class DoorbellThread {
 public:
  /// @errors  Error: the system has no thread left
  DoorbellThread();
  /// @pre  no queue is served any more
  ~DoorbellThread() = default;
  DoorbellThread(const DoorbellThread&) = delete;
  DoorbellThread& operator=(const DoorbellThread&) = delete;

  /// Serves one queue while this lives. May come and go in any thread while others are served.
  class Service {
   public:
    /// @param thread  must outlive this
    /// @param route   of a queue that is new or reset; what it points to must outlive this
    Service(DoorbellThread& thread, const DoorbellRoute& route);
    ~Service();
    Service(const Service&) = delete;
    Service& operator=(const Service&) = delete;

   private:
    friend class DoorbellThread;

    bool Forward();
    void CopyWqes(uint16_t end);

    DoorbellThread& thread_;
    DoorbellRoute route_;
    uint16_t posted_ = 0;      // the index past the last WQE that was copied
    Service* next_ = nullptr;  // in the list that it is in
    bool leaving_ = false;     // under the thread's mutex_
  };

 private:
  void Run(const std::stop_token& stop);
  void Add(Service& service);
  void Remove(Service& service);
  void TakeChanges();

  // The services are links of lists, so that neither who comes or goes nor the thread needs memory.
  std::mutex mutex_;
  std::condition_variable_any changed_;
  Service* coming_ = nullptr;         // those that the thread does not serve yet; under mutex_
  Service* served_ = nullptr;         // the thread's own
  std::atomic<uint64_t> version_{0};  // counts who comes or goes; changes under mutex_
  uint64_t served_version_ = 0;       // what the thread goes by; it alone writes it, under mutex_
  std::jthread thread_;               // the last member: it ends before the others do
};

}  // namespace warpverbs::host
