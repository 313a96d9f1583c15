#pragma once

#include <cstdint>

#include "warpverbs/arch/arch.hpp"
#include "warpverbs/host/doorbell_thread.hpp"

namespace warpverbs::inline v0_2::host {

/// How a host thread forwards one send queue's doorbells from a word in host memory to the NIC.
struct DoorbellRoute {
  uint64_t* word = nullptr;      ///< word that the poster writes; 0 once the thread has read the doorbell
  uint64_t* doorbell = nullptr;  ///< the NIC's register
  arch::Mmio mapping = arch::Mmio::kUncached;  ///< the register's mapping
  // Null unless the host posts:
  const uint8_t* staging = nullptr;  ///< the poster's WQEs: 64 B * depth
  uint8_t* sq = nullptr;             ///< the queue that the NIC reads
  uint32_t* dbrec = nullptr;         ///< doorbell record of `sq`
  uint32_t depth = 0;                ///< depth of both, in WQEBBs
};

/// Has a doorbell thread serve one queue. Any thread may create and destroy services at any time.
class DoorbellService {
 public:
  /// @param thread  must outlive this
  /// @param route   route of a queue that is new or reset; its pointers must stay valid while this lives
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
  uint16_t posted_ = 0;              // index past the last copied WQE
  DoorbellService* next_ = nullptr;  // next in the thread's list
  bool leaving_ = false;             // under the thread's mutex_
};

}  // namespace warpverbs::inline v0_2::host
