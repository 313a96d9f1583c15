#include <sys/resource.h>

#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <asio/signal_set.hpp>
#include <asio/steady_timer.hpp>
#include <csignal>
#include <cstdio>
#include <exception>
#include <functional>
#include <new>
#include <optional>

#include "gpuio/daemon/mounted_links.hpp"
#include "gpuio/daemon/server_files.hpp"
#include "gpuio/programs/gpuiod/options.hpp"

namespace gpuio = warpverbs::gpuio;
namespace transport = warpverbs::transport;

namespace {

/// Lets applications have as many buffers as the administrator allows: each takes a file.
void RaiseFileLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

/// The daemon and what it stands on, in the order in which they are made.
struct Parts {
  Parts(const gpuio::GpuiodOptions& options, transport::EventLoop& loop,
        const std::function<void()>& on_unmounted)
      : client(options.files, loop), files(client, options.files, loop) {
    if (!options.mount) {
      daemon.emplace(options.daemon, loop, files);
      return;
    }
    daemon.emplace(options.daemon, loop, files, links);
    gpuio::MountConfig config = *options.mount;
    config.on_unmounted = on_unmounted;
    mount.emplace(config, loop, client, &links);
  }

  gpuio::FileClient client;
  gpuio::ServerFiles files;
  gpuio::MountedLinks links;
  std::optional<gpuio::Daemon> daemon;
  std::optional<gpuio::Mount> mount;  // first to go: it shows the daemon
};

void Serve(const gpuio::GpuiodOptions& options) {
  asio::io_context context;
  transport::EventLoop loop(context);
  asio::steady_timer timer(context);
  asio::signal_set signals(context, SIGINT, SIGTERM);
  std::optional<Parts> parts;
  const auto print = [&] {
    std::puts(parts->daemon->Statistics().ToJson().c_str());
    std::fflush(stdout);
  };
  const auto stop = [&] {
    if (!parts) return;
    if (options.statistics) print();
    parts.reset();
    timer.cancel();
    signals.cancel();
  };
  const std::function<void()> report = [&] {
    timer.expires_after(*options.statistics);
    timer.async_wait([&](const std::error_code& error) {
      if (error || !parts) return;
      print();
      report();
    });
  };
  signals.async_wait([&](const std::error_code&, int) { stop(); });
  parts.emplace(options, loop, [&] { asio::post(context, stop); });  // not within the mount's own call
  std::printf("serving %s\n", options.daemon.mount.c_str());
  std::fflush(stdout);
  if (options.statistics) report();
  while (!context.stopped()) {
    try {
      context.run();
    } catch (const std::bad_alloc&) {  // one handler's: the applications of the others go on
      gpuio::Log(gpuio::LogLevel::kError, "Cannot finish a step: memory has run out. Give the daemon more.");
    }
  }
}

}  // namespace

int main(int argc, char** argv) try {
  const auto parsed = gpuio::ParseGpuiodOptions(argc, argv);
  if (const auto* const exit = std::get_if<warpverbs::programs::EarlyExit>(&parsed)) {
    std::fputs(exit->text.c_str(), exit->status == 0 ? stdout : stderr);
    return exit->status;
  }
  const auto& options = std::get<gpuio::GpuiodOptions>(parsed);
  gpuio::SetLogLevel(options.log_level);
  RaiseFileLimit();
  std::signal(SIGPIPE, SIG_IGN);
  Serve(options);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "warpverbs-gpuiod: %s\n", error.what());
  return 1;
}
