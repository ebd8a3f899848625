import type { ValueType } from '@shardwise/core/spec';
import type { PieceProgram } from './piece-program.ts';

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
