// Exchanges words between all ranks by Open MPI and checks each. Exit status: 0 if all were right.

#include <mpi.h>

#include <cstdio>
#include <vector>

namespace {

int Word(int sender, size_t index) { return sender * 1'000'003 + static_cast<int>(index); }

/// Returns whether each rank got its part of each other's words.
bool AllToAll(int rank, int ranks, size_t words) {
  std::vector<int> sent(words * static_cast<size_t>(ranks)), got(sent.size());
  for (size_t i = 0; i < sent.size(); ++i) sent[i] = Word(rank, i);
  const int count = static_cast<int>(words);
  MPI_Alltoall(sent.data(), count, MPI_INT, got.data(), count, MPI_INT, MPI_COMM_WORLD);
  for (size_t i = 0; i < got.size(); ++i) {
    const size_t own_part = static_cast<size_t>(rank) * words + i % words;
    if (got[i] != Word(static_cast<int>(i / words), own_part)) return false;
  }
  return true;
}

bool AllReduce(int rank, int ranks) {
  const int mine = rank + 1;
  int sum = 0;
  MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  return sum == ranks * (ranks + 1) / 2;
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0, ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  for (const size_t words : {1, 1'000, 100'000}) {
    if (!AllToAll(rank, ranks, words) || !AllReduce(rank, ranks)) {
      std::printf("rank %d: wrong words in messages of %zu\n", rank, words);
      MPI_Abort(MPI_COMM_WORLD, 1);
    }
  }
  MPI_Finalize();
}
