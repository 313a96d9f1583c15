# Functions to run programs of GPU libraries as two ranks over softhca. Source this file after tools/lib.sh, do not run it.
# shellcheck shell=bash disable=SC2034,SC2154
export PATH=$PATH:/usr/local/cuda/bin
here=$PWD/tests/gpu/stacks
limit_s=150
logs=
programs=

# Takes the options that the scripts share; $taken says how many words they were.
take_options() {
  taken=0
  while [[ ${1:-} == --* ]]; do
    [[ ${2:-} ]] || fail "$1 needs a value; see --help" 2
    case $1 in
      --logs) logs=$2 ;;
      --programs) programs=$2 ;;
      --limit) limit_s=$2 ;;
      *) fail "unknown option $1; see --help" 2 ;;
    esac
    taken=$((taken + 2))
    shift 2
  done
}

# Makes the folders of the options, and one for files that the ranks share.
make_folders() {
  [[ $(nvidia-smi -L 2>/dev/null) == GPU* ]] || fail "nvidia-smi lists no GPU on this machine, so nothing is tested" 77
  folder=$(mktemp -d)
  trap 'rm -rf "$folder"' EXIT
  logs=${logs:-$folder}
  programs=${programs:-$folder}
  mkdir -p "$logs" "$programs"
  logs=$(realpath "$logs")
  programs=$(realpath "$programs")
}

# Runs a command twice, with the arguments 0 and 1 in place of RANK, each under a softhca of its own.
pair() { # <part> <command>...
  local part=$1 rank pids=() failed=0
  shift
  for rank in 0 1; do
    timeout -k 5 "$limit_s" "$softhca" -- "${@/#RANK/$rank}" >"$logs/$part-$rank.log" 2>&1 &
    pids+=($!)
  done
  for rank in 0 1; do
    wait "${pids[rank]}" || failed=1
    grep -E '^rank ' "$logs/$part-$rank.log" || true
  done
  grep -q '^rank 0: all is right$' "$logs/$part-0.log" && grep -q '^rank 1: all is right$' "$logs/$part-1.log" || failed=1
  if ((failed)); then tail -n 30 "$logs/$part-0.log" "$logs/$part-1.log"; fi
  return "$failed"
}

# The folder of a library that came with torch.
wheel() { # <name>
  python3 -c "import nvidia.$1 as library; print(next(iter(library.__path__)))" 2>/dev/null ||
    fail "the library $1 is not installed for python3" 77
}

needs_nvcc() {
  command -v nvcc >/dev/null || fail "nvcc is neither on PATH nor in /usr/local/cuda/bin" 77
}

# Sets $program to that of a source. Succeeds if it is there; otherwise it must be compiled.
is_compiled() { # <source>
  program=$programs/$(basename "$1" .cu)
  [[ -x $program ]] || { needs_nvcc && return 1; }
}

# Compiles a program of NVSHMEM, unless it is there.
nvshmem_program() { # <source>
  local program nvshmem
  if is_compiled "$1"; then return; fi
  nvshmem=$(wheel nvshmem) || return
  nvcc -rdc=true -std=c++17 -O2 -arch=native -I "$nvshmem/include" "$1" -L "$nvshmem/lib" -lnvshmem_device -lcuda \
    -Xlinker "$nvshmem/lib/libnvshmem_host.so.3" -Xlinker "-rpath=$nvshmem/lib" -o "$program"
}

# Compiles a program of NCCL's device API, unless it is there.
gin_program() { # <source>
  local program nccl
  if is_compiled "$1"; then return; fi
  nccl=$(wheel nccl) || return
  [[ -e $nccl/include/nccl_device.h ]] || fail "NCCL's headers have no device API" 77
  nvcc -std=c++20 -O2 -arch=native -I "$nccl/include" "$1" -Xlinker "$nccl/lib/libnccl.so.2" -Xlinker "-rpath=$nccl/lib" -o "$program"
}

# Runs a pair over NVSHMEM's network transports, and nothing else of it.
nvshmem_pair() { # <part> <name=value> <command>...
  local nvshmem
  nvshmem=$(wheel nvshmem) || return
  (
    export NVSHMEM_DISABLE_P2P=1 NVSHMEM_DISABLE_CUDA_VMM=1 NVSHMEM_IB_DISABLE_DMABUF=1 NVSHMEM_BOOTSTRAP_UID_SOCK_IFNAME=lo \
      NVSHMEM_SYMMETRIC_SIZE=256M LD_LIBRARY_PATH=$nvshmem/lib:${LD_LIBRARY_PATH:-} "${2?}"
    pair "$1" "${@:3}"
  )
}

# Runs a pair over NCCL's network transport, and nothing else of it.
nccl_pair() { # <part> <name=value>... -- <command>...
  (
    local part=$1
    shift
    export NCCL_P2P_DISABLE=1 NCCL_SHM_DISABLE=1 NCCL_SOCKET_IFNAME=lo NCCL_IB_HCA=mlx5_0 NCCL_DEBUG=INFO
    while [[ $1 != -- ]]; do
      export "${1?}"
      shift
    done
    pair "$part" "${@:2}"
  )
}

# Does the same by NCCL's device API, whose proxy posts. NCCL numbers the proxy 2.
gin_pair() { # <part> <command>...
  nccl_pair "$1" NCCL_GIN_TYPE=2 NCCL_GIN_NCONTEXTS=1 NCCL_CUMEM_ENABLE=1 NCCL_DMABUF_ENABLE=0 NCCL_NET_GDR_LEVEL=SYS -- "${@:2}"
}
