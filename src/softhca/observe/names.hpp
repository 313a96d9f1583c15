#pragma once

#include <string>

#include "core/hca.hpp"

/// Names that all observers use.
namespace softhca {

/// Returns the name of a queue pair: "mlx5_0 QP 0x101".
std::string ToString(const QueuePair& qp);

/// Returns the name of an opcode: "WRITE_IMM".
const char* ToString(mlx5::WqeOpcode opcode);

/// Returns the name of a service: "RC".
const char* ToString(mlx5::ServiceType service);

}  // namespace softhca
