import type { ValueType } from '@shardwise/core/spec';
import type { CpuInstruction } from './instruction.ts';

/**
 * What runs a partition: an ONNX Runtime session, loops in JavaScript, WebAssembly kernels, or machine code for
 * products.
 */
export type PartitionKind = 'onnx' | 'plain' | 'kernel' | 'product';

/** The kind of partition that an instruction should run in. 'either' stands for kernels and sessions. */
export type InstructionKind = PartitionKind | 'either';

/** Instructions that run together. They read only values of their own partition and of earlier ones. */
export interface Partition {
  readonly kind: PartitionKind;
  readonly instructions: readonly CpuInstruction[];
}

/** A partition with the lazy instructions that it repeats. */
export interface CompletePartition {
  readonly kind: PartitionKind;
  /**
   * Values that lie in memory before the partition runs. For sessions and plain loops, reshapes of such values count
   * too.
   */
  readonly inputs: readonly number[];
  /** The instructions in order. Each reads inputs and results of earlier instructions. */
  readonly instructions: readonly CpuInstruction[];
  /** Results that other partitions, outputs or updates read. */
  readonly outputs: readonly number[];
}

/** What an error message says about a partition: the first few of its instructions, and how many more there are. */
export interface PartitionDescription {
  readonly instructions: readonly (ValueType & { readonly op: string })[];
  readonly more: number;
}

const MAX_DESCRIBED = 20;

export function describePartition({ instructions }: CompletePartition): PartitionDescription {
  const shown = instructions
    .slice(0, MAX_DESCRIBED)
    .map(({ op, dtype, shape }) => ({ op, dtype, shape }));
  return { instructions: shown, more: instructions.length - shown.length };
}

export function formatPartition({ instructions, more }: PartitionDescription): string {
  const shown = instructions.map(({ op, dtype, shape }) => `${op} ${dtype} [${shape.join(', ')}]`);
  return more > 0 ? `${shown.join(', ')} and ${more} more` : shown.join(', ');
}

/** The address of a value during a run, in bytes from the start of the memory. */
export type AddressOf = (id: number) => number;

/** A partition of a program that can be run. */
export interface CompiledPartition {
  /**
   * Runs the partition. If `addressOf` is the same function as in the run before, all addresses are the same too. With
   * `overlap`, a partition leaves the event loop free where that is possible and worth it.
   */
  run(addressOf: AddressOf, overlap: boolean): Promise<void> | void;
  /** Frees what the partition keeps for its runs. It is called once, after the last run. */
  dispose?(): Promise<void> | void;
}
