#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <asio/io_context.hpp>
#include <asio/signal_set.hpp>
#include <asio/steady_timer.hpp>
#include <csignal>
#include <cstdio>
#include <exception>
#include <functional>
#include <optional>
#include <string>

#include "gpuio/programs/filed/options.hpp"
#include "gpuio/server/server.hpp"

namespace gpuio = warpverbs::gpuio;
namespace transport = warpverbs::transport;

namespace {

void Print(const std::string& line) { std::fprintf(stderr, "warpverbs-filed: %s\n", line.c_str()); }

/// Lets clients have as many files open as the administrator allows.
void RaiseFileLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

void Serve(gpuio::FiledOptions options) {
  asio::io_context context;
  transport::EventLoop loop(context);
  options.server.log = Print;
  std::optional<gpuio::FileServer> server(std::in_place, options.server, loop);
  std::fputs(server->Describe().c_str(), stdout);
  std::printf("listening on port %u\n", server->port());
  std::fflush(stdout);

  asio::steady_timer timer(context);
  const std::function<void()> report = [&] {
    timer.expires_after(*options.statistics);
    timer.async_wait([&](const std::error_code& error) {
      if (error || !server) return;
      Print(server->Statistics().ToText());
      report();
    });
  };
  if (options.statistics) report();

  asio::signal_set signals(context, SIGINT, SIGTERM);
  signals.async_wait([&](const std::error_code&, int) {
    if (options.statistics) Print(server->Statistics().ToText());
    signals.clear();  // a second signal ends the program at once, also while it waits for a disk that hangs
    server.reset();
    timer.cancel();
  });
  context.run();
}

}  // namespace

int main(int argc, char** argv) try {
  const auto parsed = gpuio::ParseFiledOptions(argc, argv);
  if (const auto* const exit = std::get_if<warpverbs::programs::EarlyExit>(&parsed)) {
    std::fputs(exit->text.c_str(), exit->status == 0 ? stdout : stderr);
    return exit->status;
  }
  RaiseFileLimit();
  umask(0);  // clients say which rights a new file has
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);  // a write beyond the limit is EFBIG
  Serve(std::get<gpuio::FiledOptions>(parsed));
  return 0;
} catch (const std::exception& error) {
  Print(error.what());
  return 1;
}
