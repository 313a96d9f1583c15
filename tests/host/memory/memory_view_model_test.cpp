#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <set>
#include <stdexcept>
#include <string>

#include "common/repetitions.hpp"
#include "warpverbs/host/memory.hpp"

/// Views against models without arithmetic modulo 2^64: sets of addresses, and 128-bit numbers.
namespace warpverbs::host {
namespace {

__extension__ typedef __int128 Wide;

enum Step {
  kSubrange,
  kFirst,
  kLast,
  kSubrangeAt,
  kTakeFirst,
  kTakeLast,
  kAdvance,
  kSubtract,
  kReset,
  kSteps
};

/// The model: [begin, end) of what was originally [whole_begin, whole_end).
struct Model {
  Wide begin, end;
  Wide whole_begin = begin, whole_end = end;

  Wide size() const { return end - begin; }
  bool Has(Wide from, Wide bytes) const { return from >= begin && from + bytes <= end; }
};

/// The expected result of an operation: the view after it, and the part that it returns.
struct Expected {
  bool fits = false;
  Model view, part;
};

Expected Expect(const Model& view, Step step, Wide place, Wide bytes) {
  const auto part = [&](Wide from) -> Expected {
    return {view.Has(from, bytes), view, {from, from + bytes}};
  };
  const auto cut = [&](Wide before, Wide behind) -> Expected {
    Model rest{view.begin + before, view.end - behind, view.whole_begin, view.whole_end};
    const Model taken =
        before != 0 ? Model{view.begin, view.begin + before} : Model{view.end - behind, view.end};
    return {before + behind <= view.size(), rest, taken};
  };
  switch (step) {
    case kSubrange:
      return part(view.begin + place);
    case kSubrangeAt:
      return part(place);
    case kFirst:
      return part(view.begin);
    case kLast:
      return part(view.end - bytes);
    case kTakeFirst:
    case kAdvance:
      return bytes == 0 ? Expected{true, view, {view.begin, view.begin}} : cut(bytes, 0);
    case kTakeLast:
    case kSubtract:
      return cut(0, bytes);
    default:
      return {true, {view.whole_begin, view.whole_end}, view};
  }
}

/// Executes a step. @return  the part that it returns, or else the view
MemoryView Do(MemoryView& view, Step step, uint64_t place, uint64_t bytes) {
  switch (step) {
    case kSubrange:
      return view.Subrange(place, bytes);
    case kSubrangeAt:
      return view.SubrangeAt(reinterpret_cast<const void*>(place), bytes);
    case kFirst:
      return view.First(bytes);
    case kLast:
      return view.Last(bytes);
    case kTakeFirst:
      return view.TakeFirst(bytes);
    case kTakeLast:
      return view.TakeLast(bytes);
    case kAdvance:
      view.Advance(bytes);
      return view;
    case kSubtract:
      view.Subtract(bytes);
      return view;
    default:
      view.Reset();
      return view;
  }
}

bool GivesPart(Step step) { return step != kAdvance && step != kSubtract && step != kReset; }

::testing::AssertionResult Is(const MemoryView& view, const Model& model) {
  const auto begin = static_cast<uint64_t>(model.begin);
  if (view.addr == begin && view.bytes == model.size() && view.lkey == 7)
    return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << view.bytes << " bytes at " << view.addr << ", expected "
                                       << static_cast<uint64_t>(model.size()) << " at " << begin;
}

/// Executes a step on both. @return  whether they agree; `view` and `model` are updated
::testing::AssertionResult Agree(MemoryView& view, Model& model, Step step, uint64_t place, uint64_t bytes) {
  const Expected expected = Expect(model, step, place, bytes);
  const MemoryView before = view;
  bool fits = true;
  MemoryView part;
  try {
    part = Do(view, step, place, bytes);
  } catch (const std::out_of_range&) {
    fits = false;
  }
  const auto fail = [&](const std::string& why) {
    return ::testing::AssertionFailure()
           << "step " << step << ", place " << place << ", " << bytes << " bytes of " << before.bytes
           << " at " << before.addr << ": " << why;
  };
  if (fits != expected.fits) return fail(fits ? "was not refused" : "was refused");
  if (!fits)
    return view.addr == before.addr && view.bytes == before.bytes ? Is(view, model) : fail("it changed");
  model = expected.view;
  const ::testing::AssertionResult view_is = Is(view, model);
  if (!view_is) return fail(view_is.message());
  if (!GivesPart(step)) return ::testing::AssertionSuccess();
  const ::testing::AssertionResult part_is = Is(part, expected.part);
  return part_is ? ::testing::AssertionSuccess() : fail(part_is.message());
}

/// Returns numbers of all magnitudes, and numbers near `near`.
uint64_t AnyNumber(std::mt19937_64& random, uint64_t near) {
  const uint64_t small = random() % 4;
  switch (random() % 4) {
    case 0:
      return near + small - 2;
    case 1:
      return uint64_t{0} - small;
    case 2:
      return near == 0 ? small : random() % near;
    default:
      return random() >> (random() % 64);
  }
}

TEST(MemoryViewModel, AgreesOnManyRandomOperations) {
  std::mt19937_64 random(20'260'101);
  int refused = 0, taken = 0;
  for (int views = 0; views < tests::Repetitions(20'000); ++views) {
    const uint64_t addr = random() >> (random() % 64);
    const uint64_t most = ~uint64_t{0} - addr;  // no range ends at 2^64
    MemoryView view{.addr = addr, .bytes = std::min(AnyNumber(random, most), most), .lkey = 7};
    Model model{addr, Wide{addr} + view.bytes};
    for (int steps = 0; steps < 30; ++steps) {
      const auto step = static_cast<Step>(random() % kSteps);
      const uint64_t near = step == kSubrangeAt ? view.addr + (random() % 2) * view.bytes : view.bytes;
      const uint64_t place = AnyNumber(random, near), bytes = AnyNumber(random, view.bytes);
      ++(Expect(model, step, place, bytes).fits ? taken : refused);
      ASSERT_TRUE(Agree(view, model, step, place, bytes));
      const uint64_t asked = AnyNumber(random, view.addr);
      ASSERT_EQ(view.Contains(asked, bytes), model.Has(asked, bytes)) << asked << " " << bytes;
    }
  }
  EXPECT_GT(refused, tests::Repetitions(20'000));
  EXPECT_GT(taken, tests::Repetitions(20'000));
}

TEST(MemoryViewModel, AgreesOnEveryPartOfSmallViews) {
  constexpr uint64_t kBegin = 100, kMaxSize = 12;
  for (uint64_t size = 0; size <= kMaxSize; ++size) {
    const MemoryView view{.addr = kBegin, .bytes = size};
    std::set<uint64_t> all;
    for (uint64_t byte = 0; byte < size; ++byte) all.insert(kBegin + byte);
    for (uint64_t from = 0; from <= kMaxSize + 1; ++from) {
      for (uint64_t bytes = 0; bytes <= kMaxSize + 1; ++bytes) {
        std::set<uint64_t> part;
        for (uint64_t byte = 0; byte < bytes; ++byte) part.insert(kBegin + from + byte);
        const bool within = std::includes(all.begin(), all.end(), part.begin(), part.end()) && from <= size;
        ASSERT_EQ(view.Contains(kBegin + from, bytes), within) << size << " " << from << " " << bytes;
        if (!within) {
          ASSERT_THROW(view.Subrange(from, bytes), std::out_of_range) << size << " " << from << " " << bytes;
          continue;
        }
        const MemoryView found = view.Subrange(from, bytes);
        std::set<uint64_t> named;
        for (uint64_t byte = 0; byte < found.bytes; ++byte) named.insert(found.addr + byte);
        ASSERT_EQ(named, part);
      }
    }
  }
}

}  // namespace
}  // namespace warpverbs::host
