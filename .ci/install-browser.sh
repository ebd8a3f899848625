#!/bin/sh
# Installs what tests in a browser, and tests on a device of WebGPU without a GPU, need on Debian and Ubuntu: Chromium, which
# brings the driver that computes on the CPU, and Vulkan's loader.
set -eu
export DEBIAN_FRONTEND=noninteractive
apt-get update
apt-get install --yes --no-install-recommends chromium libvulkan1
