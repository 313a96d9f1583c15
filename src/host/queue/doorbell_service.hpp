#pragma once

#include <cstdint>

#include "warpverbs/host/doorbell_thread.hpp"

namespace warpverbs::inline v0_2::host {

/// The way of one send queue's doorbells from a word in host memory to the NIC.
struct DoorbellRoute {
  uint64_t* word = nullptr;      ///< where the poster rings; 0 once the doorbell is taken
  uint64_t* doorbell = nullptr;  ///< the NIC's register
  // All null unless the host posts:
  const uint8_t* staging = nullptr;  ///< the poster's WQEs: 64 B * depth
  uint8_t* sq = nullptr;             ///< the queue that the NIC reads
  uint32_t* dbrec = nullptr;         ///< its doorbell record
  uint32_t depth = 0;                ///< depth of both, in WQEBBs
};

/// Serves one queue while this lives. May come and go in any thread while others are served.
class DoorbellService {
 public:
  /// @param thread  must outlive this
  /// @param route   of a queue that is new or reset; what it points to must outlive this
  DoorbellService(DoorbellThread& thread, const DoorbellRoute& route);
  ~DoorbellService();
  DoorbellService(const DoorbellService&) = delete;
  DoorbellService& operator=(const DoorbellService&) = delete;

 private:
  friend class DoorbellThread::Impl;

  bool Forward();
  void CopyWqes(uint16_t end);

  DoorbellThread::Impl& thread_;
  DoorbellRoute route_;
  uint16_t posted_ = 0;              // index past the last WQE that was copied
  DoorbellService* next_ = nullptr;  // in its list
  bool leaving_ = false;             // under the thread's mutex_
};

}  // namespace warpverbs::inline v0_2::host
