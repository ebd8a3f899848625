import { type InstructionSet, instructionSets } from './machine-code/instruction-sets.ts';

/** What one core of this processor computes where nothing is read from memory, in GFLOP/s. */
export interface RegisterPeak {
  readonly instruction: 'vfmadd231ps' | 'vdpbf16ps' | 'tdpbf16ps';
  readonly gigaflops: number;
}

/**
 * Measures the instruction that products with operands of `dtype` are made of, with no instructions before those that are named.
 * Undefined where this processor has none, or the system does not run machine code.
 */
export async function registerPeak(
  dtype: 'f32' | 'bf16',
  instructions: InstructionSet = instructionSets[0],
): Promise<RegisterPeak | undefined> {
  const { measurePeak } = await import('./products/measure-peak.ts');
  return measurePeak(dtype, instructions);
}
