#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <vector>

#include "core/hca.hpp"
#include "core/wqe_builder.hpp"

/// A program's side of the device: queues in plain vectors, posted to and polled as a driver does.
namespace softhca {

inline constexpr uint32_t kAllAccess =
    kAccessLocalWrite | kAccessRemoteWrite | kAccessRemoteRead | kAccessRemoteAtomic;

/// An Ethernet device of one port, whose GID ends in `number`.
DeviceConfig TestDevice(uint8_t number = 1);

/// A decoded completion.
struct Cqe {
  mlx5::CqeOpcode opcode;
  mlx5::Syndrome syndrome;
  uint32_t qpn;
  uint32_t user_index;
  uint8_t wqe_opcode;
  uint16_t wqe_index;
  uint32_t bytes;
  mlx5::Be32 imm;
  bool solicited;
  uint32_t remote_qpn;
  std::optional<mlx5::CqeL3Header> l3_header;
};

/// The memory of a completion queue, and its consumer.
class CqMemory {
 public:
  explicit CqMemory(uint32_t log_depth, uint32_t cqe_bytes = 64);

  CqConfig Config();
  /// Takes the next completion if its owner bit marks it as written, and updates the consumer index.
  std::optional<Cqe> Poll();
  /// Writes an arm request. The caller rings the doorbell.
  void Arm(bool solicited_only = false);

 private:
  uint32_t log_depth_;
  uint32_t cqe_bytes_;
  std::vector<uint8_t> ring_;
  mlx5::CqDbr dbr_{};
  uint32_t consumer_index_ = 0;
  uint32_t arms_ = 0;
};

/// Registered memory.
struct Region {
  Region(Hca& hca, uint32_t pdn, size_t bytes, uint32_t access = kAllAccess);

  uint64_t Address(size_t offset = 0) const { return reinterpret_cast<uint64_t>(memory.data() + offset); }
  template <class T>
  T& As(size_t offset = 0) {
    return *reinterpret_cast<T*>(memory.data() + offset);
  }

  std::vector<uint8_t> memory;
  uint32_t key;
};

struct QpOptions {
  mlx5::ServiceType service = mlx5::ServiceType::kRc;
  uint32_t send_depth = 16;  ///< in WQEBBs
  uint32_t receive_depth = 16;
  uint32_t log_cq_depth = 6;
  uint32_t srqn = 0;
  uint32_t user_index = 0;
  uint32_t uar = 0;  ///< 0: a page of its own
  bool cd_master = false;
};

/// A queue pair with queues of its own.
class QpUser {
 public:
  QpUser(Hca& hca, uint32_t pdn, const QpOptions& options = {});
  QpUser(const QpUser&) = delete;

  /// Modifies the queue pair to INIT, to RTR towards `peer`, then to RTS. `change` replaces single
  /// attributes.
  void Connect(const QpUser& peer, const QpChange& change = {});
  void ConnectToRtr(const QpUser& peer, const QpChange& change = {});
  void ConnectToRts(const QpChange& change = {});

  /// Writes a WQE and the record, but rings no doorbell.
  void Post(const WqeBuilder& wqe);
  void Ring();
  void PostReceive(std::initializer_list<mlx5::DataSegment> segments);
  /// Returns to RESET with zeroed records, as a driver does.
  void Reset();

  QueuePair& qp() { return *hca_.FindQp(qpn); }
  uint8_t* SendSlot(uint32_t index) {
    return send_ring_.data() + index % options_.send_depth * mlx5::kWqebbBytes;
  }
  void SetSendRecord(uint32_t index) { dbr_.send = mlx5::ToBe32(index & mlx5::kQpDbrIndexMask); }
  void Skip(uint32_t wqebbs) { send_index_ += wqebbs; }

  uint32_t qpn = 0;
  uint32_t uar = 0;
  CqMemory send_cq, receive_cq;
  uint32_t send_cqn = 0, receive_cqn = 0;
  std::vector<QpEvent> events;

 private:
  static constexpr uint32_t kReceiveStride = 4 * mlx5::kSegmentBytes;

  Hca& hca_;
  QpOptions options_;
  alignas(64) std::array<uint8_t, mlx5::kUarPageBytes> uar_page_{};
  std::vector<uint8_t> send_ring_, receive_ring_;
  mlx5::QpDbr dbr_{};
  uint32_t send_index_ = 0, receive_index_ = 0;
  mlx5::Be64 doorbell_{};
};

/// Returns the attributes of the transition to INIT.
QpChange ToInit();
/// Returns the attributes of the transition to RTR towards a queue pair of `peer`.
QpChange ToRtr(const DeviceConfig& peer, uint32_t remote_qpn);
QpChange ToRts();

}  // namespace softhca
