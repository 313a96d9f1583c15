// Fails every call of librdmacm and every allocation once, on either side. The result must be an exception
// that names the failure, without leaks, and the next attempt must connect.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rdma/rdma_cma.h>

#include <atomic>
#include <cerrno>
#include <future>
#include <memory>
#include <new>
#include <optional>
#include <string>

#include "host/connect/exchange_fixture.hpp"
#include "host/endpoint/fault_calls.hpp"
#include "host/endpoint/link.hpp"
#include "warpverbs/host/device.hpp"
#include "warpverbs/host/rdma_cm.hpp"

namespace {

thread_local int failing_call = -1;  // index of this thread's librdmacm call that fails, from 0; -1: none
thread_local int calls = 0;
thread_local const char* failed_call = "";

std::atomic<int> held{0};  // channels, ids and events that are not released

bool Fails(const char* name) {
  if (calls++ != failing_call) return false;
  failed_call = name;
  errno = ENOMEM;
  return true;
}

template <class Function>
Function* TheirOwn(Function*, const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

template <class Function, class... Arguments>
int Do(const char* name, Function* own, Arguments... arguments) {
  if (Fails(name)) return -1;
  const warpverbs::host::InLibrary in_library;
  return own(arguments...);
}

}  // namespace

// These functions take precedence over librdmacm's.
extern "C" {

rdma_event_channel* rdma_create_event_channel() {
  static auto* const own = TheirOwn(&rdma_create_event_channel, "rdma_create_event_channel");
  if (Fails("rdma_create_event_channel")) return nullptr;
  const warpverbs::host::InLibrary in_library;
  rdma_event_channel* const channel = own();
  if (channel != nullptr) ++held;
  return channel;
}
void rdma_destroy_event_channel(rdma_event_channel* channel) {
  static auto* const own = TheirOwn(&rdma_destroy_event_channel, "rdma_destroy_event_channel");
  const warpverbs::host::InLibrary in_library;
  --held;
  own(channel);
}

int rdma_create_id(rdma_event_channel* channel, rdma_cm_id** id, void* context, rdma_port_space space) {
  static auto* const own = TheirOwn(&rdma_create_id, "rdma_create_id");
  const int result = Do("rdma_create_id", own, channel, id, context, space);
  if (result == 0) ++held;
  return result;
}
int rdma_destroy_id(rdma_cm_id* id) {
  static auto* const own = TheirOwn(&rdma_destroy_id, "rdma_destroy_id");
  const warpverbs::host::InLibrary in_library;
  --held;
  return own(id);
}

int rdma_get_cm_event(rdma_event_channel* channel, rdma_cm_event** event) {
  static auto* const own = TheirOwn(&rdma_get_cm_event, "rdma_get_cm_event");
  const int result = Do("rdma_get_cm_event", own, channel, event);
  if (result == 0)
    held += (*event)->event == RDMA_CM_EVENT_CONNECT_REQUEST ? 2 : 1;  // a request comes with an id
  return result;
}
int rdma_ack_cm_event(rdma_cm_event* event) {
  static auto* const own = TheirOwn(&rdma_ack_cm_event, "rdma_ack_cm_event");
  const warpverbs::host::InLibrary in_library;
  --held;
  return own(event);
}

int rdma_bind_addr(rdma_cm_id* id, sockaddr* address) {
  static auto* const own = TheirOwn(&rdma_bind_addr, "rdma_bind_addr");
  return Do("rdma_bind_addr", own, id, address);
}
int rdma_listen(rdma_cm_id* id, int backlog) {
  static auto* const own = TheirOwn(&rdma_listen, "rdma_listen");
  return Do("rdma_listen", own, id, backlog);
}
int rdma_resolve_addr(rdma_cm_id* id, sockaddr* from, sockaddr* to, int timeout) {
  static auto* const own = TheirOwn(&rdma_resolve_addr, "rdma_resolve_addr");
  return Do("rdma_resolve_addr", own, id, from, to, timeout);
}
int rdma_resolve_route(rdma_cm_id* id, int timeout) {
  static auto* const own = TheirOwn(&rdma_resolve_route, "rdma_resolve_route");
  return Do("rdma_resolve_route", own, id, timeout);
}
int rdma_connect(rdma_cm_id* id, rdma_conn_param* offer) {
  static auto* const own = TheirOwn(&rdma_connect, "rdma_connect");
  return Do("rdma_connect", own, id, offer);
}
int rdma_establish(rdma_cm_id* id) {
  static auto* const own = TheirOwn(&rdma_establish, "rdma_establish");
  return Do("rdma_establish", own, id);
}
int rdma_accept(rdma_cm_id* id, rdma_conn_param* offer) {
  static auto* const own = TheirOwn(&rdma_accept, "rdma_accept");
  return Do("rdma_accept", own, id, offer);
}
int rdma_reject(rdma_cm_id* id, const void* data, uint8_t bytes) {
  static auto* const own = TheirOwn(&rdma_reject, "rdma_reject");
  return Do("rdma_reject", own, id, data, bytes);
}
int rdma_disconnect(rdma_cm_id* id) {
  static auto* const own = TheirOwn(&rdma_disconnect, "rdma_disconnect");
  return Do("rdma_disconnect", own, id);
}
int rdma_migrate_id(rdma_cm_id* id, rdma_event_channel* channel) {
  static auto* const own = TheirOwn(&rdma_migrate_id, "rdma_migrate_id");
  return Do("rdma_migrate_id", own, id, channel);
}

}  // extern "C"

namespace warpverbs::host {
namespace {

enum class Failing { kManager, kMemory };

/// Runs with the nth call failing. The exception must name the failure.
///
/// @return  name of the failed call; empty if there were fewer calls
template <class Work>
std::string RunWith(Failing kind, int call, const Work& work) {
  const Faulty faulty({.calls = FaultyCalls::kMemory, .call = kind == Failing::kMemory ? call : -1});
  failing_call = kind == Failing::kManager ? call : -1;
  calls = 0;
  failed_call = "";
  bool thrown = false;
  try {
    work();
  } catch (const Error& error) {
    thrown = true;
    EXPECT_THAT(error.what(), testing::ContainsRegex("^Cannot .*: .*\\. .*\\.$"));
  } catch (const std::bad_alloc&) {
    thrown = true;
    EXPECT_EQ(kind, Failing::kMemory);
  }
  failing_call = -1;
  const std::string failed = kind == Failing::kManager ? failed_call : faulty.failed();
  EXPECT_EQ(thrown, !failed.empty()) << failed;
  return failed;
}

class CmFaults : public testing::TestWithParam<Failing> {
 protected:
  CmConnection Connect() { return CmConnection::Connect(link_.a, {"127.0.0.1", listener_.port()}, Soon()); }
  CmConnection Accept() { return listener_.Accept(link_.b, Soon()); }

  /// Connects until the peer has connected, too: a peer may fail after its last message.
  ///
  /// @return  empty if the last attempt failed although the peer is done
  template <class Other>
  static std::optional<CmConnection> Persist(const Other& other, const std::atomic<bool>& done) {
    std::optional<CmConnection> connection;
    do {
      connection.reset();
      try {
        connection = other();
        while (!done && !connection->AwaitEnd(AtOnce())) {
        }
      } catch (const Error&) {  // the peer failed
      }
    } while (!done);
    return connection;
  }

  /// Fails each call of one side in turn. The other side retries until it succeeds, and so does this one
  /// after its failure.
  template <class Side, class Other>
  int ForEachFault(const Side& side, const Other& other) {
    for (int call = -1;; ++call) {
      const std::string verbs = HeldByVerbs();
      const int held_before = held;
      const size_t files = OpenFiles();
      std::atomic<bool> done = false;
      auto trying = std::async(std::launch::async, [&] { return Persist(other, done); });
      const std::unique_ptr<std::atomic<bool>, void (*)(std::atomic<bool>*)> end(
          &done, [](std::atomic<bool>* ended) { *ended = true; });  // `trying` waits for it, also after a throw
      std::string failed;
      {
        std::optional<CmConnection> connection;
        failed = RunWith(GetParam(), call, [&] { connection = side(); });
        SCOPED_TRACE("call " + std::to_string(call) + ", " + failed + ", failed");
        if (!connection) connection = side();
        done = true;
        const std::optional<CmConnection> theirs = trying.get();
        EXPECT_TRUE(theirs);
        EXPECT_EQ(link_.a.State(), mlx5::QpState::kRts);
        EXPECT_EQ(link_.b.State(), mlx5::QpState::kRts);
        EXPECT_TRUE(link_.Write(1).ok());
      }
      link_.a.Reset();
      link_.b.Reset();
      SCOPED_TRACE("call " + std::to_string(call) + ", " + failed + ", failed");
      if (call >= 0) {  // by then everything that a program makes only once exists
        EXPECT_EQ(OpenFiles(), files);
        EXPECT_EQ(HeldByVerbs(), verbs);
        EXPECT_EQ(held, held_before);
      }
      if ((call >= 0 && failed.empty()) || HasFailure()) return call;
    }
  }

  Device device_;
  Link link_{device_};
  CmListener listener_{{"127.0.0.1", 0}};
};

TEST_P(CmFaults, LeaveNothingOfConnecting) {
  EXPECT_GE(ForEachFault([this] { return Connect(); },
                         [this] {
                           link_.b.Reset();
                           return Accept();
                         }),
            7);
}

TEST_P(CmFaults, LeaveNothingOfAccepting) {
  EXPECT_GE(ForEachFault([this] { return Accept(); },
                         [this] {
                           link_.a.Reset();
                           return Connect();
                         }),
            5);
}

TEST_P(CmFaults, LeaveNothingOfListening) {
  std::string failed = "none yet";
  int call = 0;
  for (; !failed.empty() && !HasFailure(); ++call) {
    const int held_before = held;
    const size_t files = OpenFiles();
    failed = RunWith(GetParam(), call, [] { const CmListener listener({"127.0.0.1", 0}); });
    SCOPED_TRACE("call " + std::to_string(call) + ", " + failed + ", failed");
    EXPECT_EQ(OpenFiles(), files);
    EXPECT_EQ(held, held_before);
    EXPECT_NE(CmListener({"127.0.0.1", 0}).port(), 0);
  }
  EXPECT_GE(call, 2);
}

INSTANTIATE_TEST_SUITE_P(, CmFaults, testing::Values(Failing::kManager, Failing::kMemory),
                         [](const auto& kind) {
                           return kind.param == Failing::kManager ? "Manager" : "Memory";
                         });

}  // namespace
}  // namespace warpverbs::host
