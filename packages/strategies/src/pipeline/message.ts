import type { HalfDType, Node } from '@shardwise/core/extend';

/** A value that travels between two ranks of a pipeline. */
export interface Message {
  readonly node: Node;
  /** The rank at the other end. */
  readonly peer: number;
  /** The same at both ends. */
  readonly tag: number;
  /** In what an f32 value travels. Default: as it is. */
  readonly sentAs?: HalfDType | null;
}

const kinds = [
  'activation',
  'gradient',
  'parameter',
  'parameterGradient',
  'result',
  'buffer',
] as const;

/** Tags are below 2^20. */
const perKind = 2 ** 17;

/**
 * Numbers a message by its kind and its place among those of its kind in a pass, which all ranks count alike. Messages
 * with one tag arrive in the order in which they were sent, so passes may use the same ones.
 */
export function tagOf(kind: (typeof kinds)[number], place: number): number {
  return kinds.indexOf(kind) * perKind + (place % perKind);
}
