import type { ValueType } from '@shardwise/core/spec';
import type { PlannedOnnx } from '../onnx/planned-onnx.ts';
import type { PlannedLoop } from '../plain/planned-loop.ts';
import type { CompiledPiece } from './compiled-piece.ts';
import type { Dataflow } from './dataflow.ts';
import type { PieceProgram } from './piece-program.ts';
import type { StepKind } from './schedule.ts';
import type { Segment, Step } from './step.ts';

/** A piece of a program that kernels do not compute, as plain data. */
export type RestPiece = PlannedOnnx | PlannedLoop;

/** What computes the steps for which there are no kernels: ONNX Runtime, or loops in JavaScript. */
export interface Rest {
  readonly kind: RestPiece['kind'];
  /** Whether it is a choice for a step that kernels compute, too. `inputs` are its types. */
  isChoice(step: Step, inputs: readonly ValueType[]): boolean;
  /** Where steps, in program order, had best run, if kernels were to compute all that they can. */
  withPreferred(
    kinds: ReadonlyMap<Step, StepKind>,
    values: readonly ValueType[],
    flow: Dataflow,
  ): ReadonlyMap<Step, StepKind>;
  plan(segment: Segment, piece: PieceProgram): RestPiece;
  /** Whether a piece runs at all sizes, given one with NaN for what depends on them. */
  takesSizes(pattern: RestPiece): boolean;
  /** `known` is the piece at some sizes, for messages. */
  acquire(pattern: RestPiece, known: RestPiece): Promise<RestLease>;
}

/** What runs pieces of one pattern. */
export interface RestLease {
  link(memory: WebAssembly.Memory, piece: RestPiece): CompiledPiece;
  /** Call once. */
  release(): void;
}

/** For each piece what runs it; null for kernels and products. */
export type RestLeases = readonly (RestLease | null)[];
