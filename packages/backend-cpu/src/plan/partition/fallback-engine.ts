import type { ValueType } from '@shardwise/core/spec';
import type { CompiledPiece } from '../../program/compiled-partition.ts';
import type { Dataflow } from '../../program/dataflow.ts';
import type { Segment, Step } from '../../program/instruction.ts';
import type { OnnxGraph } from '../../emit/onnx/model.ts';
import type { OnnxSlots } from '../../emit/onnx/onnx-slots.ts';
import type { PieceProgram, StepKind, PieceDescription } from '../../program/partition.ts';

/** A piece of a program that kernels do not compute, as plain data. */
export type RestPiece = PlannedOnnx | PlannedLoop;

/** Computes the steps for which there are no kernels: ONNX Runtime, or loops in JavaScript. */
export interface Rest {
  readonly kind: RestPiece['kind'];
  /** Whether it may compute a step that kernels can compute too. `inputs` are the types of the step's inputs. */
  isChoice(step: Step, inputs: readonly ValueType[]): boolean;
  /**
   * Returns the kind of piece that each step should run in. `kinds` has the steps in program order, and their kinds if
   * kernels compute all that they can.
   */
  withPreferred(
    kinds: ReadonlyMap<Step, StepKind>,
    values: readonly ValueType[],
    flow: Dataflow,
  ): ReadonlyMap<Step, StepKind>;
  plan(segment: Segment, piece: PieceProgram): RestPiece;
  /** Whether a piece runs at all sizes. In `pattern`, numbers that depend on the sizes are NaN. */
  takesSizes(pattern: RestPiece): boolean;
  /** `known` is the piece at certain sizes. Error messages show it. */
  acquire(pattern: RestPiece, known: RestPiece): Promise<RestLease>;
}

/** Runs the pieces of one pattern. */
export interface RestLease {
  link(memory: WebAssembly.Memory, piece: RestPiece): CompiledPiece;
  /** Must be called once. */
  release(): void;
}

/** The lease of each piece. It is null for pieces that kernels or products compute. */
export type RestLeases = readonly (RestLease | null)[];

/** A piece that runs as one session. */
export interface PlannedOnnx {
  readonly kind: 'onnx';
  readonly graph: OnnxGraph;
  readonly slots: OnnxSlots;
  readonly description: PieceDescription;
}

/** A step that JavaScript computes from memory into memory, and the types of its inputs. */
export interface PlannedLoop {
  readonly kind: 'plain';
  readonly step: Step;
  readonly inputs: readonly ValueType[];
}
