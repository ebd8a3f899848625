import type { DType } from '@shardwise/core/spec';
import { castsLong } from '../../emit/wasm/cast-long.ts';
import type { Rewriter } from '../../program/rewriter.ts';
import { inputAt, valueAt, type Step } from '../../program/instruction.ts';

const isLong = (dtype: DType): boolean => dtype === 'i64' || dtype === 'f64';

/**
 * Converts between 64-bit types and 8- or 16-bit types by way of f32 or i32, because kernels have no direct conversion.
 */
export function castInSteps(step: Step, rewriter: Rewriter): Step {
  if (step.op !== 'cast') return step;
  const input = inputAt(step, 0);
  const { shape, dtype: from } = valueAt(rewriter.values, input);
  const to = step.dtype;
  if (from === to || !(isLong(from) || isLong(to)) || castsLong(from, to)) return step;
  const dtype = from === 'u8' || to === 'u8' ? 'i32' : 'f32';
  const between = rewriter.append((output) => {
    return { op: 'cast', params: { dtype }, inputs: [input], shape, dtype, output };
  });
  return { ...step, inputs: [between] };
}
