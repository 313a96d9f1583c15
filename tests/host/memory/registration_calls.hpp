#pragma once

#include <cstdint>

/// Makes libibverbs refuse memory: this program defines the registering calls, which take precedence over the
/// library's.
namespace warpverbs::inline v0_2::host {

struct RegistrationFault {
  int by_address = 0;  ///< errno value; 0: succeeds
  int by_dma_buf = 0;
  int calls = -1;  ///< number of calls that fail; -1: all
};

/// Sets the fault for later calls.
void Inject(const RegistrationFault& fault);

/// Lets registrations wait, until it is called with false.
void HoldRegistrations(bool holds);

/// Returns how many registrations wait.
int HeldRegistrations();

/// Returns the access flags of the last registration.
unsigned LastAccess();

/// Returns how many registrations were tried, successful or not.
int Registrations();

/// The parameters of the last registration by dma-buf.
struct DmaBufCall {
  uint64_t offset = 0;  ///< offset in the file
  uint64_t bytes = 0;
  uint64_t iova = 0;
  int file = -1;
};
DmaBufCall LastDmaBufCall();

}  // namespace warpverbs::inline v0_2::host
