#include <algorithm>
#include <array>
#include <cstring>

#include "core/limits.hpp"
#include "uverbs/capabilities.hpp"
#include "uverbs/devx.hpp"

namespace softhca::uverbs {
namespace {

using mlx5::CommandOpcode;

/// Writes as much of the answer as the program has room for.
void QueryHcaCap(const Mailboxes& mail) {
  // The lowest bit selects current or maximum values; they are equal here.
  const auto page = static_cast<mlx5::CapabilityPage>(mail.Get(mlx5::command_in::kOpMod) >> 1);
  std::array<mlx5::Be32, mlx5::query_hca_cap_out::kBytes / sizeof(mlx5::Be32)> answer{};
  FillCapabilities(page, mail.hca().config(), answer);
  std::copy_n(answer.begin(), std::min(answer.size(), mail.out.size()), mail.out.begin());
}

void QueryRoceAddress(const Mailboxes& mail) {
  using namespace mlx5;
  const auto& ports = mail.hca().config().ports;
  const uint32_t named = mail.Get(query_roce_address_in::kVhcaPortNum);
  const uint32_t port = named == 0 ? 1 : named;
  const uint32_t index = mail.Get(query_roce_address_in::kRoceAddressIndex);
  CheckParameter(mail.hca().config().link == PortType::kEthernet, "the device has no RoCE addresses");
  CheckParameter(port <= ports.size() && index < limits::GidTableSize(PortType::kEthernet),
                 "the address does not exist");
  const PortConfig& config = ports[port - 1];
  if (index >= config.gids.size()) return;  // an empty entry is zero
  constexpr uint32_t kAddress = query_roce_address_out::kAddress;
  const GidEntry& entry = config.gids[index];
  std::memcpy(mail.out.data() + kAddress / 32, entry.gid.data(), entry.gid.size());
  mail.SetMac(roce_addr_layout::kSourceMac4732.At(kAddress), roce_addr_layout::kSourceMac310.At(kAddress),
              config.mac);
  mail.Set(roce_addr_layout::kRoceL3Type.At(kAddress), entry.gid[10] == 0xff ? 0 : 1);  // IPv4, IPv6
  mail.Set(roce_addr_layout::kRoceVersion.At(kAddress), entry.version);
}

/// Answers that the ports are not bonded: every field is 0, the state included.
///
/// @source  UCX v1.13, src/uct/ib/mlx5/dv/ib_mlx5dv_md.c, uct_ib_mlx5_devx_md_open(): lag_state 0 is "LAG is
/// off"
void QueryLag(const Mailboxes&) {}

constexpr QueryCommand kGeneralCommands[] = {
    {CommandOpcode::kQueryHcaCap, mlx5::kCommandHeaderBytes, mlx5::kCommandOutBytes, QueryHcaCap},
    {CommandOpcode::kQueryRoceAddress, mlx5::query_roce_address_in::kBytes,
     mlx5::query_roce_address_out::kBytes, QueryRoceAddress},
    {CommandOpcode::kQueryLag, mlx5::kCommandHeaderBytes, mlx5::kCommandOutBytes, QueryLag},
};

}  // namespace

std::span<const QueryCommand> GeneralCommands() { return kGeneralCommands; }

}  // namespace softhca::uverbs
