#include "doctor/options.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "common/fabric_options.hpp"
#include "doctor/report.hpp"
#include "text/refusal.hpp"

namespace warpverbs::programs {
namespace {

constexpr const char* kFooter = R"(
Verdicts:
  PASS  as it should be
  WARN  it works, but slower or not for everyone; the line below has the remedy
  FAIL  GPU-initiated RDMA does not work like this; the line below has the remedy
  SKIP  not applicable here, with the reason

Exit status: 0 all PASS or SKIP; 1 at least one WARN; 2 a wrong command line; 3 at least one FAIL.

Two machines: `warpverbs-doctor --listen` on one, `warpverbs-doctor --peer HOST` on the other, with
--only peer for this check alone. Each writes to the other, and verifies. The port is of TCP, and open to
everyone as long as the check runs.

Nothing is changed on the machine. The check loopback sends some packets, doorbell and gpu-memory map and
register memory for a moment. Colours are for terminals; NO_COLOR turns them off. docs/doctor.md says more
about each check. Without a NIC: softhca -- warpverbs-doctor)";

using Names = std::vector<std::string>;

CLI::Option* AddNames(CLI::App& app, const std::string& option, Names& names, const std::string& text) {
  const auto known = [option](const std::string& name) {
    const auto checks = AllChecks();
    const bool found =
        std::any_of(checks.begin(), checks.end(), [&](const Check& check) { return name == check.id; });
    return found ? "" : "'" + name + "' is no check of --list";
  };
  return app.add_option(option, names, text)
      ->delimiter(',')
      ->check(CLI::Validator(known, "", option))
      ->type_name("ID[,ID]...")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

void AddMeeting(CLI::App& app, std::optional<Meeting>& meeting) {
  const auto take = [&meeting](const char* option, bool listens) {
    return [&meeting, option, listens](const std::string& text) {
      try {
        meeting = Meeting{listens, ParseAddress(text, listens)};
      } catch (const std::invalid_argument& error) {
        throw CLI::ValidationError(option, error.what());
      }
    };
  };
  auto* const listen =
      app.add_option_function<std::string>("--listen", take("--listen", true),
                                           "Wait a minute for a doctor on another machine (18518)")
          ->type_name("[PORT]")
          ->expected(0, 1);
  app.add_option_function<std::string>("--peer", take("--peer", false),
                                       "Move data to and from the doctor that listens there")
      ->type_name("HOST[:PORT]")
      ->excludes(listen);
}

std::vector<Check> Selected(const Names& only, const Names& skipped) {
  const auto has = [](const Names& names, const Check& check) {
    return std::find(names.begin(), names.end(), check.id) != names.end();
  };
  std::vector<Check> checks;
  for (const Check& check : AllChecks())
    if ((only.empty() || has(only, check)) && !has(skipped, check)) checks.push_back(check);
  return checks;
}

}  // namespace

std::variant<DoctorOptions, Answer> ParseDoctorOptions(int argc, char** argv) {
  DoctorOptions options;
  Names only, skipped;
  bool list = false;
  CLI::App app("Checks whether this machine is ready for RDMA that kernels on a GPU initiate.",
               "warpverbs-doctor");
  app.footer(std::string(kNcclHelp) + "\n" + kFooter);
  app.add_flag("--json", options.json, "Print JSON");
  app.add_flag("--list", list, "Print the checks, and run none");
  AddNames(app, "--only", only, "Run these checks alone");
  AddNames(app, "--skip", skipped, "Leave these checks out");
  app.add_option("--device", options.device, "Look at this NIC alone, for example mlx5_0")->type_name("NAME");
  FabricOptions fabric;
  AddFabricOptions(app, fabric);
  AddMeeting(app, options.meeting);
  app.set_version_flag("--version", "warpverbs-doctor " WARPVERBS_PROGRAMS_VERSION);
  try {
    app.parse(argc, argv);
    fabric.nic = options.device;
    options.fabric = Fabric(fabric, ReadNcclEnvironment());
  } catch (const CLI::CallForHelp&) {
    return Answer{app.help(), 0};
  } catch (const CLI::CallForVersion& version) {
    return Answer{std::string(version.what()) + '\n', 0};
  } catch (const std::exception& error) {
    return Answer{Refusal(app, error), 2};
  }
  options.checks = Selected(only, skipped);
  if (list) return Answer{ListOf(options.checks), 0};
  return options;
}

}  // namespace warpverbs::programs
