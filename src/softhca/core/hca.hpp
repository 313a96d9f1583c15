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
#include "dma/device_memory.hpp"

namespace softhca {

inline constexpr uint32_t kMaxQueueDepth = 32768;
inline constexpr uint32_t kMaxLogCqDepth = 22;

/// User memory that queues may be placed in.
struct Umem {
  Bytes memory;
  std::shared_ptr<const void> hold{};  ///< see Mkey::hold
};

/// Memory on the card that a program has allocated. "Device memory" in verbs, which is a GPU's elsewhere in
/// softhca.
struct CardMemory {
  Bytes memory;
  std::shared_ptr<const void> hold{};  ///< see Mkey::hold
};

struct SrqConfig {
  uint32_t pdn = 0;
  // For XRC.
  uint32_t xrcd = 0;        ///< domain of the targets that may use it; 0: none
  uint32_t cqn = 0;         ///< queue for its completions
  uint32_t user_index = 0;  ///< in its completions
  ReceiveQueueConfig queue{};
  std::function<void()> on_limit{};  ///< called when fewer receives are posted than the limit
};

struct SharedReceiveQueue {
  SrqConfig config;
  ReceiveQueue queue;
  uint32_t limit = 0;  ///< 0: not armed

  /// Calls on_limit if fewer receives are posted than the limit, once per limit that is set.
  void CheckLimit();
};

class Network;

/// Device and inode of the file that an XRC domain is shared by.
using XrcdFile = std::pair<uint64_t, uint64_t>;

/// Number of objects of each kind.
struct ObjectCounts {
  size_t pds, mkeys, uars, umems, cqs, srqs, qps;
};

/// One software ConnectX: its objects, by number, and the rules of their lifetime.
///
/// Not thread-safe: the engine and every command hold the engine's lock.
/// Calls that create an object return its number. Calls that destroy one refuse it while another object uses
/// it.
///
/// @errors  CommandError, from every call: kBadResource for an object that does not exist, kResourceBusy for
///          one in use, kBadParameter for values that no ConnectX accepts
class Hca {
 public:
  explicit Hca(DeviceConfig config) : config_(std::move(config)) {}

  uint32_t AllocPd();
  void DeallocPd(uint32_t pdn);

  /// @return  the key, for use as lkey and as rkey
  uint32_t RegisterMemory(const Mkey& mkey, std::optional<uint8_t> variant = {});
  void DeregisterMemory(uint32_t key);
  /// Changes protection domain, access and memory behind a key.
  void ReregisterMemory(uint32_t key, const Mkey& mkey);

  /// Makes a memory window, which is free until a work request binds it.
  ///
  /// @param revocable  whether peers may free it, as for a memory window of type 2
  /// @return  its first key
  uint32_t AllocWindow(uint32_t pdn, bool revocable);
  void DeallocWindow(uint32_t key);

  /// @param page  4096 zeroed bytes that the program maps too
  uint32_t AllocUar(uint8_t* page);
  /// @return  the page, which the caller may now unmap
  uint8_t* FreeUar(uint32_t uar);

  uint32_t RegisterUmem(Umem umem);
  void DeregisterUmem(uint32_t umem);
  /// Returns the object that keeps a umem's memory accessible.
  std::shared_ptr<const void> UmemHold(uint32_t umem) const { return umems_.at(umem).hold; }
  /// Returns the memory at `offset` of a umem.
  ///
  /// @errors  CommandError: kBadParameter if [offset, offset + bytes) lies outside
  uint8_t* UmemAddress(uint32_t umem, uint64_t offset, uint64_t bytes) const;

  /// Takes a part of the card's memory.
  ///
  /// @errors  CommandError: kLimitExceeded if the card has too little left
  uint32_t AddCardMemory(CardMemory memory);
  /// Gives a part of the card's memory back.
  void RemoveCardMemory(uint32_t number);
  const CardMemory& FindCardMemory(uint32_t number) const { return card_memories_.at(number); }

  uint32_t CreateCq(CqConfig config);
  /// Moves a queue to another ring, see CompletionQueue::Resize().
  void ResizeCq(uint32_t cqn, uint8_t* ring, uint32_t log_depth, uint32_t cqe_bytes);
  void DestroyCq(uint32_t cqn);

  /// Opens an XRC domain: the one that is open with the same file, or a new one.
  uint32_t OpenXrcd(const std::optional<XrcdFile>& file);
  bool HasXrcd(const XrcdFile& file) const { return FindXrcd(file) != 0; }
  /// Closes an XRC domain once; the last time destroys it.
  void CloseXrcd(uint32_t xrcd);

  uint32_t CreateSrq(SrqConfig config);
  void DestroySrq(uint32_t srqn);
  void SetSrqLimit(uint32_t srqn, uint32_t limit);

  uint32_t CreateQp(QpConfig config);
  void DestroyQp(uint32_t qpn);
  /// Opens an XRC target once more.
  ///
  /// @param xrcd   its XRC domain
  /// @param owner  key for CloseQp()
  /// @errors  CommandError: kBadParameter if the domain has no such target
  void OpenQp(uint32_t qpn, uint32_t xrcd, const void* owner, std::function<void(QpEvent)> on_event);
  /// Closes a queue pair for one of its owners: one of OpenQp(), or else the one that created it. The last
  /// one destroys it.
  void CloseQp(uint32_t qpn, const void* owner);
  void ModifyQp(uint32_t qpn, mlx5::QpState to, const QpChange& change);
  const QueuePair& Qp(uint32_t qpn) const;
  /// Attaches a queue pair to a multicast group: it receives the group's datagrams.
  ///
  /// @errors  CommandError: kLimitExceeded if the group is full
  void AttachMulticast(uint32_t qpn, const Gid& group);
  /// @errors  CommandError: kBadParameter if it is not attached
  void DetachMulticast(uint32_t qpn, const Gid& group);

  /// Sets a port's link up or down, and notifies the listeners if that is a change.
  void SetLink(uint8_t port, bool up);
  using LinkListener = std::function<void(uint8_t port, bool up)>;
  /// @param owner  key for RemoveLinkListener()
  void AddLinkListener(const void* owner, LinkListener listener) { listeners_[owner] = std::move(listener); }
  void RemoveLinkListener(const void* owner) { listeners_.erase(owner); }

  const DeviceConfig& config() const { return config_; }
  ObjectCounts Counts() const;
  /// Returns the number of objects ever created, destroyed ones included.
  const ObjectCounts& Created() const { return created_; }

  /// Returns the observer; null if none is set. It outlives the device.
  Observer* observer() const { return observer_; }
  void SetObserver(Observer* observer) { observer_ = observer; }

  // For the engine.
  /// Sets the network that hears of changes of queue pairs, and may refuse them. It outlives their changes.
  void SetNetwork(Network* network) { network_ = network; }
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
  uint32_t FindXrcd(const XrcdFile& file) const;

  DeviceConfig config_;
  Observer* observer_ = nullptr;
  std::map<const void*, LinkListener> listeners_;
  Network* network_ = nullptr;
  ObjectCounts created_{};
  MkeyTable mkeys_{config_.first_key};
  std::set<uint32_t> pds_;
  std::map<uint32_t, uint8_t*> uars_;
  std::map<uint32_t, Umem> umems_;
  std::map<uint32_t, CardMemory> card_memories_;
  struct Xrcd {
    std::optional<XrcdFile> file;
    uint32_t opened = 1;  ///< times that it is open
  };
  std::map<uint32_t, Xrcd> xrcds_;
  std::map<uint32_t, std::unique_ptr<CompletionQueue>> cqs_;
  std::map<uint32_t, std::unique_ptr<SharedReceiveQueue>> srqs_;
  std::map<uint32_t, std::unique_ptr<QueuePair>> qps_;
  uint32_t last_pdn_ = 0, last_uar_ = 0, last_umem_ = 0, last_cqn_ = 0x40, last_srqn_ = 0, last_qpn_ = 0x100,
           last_xrcd_ = 0, last_card_memory_ = 0;
};

}  // namespace softhca
