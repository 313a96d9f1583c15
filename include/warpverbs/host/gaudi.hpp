#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "warpverbs/host/buffer.hpp"
#include "warpverbs/version.hpp"

namespace warpverbs::inline v0_2::host {

class GaudiDevice;  // the library's own

/// An accelerator of Habana Labs, opened by its user library.
///
/// The library, libhl-thunk.so, is loaded by the first Gaudi and not before. A Gaudi has one user at a time:
/// a framework that holds it already keeps others out; then wrap the dma-buf that the framework exports.
/// Copies of a Gaudi are the same; what is made with one keeps what it needs of it. Thread-safe.
class WARPVERBS_EXPORT Gaudi {
 public:
  /// @param pci_address  "0000:33:00.0"; empty: the first one that is free
  /// @errors  Error: there is no library, it is too old, or no such device that is free
  explicit Gaudi(const std::string& pci_address = "");

  const std::string& pci_address() const;
  std::string name() const;  ///< "gaudi:0000:33:00.0"

  const std::shared_ptr<const GaudiDevice>& device() const { return device_; }

 private:
  std::shared_ptr<const GaudiDevice> device_;
};

/// Memory of a Gaudi, at addresses of the device: neither zeroed nor copied by this library, as its user
/// library copies nothing. NICs reach it by dma-buf.
class WARPVERBS_EXPORT GaudiMemoryKind final : public MemoryKind {
 public:
  explicit GaudiMemoryKind(const Gaudi& gaudi) : gaudi_(gaudi) {}
  std::string name() const override { return "memory of " + gaudi_.name(); }
  std::unique_ptr<Buffer> Allocate(size_t bytes) const override;

 private:
  Gaudi gaudi_;
};

}  // namespace warpverbs::inline v0_2::host
