#include "party.hpp"

#include <algorithm>
#include <cstdio>
#include <exception>
#include <new>
#include <ostream>
#include <sstream>
#include <stdexcept>
#include <utility>

#include "plan.hpp"
#include "text/printable.hpp"
#include "warpverbs/host/error.hpp"
#include "warpverbs/mlx5/syndrome.hpp"

namespace rdma_demo {

namespace device = warpverbs::device;
namespace host = warpverbs::host;
namespace mlx5 = warpverbs::mlx5;

namespace {

constexpr char kGreeting[] = "rdma_demo/1";

const char* NameOf(Role role) { return role == Role::kServer ? "the server" : "the client"; }
const char* PeerOf(Role role) { return role == Role::kServer ? "the client" : "the server"; }

/// Whether it was the peer's NIC that said no, not the network nor this side.
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

std::string InWords(const host::Access& access) {
  return std::string(access.local_write ? "local write" : "local read only") +
         (access.remote_read ? ", remote read" : "") + (access.remote_write ? ", remote write" : "") +
         (access.remote_atomic ? ", atomics" : "");
}

/// Refuses what could not be sent, before anybody is met.
void CheckLength(const host::Device& device, uint64_t bytes) {
  const uint64_t longest = uint64_t{1} << device.capabilities().log_max_message;
  if (bytes <= longest) return;
  throw host::Error("send", std::to_string(bytes) + " bytes at a time",
                    "the longest message of " + device.name() + " is " + std::to_string(longest) + " bytes",
                    "Choose a smaller --size on both sides");
}

}  // namespace

Party::Party(Role role, const Options& options, std::ostream& out)
    : role_(role),
      options_(options),
      out_(out),
      where_(options.fabric.FirstActivePort()),
      device_(where_.nic),
      memory_(MakeMemory(out)),
      connection_(device_, Config()) {
  summary_.side = NameOf(role);
  summary_.planned = Plan();
  Describe();
}

host::EndpointConfig Party::Config() {
  host::EndpointConfig config = options_.fabric.Config(where_.port);
  config.receive_depth = 4;
  config.retry.rnr_retry = options_.rnr_retry;
  config.events = &events_;
  return config;
}

std::unique_ptr<Memory> Party::MakeMemory(std::ostream& out) const {
  CheckLength(device_, options_.bytes);
  MemoryOptions options{.kind = options_.memory,
                        .bytes = 2 * options_.bytes,
                        .access = {.local_write = true,
                                   .remote_read = options_.serves_reads,
                                   .remote_write = true,
                                   .remote_atomic = true},
                        .loop = options_.fabric.Config(where_.port),
                        .patience = options_.patience};
  return Memory::Choose(device_, std::move(options), out);
}

void Party::Describe() {
  const host::MemoryView view = memory_->View();
  const int file = memory_->dma_buf();
  summary_.facts = {Fact("memory", memory_->name() + ", " + std::to_string(view.bytes) + " bytes at " +
                                       Hexadecimal(view.addr) +
                                       (file < 0 ? ", no dma-buf" : ", dma-buf fd " + std::to_string(file))),
                    Fact("rights", InWords(view.access))};
  if (role_ == Role::kServer) summary_.facts.push_back(Fact("doubled by", memory_->doubler()));
  out_ << "   by " << options_.fabric.Describe(where_, options_.fabric.gid_index()) << '\n';
  for (const std::string& fact : summary_.facts) out_ << ' ' << fact << '\n';
}

device::LocalMemory Party::Local(const Slot& slot) const {
  const host::MemoryView part = memory_->View().Subrange(slot.offset, slot.bytes);
  return {part.addr, part.bytes, mlx5::ToBe32(part.lkey)};
}

std::string Party::Introduction() const {
  const host::MemoryView view = memory_->View();
  std::ostringstream text;
  text << kGreeting << ' ' << options_.bytes << ' ' << view.addr << ' ' << view.rkey << ' '
       << memory_->name();
  return text.str();
}

/// The peer may take its patience for its part, and has only just begun if it is late.
host::Deadline Party::PeersDeadline() const { return host::DeadlineIn(2 * options_.patience); }

std::string Party::Swap(host::TcpExchange& exchange, const std::string& mine, const char* what,
                        host::Deadline deadline) const {
  const std::vector<uint8_t> theirs =
      exchange.Swap({reinterpret_cast<const uint8_t*>(mine.data()), mine.size()}, what, deadline);
  return warpverbs::programs::Printable({reinterpret_cast<const char*>(theirs.data()), theirs.size()});
}

void Party::MeetClient(host::TcpListener listener) {
  out_ << "   listening on port " << listener.port() << std::endl;  // who starts the client waits for it
  const host::Deadline deadline = host::DeadlineIn(options_.wait);
  while (true) {
    host::TcpExchange exchange = listener.Accept(deadline);
    std::string introduction;
    try {
      // A stranger that says nothing must not keep the server longer than a client that does not come.
      introduction = Swap(exchange, Introduction(), "introductions", std::min(deadline, PeersDeadline()));
    } catch (const host::Error& error) {
      out_ << "   that was no client: " << error.what() << '\n';
      if (std::chrono::steady_clock::now() < deadline) continue;
      throw host::Error(
          "meet", "a client on port " + std::to_string(listener.port()), "nobody but strangers came in time",
          "Start rdma_client with this machine's name and this port, or choose a longer --wait");
    }
    { const host::TcpListener closed(std::move(listener)); }  // another client need not wait in vain
    return Meet(std::move(exchange), introduction);
  }
}

void Party::MeetServer() {
  host::TcpExchange exchange =
      host::TcpExchange::Connect({options_.server, options_.port}, host::DeadlineIn(options_.wait));
  const std::string introduction = Swap(exchange, Introduction(), "introductions", PeersDeadline());
  Meet(std::move(exchange), introduction);
}

void Party::Meet(host::TcpExchange exchange, const std::string& introduction) {
  std::istringstream text(introduction);
  std::string greeting;
  uint64_t bytes = 0;
  uint32_t rkey = 0;
  text >> greeting >> bytes >> peer_.address >> rkey >> std::ws;
  std::getline(text, peer_.memory);
  if (greeting != kGreeting || text.fail()) {
    throw std::runtime_error("Cannot understand the peer: it says '" + introduction +
                             "'. Run rdma_server and rdma_client of the same version.");
  }
  if (bytes != options_.bytes) {
    throw std::runtime_error("The two sides do not agree: messages have " + std::to_string(options_.bytes) +
                             " bytes here and " + std::to_string(bytes) +
                             " there. Give both the same --size.");
  }
  peer_.rkey = mlx5::ToBe32(rkey);
  exchange_.emplace(std::move(exchange));
  Connect();
  out_ << connection_.Describe();
  summary_.facts.push_back(
      Fact(role_ == Role::kServer ? "client's memory" : "server's memory", peer_.memory));
}

void Party::Connect() { connection_.Connect(*exchange_, PeersDeadline()); }

Outcome Party::Try(bool may_be_refused, const std::function<std::string()>& work) const {
  try {
    return {Result::kOk, work()};
  } catch (const OperationFailed& error) {
    const bool refused = may_be_refused && IsRefusal(error.status());
    return {refused ? Result::kUnsupported : Result::kFailed, error.what()};
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    return {Result::kFailed, error.what()};
  }
}

Outcome Party::AgreeOn(const Outcome& own, const char* what) {
  return Agree(own, Outcome::FromText(Swap(*exchange_, own.ToText(), what, PeersDeadline())), PeerOf(role_));
}

void Party::Run(const Step& step) {
  const std::string& name = summary_.planned.at(summary_.outcomes.size());
  out_ << name << '\n';
  const Outcome prepared = Try(false, [&step] {
    step.prepare();
    return std::string("prepared");
  });
  Outcome outcome = AgreeOn(prepared, "whether both are prepared");
  if (outcome.result == Result::kOk) {
    outcome = AgreeOn(Try(step.may_be_refused, [&] { return step.act(host::DeadlineIn(options_.patience)); }),
                      "what came of it");
  }
  summary_.outcomes.push_back(outcome);
  out_ << "   " << (outcome.result == Result::kOk ? "ok" : outcome.ToText()) << '\n';
  if (outcome.result == Result::kOk || summary_.outcomes.size() == summary_.planned.size()) return;
  Connect();  // an error ends a queue pair, and a message that is late must not be taken for a later one
  out_ << "   the queue pairs are reset and connected anew\n";
}

bool Party::SumUp(const std::function<void()>& work) {
  try {
    work();
  } catch (...) {
    summary_.Print(out_);
    throw;
  }
  summary_.Print(out_);
  return summary_.all_well();
}

}  // namespace rdma_demo
