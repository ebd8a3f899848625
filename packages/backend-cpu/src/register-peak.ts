import { type InstructionSet, instructionSets } from './emit/x64/instruction-sets.ts';
import type { RegisterPeak } from './engines/products/measure-peak.ts';

export type { RegisterPeak };

/**
 * Measures the instruction that computes products of `dtype`, with `instructions` as the newest ones allowed.
 * Returns undefined if this processor has no such instruction, or the system does not run machine code.
 */
export async function registerPeak(
  dtype: 'f32' | 'bf16',
  instructions: InstructionSet = instructionSets[0],
): Promise<RegisterPeak | undefined> {
  const { measurePeak } = await import('./engines/products/measure-peak.ts');
  return measurePeak(dtype, instructions);
}
