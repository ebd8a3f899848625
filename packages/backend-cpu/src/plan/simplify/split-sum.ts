import { neighbours } from '../../emit/wasm/rows/row-kernel.ts';
import type { Rewriter } from '../../program/rewriter.ts';
import { inputAt, valueAt, type Step } from '../../program/instruction.ts';

/** Divides a sum over dims that are not adjacent into sums over adjacent dims. The last dims are summed first. */
export function sumInSteps(step: Step, rewriter: Rewriter): Step {
  if (step.op !== 'sum') return step;
  const input = inputAt(step, 0);
  const { shape, dtype } = valueAt(rewriter.values, input);
  const { dims } = step.params;
  if (neighbours(shape, dims) !== undefined) return step;
  const start = dims.findIndex((_, index) => neighbours(shape, dims.slice(index)) !== undefined);
  const last = dims.slice(start);
  const rest = shape.filter((_, dim) => !last.includes(dim));
  const partial = rewriter.append((output) => {
    return { op: 'sum', params: { dims: last }, inputs: [input], shape: rest, dtype, output };
  });
  const first: Step = { ...step, params: { dims: dims.slice(0, start) }, inputs: [partial] };
  return sumInSteps(first, rewriter);
}
