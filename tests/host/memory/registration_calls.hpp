#pragma once

#include <cstdint>

/// Lets libibverbs refuse memory: this program's own registering calls stand before those of the library.
namespace warpverbs::host {

struct RegistrationFault {
  int by_address = 0;  ///< as errno has it; 0: memory is registered
  int by_dma_buf = 0;
  int calls = -1;  ///< how many fail; -1: all
};

/// Sets what fails from now on.
void Inject(const RegistrationFault& fault);

/// The access flags that the last registration asked the library for.
unsigned LastAccess();

/// How many registrations the library was asked for, whether they worked or not.
int Registrations();

/// What the last registration by dma-buf was told.
struct DmaBufCall {
  uint64_t offset = 0;  ///< in the file
  uint64_t bytes = 0;
  uint64_t iova = 0;
  int file = -1;
};
DmaBufCall LastDmaBufCall();

}  // namespace warpverbs::host
