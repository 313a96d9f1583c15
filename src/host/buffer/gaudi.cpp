#include "warpverbs/host/gaudi.hpp"

#include <fcntl.h>

#include <cerrno>
#include <string>

#include "gpu/hl_thunk.hpp"
#include "log/log.hpp"
#include "memory/page_range.hpp"
#include "warpverbs/host/error.hpp"

namespace warpverbs::inline v0_2::host {

/// An open device.
class GaudiDevice {
 public:
  explicit GaudiDevice(const std::string& pci_address) : thunk_(HlThunk::Load()) {
    char text[32] = {};
    pci_address_.reserve(sizeof text);  // before the device is open: this may throw
    fd_ = thunk_.Open(HlThunk::kAnyDevice, pci_address.empty() ? nullptr : pci_address.c_str());
    if (fd_ < 0) {
      throw Error::FromErrno("open", pci_address.empty() ? "a Gaudi" : "the Gaudi at " + pci_address, -fd_,
                             "Check that it is present (hl-smi) and that no other process uses it");
    }
    const int result = thunk_.GetPciBusId(fd_, text, sizeof text);
    if (result != 0) {
      thunk_.Close(fd_);
      throw Error::FromErrno("locate", "a Gaudi", -result, "Check its health with hl-smi and dmesg");
    }
    pci_address_ = text;
    Log(LogLevel::kInfo, [&] { return "opened gaudi:" + pci_address_; });
  }
  ~GaudiDevice() { thunk_.Close(fd_); }
  GaudiDevice(const GaudiDevice&) = delete;
  GaudiDevice& operator=(const GaudiDevice&) = delete;

  const HlThunk& thunk() const { return thunk_; }
  int fd() const { return fd_; }
  const std::string& pci_address() const { return pci_address_; }

 private:
  const HlThunk& thunk_;
  int fd_;
  std::string pci_address_;
};

namespace {

constexpr char kFreeGaudiMemory[] = "Free some of its memory (hl-smi shows which processes hold it)";

/// An allocation, mapped into the device's address space.
class GaudiAllocation {
 public:
  GaudiAllocation(const Gaudi& gaudi, size_t bytes) : device_(gaudi.device()), bytes_(bytes) {
    const std::string object = std::to_string(bytes) + " bytes of memory of " + gaudi.name();
    const HlThunk& thunk = device_->thunk();
    constexpr uint64_t kDefaultPages = 0, kAnywhere = 0;
    handle_ = thunk.Alloc(device_->fd(), bytes, kDefaultPages, /*contiguous=*/false, /*shared=*/false);
    if (handle_ == 0) throw Error("allocate", object, "the driver returned none", kFreeGaudiMemory);
    address_ = thunk.Map(device_->fd(), handle_, kAnywhere);
    if (address_ == 0) {
      thunk.Free(device_->fd(), handle_);
      throw Error("map", object, "the driver returned no address", "Check its health with hl-smi and dmesg");
    }
  }
  GaudiAllocation(GaudiAllocation&& other) noexcept
      : device_(std::move(other.device_)),
        bytes_(other.bytes_),
        handle_(other.handle_),
        address_(other.address_) {}
  ~GaudiAllocation() {
    if (device_ == nullptr) return;
    device_->thunk().Unmap(device_->fd(), address_);
    device_->thunk().Free(device_->fd(), handle_);
  }

  std::byte* data() const { return reinterpret_cast<std::byte*>(address_); }
  size_t size() const { return bytes_; }

  /// Exports by device address (Gaudi 2 and later). The first Gaudi exports by physical address only.
  DmaBuf Export() const {
    const HlThunk& thunk = device_->thunk();
    constexpr uint32_t kFlags = O_RDWR | O_CLOEXEC;
    int fd = -ENOSYS;
    if (thunk.ExportMapped != nullptr) fd = thunk.ExportMapped(device_->fd(), address_, bytes_, 0, kFlags);
    if (fd < 0) fd = thunk.Export(device_->fd(), address_, bytes_, kFlags);
    if (fd < 0) {
      throw Error::FromErrno("export",
                             std::to_string(bytes_) + " bytes of memory of gaudi:" + device_->pci_address(),
                             -fd, "Use Linux 5.16 or later with the driver habanalabs, and check dmesg");
    }
    return {FileDescriptor(fd), address_, bytes_};
  }

 private:
  std::shared_ptr<const GaudiDevice> device_;
  size_t bytes_;
  uint64_t handle_ = 0;
  uint64_t address_ = 0;
};

class GaudiBuffer final : public Buffer {
 public:
  GaudiBuffer(const Gaudi& gaudi, GaudiAllocation allocation)
      : Buffer(allocation.data(), allocation.size()), gaudi_(gaudi), allocation_(std::move(allocation)) {}

  std::string name() const override { return "memory of " + gaudi_.name(); }
  DmaBuf Export() const override { return allocation_.Export(); }
  MemoryRegion Register(const Device& device, const Access& access) const override {
    return {device, Export(), data(), size(), access};
  }

 protected:
  void DoCopyIn(size_t, std::span<const std::byte> from) const override { RefuseCopy("write", from.size()); }
  void DoCopyOut(size_t, std::span<std::byte> to) const override { RefuseCopy("read", to.size()); }

 private:
  [[noreturn]] void RefuseCopy(const char* step, size_t bytes) const {
    throw Error(step, std::to_string(bytes) + " bytes of " + name(),
                "the processor cannot reach it, and hl-thunk copies nothing",
                "Copy with Gaudi's framework, or by RDMA from and to host memory");
  }

  Gaudi gaudi_;
  GaudiAllocation allocation_;
};

}  // namespace

Gaudi::Gaudi(const std::string& pci_address) : device_(std::make_shared<GaudiDevice>(pci_address)) {}

const std::string& Gaudi::pci_address() const { return device_->pci_address(); }
std::string Gaudi::name() const { return "gaudi:" + pci_address(); }

std::unique_ptr<Buffer> GaudiMemoryKind::Allocate(size_t bytes) const {
  if (bytes == 0) {
    throw Error("allocate", "0 bytes of " + name(), "an allocation cannot be empty",
                "Ask for 1 byte or more");
  }
  constexpr uint64_t kPage = 65536;  // exports are whole host pages; a multiple of every page size
  const size_t whole = PageRange::Around(0, bytes, kPage).bytes;
  if (whole < bytes) {
    throw Error("allocate", std::to_string(bytes) + " bytes of " + name(), "no Gaudi has that much memory",
                "Ask for less");
  }
  return std::make_unique<GaudiBuffer>(gaudi_, GaudiAllocation(gaudi_, whole));
}

}  // namespace warpverbs::inline v0_2::host
