import type { Bench } from './bench.ts';
import { UsageError } from './usage-error.ts';

/** The precision of products. In bf16, both libraries use autocast. */
export type Precision = 'f32' | 'bf16';

export const precisionFlag = { precision: { type: 'string' } } as const satisfies NonNullable<
  Bench['flags']
>;

/** Reads the flag. Throws UsageError. */
export function precisionOf(values: Readonly<Record<string, unknown>>): Precision {
  const { precision = 'f32' } = values;
  if (precision === 'f32' || precision === 'bf16') return precision;
  throw new UsageError(`--precision is ${JSON.stringify(precision)}`, 'Give f32 or bf16');
}
