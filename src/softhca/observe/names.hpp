#pragma once

#include <string>

#include "core/hca.hpp"

/// How those who watch name what they see.
namespace softhca {

/// "mlx5_0 QP 0x101"
std::string NameOf(const QueuePair& qp);

/// "WRITE_IMM"
const char* Name(mlx5::WqeOpcode opcode);

/// "RC"
const char* Name(mlx5::ServiceType service);

}  // namespace softhca
