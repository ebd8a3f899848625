import { type InstructionSet, instructionSets } from './machine-code/instruction-sets.ts';
import type { RegisterPeak } from './products/measure-peak.ts';

export type { RegisterPeak };

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
