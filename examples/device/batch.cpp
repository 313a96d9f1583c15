// A batch: operations that are added one by one and published together, with one doorbell.
#include "common/example.hpp"
#include "warpverbs/device/atomics.hpp"

using namespace warpverbs;

constexpr uint32_t kRows = 8;

// Writes a column of a matrix whose rows are `pitch` words long, and increments a counter of columns.
// Reserved slots that remain unused become NOPs. Submit() returns the ticket of the last operation.
template <class A>
WARPVERBS_DEVICE device::Status PutColumn(const device::QueueView& view, const device::RemoteMemory& matrix,
                                          uint32_t pitch, const device::LocalMemory& column,
                                          const device::RemoteMemory& columns) {
  device::SendQueue<A, device::Exclusive> queue(view);
  const device::WaitLimit limit = TenSeconds<A>();
  auto batch = queue.Begin(kRows + 1, limit);
  device::Status status = batch.status();
  for (uint32_t row = 0; row < kRows && status.ok(); ++row) {
    const device::RemoteMemory to{matrix.addr + row * pitch * 8, matrix.rkey};
    const device::LocalMemory from{column.addr + row * 8, 8, column.lkey};
    status = batch.Add(device::Write(to, from), mlx5::kCqeOnError).status;
  }
  if (status.ok()) status = batch.Add(device::FetchAdd(columns, uint64_t{1})).status;
  const device::Posted posted = batch.Submit();
  if (status.ok()) status = posted.status;
  if (status.ok()) status = queue.Wait(posted.ticket, limit);
  return status;
}

int main(int argc, char** argv) {
  return Run(argc, argv, "Teaches batches: writes a column of a matrix, row by row, with one doorbell.", [] {
    const host::Device device;
    const Pair pair(device);
    Memory column(device, kRows, uint64_t{42}), columns(device, 1, uint64_t{0});
    Memory matrix(device, kRows * 10, uint64_t{0});
    CheckOk(PutColumn<arch::Cpu>(pair.here.View(), matrix.Remote(3), 10, column.Local(), columns.Remote()),
            "the batch");
    for (size_t i = 0; i < kRows * 10; ++i) Check(matrix[i] == (i % 10 == 3 ? 42 : 0), "column 3 is written");
    Check(columns[0] == 1, "the column was counted");
    std::puts("Nine operations took one doorbell: a column of eight words, and its count.");
  });
}
