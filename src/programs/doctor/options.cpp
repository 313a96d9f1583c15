#include "doctor/options.hpp"

#include <algorithm>

#include "doctor/report.hpp"

namespace warpverbs::programs {
namespace {

constexpr const char* kFooter = R"(
Verdicts:
  PASS  works as intended
  WARN  works, but slowly or not for all users; the line below has the remedy
  FAIL  prevents GPU-initiated RDMA; the line below has the remedy
  SKIP  does not apply here, with the reason

Two machines:
  Run `warpverbs-doctor --listen` on one and `warpverbs-doctor --peer HOST` on the other. Add --only peer to run
  this check alone. Each machine writes to the other and verifies the data. While it waits, the TCP port accepts
  any client.

Effects:
  The doctor changes nothing on the machine. The check loopback sends a few packets; doorbell and gpu-memory map
  and register memory briefly. A terminal shows colours unless NO_COLOR is set. docs/doctor.md explains each check.
  Without a NIC: softhca -- warpverbs-doctor

Exit status:
  0  all checks PASS or SKIP
  1  a check gives a WARN, and none a FAIL
  2  the command line is invalid
  3  a check gives a FAIL)";

using Names = std::vector<std::string>;

CLI::Option* AddNames(CLI::App& app, const std::string& option, Names& names, const std::string& text) {
  const auto known = [](const std::string& name) {
    const auto checks = AllChecks();
    return std::any_of(checks.begin(), checks.end(), [&](const Check& check) { return name == check.id; });
  };
  return app.add_option(option, names, text)
      ->delimiter(',')
      ->check(Expect("a check of --list", known))
      ->type_name("ID[,ID]...")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

void AddPeerOptions(CLI::App& app, std::optional<PeerOptions>& peer) {
  const auto take = [&peer](const char* option, bool listens) {
    return [&peer, option, listens](const std::string& text) {
      try {
        peer = PeerOptions{listens, ParseAddress(text, listens)};
      } catch (const std::invalid_argument& error) {
        throw CLI::ValidationError(option, error.what());
      }
    };
  };
  auto* const listen =
      app.add_option_function<std::string>("--listen", take("--listen", true),
                                           "Wait up to a minute for the doctor of another machine (18518)")
          ->type_name("[PORT]")
          ->expected(0, 1);
  app.add_option_function<std::string>("--peer", take("--peer", false),
                                       "Exchange data with the doctor that listens on HOST")
      ->type_name("HOST[:PORT]")
      ->excludes(listen);
}

std::vector<Check> Select(const Names& only, const Names& skipped) {
  const auto has = [](const Names& names, const Check& check) {
    return std::find(names.begin(), names.end(), check.id) != names.end();
  };
  std::vector<Check> checks;
  for (const Check& check : AllChecks())
    if ((only.empty() || has(only, check)) && !has(skipped, check)) checks.push_back(check);
  return checks;
}

}  // namespace

std::variant<DoctorOptions, EarlyExit> ParseDoctorOptions(int argc, char** argv) {
  DoctorOptions options;
  Names only, skipped;
  bool list = false;
  CLI::App app("Checks whether this machine is ready for RDMA initiated by GPU kernels.", "warpverbs-doctor");
  app.footer(std::string(kNcclHelp) + "\n" + kFooter);
  app.add_flag("--json", options.json, "Print JSON");
  app.add_flag("--list", list, "List the checks instead of running them");
  AddNames(app, "--only", only, "Run only these checks");
  AddNames(app, "--skip", skipped, "Skip these checks");
  app.add_option("--device", options.device, "Check only this NIC, for example mlx5_0")->type_name("NAME");
  DeviceOptions device;
  AddDeviceOptions(app, device);
  AddPeerOptions(app, options.peer);
  app.set_version_flag("--version", "warpverbs-doctor " WARPVERBS_PROGRAMS_VERSION);
  const auto exit = ParseCommandLine(app, argc, argv, [&] {
    device.nic = options.device;
    options.selection = DeviceSelection(device, ReadNcclEnvironment());
  });
  if (exit) return *exit;
  options.checks = Select(only, skipped);
  if (list) return EarlyExit{ListChecks(options.checks), 0};
  return options;
}

}  // namespace warpverbs::programs
