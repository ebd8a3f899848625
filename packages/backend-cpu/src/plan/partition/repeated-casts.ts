import { isHalfDType, type ValueType } from '@shardwise/core/spec';
import {
  isAttentionInstruction,
  isPagedInstruction,
} from '../../program/attention-instructions.ts';
import { isFusable, wasmHandles } from '../../kernels/handles.ts';
import {
  inputAt,
  type CpuProgram,
  type CpuInstruction,
  valueAt,
} from '../../program/instruction.ts';
import { isNarrowProduct } from '../../program/product-instructions.ts';
import { isNarrowing, isWidening } from '../../program/half-casts.ts';

/**
 * Whether only kernels can run an instruction. Sessions move 16-bit values as integers, and do not convert values that
 * they have moved.
 */
export function isKernelOnly(instruction: CpuInstruction, values: readonly ValueType[]): boolean {
  const types = instruction.inputs.map((id) => valueAt(values, id));
  const isOfHalves = [instruction, ...types].some(({ dtype }) => isHalfDType(dtype));
  return isOfHalves && (isFusable(instruction, types) || wasmHandles(instruction, types));
}

/**
 * The ids of casts that each partition repeats for itself, or that products make as they pack an operand. They are
 * lazy, so their results are not stored.
 */
export function repeatedCasts(program: CpuProgram): ReadonlySet<number> {
  return repeatedWidenings(program).union(roundedByPacking(program));
}

function isOutsideSessions(instruction: CpuInstruction, values: readonly ValueType[]): boolean {
  return (
    isKernelOnly(instruction, values) ||
    isNarrowProduct(instruction, values) ||
    isAttentionInstruction(instruction) ||
    isPagedInstruction(instruction)
  );
}

/**
 * The ids of casts from f16 or bf16 to f32 that each partition repeats for itself. So there is never an f32 copy of all
 * parameters, nor of the 16-bit values that the forward pass keeps for the backward pass.
 */
function repeatedWidenings({ instructions, values, inputCount }: CpuProgram): ReadonlySet<number> {
  const producers = new Map(instructions.map((instruction) => [instruction.output, instruction]));
  const rootOf = (id: number): number => {
    const instruction = producers.get(id);
    return instruction?.op === 'reshape' ? rootOf(inputAt(instruction, 0)) : id;
  };
  // Sessions widen the value below an expand. They do not expand 16-bit values in order to reshape them.
  const widenedRootOf = (id: number): number => {
    const instruction = producers.get(id);
    return instruction?.op === 'expand' ? widenedRootOf(inputAt(instruction, 0)) : rootOf(id);
  };
  const readBySessions = new Set<number>();
  for (const instruction of instructions) {
    if (instruction.op === 'reshape' || isOutsideSessions(instruction, values)) continue;
    for (const id of instruction.inputs) readBySessions.add(rootOf(id)).add(widenedRootOf(id));
  }
  const repeated = new Set<number>();
  for (const instruction of instructions) {
    if (!isWidening(instruction, values)) continue;
    const root = widenedRootOf(inputAt(instruction, 0));
    const maker = producers.get(root);
    const isOfKernels =
      root < inputCount ||
      (maker !== undefined && maker.op !== 'expand' && isOutsideSessions(maker, values));
    if (isOfKernels && !readBySessions.has(root)) repeated.add(instruction.output);
  }
  return repeated;
}

/**
 * The ids of program inputs rounded to bf16 that only products read. Packing such an operand rounds it, so that no
 * 16-bit copy of the weights is made.
 */
function roundedByPacking({ instructions, values, inputCount }: CpuProgram): ReadonlySet<number> {
  const rounded = new Set<number>();
  const roots = new Map<number, number>();
  for (const instruction of instructions) {
    const isOfInput = isNarrowing(instruction, values) && inputAt(instruction, 0) < inputCount;
    if (isOfInput && instruction.dtype === 'bf16') {
      rounded.add(instruction.output);
      roots.set(instruction.output, instruction.output);
      continue;
    }
    const isView = instruction.op === 'reshape' || instruction.op === 'expand';
    for (const [index, id] of instruction.inputs.entries()) {
      const root = roots.get(id);
      if (root === undefined) continue;
      if (isView) roots.set(instruction.output, root);
      else if (!isNarrowProduct(instruction, values) || index > 1) rounded.delete(root);
    }
  }
  return rounded;
}
