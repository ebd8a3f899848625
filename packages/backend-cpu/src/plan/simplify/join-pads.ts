import type { Shape } from '@shardwise/core/spec';
import type { Rewriter } from '../../program/rewriter.ts';
import {
  inputAt,
  valueAt,
  type CpuInstruction,
  type InstructionMap,
} from '../../program/instruction.ts';

/** A value that fills `start` to `stop` of one dim of a larger value. The rest of the larger value is zero. */
interface Part {
  readonly id: number;
  readonly dim: number;
  readonly start: number;
  readonly stop: number;
}

/**
 * Turns the sum of two zero-padded values that lie side by side into a pad of their concatenation. The gradients of a
 * tensor that was split into slices arrive in that form. -0 + 0 stays -0.
 */
export function joinPads(instruction: CpuInstruction, rewriter: Rewriter): CpuInstruction {
  if (instruction.op !== 'add') return instruction;
  const parts = [0, 1].map((index) => partOf(inputAt(instruction, index), rewriter));
  const [low, high] = parts.toSorted((a, b) => (a?.start ?? 0) - (b?.start ?? 0));
  if (low === undefined || high === undefined) return instruction;
  if (low.dim !== high.dim || low.stop !== high.start) return instruction;
  const { dim } = low;
  const shape = instruction.shape.with(dim, high.stop - low.start);
  const inputs = [low.id, high.id].flatMap((id) => concatParts(id, dim, rewriter));
  const joined = rewriter.append((output) => {
    return { op: 'concat', params: { dim }, inputs, shape, dtype: instruction.dtype, output };
  });
  return padded(instruction, joined, low, high.stop);
}

function partOf(id: number, rewriter: Rewriter): Part | undefined {
  const instruction = rewriter.producer(id);
  if (instruction?.op !== 'pad' || instruction.params.value !== 0) return undefined;
  const { before, after } = instruction.params;
  const dims = [...before.keys()].filter((dim) => before[dim] !== 0 || after[dim] !== 0);
  const [dim, ...others] = dims;
  if (dim === undefined || others.length > 0) return undefined;
  const start = before[dim] ?? 0;
  const input = inputAt(instruction, 0);
  const size = valueAt(rewriter.values, input).shape[dim] ?? 0;
  return { id: input, dim, start, stop: start + size };
}

function concatParts(id: number, dim: number, rewriter: Rewriter): readonly number[] {
  const instruction = rewriter.producer(id);
  return instruction?.op === 'concat' && instruction.params.dim === dim ? instruction.inputs : [id];
}

function padded(
  instruction: InstructionMap['add'],
  joined: number,
  low: Part,
  stop: number,
): CpuInstruction {
  const { shape, dtype, output } = instruction;
  const zeros: Shape = shape.map(() => 0);
  const before = zeros.with(low.dim, low.start);
  const after = zeros.with(low.dim, (shape[low.dim] ?? 0) - stop);
  return { op: 'pad', params: { before, after, value: 0 }, inputs: [joined], shape, dtype, output };
}
