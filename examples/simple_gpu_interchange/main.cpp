// A kernel writes to another endpoint by RDMA, in eight steps. Read this example first.
//
// The host opens a NIC, connects two endpoints, registers memory and launches a kernel. The kernel fills its
// memory, posts the write and waits for the completion: no host thread is on the data path. Both endpoints
// are in this process; in examples/two_processes each is in a process of its own.
//
//   softhca -- simple_gpu_interchange               kernel on CPU threads, software NIC: needs no hardware
//   simple_gpu_interchange --device cuda:0          kernel and memory on a GPU
//   simple_gpu_interchange --device cuda:0,cuda:1   kernel on cuda:0, target in the memory of cuda:1
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <map>
#include <optional>
#include <regex>
#include <stdexcept>
#include <string>
#include <vector>

#include "../common/registered_buffer.hpp"
#include "kernel.hpp"
#include "warpverbs/arch/cpu.hpp"
#include "warpverbs/arch/cpu_block.hpp"
#include "warpverbs/host/device.hpp"
#include "warpverbs/host/endpoint.hpp"
#include "warpverbs/host/gpu.hpp"
#include "warpverbs/host/memory.hpp"
#include "warpverbs/host/queue_error.hpp"

namespace host = warpverbs::host;
using warpverbs::device::Status;

namespace {

struct Options {
  uint32_t bytes = 1024;
  int value = 42;
  std::string device = "cpu";
  host::Placement placement = host::Placement::kProbe;
  std::string nic;
};

/// Returns the GPU whose number is at the end of "cuda:0", or none for "cpu".
std::optional<host::Gpu> FindGpu(const std::string& name) {
  if (name == "cpu") return std::nullopt;
  if (!HasCudaKernels())
    throw std::runtime_error(
        "Cannot use a GPU: this program was built without CUDA. Configure it with -DWARPVERBS_CUDA=ON.");
  return host::Gpu(std::stoi(name.substr(name.rfind(':') + 1)));
}

Status RunOnCpu(const Job& job) {
  Status result{.code = warpverbs::device::Code::kPending};
  warpverbs::arch::cpu::RunBlock(4, [&](uint32_t) { FillAndWrite<warpverbs::arch::Cpu>(job, result); });
  return result;
}

void Interchange(const Options& options) {
  const std::optional<host::Gpu> source_gpu = FindGpu(options.device.substr(0, options.device.find(',')));
  const std::optional<host::Gpu> target_gpu = FindGpu(options.device);
  const auto value = static_cast<std::byte>(options.value);

  // 1. Open the device: the NIC that was named, or the first with an active port.
  const host::Device nic(options.nic.empty() ? host::FirstActiveDevice() : options.nic);
  std::printf("1. Opened %s\n", nic.name().c_str());

  // 2. Create two endpoints: RC queue pairs. A kernel posts to the sender; the receiver takes what arrives.
  host::Endpoint sender(nic, {.gpu = source_gpu ? &*source_gpu : nullptr, .placement = options.placement});
  host::Endpoint receiver(nic);
  std::printf("2. Created two endpoints: QP %u sends, QP %u receives\n", sender.qpn(), receiver.qpn());

  // 3. Connect them: each needs the other's description.
  sender.Connect(receiver.Info());
  receiver.Connect(sender.Info());
  std::printf("3. Connected them\n%s", sender.Describe().c_str());

  // 4. Allocate and register memory. Only the write can make the target right: it starts with other values.
  const auto source = RegisteredBuffer::Allocate(nic, source_gpu, options.placement, options.bytes, {});
  const auto target =
      RegisteredBuffer::Allocate(nic, target_gpu, options.placement, options.bytes, {.remote_write = true});
  target.memory->CopyIn(0, std::vector(options.bytes, ~value));
  std::printf("4. Registered the source, %s, and the target, %s\n", source.memory->name().c_str(),
              target.memory->name().c_str());

  // 5. Exchange keys: the sender needs the target's address and rkey. Two processes would send them.
  const Job job{.queue = sender.View(),
                .source = source.region.View().First(options.bytes).Local(),
                .target = target.region.View().Remote(),
                .value = static_cast<uint8_t>(options.value)};
  std::puts("5. The sender has the target's address and key");

  // 6. Launch the kernel: fill, post, wait.
  std::printf("6. Launching the kernel on %s: fill, post, wait\n",
              source_gpu ? source_gpu->name().c_str() : "cpu");
  const Status status = source_gpu ? RunOnCuda(source_gpu->ordinal(), job) : RunOnCpu(job);
  if (!status.ok()) throw std::runtime_error("The write failed: " + host::Describe(status) + ".");

  // 7. Verify every byte of the target. The flush makes the NIC's writes visible, wherever the target is.
  target.memory->Flush(host::FlushDirection::kNicToGpu, host::DeadlineIn(std::chrono::seconds(10)));
  std::vector<std::byte> arrived(options.bytes);
  target.memory->CopyOut(0, arrived);
  const auto right = std::count(arrived.begin(), arrived.end(), value);
  std::printf("7. Verified the target: %td bytes are right\n", right);
  if (right != options.bytes)
    throw std::runtime_error("Only " + std::to_string(right) + " of " + std::to_string(options.bytes) +
                             " bytes are right.");
}

std::string CheckDevice(const std::string& name) {
  return std::regex_match(name, std::regex("cpu|cuda:[0-9]{1,3}(,cuda:[0-9]{1,3})?"))
             ? ""
             : "'" + name + "' is none of cpu, cuda:N and cuda:N,cuda:M";
}

}  // namespace

int main(int argc, char** argv) try {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // keeps steps and errors in order when both go to a file
  Options options;
  CLI::App app(
      "Teaches the eight steps of RDMA by a kernel: a kernel writes a buffer, the program verifies it.");
  app.add_option("--bytes", options.bytes, "bytes to write (1024)")->check(CLI::Range(1, 1 << 30));
  app.add_option("--value", options.value, "value of each byte (42)")->check(CLI::Range(0, 255));
  app.add_option("--device", options.device,
                 "where the kernel runs: cpu, cuda:N, or cuda:N,cuda:M with the target on M (cpu)")
      ->check(CheckDevice);
  const std::map<std::string, host::Placement> placements{
      {"probe", host::Placement::kProbe}, {"gpu", host::Placement::kGpu}, {"host", host::Placement::kHost}};
  app.add_option(
         "--placement", options.placement,
         "where queues and buffers are: in GPU memory, in host memory, or (probe) in GPU memory if the NIC "
         "reaches it")
      ->transform(CLI::CheckedTransformer(placements).description("probe, gpu or host"));
  app.add_option("--nic", options.nic, "RDMA device to use, such as mlx5_0 (the first with an active port)");
  try {
    app.parse(argc, argv);
    if (options.placement == host::Placement::kGpu && options.device == "cpu")
      throw CLI::ValidationError("--placement gpu needs a GPU: give --device cuda:N too");
  } catch (const CLI::CallForHelp&) {
    std::printf("%s", app.help().c_str());
    return 0;
  } catch (const CLI::ParseError& error) {
    std::fprintf(stderr, "%s: %s; see --help\n", argv[0], error.what());
    return 2;
  }
  Interchange(options);
  std::printf("8. Done\nSuccess! All %u bytes verified with value %d\n", options.bytes, options.value);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
