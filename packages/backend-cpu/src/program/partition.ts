import type { ValueType } from '@shardwise/core/spec';
import type { Step } from './instruction.ts';

/**
 * What runs a piece: an ONNX Runtime session, loops in JavaScript, WebAssembly kernels, or machine code for products.
 */
export type PieceKind = 'onnx' | 'plain' | 'kernel' | 'product';

/** The kind of piece that a step should run in. 'either' stands for kernels and sessions. */
export type StepKind = PieceKind | 'either';

/** Steps that run together. They read only values of their own piece and of earlier ones. */
export interface Piece {
  readonly kind: PieceKind;
  readonly steps: readonly Step[];
}

/** A piece with the lazy steps that it repeats. */
export interface PieceProgram {
  readonly kind: PieceKind;
  /**
   * Values that lie in memory before the piece runs. For sessions and plain loops, reshapes of such values count too.
   */
  readonly inputs: readonly number[];
  /** The steps in order. Each reads inputs and results of earlier steps. */
  readonly steps: readonly Step[];
  /** Results that other pieces, outputs or updates read. */
  readonly outputs: readonly number[];
}

/** What an error message says about a piece: the first few of its steps, and how many more there are. */
export interface PieceDescription {
  readonly steps: readonly (ValueType & { readonly op: string })[];
  readonly more: number;
}

const mostDescribed = 20;

export function describePiece({ steps }: PieceProgram): PieceDescription {
  const shown = steps.slice(0, mostDescribed).map(({ op, dtype, shape }) => ({ op, dtype, shape }));
  return { steps: shown, more: steps.length - shown.length };
}

export function formatPiece({ steps, more }: PieceDescription): string {
  const shown = steps.map(({ op, dtype, shape }) => `${op} ${dtype} [${shape.join(', ')}]`);
  return more > 0 ? `${shown.join(', ')} and ${more} more` : shown.join(', ');
}
