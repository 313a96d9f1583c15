#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/config.hpp"
#include "core/cq.hpp"
#include "core/error.hpp"
#include "core/mkey.hpp"
#include "core/observer.hpp"
#include "core/qp.hpp"
#include "core/receive_queue.hpp"
#include "dma/bytes.hpp"

namespace softhca {

inline constexpr uint32_t kMaxQueueDepth = 32768;
inline constexpr uint32_t kMaxLogCqDepth = 22;

/// Memory that queues may lie in.
struct Umem {
  Bytes memory;
  std::shared_ptr<const void> hold{};  ///< as of Mkey
};

struct SrqConfig {
  uint32_t pdn = 0;
  ReceiveQueueConfig queue{};
  std::function<void()> on_limit{};  ///< fewer receives wait than the limit
};

struct SharedReceiveQueue {
  SrqConfig config;
  ReceiveQueue queue;
  uint32_t limit = 0;  ///< 0: not armed

  /// Announces that fewer receives wait than the limit, once for each limit that is set.
  void CheckLimit();
};

/// How many objects of each kind there are.
struct ObjectCounts {
  size_t pds, mkeys, uars, umems, cqs, srqs, qps;
};

/// One software ConnectX: its objects, by number, and the rules of their life.
///
/// Not thread-safe: the engine and every command hold the engine's lock.
/// All creating calls return the new object's number; destroying calls refuse an object that others still
/// use.
///
/// @errors  CommandError, of every call: kBadResource for an object that does not exist, kResourceBusy for
/// one in use,
///          kBadParameter for values that no ConnectX takes
class Hca {
 public:
  explicit Hca(DeviceConfig config) : config_(std::move(config)) {}

  uint32_t AllocPd();
  void DeallocPd(uint32_t pdn);

  /// @return  the key, for use as lkey and as rkey
  uint32_t RegisterMemory(const Mkey& mkey, std::optional<uint8_t> variant = {});
  void DeregisterMemory(uint32_t key);

  /// @param page  4096 bytes that the program maps too, zeroed
  uint32_t AllocUar(uint8_t* page);
  /// @return  the page, which the caller may now unmap
  uint8_t* FreeUar(uint32_t uar);

  uint32_t RegisterUmem(Umem umem);
  void DeregisterUmem(uint32_t umem);
  /// What keeps the memory of a umem within reach.
  std::shared_ptr<const void> UmemHold(uint32_t umem) const { return umems_.at(umem).hold; }
  /// The memory at `offset` of a umem.
  ///
  /// @errors  CommandError: kBadParameter if [offset, offset + bytes) lies outside
  uint8_t* UmemAddress(uint32_t umem, uint64_t offset, uint64_t bytes) const;

  uint32_t CreateCq(CqConfig config);
  void DestroyCq(uint32_t cqn);

  uint32_t CreateSrq(SrqConfig config);
  void DestroySrq(uint32_t srqn);
  void SetSrqLimit(uint32_t srqn, uint32_t limit);

  uint32_t CreateQp(QpConfig config);
  void DestroyQp(uint32_t qpn);
  void ModifyQp(uint32_t qpn, mlx5::QpState to, const QpChange& change);
  const QueuePair& Qp(uint32_t qpn) const;

  /// Takes the link of a port up or down, and tells the listeners if that is news.
  void SetLink(uint8_t port, bool up);
  using LinkListener = std::function<void(uint8_t port, bool up)>;
  /// @param owner  by which RemoveLinkListener() knows it
  void AddLinkListener(const void* owner, LinkListener listener) { listeners_[owner] = std::move(listener); }
  void RemoveLinkListener(const void* owner) { listeners_.erase(owner); }

  const DeviceConfig& config() const { return config_; }
  ObjectCounts Counts() const;
  /// Those that were ever created, destroyed ones included.
  const ObjectCounts& Created() const { return created_; }

  /// Who watches; null: nobody. It outlives the device.
  Observer* observer() const { return observer_; }
  void SetObserver(Observer* observer) { observer_ = observer; }

  // For the engine.
  /// @param on_transition  called after each transition that a command has asked for; may refuse it by a
  ///                       CommandError
  void WatchQps(std::function<void(QueuePair&)> on_transition) { on_transition_ = std::move(on_transition); }
  const MkeyTable& mkeys() const { return mkeys_; }
  MkeyTable& mkeys() { return mkeys_; }
  QueuePair* FindQp(uint32_t qpn);
  SharedReceiveQueue* FindSrq(uint32_t srqn);
  CompletionQueue* FindCq(uint32_t cqn);
  std::map<uint32_t, std::unique_ptr<QueuePair>>& qps() { return qps_; }
  std::map<uint32_t, std::unique_ptr<CompletionQueue>>& cqs() { return cqs_; }
  const std::map<uint32_t, uint8_t*>& uars() const { return uars_; }

 private:
  void CheckPd(uint32_t pdn) const;
  void CheckUar(uint32_t uar) const;
  void CheckCq(uint32_t cqn) const;
  bool UsesUmem(uint32_t umem) const;

  DeviceConfig config_;
  Observer* observer_ = nullptr;
  std::map<const void*, LinkListener> listeners_;
  std::function<void(QueuePair&)> on_transition_;
  ObjectCounts created_{};
  MkeyTable mkeys_;
  std::set<uint32_t> pds_;
  std::map<uint32_t, uint8_t*> uars_;
  std::map<uint32_t, Umem> umems_;
  std::map<uint32_t, std::unique_ptr<CompletionQueue>> cqs_;
  std::map<uint32_t, std::unique_ptr<SharedReceiveQueue>> srqs_;
  std::map<uint32_t, std::unique_ptr<QueuePair>> qps_;
  uint32_t last_pdn_ = 0, last_uar_ = 0, last_umem_ = 0, last_cqn_ = 0x40, last_srqn_ = 0, last_qpn_ = 0x100;
};

}  // namespace softhca
