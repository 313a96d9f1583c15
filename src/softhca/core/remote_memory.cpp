#include "core/remote_memory.hpp"

#include "core/hca.hpp"

namespace softhca {

using mlx5::Syndrome;

RemoteMemory FindRemoteMemory(const QueuePair& target, const RemoteRange& range, Access access) {
  if ((target.attributes.access & access) == 0) return {.refusal = Syndrome::kRemoteInvalidRequest};
  if (range.bytes == 0) return {};
  const Bytes memory =
      target.hca->mkeys().Translate(range.rkey, target.config.pdn, range.address, range.bytes, access);
  if (memory.data() == nullptr) return {.refusal = Syndrome::kRemoteAccess};
  return {.bytes = memory};
}

}  // namespace softhca
