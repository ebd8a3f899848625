import { availableParallelism, loadavg } from 'node:os';
import { registerPeak } from '@shardwise/backend-cpu';
import type { Backend } from '@shardwise/core/extend';
import type { HostLoad, Roofline } from '../run-state/rank-profile.ts';

/** More than the caches of a processor keep. */
const COPIED_BYTES = 64 * 1024 * 1024;
const COPIES = 4;

/**
 * Measures what one core of this processor can do at most: products in registers, and the bandwidth of memory. Of what
 * cannot be measured here, nothing is known, as of devices other than the processor.
 */
export async function measureRoofline(device: Backend): Promise<Roofline> {
  if (device.timing !== undefined || !['cpu', 'wasm'].includes(device.name)) return {};
  const [f32, half] = [await registerPeak('f32'), await registerPeak('bf16')];
  return {
    f32: f32 && f32.gigaflops * 1e9,
    half: half && half.gigaflops * 1e9,
    bytesPerSecond: copyBandwidth(),
  };
}

/** Returns the load of this host. Windows does not say it. */
export function hostLoad(): HostLoad | undefined {
  const [threads = 0] = loadavg();
  return threads === 0 ? undefined : { threads, cores: availableParallelism() };
}

/** The bytes per second that one core reads and writes as it copies memory. */
function copyBandwidth(): number {
  const source = new Float64Array(COPIED_BYTES / 8).fill(1);
  const target = new Float64Array(COPIED_BYTES / 8).fill(2);
  let fastestMs = Number.POSITIVE_INFINITY;
  for (let copy = 0; copy < COPIES; copy++) {
    const start = performance.now();
    target.set(source);
    fastestMs = Math.min(fastestMs, performance.now() - start);
  }
  return ((2 * COPIED_BYTES) / fastestMs) * 1000;
}
