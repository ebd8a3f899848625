import type { ValueType } from '@shardwise/core/spec';
import type { Dataflow } from '../../program/dataflow.ts';
import type { CpuProgram, CpuInstruction } from '../../program/instruction.ts';
import type { OnnxGraph } from '../../emit/onnx/model.ts';
import type { OnnxSlots } from '../../emit/onnx/onnx-slots.ts';
import type {
  CompletePartition,
  InstructionKind,
  PartitionDescription,
  CompiledPartition,
} from '../../program/partition.ts';

/** A partition of a program that kernels do not compute, as plain data. */
export type FallbackPartition = PlannedOnnx | PlannedLoop;

/** Computes the instructions for which there are no kernels: ONNX Runtime, or loops in JavaScript. */
export interface FallbackEngine {
  readonly kind: FallbackPartition['kind'];
  /**
   * Whether it may compute an instruction that kernels can compute too. `inputs` are the types of the instruction's
   * inputs.
   */
  isChoice(instruction: CpuInstruction, inputs: readonly ValueType[]): boolean;
  /**
   * Returns the kind of partition that each instruction should run in. `kinds` has the instructions in program order,
   * and their kinds if kernels compute all that they can.
   */
  withPreferred(
    kinds: ReadonlyMap<CpuInstruction, InstructionKind>,
    values: readonly ValueType[],
    flow: Dataflow,
  ): ReadonlyMap<CpuInstruction, InstructionKind>;
  plan(program: CpuProgram, partition: CompletePartition): FallbackPartition;
  /** Whether a partition runs at all sizes. In `pattern`, numbers that depend on the sizes are NaN. */
  takesSizes(pattern: FallbackPartition): boolean;
  /** `known` is the partition at certain sizes. Error messages show it. */
  acquire(pattern: FallbackPartition, known: FallbackPartition): Promise<CompiledFallback>;
}

/** Runs the partitions of one pattern. */
export interface CompiledFallback {
  link(memory: WebAssembly.Memory, partition: FallbackPartition): CompiledPartition;
  /** Must be called once. */
  release(): void;
}

/** What runs each partition. It is null for partitions that kernels or products compute. */
export type CompiledFallbacks = readonly (CompiledFallback | null)[];

/** A partition that runs as one session. */
export interface PlannedOnnx {
  readonly kind: 'onnx';
  readonly graph: OnnxGraph;
  readonly slots: OnnxSlots;
  readonly description: PartitionDescription;
}

/** An instruction that JavaScript computes from memory into memory, and the types of its inputs. */
export interface PlannedLoop {
  readonly kind: 'plain';
  readonly instruction: CpuInstruction;
  readonly inputs: readonly ValueType[];
}
