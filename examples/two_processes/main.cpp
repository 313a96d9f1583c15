// Two processes write to each other by RDMA from kernels, in rounds, on one machine or on two.
//
// It teaches what simple_gpu_interchange leaves out: to meet a peer over TCP, to connect and exchange keys
// with it, and to agree on the result. The kernel posts by the low-level calls and takes every completion
// from a ring, so it proves that each comes once and in order.
//
//   two_processes --listen 18517            one process
//   two_processes --connect HOST:18517      the other
#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <map>
#include <regex>
#include <stdexcept>
#include <string>

#include "common/command_line.hpp"
#include "interchange.hpp"
#include "kernel.hpp"
#include "tcp_address.hpp"
#include "warpverbs/host/error.hpp"

namespace host = warpverbs::host;

namespace {

/// Reports in the form of CLI11's checks whether an address can be read.
std::string CheckAddress(const std::string& text, bool listens) {
  try {
    ParseTcpAddress(text, listens);
    return "";
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
}

std::string CheckDevice(const std::string& name) {
  return std::regex_match(name, std::regex("cpu|cuda:[0-9]{1,3}"))
             ? ""
             : "'" + name + "' is neither cpu nor cuda:N";
}

}  // namespace

int main(int argc, char** argv) try {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // keeps steps and errors in order when both go to a file
  Options options;
  std::string listen, connect, device = "cpu";
  unsigned timeout_s = 10;
  warpverbs::programs::DeviceOptions fabric;
  CLI::App app(
      "Teaches RDMA between two processes: kernels write to each other in rounds and verify all bytes.");
  auto* const listen_option = app.add_option("--listen", listen, "wait for the peer at [HOST:]PORT");
  auto* const connect_option = app.add_option("--connect", connect, "connect to the peer at HOST[:PORT]");
  listen_option->check([](const std::string& text) { return CheckAddress(text, true); })
      ->excludes(connect_option);
  connect_option->check([](const std::string& text) { return CheckAddress(text, false); });
  app.add_option("--iterations", options.rounds, "number of rounds (1)")->check(CLI::Range(1, 1 << 30));
  app.add_option("--timeout", timeout_s, "seconds to wait for the peer, each time (10)")
      ->check(CLI::Range(1, 3600));
  app.add_option("--bytes", options.bytes, "bytes to write in each round (1024)")
      ->check(CLI::Range(1, 1 << 30));
  app.add_option("--value", options.value, "value of the first byte (42)")->check(CLI::Range(0, 255));
  app.add_option("--device", device, "where the kernel runs: cpu or cuda:N (cpu)")->check(CheckDevice);
  const std::map<std::string, host::Placement> placements{
      {"probe", host::Placement::kProbe}, {"gpu", host::Placement::kGpu}, {"host", host::Placement::kHost}};
  app.add_option(
         "--placement", options.placement,
         "where queues and buffers are: in GPU memory, in host memory, or (probe) in GPU memory if the NIC "
         "reaches it")
      ->transform(CLI::CheckedTransformer(placements).description("probe, gpu or host"));
  app.add_option("--nic", fabric.nic,
                 "RDMA device to use, such as mlx5_0 (NCCL_IB_HCA, or the first with an active port)");
  AddDeviceOptions(app, fabric);
  app.footer(warpverbs::programs::kNcclHelp);
  try {
    app.parse(argc, argv);
    if (listen.empty() && connect.empty()) throw CLI::RequiredError("--listen or --connect");
    if (options.placement == host::Placement::kGpu && device == "cpu")
      throw CLI::ValidationError("--placement gpu needs a GPU: give --device cuda:N too");
  } catch (const CLI::CallForHelp&) {
    std::printf("%s", app.help().c_str());
    return 0;
  } catch (const CLI::ParseError& error) {
    std::fprintf(stderr, "%s: %s; see --help\n", argv[0], error.what());
    return 2;
  }
  try {
    options.fabric = {fabric, warpverbs::programs::ReadNcclEnvironment()};
  } catch (const host::Error& error) {  // a bad variable is as wrong as a bad option
    std::fprintf(stderr, "%s: %s\n", argv[0], error.what());
    return 2;
  }
  if (device != "cpu") {
    if (!HasCudaKernels())
      throw std::runtime_error(
          "Cannot use a GPU: this program was built without CUDA. Configure it with -DWARPVERBS_CUDA=ON.");
    options.gpu.emplace(std::stoi(device.substr(device.find(':') + 1)));
  }
  options.listens = !listen.empty();
  options.address = ParseTcpAddress(options.listens ? listen : connect, options.listens);
  options.timeout = std::chrono::seconds(timeout_s);
  const uint64_t completions = Interchange(options);
  std::printf("Success! All %u bytes of %llu rounds verified; %llu completions, each once and in order\n",
              options.bytes, static_cast<unsigned long long>(options.rounds),
              static_cast<unsigned long long>(completions));
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
