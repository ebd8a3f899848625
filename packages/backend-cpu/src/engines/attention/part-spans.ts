import type { AttentionWork } from '../../program/work/attention-work.ts';
import { type KeyLimits, type KeySpan, keySpans } from './key-spans.ts';
import type { BlockSizes } from './row-blocks.ts';

/** Keys that a block of queries is multiplied with: all that it sees, or those of a stretch. */
export interface PartSpan extends KeySpan {
  /** Whether they are the first keys, and the last ones, that the block is multiplied with. */
  readonly isFirst: boolean;
  readonly isLast: boolean;
}

/** A block that sees more keys than this is computed for one stretch of keys after the other. */
export const MOST_KEYS = 4096;
/** The keys of a stretch. */
export const STRETCH_KEYS = 1024;

/**
 * The keys that blocks of queries are multiplied with, in this order: first those of blocks that see few keys, and then one
 * stretch after the other, with all blocks that see some of it. Attention in bf16 sees all keys at once, because its sums would be
 * rounded between stretches.
 */
export function partSpans(
  work: BlockSizes & Pick<AttentionWork, 'kind'>,
  limits: KeyLimits,
): readonly PartSpan[] {
  const whole = keySpans(work, limits);
  const isLong = ({ keys }: KeySpan): boolean => !work.isNarrow && keys > MOST_KEYS;
  const parts = whole.flatMap((span) =>
    isLong(span) ? [] : [{ ...span, isFirst: true, isLast: true }],
  );
  const long = new Set(whole.filter(isLong).map(({ block }) => block.start));
  if (long.size === 0) return parts;
  const ofBlock = new Map<number, KeySpan[]>();
  const inOrder: KeySpan[] = [];
  for (let start = 0; start < work.keys; start += STRETCH_KEYS) {
    const stretch = { start, end: Math.min(start + STRETCH_KEYS, work.keys) };
    for (const span of keySpans(work, limits, stretch)) {
      const { block, isSeen } = span;
      if (!isSeen || !long.has(block.start)) continue;
      inOrder.push(span);
      ofBlock.set(block.start, [...(ofBlock.get(block.start) ?? []), span]);
    }
  }
  return [
    ...parts,
    ...inOrder.map((span) => {
      const all = ofBlock.get(span.block.start);
      return { ...span, isFirst: all?.[0] === span, isLast: all?.at(-1) === span };
    }),
  ];
}

/** Whether a block is multiplied with other keys, too. */
export function isOfStretch({ isFirst, isLast }: Pick<PartSpan, 'isFirst' | 'isLast'>): boolean {
  return !isFirst || !isLast;
}
