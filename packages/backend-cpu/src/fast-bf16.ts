import type { Backend } from '@shardwise/core/spec';
import { CpuBackend } from './cpu-backend.ts';

/**
 * Whether a device is a CPU whose instructions multiply bf16 (AVX512-BF16, AMX-BF16, BFMMLA of Arm), so that products
 * take less time under `autocast({ dtype: 'bf16' }, ...)`.
 */
export function hasFastBf16(device: Backend): boolean {
  if (!(device instanceof CpuBackend) || device.products.by !== 'own') return false;
  const { f32, bf16 } = device.products.instructions;
  return bf16 !== f32;
}
