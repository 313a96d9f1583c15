#include <fcntl.h>

#include "memory.hpp"

using namespace fake_hip;

// Prototypes are those of inc/hsa.h and inc/hsa_ext_amd.h in ROCm/ROCR-Runtime.
extern "C" {

int hsa_amd_portable_export_dmabuf(const void* memory, size_t bytes, int* file, uint64_t* offset) {
  State& state = TheState();
  const std::lock_guard lock(state.mutex);
  constexpr int kError = 0x1000;
  uint64_t within = 0;
  const Allocation* const allocation = Find(state, memory, bytes, within);
  if (Fails(state) || allocation == nullptr || !state.settings.exports) return kError;
  *file = fcntl(allocation->file, F_DUPFD_CLOEXEC, 0);
  *offset = kHead + within;
  return 0;
}

int hsa_status_string(int status, const char** text) {
  if (status == 0) return 0x1001;
  *text = "HSA_STATUS_ERROR: A generic error has occurred.";
  return 0;
}

}  // extern "C"
