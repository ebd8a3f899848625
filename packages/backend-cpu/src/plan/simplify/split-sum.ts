import { neighbours } from '../../emit/wasm/rows/row-kernel.ts';
import type { Rewriter } from '../../program/rewriter.ts';
import { inputAt, valueAt, type CpuInstruction } from '../../program/instruction.ts';

/** Divides a sum over dims that are not adjacent into sums over adjacent dims. The last dims are summed first. */
export function splitSum(instruction: CpuInstruction, rewriter: Rewriter): CpuInstruction {
  if (instruction.op !== 'sum') return instruction;
  const input = inputAt(instruction, 0);
  const { shape, dtype } = valueAt(rewriter.values, input);
  const { dims } = instruction.params;
  if (neighbours(shape, dims) !== undefined) return instruction;
  const start = dims.findIndex((_, index) => neighbours(shape, dims.slice(index)) !== undefined);
  const last = dims.slice(start);
  const rest = shape.filter((_, dim) => !last.includes(dim));
  const partial = rewriter.append((output) => {
    return { op: 'sum', params: { dims: last }, inputs: [input], shape: rest, dtype, output };
  });
  const first: CpuInstruction = {
    ...instruction,
    params: { dims: dims.slice(0, start) },
    inputs: [partial],
  };
  return splitSum(first, rewriter);
}
