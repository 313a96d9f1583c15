#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "core/observer.hpp"

namespace softhca {

/// Forwards events to several observers.
class ObserverList : public Observer {
 public:
  void Add(std::unique_ptr<Observer> observer) { observers_.push_back(std::move(observer)); }
  bool empty() const { return observers_.empty(); }

  void OnState(const QueuePair& qp, mlx5::QpState from) override { Notify(&Observer::OnState, qp, from); }
  void OnLink(const Hca& hca, uint8_t port, bool up) override { Notify(&Observer::OnLink, hca, port, up); }
  void OnDoorbell(const QueuePair& qp) override { Notify(&Observer::OnDoorbell, qp); }
  void OnFetch(const QueuePair& qp, uint16_t index, const Request& request) override {
    Notify(&Observer::OnFetch, qp, index, request);
  }
  void OnDone(const QueuePair& qp, uint16_t index, mlx5::Syndrome syndrome) override {
    Notify(&Observer::OnDone, qp, index, syndrome);
  }
  void OnCompletion(const QueuePair& qp) override { Notify(&Observer::OnCompletion, qp); }
  void OnMessage(const QueuePair& from, const QueuePair& to, const Request& request) override {
    Notify(&Observer::OnMessage, from, to, request);
  }
  void OnPacket(const QueuePair& qp, Direction direction, const Packet& packet,
                uint64_t payload_bytes) override {
    Notify(&Observer::OnPacket, qp, direction, packet, payload_bytes);
  }
  void OnExecuted(const QueuePair& qp, const Packet& packet) override {
    Notify(&Observer::OnExecuted, qp, packet);
  }
  void OnTimeout(const QueuePair& qp) override { Notify(&Observer::OnTimeout, qp); }
  void OnStalledPeer(const QueuePair& qp) override { Notify(&Observer::OnStalledPeer, qp); }
  void OnDrop(const char* reason, uint64_t frames) override { Notify(&Observer::OnDrop, reason, frames); }
  void OnLostEvent() override { Notify(&Observer::OnLostEvent); }
  void OnRefusal(const Hca& hca, const char* command, const char* error, const char* why) override {
    Notify(&Observer::OnRefusal, hca, command, error, why);
  }
  void OnIdle() override { Notify(&Observer::OnIdle); }
  void OnEnd(std::span<const std::unique_ptr<Hca>> devices) override { Notify(&Observer::OnEnd, devices); }

 private:
  template <class Method, class... Args>
  void Notify(Method method, const Args&... args) {
    for (const auto& observer : observers_) (*observer.*method)(args...);
  }

  std::vector<std::unique_ptr<Observer>> observers_;
};

}  // namespace softhca
