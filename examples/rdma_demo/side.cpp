#include "side.hpp"

#include <cstdio>
#include <exception>
#include <new>
#include <ostream>
#include <sstream>
#include <stdexcept>
#include <utility>

#include "common/accept_client.hpp"
#include "plan.hpp"
#include "warpverbs/host/error.hpp"
#include "warpverbs/host/exchange.hpp"
#include "warpverbs/mlx5/syndrome.hpp"

namespace rdma_demo {

namespace device = warpverbs::device;
namespace host = warpverbs::host;
namespace mlx5 = warpverbs::mlx5;

namespace {

constexpr char kGreeting[] = "rdma_demo/2";

const char* ToString(Role role) { return role == Role::kServer ? "the server" : "the client"; }
const char* PeerOf(Role role) { return role == Role::kServer ? "the client" : "the server"; }

/// Says whether the peer's NIC refused the operation, rather than the network or this side.
bool IsRefusal(const device::Status& status) {
  if (status.code != device::Code::kError) return false;
  const auto syndrome = static_cast<mlx5::Syndrome>(status.syndrome);
  return syndrome == mlx5::Syndrome::kRemoteInvalidRequest || syndrome == mlx5::Syndrome::kRemoteAccess ||
         syndrome == mlx5::Syndrome::kRemoteOperation;
}

std::string Hexadecimal(uint64_t number) {
  char text[20];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(number));
  return text;
}

std::string ToString(const host::Access& access) {
  return std::string(access.local_write ? "local write" : "local read only") +
         (access.remote_read ? ", remote read" : "") + (access.remote_write ? ", remote write" : "") +
         (access.remote_atomic ? ", atomics" : "");
}

/// Refuses messages that the device cannot send, before the sides meet.
void CheckLength(const host::Device& device, uint64_t bytes) {
  const uint64_t longest = uint64_t{1} << device.capabilities().log_max_message;
  if (bytes <= longest) return;
  throw host::Error("send", std::to_string(bytes) + " bytes at a time",
                    "the longest message of " + device.name() + " is " + std::to_string(longest) + " bytes",
                    "Choose a smaller --size on both sides");
}

}  // namespace

Side::Side(Role role, const Options& options, std::ostream& out)
    : role_(role),
      options_(options),
      out_(out),
      port_(options.fabric.FirstActivePort()),
      device_(port_.nic),
      memory_(MakeMemory(out)),
      connection_(device_, Config()) {
  summary_.side = ToString(role);
  summary_.steps = Plan();
  Describe();
}

host::EndpointConfig Side::Config() {
  host::EndpointConfig config = options_.fabric.Config(port_.port);
  config.receive_depth = 4;
  config.retry.rnr_retry = options_.rnr_retry;
  config.events = &events_;
  return config;
}

std::unique_ptr<Memory> Side::MakeMemory(std::ostream& out) const {
  CheckLength(device_, options_.bytes);
  MemoryConfig config{.kind = options_.memory,
                      .bytes = 2 * options_.bytes,
                      .access = {.local_write = true,
                                 .remote_read = options_.serves_reads,
                                 .remote_write = true,
                                 .remote_atomic = true},
                      .loop = options_.fabric.Config(port_.port),
                      .timeout = options_.timeout};
  return Memory::Choose(device_, std::move(config), out);
}

void Side::Describe() {
  const host::MemoryView view = memory_->View();
  const int file = memory_->dma_buf();
  summary_.rows = {
      TableRow("memory", memory_->name() + ", " + std::to_string(view.bytes) + " bytes at " +
                             Hexadecimal(view.addr) +
                             (file < 0 ? ", no dma-buf" : ", dma-buf fd " + std::to_string(file))),
      TableRow("rights", ToString(view.access))};
  if (role_ == Role::kServer) summary_.rows.push_back(TableRow("doubled by", memory_->doubler()));
  out_ << "   by " << options_.fabric.Describe(port_, options_.fabric.gid_index()) << '\n';
  for (const std::string& row : summary_.rows) out_ << ' ' << row << '\n';
}

device::LocalMemory Side::Local(const Slot& slot) const {
  const host::MemoryView part = memory_->View().Subrange(slot.offset, slot.bytes);
  return part.Local();
}

std::string Side::Introduction() const {
  return std::string(kGreeting) + ' ' + std::to_string(options_.bytes) + ' ' + memory_->name();
}

// The peer may take a whole timeout for its part, and may start it one timeout late.
std::chrono::nanoseconds Side::PeersPatience() const { return 2 * options_.timeout; }
host::Deadline Side::PeersDeadline() const { return host::DeadlineIn(PeersPatience()); }

void Side::AcceptClient(host::TcpListener listener) {
  out_ << "   listening on port " << listener.port()
       << std::endl;  // a script that starts the client waits for this line
  std::string introduction;
  host::TcpExchange exchange = warpverbs::programs::AcceptClient(
      listener, host::DeadlineIn(options_.wait), PeersPatience(),
      [&](host::TcpExchange& client, host::Deadline deadline) {
        introduction = client.Swap(Introduction(), "introductions", deadline);
      },
      [&](const std::string& line) { out_ << "   " << line << '\n'; });
  { const host::TcpListener closed(std::move(listener)); }  // refuses a second client at once
  Start(std::move(exchange), introduction);
}

void Side::ConnectToServer() {
  host::TcpExchange exchange =
      host::TcpExchange::Connect({options_.server, options_.port}, host::DeadlineIn(options_.wait));
  const std::string introduction = exchange.Swap(Introduction(), "introductions", PeersDeadline());
  Start(std::move(exchange), introduction);
}

void Side::Start(host::TcpExchange exchange, const std::string& introduction) {
  const std::string printable = host::PrintableText(introduction);
  std::istringstream text(printable);
  std::string greeting;
  uint64_t bytes = 0;
  text >> greeting >> bytes >> std::ws;
  std::getline(text, peer_.memory_name);
  if (greeting != kGreeting || text.fail()) {
    throw std::runtime_error("Cannot understand the peer: it says '" + printable +
                             "'. Run rdma_server and rdma_client of the same version.");
  }
  if (bytes != options_.bytes) {
    throw std::runtime_error("The two sides do not agree: messages have " + std::to_string(options_.bytes) +
                             " bytes here and " + std::to_string(bytes) +
                             " there. Give both the same --size.");
  }
  peer_.memory = exchange.Swap(memory_->View().Remote(), "addresses and keys", PeersDeadline());
  exchange_.emplace(std::move(exchange));
  Connect();
  out_ << connection_.Describe();
  summary_.rows.push_back(
      TableRow(role_ == Role::kServer ? "client's memory" : "server's memory", peer_.memory_name));
}

void Side::Connect() { connection_.Connect(*exchange_, PeersDeadline()); }

StepResult Side::Try(bool may_be_refused, const std::function<std::string()>& work) const {
  try {
    return {StepCode::kOk, work()};
  } catch (const OperationFailed& error) {
    const bool refused = may_be_refused && IsRefusal(error.status());
    return {refused ? StepCode::kUnsupported : StepCode::kFailed, error.what()};
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    return {StepCode::kFailed, error.what()};
  }
}

StepResult Side::CombineWithPeer(const StepResult& own, const char* what) {
  return Combine(
      own, StepResult::FromText(host::PrintableText(exchange_->Swap(own.ToText(), what, PeersDeadline()))),
      PeerOf(role_));
}

void Side::Run(const Step& step) {
  const std::string& name = summary_.steps.at(summary_.results.size());
  out_ << name << '\n';
  const StepResult prepared = Try(false, [&step] {
    step.prepare();
    return std::string("prepared");
  });
  StepResult result = CombineWithPeer(prepared, "the results of the preparation");
  if (result.code == StepCode::kOk) {
    result = CombineWithPeer(
        Try(step.may_be_refused, [&] { return step.run(host::DeadlineIn(options_.timeout)); }),
        "the results of the step");
  }
  summary_.results.push_back(result);
  out_ << "   " << (result.code == StepCode::kOk ? "ok" : result.ToText()) << '\n';
  if (result.code == StepCode::kOk || summary_.results.size() == summary_.steps.size()) return;
  Connect();  // an error ends a queue pair, and a late message must not pass for a later one
  out_ << "   the queue pairs are reset and connected again\n";
}

bool Side::RunAndSummarize(const std::function<void()>& work) {
  try {
    work();
  } catch (...) {
    summary_.Print(out_);
    throw;
  }
  summary_.Print(out_);
  return summary_.succeeded();
}

}  // namespace rdma_demo
