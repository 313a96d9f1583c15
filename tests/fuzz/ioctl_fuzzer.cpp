#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "core/queues.hpp"
#include "fuzz/program_memory.hpp"
#include "fuzz/require.hpp"
#include "uverbs/descriptors.hpp"
#include "uverbs/method.hpp"
#include "wire/byte_order.hpp"

namespace softhca::uverbs {

namespace {

/// A network that executes nothing: only commands are under test.
class IdleNetwork : public Network {
 public:
  void OnTransition(QueuePair&) override {}
  bool Run(QueuePair&, uint64_t) override { return false; }
  bool Poll(uint64_t) override { return false; }
  uint64_t NextNs() const override { return UINT64_MAX; }
  bool Listens() const override { return false; }
  void Wait(uint64_t) override {}
};

/// A program with an open device.
class Program {
 public:
  Program() : engine_(MakeDevices(), std::make_unique<IdleNetwork>()) { engine_.Stop(); }
  ~Program() {
    for (int fd = 0; fd < getdtablesize(); ++fd) {
      if (MayBeOurs(fd)) CloseOwn(fd);
    }
  }

  void Run(std::span<const uint8_t> command) {
    std::fill_n(ProgramMemory().begin(), kProgramMemoryBytes, uint8_t{0});
    std::copy_n(command.begin(), std::min(command.size(), ProgramMemory().size()), ProgramMemory().begin());
    try {
      IoctlRequest request(kProgramMemory);
      Call call(file_, context_, request);
      Dispatch(call);
      request.WriteBack();
    } catch (const Errno& refusal) {
      Require(refusal.value() > 0, "a refusal has a reason");
    } catch (const CommandError&) {
    }
  }

 private:
  static std::vector<std::unique_ptr<Hca>> MakeDevices() {
    std::vector<std::unique_ptr<Hca>> devices;
    devices.push_back(std::make_unique<Hca>(TestDevice()));
    return devices;
  }
  inline static const int file_ = MakeDeviceFile(0);
  Engine engine_;
  Context context_{engine_, 0};
};

}  // namespace
}  // namespace softhca::uverbs

/// Input: commands, each preceded by its length and followed by the data of its attributes. Each command is
/// copied to the start of the program's memory, into which its pointers point.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace softhca;
  FieldReader in({data, size});
  uverbs::Program program;
  while (!in.rest().empty()) {
    const size_t bytes = std::min<size_t>(in.Take<2>(), in.rest().size());
    program.Run(in.Take(bytes));
  }
  return 0;
}
