#pragma once

#include <string>

#include "core/hca.hpp"

/// Names that all observers use.
namespace softhca {

/// Returns the name of a queue pair: "mlx5_0 QP 0x101".
std::string NameOf(const QueuePair& qp);

/// Returns the name of an opcode: "WRITE_IMM".
const char* Name(mlx5::WqeOpcode opcode);

/// Returns the name of a service: "RC".
const char* Name(mlx5::ServiceType service);

}  // namespace softhca
