import type { HalfDType, Node } from '@shardwise/core/extend';

/** A value that travels between two ranks of a pipeline. */
export interface Message {
  readonly node: Node;
  /** The rank at the other end. */
  readonly peer: number;
  /** The tag of the message, the same at both ends. */
  readonly tag: number;
  /** The dtype in which an f32 value travels. Default: f32. */
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

/** The number of tags of each kind. All tags are below 2^20. */
const PER_KIND = 2 ** 17;

/**
 * Numbers a message by its kind and by its place among the messages of this kind in a pass. All ranks count these
 * places alike. Messages with the same tag arrive in the order in which they were sent, so each pass may use the same
 * tags.
 */
export function tagOf(kind: (typeof kinds)[number], place: number): number {
  return kinds.indexOf(kind) * PER_KIND + (place % PER_KIND);
}
