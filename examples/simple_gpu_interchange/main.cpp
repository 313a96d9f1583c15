// A kernel writes a buffer to its peer by RDMA and checks that it arrived. Both sides live in this process,
// or with --listen and --connect each in its own: then both write, in rounds.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <map>
#include <optional>
#include <regex>
#include <string>

#include "../common/cpu_team.hpp"
#include "buffer.hpp"
#include "common/fabric_options.hpp"
#include "cuda.hpp"
#include "meeting.hpp"
#include "two_processes.hpp"
#include "verify.hpp"
#include "warpverbs/arch/cpu.hpp"
#include "warpverbs/host/device.hpp"
#include "warpverbs/host/endpoint.hpp"
#include "warpverbs/host/error.hpp"
#include "warpverbs/host/gpu.hpp"
#include "warpverbs/host/memory.hpp"

namespace host = warpverbs::host;
namespace mlx5 = warpverbs::mlx5;
using warpverbs::arch::Scope;

namespace {

struct Options {
  uint32_t bytes = 1024;
  int value = 42;
  std::string processor = "cpu";
  host::Placement placement = host::Placement::kProbe;
  warpverbs::programs::Fabric fabric;
  std::string listen, connect;
  uint64_t iterations = 1;
  uint32_t patience_s = 10;

  bool with_peer() const { return !listen.empty() || !connect.empty(); }
  bool on_cpu() const { return processor == "cpu"; }
  bool on_two_gpus() const { return processor.find(',') != std::string::npos; }

  /// The GPU that posts, or the one that has the target; none: threads of the CPU.
  std::optional<host::Gpu> Poster() const { return Gpu(processor.find(':')); }
  std::optional<host::Gpu> Receiver() const { return Gpu(processor.rfind(':')); }

 private:
  std::optional<host::Gpu> Gpu(size_t colon) const {
    if (on_cpu()) return std::nullopt;
    RequireCuda();
    return host::Gpu(std::stoi(processor.substr(colon + 1)));
  }
};

void ListPorts() {
  for (const std::string& name : host::DeviceNames()) {
    try {
      for (const host::Port& port : host::Device(name).Ports()) {
        std::printf("   %s port %d: %s, %s\n", name.c_str(), port.number, ToString(port.link_layer),
                    port.state.c_str());
      }
    } catch (const host::Error& error) {  // another device may do
      std::printf("   %s\n", error.what());
    }
  }
}

const host::Gpu* PointerTo(const std::optional<host::Gpu>& gpu) { return gpu ? &*gpu : nullptr; }

/// How far a kernel's releases must reach.
Scope ScopeFor(const host::Endpoint& endpoint, const Buffer& source) {
  return source.on_gpu() ? endpoint.ReleaseScope() : Scope::kSystem;
}

/// Whether kernels of the GPU that posts can look at the target, and see there what a NIC wrote.
bool ReachesTarget(const host::Gpu& poster, const host::Gpu& receiver, const Buffer& target) {
  if (!target.on_gpu() || poster.ordinal() == receiver.ordinal()) return true;
  return receiver.attributes().writes_ordering == host::WritesOrdering::kAllDevices &&
         EnablePeerAccess(poster.ordinal(), receiver.ordinal());
}

/// Runs the kernel that posts, and if it cannot look at the target, another one that can.
Outcome RunOnGpus(const host::Gpu& poster, const host::Gpu& receiver, Scope scope, const Job& job) {
  Outcome outcome = RunOnCuda(poster.ordinal(), scope, job);
  if (!job.reaches_target) {
    std::printf("   %s verifies\n", receiver.name().c_str());
    outcome.right_bytes = CountOnCuda(receiver.ordinal(), reinterpret_cast<const uint8_t*>(job.target.addr),
                                      job.source.bytes, job.value);
  }
  return outcome;
}

Outcome RunOnCpu(const Job& job) {
  Outcome outcome;
  CpuTeam::Run(4, [&](const CpuTeam& team) { Interchange<warpverbs::arch::Cpu>(team, job, outcome); });
  return outcome;
}

void Exchange(const Options& options) {
  const std::optional<host::Gpu> gpu = options.Poster(), receivers_gpu = options.Receiver();
  std::printf("1. Initialising: %u bytes of value %d\n", options.bytes, options.value);
  const auto value = static_cast<uint8_t>(options.value);

  std::puts("2. Looking for RDMA devices and active ports");
  ListPorts();
  const warpverbs::programs::NicAndPort where = options.fabric.FirstActivePort();
  std::printf("   taking %s\n", options.fabric.Describe(where, options.fabric.gid_index()).c_str());

  std::printf("3. Opening two contexts of %s\n", where.nic.c_str());
  const host::Device here(where.nic), there(where.nic);

  std::puts("4. Creating two endpoints");
  const auto config = [&](const std::optional<host::Gpu>& poster) {
    host::EndpointConfig made = options.fabric.Config(where.port);
    made.gpu = PointerTo(poster);
    made.placement = options.placement;
    return made;
  };
  host::Endpoint sender(here, config(gpu)), receiver(there, config(receivers_gpu));
  std::printf("   the sender is QP %u, the receiver is QP %u\n", sender.qpn(), receiver.qpn());

  std::puts("5. Connecting them");
  sender.Connect(receiver.Info());
  receiver.Connect(sender.Info());
  std::printf("%s", sender.Describe().c_str());

  std::puts("6. Allocating and registering buffers");
  const Buffer source(here, PointerTo(gpu), options.placement, options.bytes, {.local_write = false});
  const Buffer target(there, PointerTo(receivers_gpu), options.placement, options.bytes,
                      {.remote_write = true});
  std::printf("   the source is %s, the target is %s\n", source.Where(), target.Where());
  target.Fill(std::byte(~value));  // only the write can make it right
  const host::MemoryView from = source.View(), to = target.View();

  std::printf("7. Launching a kernel on %s: fill, post, ring, poll, verify\n", options.processor.c_str());
  const Job job{.queue = sender.View(),
                .source = {.addr = from.addr, .bytes = options.bytes, .lkey = mlx5::ToBe32(from.lkey)},
                .target = {.addr = to.addr, .rkey = mlx5::ToBe32(to.rkey)},
                .value = value,
                .reaches_target = !gpu || ReachesTarget(*gpu, *receivers_gpu, target)};
  Verify(gpu ? RunOnGpus(*gpu, *receivers_gpu, ScopeFor(sender, source), job) : RunOnCpu(job), options.bytes);

  std::puts("8. Cleaning up");
}

Report ConverseOnCpu(const Conversation& job) {
  Report report;
  CpuTeam::Run(2, [&](const CpuTeam& team) { Converse<warpverbs::arch::Cpu>(team, job, report); });
  return report;
}

uint64_t ExchangeWithPeer(const Options& options) {
  const bool listens = !options.listen.empty();
  const std::optional<host::Gpu> gpu = options.Poster();
  const PeerOptions peer{.listens = listens,
                         .meeting = ParseMeeting(listens ? options.listen : options.connect, listens),
                         .bytes = options.bytes,
                         .rounds = options.iterations,
                         .value = static_cast<uint8_t>(options.value),
                         .patience = std::chrono::seconds(options.patience_s),
                         .fabric = options.fabric,
                         .gpu = PointerTo(gpu),
                         .placement = options.placement};
  return InterchangeWithPeer(peer, [&gpu](const Conversation& job, Scope scope) {
    return gpu ? RunOnCuda(gpu->ordinal(), scope, job) : ConverseOnCpu(job);
  });
}

/// Says in the form of CLI11's checks whether a meeting can be read.
std::string CheckMeeting(const std::string& text, bool listens) {
  try {
    ParseMeeting(text, listens);
    return "";
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
}

std::string CheckProcessor(const std::string& name) {
  return std::regex_match(name, std::regex("cpu|cuda:[0-9]{1,3}(,cuda:[0-9]{1,3})?"))
             ? ""
             : "'" + name + "' is none of cpu, cuda:N and cuda:N,cuda:M";
}

}  // namespace

int main(int argc, char** argv) try {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // in a file too, what fails comes after the steps before it
  Options options;
  CLI::App app("Writes a buffer from a kernel to its peer by RDMA, and checks it there.");
  app.add_option("--bytes", options.bytes, "how many bytes to write (1024)")->check(CLI::Range(1, 1 << 30));
  app.add_option("--value", options.value, "what each byte is (42)")->check(CLI::Range(0, 255));
  app.add_option("--device", options.processor,
                 "where the kernel runs: cpu, cuda:N, or cuda:N,cuda:M with the target on M (cpu)")
      ->check(CheckProcessor);
  const std::map<std::string, host::Placement> placements{
      {"probe", host::Placement::kProbe}, {"gpu", host::Placement::kGpu}, {"host", host::Placement::kHost}};
  app.add_option(
         "--placement", options.placement,
         "where queues and buffers lie: in GPU memory, in host memory, or (probe) where the NIC reaches them")
      ->transform(CLI::CheckedTransformer(placements).description("probe, gpu or host"));
  warpverbs::programs::FabricOptions fabric;
  app.add_option("--nic", fabric.nic,
                 "which RDMA device to use (NCCL_IB_HCA, or the first with an active port)");
  AddFabricOptions(app, fabric);
  app.footer(warpverbs::programs::kNcclHelp);
  auto* const listen = app.add_option("--listen", options.listen, "wait for another process at [HOST:]PORT");
  auto* const connect =
      app.add_option("--connect", options.connect, "interchange with one that listens at HOST[:PORT]");
  listen->check([](const std::string& text) { return CheckMeeting(text, true); })->excludes(connect);
  connect->check([](const std::string& text) { return CheckMeeting(text, false); });
  app.add_option("--iterations", options.iterations, "rounds with another process (1)")
      ->check(CLI::Range(1, 1 << 30));
  app.add_option("--timeout", options.patience_s, "seconds to wait for another process, each time (10)")
      ->check(CLI::Range(1, 3600));
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    std::printf("%s", app.help().c_str());
    return 0;
  } catch (const CLI::ParseError& error) {
    std::fprintf(stderr, "%s: %s; see --help\n", argv[0], error.what());
    return 2;
  }
  try {
    options.fabric = {fabric, warpverbs::programs::ReadNcclEnvironment()};
  } catch (const host::Error& error) {  // a variable stands in for an option
    std::fprintf(stderr, "%s: %s\n", argv[0], error.what());
    return 2;
  }
  if (options.with_peer()) {
    if (options.on_two_gpus()) {
      std::fprintf(stderr, "%s: with a peer in another process each side has one GPU; see --help\n", argv[0]);
      return 2;
    }
    const uint64_t completions = ExchangeWithPeer(options);
    std::printf("Success! All %u bytes of %llu rounds verified; %llu completions, each once and in order\n",
                options.bytes, static_cast<unsigned long long>(options.iterations),
                static_cast<unsigned long long>(completions));
    return 0;
  }
  Exchange(options);
  std::printf("Success! All %u bytes verified with value %d\n", options.bytes, options.value);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
