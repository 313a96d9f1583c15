#include "wire/block_claim.hpp"

#include <stdexcept>
#include <string>

#include "wire/address_block.hpp"
#include "wire/media/abstract_name.hpp"

namespace softhca {
namespace {

Descriptor TakeReservation(uint32_t block) { return TakeName("softhca/block/" + std::to_string(block)); }
std::string UseOf(uint32_t block) { return "softhca/block/" + std::to_string(block) + "/used"; }
Descriptor TakeUse(uint32_t block) { return TakeName(UseOf(block)); }

}  // namespace

BlockClaim BlockClaim::Reserve() {
  using namespace address_block;
  for (uint32_t block = kFirst; block <= kLast; ++block) {
    Descriptor reservation = TakeReservation(block);
    // A process whose launcher has died may still use the block.
    if (reservation && TakeUse(block)) return {block, std::move(reservation)};
  }
  throw std::runtime_error("all " + std::to_string(kLast - kFirst + 1) +
                           " blocks of addresses are taken; end some programs that run on softhca");
}

BlockClaim BlockClaim::Use(uint32_t reserved) {
  if (Descriptor use = TakeUse(reserved)) return {reserved, std::move(use)};
  return Reserve();
}

std::optional<uint64_t> BlockClaim::UserOf(uint32_t block) { return HolderOf(UseOf(block)); }

}  // namespace softhca
