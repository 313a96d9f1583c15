# Functions that the commands in this folder share. Source this file, do not run it.
# shellcheck shell=bash disable=SC2034
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Debian packages and their purposes.
build_packages=(
  "g++=compiler"
  "cmake=build system"
  "ninja-build=build system"
  "pkg-config=finds rdma-core"
  "libibverbs-dev=rdma-core: the library's base"
  "ibverbs-providers=rdma-core: the mlx5 driver"
  "libcli11-dev=command lines of softhca, the tools and the examples"
  "nlohmann-json3-dev=settings of softhca, reports of the tools"
  "libasio-dev=event loop and completion tokens of the host transport"
  "liburing-dev=disk I/O of the file server"
  "libfuse3-dev=the mount of storage to GPU memory"
  "libdeflate-dev=the packets' CRC by the processor's carry-less multiply"
  "ibverbs-utils=programs to try softhca with: ibv_devinfo, ibv_rc_pingpong"
)
test_packages=(
  "libgtest-dev=test framework"
  "libgmock-dev=test framework"
  "mold=linker that takes a fraction of GNU ld's time"
  "librdmacm-dev=connects the tests' programs by rdma_cm"
  "python3=checks of the source tree"
  "fuse3=unmounts what the tests mount"
  "python3-dev=headers for the Python package"
  "pybind11-dev=builds the Python package"
  "python3-numpy=arrays of the Python package's tests"
  "python3-pytest=runs the Python package's tests"
)
# What `tools/test all` needs beyond these.
third_party_packages=(
  "libbenchmark-dev=benchmark framework: the tests run the transport's benchmarks"
  "clang=compiles the data path for HIP"
  "clang-16=compiles it for gfx11, which clang 14 does not support"
  "llvm-16=checks and links the device library's bitcode"
  "libopenmpi-dev=builds the exchange by MPI"
  "openmpi-bin=runs the tests' MPI programs"
  "perftest=runs on softhca: bandwidths and latencies of every operation"
  "gnuplot-nox=draws the pictures of warpverbs-perf"
  "ucx-utils=runs on softhca: ucx_perftest"
  "rdmacm-utils=runs on softhca: rping, udaddy, ucmatose, rstream"
  "python3-pyverbs=runs on softhca: its own tests, which the package rdma-core has"
  "rdma-core=has the tests of pyverbs"
  "libfabric-bin=runs on softhca: fi_pingpong"
  "qperf=runs on softhca: bandwidths and latencies"
  "iperf=runs on softhca: a TCP program over rsockets"
  "tshark=dissects the frames that softhca writes"
  "spin=searches the models of the shared and the contended queue"
)
fuzz_packages=(
  "clang-16=has libFuzzer"
  "libclang-rt-16-dev=libFuzzer and the sanitizers of clang"
)
lint_packages=(
  "${fuzz_packages[@]}"
  "clang-tidy-16=finds faults without running the code"
)
interop_packages=(
  "qemu-system-x86=runs a Linux guest with rdma_rxe"
  "busybox-static=the guest's commands"
  "cpio=packs the guest's files"
  "zstd=unpacks the guest's kernel"
  "iproute2=makes the guest's RDMA device, and the namespace of its peer"
  "perftest=measures rdma_rxe for comparison"
  "rdmacm-utils=connects to rdma_rxe by rdma_cm"
)
docs_packages=(
  "doxygen=pages and reference of the documentation site"
  "doxygen-awesome-css=style of the site"
  "python3=prepares the pages, checks their links"
)

say() { printf '\n== %s\n' "$*"; }

# fail <sentence> [exit status]
fail() {
  printf '%s: %s\n' "${0##*/}" "$1" >&2
  exit "${2:-1}"
}

# Prints the names of all ConnectX with an active port that this user may open, one a line.
active_connectx() {
  local hca verbs
  for hca in /sys/class/infiniband/*; do
    [[ $(readlink -f "$hca/device/driver") == */mlx5_core ]] || continue
    verbs=("$hca"/device/infiniband_verbs/*)
    [[ -w /dev/infiniband/${verbs[0]##*/} ]] || continue
    if grep -qs 'ACTIVE$' "$hca"/ports/*/state; then echo "${hca##*/}"; fi
  done
}

# Succeeds if this machine has an NVIDIA GPU and a compiler for it.
has_cuda() {
  [[ $(nvidia-smi -L 2>/dev/null) == GPU* ]] && PATH=$PATH:/usr/local/cuda/bin command -v nvcc >/dev/null
}

# Installs the missing packages. If none is missing, does not call apt.
install_packages() {
  command -v dpkg-query >/dev/null ||
    fail "this machine has no dpkg. Install the counterparts of these Debian packages and use the presets of CMake: ${*%%=*}"
  local package missing=() as_root=()
  for package in "$@"; do
    [[ $(dpkg-query -W -f '${Status}' "${package%%=*}" 2>/dev/null || true) == *"ok installed" ]] || missing+=("$package")
  done
  ((${#missing[@]})) || return 0
  say "Installing with apt"
  for package in "${missing[@]}"; do printf '   %-18s %s\n' "${package%%=*}" "${package#*=}"; done
  if ((EUID != 0)); then
    command -v sudo >/dev/null || fail "installing these packages needs root, and sudo is not installed. Run this once as root"
    as_root=(sudo)
  fi
  "${as_root[@]}" apt-get update -q
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${missing[@]%%=*}"
}

# Filters Ninja's output: keeps one line for each tenth of the progress, and all other output.
show_tenths() {
  awk -F '[][/]' '/^\[[0-9]+\/[0-9]+\] / { if ($2 * 10 >= $3 * shown) { print; fflush(); shown = int($2 * 10 / $3) + 1 } next }
    { print; fflush() }'
}

# configure <preset> [-D<variable>=<value>]...
configure() {
  cmake --preset "$@" >"build/$1.log" 2>&1 || {
    cat "build/$1.log"
    return 1
  }
}

# build <preset> [-D<variable>=<value>]... [target]...: configures and builds.
build() {
  local preset=$1 variables=()
  shift
  while [[ ${1:-} == -D* ]]; do
    variables+=("$1")
    shift
  done
  say "Building $preset"
  configure "$preset" "${variables[@]}" || return
  if [[ -t 1 ]]; then
    cmake --build --preset "$preset" ${1:+--target "$@"}
  else
    cmake --build --preset "$preset" ${1:+--target "$@"} | show_tenths
  fi
}

mkdir -p build
