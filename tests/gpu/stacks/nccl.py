"""All-reduce and all-to-all by NCCL between two processes; each word is checked. Usage: nccl.py RANK STORE_FILE"""

import os
import sys
import time

rank, store = int(sys.argv[1]), sys.argv[2]
# NCCL takes the two for different machines: otherwise it refuses one GPU for both, and goes around the network.
os.environ["NCCL_HOSTID"] = f"host-{rank}"

import torch
import torch.distributed as dist

torch.cuda.set_device(rank % torch.cuda.device_count())
dist.init_process_group("nccl", init_method=f"file://{store}", rank=rank, world_size=2)
for words in (1, 1000, 1 << 20):
    start = time.monotonic()
    counted = torch.arange(words, dtype=torch.int64, device="cuda")
    summed = counted * (rank + 1)
    dist.all_reduce(summed)
    sent = torch.arange(2 * words, dtype=torch.int32, device="cuda") + 10_000_000 * rank
    got = torch.empty_like(sent)
    dist.all_to_all_single(got, sent)
    expected = torch.cat([torch.arange(rank * words, (rank + 1) * words, dtype=torch.int32, device="cuda") + 10_000_000 * source
                          for source in range(2)])
    assert torch.equal(summed, counted * 3), f"all_reduce of {words} words"
    assert torch.equal(got, expected), f"all_to_all of {words} words"
    print(f"rank {rank}: {words} words right, {time.monotonic() - start:.3f} s", flush=True)
dist.destroy_process_group()
print(f"rank {rank}: all is right", flush=True)
