#pragma once

#include <string>

#include "common/run_shell.hpp"

/// Functions of the shell. Programs create what is temporary in $folder, which is empty when they start.
inline const std::string kShell = R"sh(
folder=$(mktemp -d); given=$(mktemp -d)
trap 'rm -rf $folder $given' EXIT
run() { TMPDIR=$folder timeout -s KILL 100 )sh" SOFTHCA
                                  R"sh( --devx-events $options -- "$@"; echo "exits with $?"; }
await() { for i in $(seq 900); do eval "$1" && return; sleep 0.1; done; echo "not in time: $1"; exit 1; }
left() { echo "left: $(find $folder $given -mindepth 1 | wc -l) files, $(pgrep -fc "$folder|$given") processes"; }
)sh";
inline const std::string kNothingLeft = "left: 0 files, 0 processes\n";
inline const std::string kFakeGpus =
    "export LD_LIBRARY_PATH=" FAKE_CUDA_FOLDER " WARPVERBS_FAKE_CUDA=gpus=2\n";
