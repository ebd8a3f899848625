import koffi from 'koffi';
import { NoCodeError, requirePlatform } from '../../memory/executable-memory.ts';

const AT_HWCAP2 = 26;
const HWCAP2_BF16 = 1n << 14n;

/**
 * Throws NoCodeError if our routines for AArch64 cannot run on this processor. All AArch64 processors have NEON. Linux
 * says which of them multiply bf16 (FEAT_BF16).
 */
export function requireBfmmla(): void {
  requirePlatform('arm64');
  const getauxval = koffi.load(null).func('unsigned long getauxval(unsigned long type)');
  const features: unknown = getauxval(AT_HWCAP2);
  const bits = typeof features === 'bigint' ? features : BigInt(Number(features));
  if ((bits & HWCAP2_BF16) === 0n) {
    throw new NoCodeError('the processor has no BFMMLA');
  }
}
