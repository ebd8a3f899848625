#!/usr/bin/env bash
# Installs what tests in a browser, and tests on a device of WebGPU without a GPU, need on Debian and does not have: Chromium,
# which brings the driver that computes on the CPU, and Vulkan's loader.
set -euo pipefail

packages=()
browser=$(command -v chromium chromium-browser google-chrome || true)
driver=$("$(dirname "${BASH_SOURCE[0]}")/find-driver.sh")
if [[ -z $browser || -z $driver ]]; then packages+=(chromium); fi
if ! compgen -G '/usr/lib*/libvulkan.so.1' >/dev/null &&
  ! compgen -G '/usr/lib/*-linux-gnu/libvulkan.so.1' >/dev/null; then
  packages+=(libvulkan1)
fi
if ((${#packages[@]} == 0)); then exit 0; fi

as_root=()
if ((EUID != 0)); then as_root=(sudo); fi
"${as_root[@]}" apt-get update -q
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
  apt-get install -q -y --no-install-recommends "${packages[@]}"
