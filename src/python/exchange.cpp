// Exchanges of messages with a peer, by TCP and by Python code, and connect_all().
#include <pybind11/stl.h>

#include <algorithm>
#include <functional>
#include <vector>

#include "endpoint.hpp"
#include "warpverbs/host/connect_all.hpp"
#include "warpverbs/host/tcp_exchange.hpp"

namespace warpverbs::python {
namespace {

py::bytes ToBytes(std::span<const uint8_t> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// A connection that one thread at a time uses.
struct TcpObject {
  host::TcpExchange exchange;
  CallMutex mutex;
};

/// warpverbs.TcpExchange
class TcpExchange : public Handle<TcpObject> {
 public:
  explicit TcpExchange(host::TcpExchange exchange)
      : TcpExchange("the connection to " + exchange.PeerName(), exchange) {}

  static TcpExchange Connect(const std::string& host, uint16_t port, const py::object& timeout) {
    const host::Deadline deadline = DeadlineOf(timeout);
    return TcpExchange(WithoutGil([&] {
      const host::WaitCheck check(CheckSignals);
      return host::TcpExchange::Connect({host, port}, deadline);
    }));
  }

  /// Calls a function with the exchange, while no other thread uses it.
  ///
  /// @errors  Error: this thread uses it, in a call that called Python; CallTimeout; what a signal's handler
  ///          raises
  template <class Function>
  static auto Call(const std::shared_ptr<TcpObject>& object, host::Deadline deadline,
                   const Function& function) {
    const auto name = [&] { return "the connection to " + object->exchange.PeerName(); };
    const CallLock lock(object->mutex, name, deadline);
    const host::WaitCheck check(CheckSignals);
    return function(object->exchange);
  }

  py::bytes Swap(const py::bytes& mine, const std::string& what, const py::object& timeout) const {
    const auto object = Get();
    const std::string message = mine;
    const host::Deadline deadline = DeadlineOf(timeout);
    return ToBytes(WithoutGil([&] {
      return Call(object, deadline, [&](host::TcpExchange& exchange) {
        return exchange.Swap({reinterpret_cast<const uint8_t*>(message.data()), message.size()}, what,
                             deadline);
      });
    }));
  }

  std::string PeerName() const { return Get()->exchange.PeerName(); }

 private:
  TcpExchange(std::string name, host::TcpExchange& taken)
      : Handle(std::move(name), std::unique_ptr<TcpObject>(new TcpObject{std::move(taken), {}})) {}
};

/// warpverbs.TcpListener
class TcpListener : public Handle<const host::TcpListener> {
 public:
  TcpListener(const std::string& host, uint16_t port)
      : Handle("the listener on port " + std::to_string(port), WithoutGil([&] {
                 return std::make_unique<const host::TcpListener>(host::TcpAddress{host, port});
               })) {}

  TcpExchange Accept(const py::object& timeout) const {
    const auto listener = Get();
    const host::Deadline deadline = DeadlineOf(timeout);
    return TcpExchange(WithoutGil([&] {
      const host::WaitCheck check(CheckSignals);
      return listener->Accept(deadline);
    }));
  }
};

/// An exchange that Python code implements: any object with swap(), and peer_name if it has one.
class PythonExchange final : public host::Exchange {
 public:
  explicit PythonExchange(const py::object& object) : object_(object) {}

  std::vector<uint8_t> Swap(std::span<const uint8_t> mine, std::string_view what,
                            host::Deadline deadline) override {
    const GilAcquire gil;
    py::object timeout = py::none();
    if (deadline != host::Deadline::max()) {
      const std::chrono::duration<double> left = deadline - std::chrono::steady_clock::now();
      timeout = py::float_(std::max(left.count(), 0.0));
    }
    const py::object answer = object_.attr("swap")(ToBytes(mine), py::str(std::string(what)), timeout);
    const auto theirs = answer.cast<std::string_view>();
    return {theirs.begin(), theirs.end()};
  }

  std::string PeerName() const override {
    const GilAcquire gil;
    return py::str(py::getattr(object_, "peer_name", py::str("the peer")));
  }

 private:
  py::handle object_;  // the caller's
};

/// Locks endpoints in one order for all threads, so that two connect_all() do not wait for each other.
class EndpointLocks {
 public:
  /// @errors  CallTimeout; what a signal's handler raises
  EndpointLocks(std::vector<std::shared_ptr<EndpointObject>> objects, host::Deadline deadline) {
    std::sort(objects.begin(), objects.end());
    objects.erase(std::unique(objects.begin(), objects.end()), objects.end());
    locks_.reserve(objects.size());
    for (const auto& object : objects) locks_.push_back(std::make_unique<EndpointLock>(*object, deadline));
  }

 private:
  std::vector<std::unique_ptr<EndpointLock>> locks_;
};

void ConnectAll(const std::vector<const Endpoint*>& endpoints, const py::object& exchange,
                const py::object& timeout, bool round_trip) {
  std::vector<std::shared_ptr<EndpointObject>> objects;
  std::vector<host::Endpoint*> all;
  for (const Endpoint* const one : endpoints) {
    if (one == nullptr) throw py::type_error("Cannot connect None. Pass endpoints.");
    objects.push_back(one->Get());
    all.push_back(&*objects.back()->endpoint);
  }
  const host::Deadline deadline = DeadlineOf(timeout);
  const host::ConnectOptions options{.round_trip = round_trip};
  const bool is_tcp = py::isinstance<TcpExchange>(exchange);
  if (!is_tcp && !py::hasattr(exchange, "swap")) {
    throw py::type_error("Cannot connect by " + std::string(py::repr(exchange)) +
                         ": it has no method swap(). Pass a warpverbs.Exchange.");
  }
  const auto tcp = is_tcp ? exchange.cast<const TcpExchange&>().Get() : nullptr;
  WithoutGil([&] {
    const EndpointLocks locks(objects, deadline);
    if (tcp) {
      TcpExchange::Call(tcp, deadline,
                        [&](host::TcpExchange& by) { host::ConnectAll(all, by, deadline, options); });
    } else {
      PythonExchange by(exchange);
      const host::WaitCheck check(CheckSignals);
      host::ConnectAll(all, by, deadline, options);
    }
  });
}

}  // namespace

void BindExchange(py::module_& module) {
  py::class_<TcpExchange> exchange(module, "TcpExchange");
  exchange.def(py::init<const TcpExchange&>())
      .def_static("connect", TcpExchange::Connect, "host"_a, "port"_a, "timeout"_a = 30.0)
      .def("swap", &TcpExchange::Swap, "mine"_a, "what"_a = "a message", "timeout"_a = 30.0,
           Doc("TcpExchange.swap"))
      .def_property_readonly("peer_name", &TcpExchange::PeerName, Doc("TcpExchange.peer_name"));
  BindClose(exchange);

  py::class_<TcpListener> listener(module, "TcpListener");
  listener.def(py::init<std::string, uint16_t>(), "host"_a = "", "port"_a = 0)
      .def("accept", &TcpListener::Accept, "timeout"_a = 30.0)
      .def_property_readonly(
          "port", [](const TcpListener& self) { return self.Get()->port(); }, Doc("TcpListener.port"));
  BindClose(listener);

  module.def("connect_all", ConnectAll, "endpoints"_a, "exchange"_a, "timeout"_a = 30.0,
             "round_trip"_a = false);
}

}  // namespace warpverbs::python
