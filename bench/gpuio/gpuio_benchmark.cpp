// Measures reads of a file into a device's memory: by the ring straight into it, by the ring into host memory
// and a copy, by pread() and a copy, and beside them fio, which copies nothing.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "common/command_line.hpp"
#include "gpuio/local_servers.hpp"
#include "gpuio/ring_io.hpp"
#include "loads.hpp"
#include "nic_label.hpp"
#include "served_folder.hpp"
#include "warpverbs/host/device.hpp"

namespace warpverbs::bench {
namespace {

struct Options {
  std::string folder{};  ///< empty: a temporary one
  std::string device = "cpu";
  std::vector<uint64_t> sizes{4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20};
  std::vector<uint64_t> depths{1, 4, 16, 64};
  std::string order = "both";
  uint64_t file_bytes = 256 << 20, memory = 256 << 20;
  double seconds = 0.2;
  std::vector<std::string> methods{"direct", "ring+copy", "pread+copy", "fio"};
  bool direct = false, processes = false;
};

void CreateFile(const std::filesystem::path& path, size_t bytes) {
  std::ofstream file(path, std::ios::binary);
  std::vector<char> piece(1 << 20);
  for (size_t at = 0; at < bytes && file; at += piece.size()) {
    for (size_t i = 0; i < piece.size(); ++i) piece[i] = static_cast<char>(ByteOfFile(at + i));
    file.write(piece.data(), static_cast<std::streamsize>(std::min(piece.size(), bytes - at)));
  }
  file.close();
  if (!file) throw std::runtime_error("Cannot write " + path.string() + ". Name a folder with more space.");
}

std::string SizeText(size_t bytes) {
  return bytes % (1 << 20) == 0 ? std::to_string(bytes >> 20) + " MiB" : std::to_string(bytes >> 10) + " KiB";
}

struct Method {
  const char* name;
  double (*measure)(const Setting&, const Load&);
};

constexpr Method kMethods[] = {{"direct", MeasureDirect},
                               {"ring+copy", MeasureRingAndCopy},
                               {"pread+copy", MeasurePreadAndCopy},
                               {"fio", MeasureFio}};

/// Prints a row of the table, number by number.
void PrintRow(const Setting& setting, const Load& load, const std::vector<Method>& methods) {
  std::printf("%-10s %8s %9zu", load.is_random ? "random" : "sequential", SizeText(load.bytes).c_str(),
              load.in_flight);
  for (const Method& method : methods) {
    std::printf(" %10.0f", method.measure(setting, load) / 1e6);
    std::fflush(stdout);
  }
  std::printf("\n");
}

/// Returns the methods of an option's value that this machine has.
std::vector<Method> MethodsOf(const std::vector<std::string>& names) {
  std::vector<Method> methods;
  for (const Method& method : kMethods) {
    if (std::find(names.begin(), names.end(), method.name) == names.end()) continue;
    if (method.measure == MeasureFio && !HasFio()) {
      std::printf("fio is not installed (apt install fio): its column is left out.\n");
    } else {
      methods.push_back(method);
    }
  }
  return methods;
}

void PrintTable(const Setting& setting, const Options& options) {
  const std::vector<Method> methods = MethodsOf(options.methods);
  std::printf("\n%-10s %8s %9s", "MB/s", "size", "in flight");
  for (const Method& method : methods) std::printf(" %10s", method.name);
  std::printf("\n");
  for (const bool is_random : {false, true}) {
    if (options.order == (is_random ? "sequential" : "random")) continue;
    for (const uint64_t bytes : options.sizes) {
      for (const uint64_t depth : options.depths) {
        if (bytes * depth > options.memory || bytes > options.file_bytes) continue;
        PrintRow(setting,
                 {.bytes = bytes, .is_random = is_random, .in_flight = depth, .seconds = options.seconds},
                 methods);
      }
    }
  }
}

void Run(const Options& options) {
  std::optional<TemporaryFolder> temporary;
  if (options.folder.empty()) temporary.emplace();
  const TemporaryFolder* const made = temporary ? &*temporary : nullptr;
  const auto mount = std::filesystem::canonical(made != nullptr ? made->path().string() : options.folder);
  std::optional<LocalServers> servers;
  std::optional<ServedFolder> served;
  if (options.processes) {
    servers.emplace(mount,
                    options.direct ? std::vector<std::string>{} : std::vector<std::string>{"--buffered"});
  } else {
    served.emplace(mount, options.direct ? gpuio::IoMode::kAuto : gpuio::IoMode::kBuffered);
  }
  const Setting setting{.mount = mount,
                        .file = mount / "gpuio-benchmark.bin",
                        .file_bytes = options.file_bytes,
                        .gpu = GpuOf(options.device),
                        .direct = options.direct};
  if (std::filesystem::exists(setting.file))
    throw std::runtime_error("Cannot create " + setting.file.string() + ": it exists. Remove it.");
  struct Remover {
    const std::filesystem::path& path;
    ~Remover() { unlink(path.c_str()); }
  } const remover{setting.file};
  CreateFile(setting.file, options.file_bytes);
  std::printf("%s\nreads of a file of %s into %s, %s; server and daemon %s\n",
              NicLabel(host::Device()).c_str(), SizeText(options.file_bytes).c_str(),
              setting.gpu ? options.device.c_str() : "host memory",
              options.direct ? "past the page cache" : "which is in the page cache",
              options.processes ? "are processes" : "are threads of this process");
  PrintTable(setting, options);
}

}  // namespace
}  // namespace warpverbs::bench

int main(int argc, char** argv) try {
  namespace bench = warpverbs::bench;
  namespace programs = warpverbs::programs;
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // keeps lines and errors in order when both go to a file
  bench::Options options;
  CLI::App app(
      "Measures reads of a file into a device's memory: by the ring, by two ways with a copy, and by fio.",
      "gpuio_benchmark");
  app.add_option("folder", options.folder, "Folder for the file (a temporary one)")
      ->type_name("FOLDER")
      ->check(CLI::ExistingDirectory);
  app.add_option("--device", options.device, "Where to read to: cpu, or cuda:N (cpu)")
      ->type_name("DEVICE")
      ->check(CheckDevice);
  app.add_option("--sizes", options.sizes, "Bytes of a read (4k,16k,64k,256k,1M,4M,16M,64M)")
      ->type_name("BYTES,...")
      ->delimiter(',')
      ->transform(programs::Bytes(1, 1 << 30));
  app.add_option("--in-flight", options.depths, "Reads under way at a time (1,4,16,64)")
      ->type_name("COUNT,...")
      ->delimiter(',')
      ->check(programs::Integer(1, 1024));
  app.add_option("--order", options.order, "Order of the reads (both)")
      ->type_name("sequential|random|both")
      ->check(programs::OneOf({"sequential", "random", "both"}));
  app.add_option("--file", options.file_bytes, "Size of the file (256M)")
      ->type_name("BYTES")
      ->transform(programs::Bytes(4096, 3U << 30));
  app.add_option("--memory", options.memory,
                 "Largest size of a buffer: rows that need more are left out (256M)")
      ->type_name("BYTES")
      ->transform(programs::Bytes(4096, 3U << 30));
  app.add_option("--seconds", options.seconds, "Time of each measurement (0.2)")
      ->type_name("SECONDS")
      ->check(programs::Number("a number from 0.001 to 3600", 0.001, 3600));
  app.add_flag("--direct", options.direct, "Read past the page cache");
  app.add_flag("--processes", options.processes, "Run server and daemon as processes, not as threads");
  app.add_option("--methods", options.methods, "Columns of the table (direct,ring+copy,pread+copy,fio)")
      ->type_name("NAME,...")
      ->delimiter(',')
      ->check(programs::OneOf(options.methods));
  if (const auto exit = programs::ParseCommandLine(app, argc, argv, [] {})) {
    std::fputs(exit->text.c_str(), exit->status == 0 ? stdout : stderr);
    return exit->status;
  }
  CatchSignals();
  bench::Run(options);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "gpuio_benchmark: %s\n", error.what());
  return 1;
}
