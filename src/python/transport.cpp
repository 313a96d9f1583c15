// The asynchronous transport. Its completions go to a queue with a file that becomes readable: threads of the
// library never run Python.
#include <pybind11/stl.h>
#include <sys/eventfd.h>

#include <cerrno>
#include <mutex>
#include <vector>

#include "binding.hpp"
#include "warpverbs/host/dma_buf.hpp"
#include "warpverbs/transport/rdma_transport.hpp"

namespace warpverbs::python {
namespace {

using transport::Status;

/// How an operation ended, and its number.
struct Completion {
  uint64_t operation;
  Status status;
};

/// Completions that Python has not taken yet. Thread-safe.
struct Mailbox {
  Mailbox() : file(eventfd(0, EFD_CLOEXEC)) {
    if (!file)
      throw host::Error::FromErrno("make", "an eventfd", errno, "Raise the limit on files (ulimit -n)");
  }

  void Put(uint64_t operation, const Status& status) {
    {
      const std::lock_guard lock(mutex);
      completions.push_back({operation, status});
    }
    Wake();
  }
  void Wake() const { eventfd_write(file.get(), 1); }

  std::vector<Completion> Take() {
    const std::lock_guard lock(mutex);
    return std::exchange(completions, {});
  }

  host::FileDescriptor file;
  std::mutex mutex;
  std::vector<Completion> completions;
};

struct LoopObject {
  transport::EventLoop loop;
  std::shared_ptr<Mailbox> mailbox = std::make_shared<Mailbox>();
};

/// The loop of all transports of the process, and their completions.
class EventLoop : public Handle<LoopObject> {
 public:
  EventLoop() : Handle("the event loop", std::make_unique<LoopObject>()) {}

  int fd() const { return Get()->mailbox->file.get(); }
  void Wake() const { Get()->mailbox->Wake(); }

  py::list Take() const {
    py::list all;
    for (const auto& [operation, status] : Get()->mailbox->Take())
      all.append(py::make_tuple(operation, transport::ToString(status.code()), status.Describe()));
    return all;
  }
};

/// A registration, and the object that owns its memory.
class Memory : public ZeroedMemory {
 public:
  Memory(uint64_t address, uint64_t bytes, py::object owner, int device, uint32_t max_nics, bool writable)
      : owner_(std::move(owner)),
        writable_(writable),
        handle_("the memory of a transport", WithoutGil([&] {
                  void* const memory = reinterpret_cast<void*>(address);
                  const transport::RdmaMemoryConfig config{.max_nics = max_nics};
                  return writable ? std::make_unique<transport::RdmaMemory>(memory, bytes, device, config)
                                  : std::make_unique<transport::RdmaMemory>(static_cast<const void*>(memory),
                                                                            bytes, device, config);
                })) {}

  py::tuple Remote() const {
    const transport::RdmaRemoteBuffer remote = handle_.Get()->Remote();
    return py::make_tuple(reinterpret_cast<uint64_t>(remote.ptr), remote.len, remote.access_key.ToText());
  }
  std::shared_ptr<transport::RdmaMemory> Get() const { return handle_.Get(); }
  bool writable() const { return writable_; }
  py::handle owner() const { return owner_; }
  bool closed() const { return handle_.closed(); }
  void Close() {
    handle_.Close();
    owner_ = py::none();
  }

 private:
  py::object owner_;  // first: memory outlives its registration
  bool writable_;
  Handle<transport::RdmaMemory> handle_;
};

/// Memory of the peer, from the tuple that Remote() makes there.
transport::RdmaRemoteBuffer RemoteOf(const std::tuple<uint64_t, size_t, std::string>& remote) {
  const auto& [address, bytes, key] = remote;
  return {reinterpret_cast<void*>(address), transport::AccessKey::FromText(key), bytes};
}

std::optional<std::chrono::nanoseconds> TimeoutOf(const py::object& timeout) {
  if (timeout.is_none()) return std::nullopt;
  return DeadlineOf(timeout) - std::chrono::steady_clock::now();
}

struct TransportObject {
  std::shared_ptr<LoopObject> loop;
  transport::RdmaTransport transport;
};

py::tuple ToTuple(const Status& status) {
  return py::make_tuple(transport::ToString(status.code()), status.Describe());
}

class Transport : public Handle<TransportObject> {
 private:
  template <class Function>
  auto Call(const Function& function) const {
    const auto object = Get();
    const GilRelease release;
    return function(object->transport);
  }

  /// Returns what puts the end of an operation in the mailbox. Take it with the GIL.
  auto Report(uint64_t operation) const {
    return [mailbox = Get()->loop->mailbox, operation](const Status& status) {
      mailbox->Put(operation, status);
    };
  }

 public:
  Transport(int device, const EventLoop& loop, const py::dict& settings)
      : Handle("the transport", Make(device, loop.Get(), settings)) {}

  py::tuple Bind() const {
    const transport::Bound bound = Call([](auto& one) { return one.Bind(); });
    return py::make_tuple(transport::ToString(bound.status.code()), bound.status.Describe(), bound.url);
  }
  py::tuple Connect(const std::string& url) const {
    return ToTuple(Call([&](auto& one) { return one.Connect(url); }));
  }
  py::tuple Reset() const {
    return ToTuple(Call([](auto& one) { return one.Reset(); }));
  }
  py::tuple GetStatus() const {
    return ToTuple(Call([](auto& one) { return one.GetStatus(); }));
  }
  bool Connected() const {
    return Call([](auto& one) { return one.Connected(); });
  }
  std::string Describe() const {
    return Call([](auto& one) { return one.Describe(); });
  }

  void Write(uint64_t operation, const Memory& memory, size_t offset, size_t bytes,
             const std::tuple<uint64_t, size_t, std::string>& remote, bool notify,
             const py::object& timeout) const {
    const auto registered = memory.Get();  // stays until the operation is under way
    const auto view = registered->CreateView(offset, bytes);
    const auto to = RemoteOf(remote);
    const auto limit = TimeoutOf(timeout);
    const auto report = Report(operation);
    Call([&](auto& one) { one.Write(view, to, {.notify = notify, .timeout = limit}, report); });
  }
  void Read(uint64_t operation, const Memory& memory, size_t offset, size_t bytes,
            const std::tuple<uint64_t, size_t, std::string>& remote, const py::object& timeout) const {
    const auto registered = memory.Get();
    const auto view = registered->CreateMutableView(offset, bytes);
    const auto from = RemoteOf(remote);
    const auto limit = TimeoutOf(timeout);
    const auto report = Report(operation);
    Call([&](auto& one) { one.Read(view, from, {.timeout = limit}, report); });
  }
  void WaitForWrite(uint64_t operation, const py::object& timeout) const {
    const auto limit = TimeoutOf(timeout);
    const auto report = Report(operation);
    Call([&](auto& one) { one.WaitForWrite({.timeout = limit}, report); });
  }

 private:
  static std::unique_ptr<TransportObject> Make(int device, std::shared_ptr<LoopObject> loop,
                                               const py::dict& settings) {
    transport::TransportConfig config;
    Take(settings, "max_nics", config.max_nics);
    Take(settings, "queue_pairs", config.queue_pairs);
    Take(settings, "depth", config.depth);
    Take(settings, "receive_depth", config.receive_depth);
    Take(settings, "piece_bytes", config.piece_bytes);
    Take(settings, "traffic_class", config.path.traffic_class);
    Take(settings, "ack_timeout", config.retry.ack_timeout);
    Take(settings, "retry_count", config.retry.retry_count);
    const auto seconds = [&](const char* name, std::chrono::nanoseconds& time) {
      double value = std::chrono::duration<double>(time).count();
      Take(settings, name, value);
      time = Seconds(value, name);
    };
    seconds("connect_timeout", config.connect_timeout);
    seconds("spin", config.spin);
    return WithoutGil([&] {
      transport::EventLoop* const on = &loop->loop;
      return std::unique_ptr<TransportObject>(
          new TransportObject{std::move(loop), transport::RdmaTransport(device, config, on)});
    });
  }
};

}  // namespace

void BindTransport(py::module_& module) {
  module.def("transport_supported", transport::RdmaTransport::Supported, py::call_guard<GilRelease>());

  py::class_<EventLoop> loop(module, "EventLoop");
  loop.def(py::init<>())
      .def_property_readonly("fd", &EventLoop::fd)
      .def("wake", &EventLoop::Wake)
      .def("take", &EventLoop::Take);
  BindClose(loop);

  py::class_<Memory> memory(module, "TransportMemory", CollectOwner<Memory>());
  memory.def(py::init<uint64_t, uint64_t, py::object, int, uint32_t, bool>())
      .def_property_readonly("writable", &Memory::writable, Doc("TransportMemory.writable"))
      .def_property_readonly("_owner",
                             [](const Memory& self) { return self.owner() ? self.owner() : py::none(); })
      .def("_remote", &Memory::Remote);
  BindClose(memory);

  py::class_<Transport> bound(module, "Transport");
  bound.def(py::init<int, const EventLoop&, const py::dict&>())
      .def("_bind", &Transport::Bind)
      .def("_connect", &Transport::Connect)
      .def("_reset", &Transport::Reset)
      .def("_status", &Transport::GetStatus)
      .def("_write", &Transport::Write)
      .def("_read", &Transport::Read)
      .def("_wait_for_write", &Transport::WaitForWrite)
      .def("describe", &Transport::Describe, Doc("Transport.describe"))
      .def_property_readonly("connected", &Transport::Connected, Doc("Transport.connected"));
  BindClose(bound);
}

}  // namespace warpverbs::python
