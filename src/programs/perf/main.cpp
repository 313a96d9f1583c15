#include <cstdio>
#include <exception>

#include "perf/options/options.hpp"
#include "perf/report/plot.hpp"
#include "perf/session.hpp"
#include "perf/steps.hpp"

namespace perf = warpverbs::perf;

int main(int argc, char** argv) try {
  const auto command = perf::ParseOptions(argc, argv);
  if (const auto* const answer = std::get_if<perf::Answer>(&command)) {
    std::fputs(answer->text.c_str(), answer->exit_status == 0 ? stdout : stderr);
    return answer->exit_status;
  }
  const auto& options = std::get<perf::Options>(command);
  if (!options.plot_file.empty()) {
    perf::Plot(options.plot_file, options.plotted);
    return 0;
  }
  const perf::Steps steps(options.verbose);
  steps.Begin(perf::Step::kParse);
  return perf::RunSession(options, steps);
} catch (const std::exception& error) {
  std::fprintf(stderr, "warpverbs-perf: %s\n", error.what());
  return 1;
}
