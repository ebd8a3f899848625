import type { ValueType } from '@shardwise/core/spec';
import { isFusable, wasmHandles } from '../../kernels/handles.ts';
import {
  isAttentionInstruction,
  isPagedInstruction,
} from '../../program/attention-instructions.ts';
import type { Dataflow } from '../../program/dataflow.ts';
import { isGroupedInstruction } from '../../program/product-instructions.ts';
import type { FallbackEngine } from './fallback-engine.ts';
import { type OwnProducts, productOf } from '../products/product-of.ts';
import { valueAt, type CpuInstruction } from '../../program/instruction.ts';

/** Says what can compute an instruction: kernels, products of ours, or the fallback. */
export interface KernelSupport {
  /** Whether a kernel computes the instruction. */
  computes(instruction: CpuInstruction, values: readonly ValueType[]): boolean;
  /** Whether a fused loop over elements can contain the instruction. */
  fuses(instruction: CpuInstruction, values: readonly ValueType[]): boolean;
  /** What computes the instructions that neither kernels nor products of ours compute. */
  readonly fallback: Pick<FallbackEngine, 'kind' | 'isChoice' | 'withPreferred'>;
  /** Divides consecutive products of ours into lists. One partition computes all instructions of a list. */
  partitionsOf(instructions: readonly CpuInstruction[]): readonly (readonly CpuInstruction[])[];
  /** Whether the instruction is a product of ours. */
  multiplies(instruction: CpuInstruction, values: readonly ValueType[], flow: Dataflow): boolean;
}

function inputTypes(instruction: CpuInstruction, values: readonly ValueType[]): ValueType[] {
  return instruction.inputs.map((id) => valueAt(values, id));
}

/** `own` says which products our own code computes. Null means none. */
export function kernelSupport(own: OwnProducts | null, fallback: FallbackEngine): KernelSupport {
  return {
    fallback,
    computes: (instruction, values) => {
      const types = inputTypes(instruction, values);
      return isFusable(instruction, types) || wasmHandles(instruction, types);
    },
    fuses: (instruction, values) => isFusable(instruction, inputTypes(instruction, values)),
    partitionsOf: (instructions) =>
      own?.attention?.partitionsOf(instructions) ??
      instructions.map((instruction) => [instruction]),
    multiplies: (instruction, values, flow) =>
      isGroupedInstruction(instruction) ||
      isAttentionInstruction(instruction) ||
      isPagedInstruction(instruction) ||
      productOf(instruction, values, flow, own) !== undefined,
  };
}
