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

  void OnState(const QueuePair& qp, mlx5::QpState from) override { Tell(&Observer::OnState, qp, from); }
  void OnLink(const Hca& hca, uint8_t port, bool up) override { Tell(&Observer::OnLink, hca, port, up); }
  void OnDoorbell(const QueuePair& qp) override { Tell(&Observer::OnDoorbell, qp); }
  void OnFetch(const QueuePair& qp, uint16_t index, const Request& request) override {
    Tell(&Observer::OnFetch, qp, index, request);
  }
  void OnDone(const QueuePair& qp, uint16_t index, mlx5::Syndrome syndrome) override {
    Tell(&Observer::OnDone, qp, index, syndrome);
  }
  void OnCompletion(const QueuePair& qp) override { Tell(&Observer::OnCompletion, qp); }
  void OnMessage(const QueuePair& from, const QueuePair& to, const Request& request) override {
    Tell(&Observer::OnMessage, from, to, request);
  }
  void OnPacket(const QueuePair& qp, Direction direction, const Packet& packet,
                uint64_t payload_bytes) override {
    Tell(&Observer::OnPacket, qp, direction, packet, payload_bytes);
  }
  void OnTimeout(const QueuePair& qp) override { Tell(&Observer::OnTimeout, qp); }
  void OnDrop(const char* reason) override { Tell(&Observer::OnDrop, reason); }
  void OnRefusal(const Hca& hca, const char* command, const char* error, const char* why) override {
    Tell(&Observer::OnRefusal, hca, command, error, why);
  }
  void OnIdle() override { Tell(&Observer::OnIdle); }
  void OnEnd(std::span<const std::unique_ptr<Hca>> devices) override { Tell(&Observer::OnEnd, devices); }

 private:
  template <class Method, class... Args>
  void Tell(Method method, const Args&... args) {
    for (const auto& observer : observers_) (*observer.*method)(args...);
  }

  std::vector<std::unique_ptr<Observer>> observers_;
};

}  // namespace softhca
