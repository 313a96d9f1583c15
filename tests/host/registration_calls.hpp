#pragma once

/// Lets libibverbs refuse memory: this program's own registering calls stand before those of the library.
namespace warpverbs::host {

struct RegistrationFault {
  int by_address = 0;  ///< as errno has it; 0: memory is registered
  int by_dma_buf = 0;
};

/// Sets what fails from now on.
void Inject(const RegistrationFault& fault);

/// The access flags that the last registration asked the library for.
unsigned LastAccess();

}  // namespace warpverbs::host
