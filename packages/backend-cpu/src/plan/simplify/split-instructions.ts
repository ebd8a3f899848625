import { neighbours } from '../../emit/wasm/rows/row-kernel.ts';
import type { DType } from '@shardwise/core/spec';
import { castsLong } from '../../emit/wasm/cast-long.ts';
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

const isLong = (dtype: DType): boolean => dtype === 'i64' || dtype === 'f64';

/**
 * Converts between 64-bit types and 8- or 16-bit types by way of f32 or i32, because kernels have no direct conversion.
 */
export function splitCast(instruction: CpuInstruction, rewriter: Rewriter): CpuInstruction {
  if (instruction.op !== 'cast') return instruction;
  const input = inputAt(instruction, 0);
  const { shape, dtype: from } = valueAt(rewriter.values, input);
  const to = instruction.dtype;
  if (from === to || !(isLong(from) || isLong(to)) || castsLong(from, to)) return instruction;
  const dtype = from === 'u8' || to === 'u8' ? 'i32' : 'f32';
  const between = rewriter.append((output) => {
    return { op: 'cast', params: { dtype }, inputs: [input], shape, dtype, output };
  });
  return { ...instruction, inputs: [between] };
}
