#include "core/remote_memory.hpp"

#include "core/hca.hpp"

namespace softhca {

RemoteMemory FindRemoteMemory(const QueuePair& target, const RemoteRange& range, Access access) {
  if ((target.attributes.access & access) == 0) return {.refusal = mlx5::Syndrome::kRemoteInvalidRequest};
  RemoteMemory memory;
  const KeyRange keys{range.rkey, range.pdn.value_or(target.config.pdn), range.address, range.bytes};
  if (range.bytes != 0 && !target.hca->mkeys().Translate(keys, access, memory.pieces, target.qpn))
    memory.refusal = mlx5::Syndrome::kRemoteAccess;
  return memory;
}

}  // namespace softhca
