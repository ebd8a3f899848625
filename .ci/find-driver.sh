#!/usr/bin/env bash
# Prints where the description of Chromium's driver of Vulkan is that computes on the CPU; nothing where there is none.
for folder in /usr/lib/chromium /usr/lib/chromium-browser /opt/google/chrome; do
  if [[ -f $folder/vk_swiftshader_icd.json ]]; then
    echo "$folder/vk_swiftshader_icd.json"
    exit 0
  fi
done
