import type { ValueType } from '@shardwise/core/spec';
import type { Dataflow } from '../../program/dataflow.ts';
import type { KernelSupport } from './kernel-support.ts';
import { isKernelOnly } from './repeated-casts.ts';
import { elementCount } from '@shardwise/core/base';
import { valueAt, type CpuInstruction } from '../../program/instruction.ts';
import type { InstructionKind } from '../../program/partition.ts';

/** Up to this many elements, a pass costs less than one more partition. */
const SMALL_ELEMENTS = 4096;

/** The kind of partition that each of `instructions` should run in. The instructions are in program order. */
export function instructionKinds(
  instructions: readonly CpuInstruction[],
  values: readonly ValueType[],
  flow: Dataflow,
  support: KernelSupport,
): ReadonlyMap<CpuInstruction, InstructionKind> {
  const kinds = new Map(
    instructions.map((instruction) => [instruction, ownKind(instruction, values, flow, support)]),
  );
  return support.fallback.withPreferred(kinds, values, flow);
}

function ownKind(
  instruction: CpuInstruction,
  values: readonly ValueType[],
  flow: Dataflow,
  support: KernelSupport,
): InstructionKind {
  if (support.multiplies(instruction, values, flow)) return 'product';
  if (!support.computes(instruction, values)) return support.fallback.kind;
  const inputs = instruction.inputs.map((id) => valueAt(values, id));
  if (!support.fallback.isChoice(instruction, inputs) || isKernelOnly(instruction, values))
    return 'kernel';
  const sizes = [instruction, ...inputs].map(({ shape }) => elementCount(shape));
  return Math.max(...sizes) <= SMALL_ELEMENTS ? 'either' : 'kernel';
}
