#include "operation.hpp"

#include <optional>

#include "warpverbs/host/queue_error.hpp"
#include "warpverbs/host/status_text.hpp"

namespace rdma_demo {

using warpverbs::device::Code;
namespace host = warpverbs::host;

void CheckOperation(const host::Endpoint& endpoint, const std::string& what,
                    const warpverbs::device::Status& status) {
  if (status.ok()) return;
  const bool host_knows_more = status.code == Code::kError || status.code == Code::kAborted;
  const std::optional<host::QueueError> error = host_knows_more ? endpoint.LastError() : std::nullopt;
  const std::string reason =
      error ? ". " + error->What() : ": " + host::Describe(status) + ". See what the other side says.";
  throw OperationFailed("Cannot " + what + reason, status);
}

}  // namespace rdma_demo
