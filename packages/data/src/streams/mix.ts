import { z } from 'zod';
import { anyState, checkState, type Cursor, type OpenCursor, otherStream } from './cursor.ts';
import { draw } from './draw.ts';

const place = z.object({ draws: z.int().min(0), parts: z.array(anyState) });

/** A stream that is mixed with others. */
export interface MixedPart<T> {
  readonly open: OpenCursor<T>;
  readonly weight: number;
}

/**
 * Takes each item from one of several streams, which is drawn by their weights. With `all`, streams that have ended are
 * left out until all have, so that each item comes once. With `first`, the end of one is the end of all.
 */
export function openMixed<T>(
  parts: readonly MixedPart<T>[],
  { seed, until }: { readonly seed: number; readonly until: 'all' | 'first' },
): OpenCursor<T> {
  return (epoch, state) => {
    const saved = state === undefined ? undefined : checkState(place, state, 'that is mixed');
    if (saved !== undefined && saved.parts.length !== parts.length) {
      throw otherStream(`of ${parts.length} streams`, `${saved.parts.length} streams`);
    }
    let draws = saved?.draws ?? 0;
    // Null in a state: the stream has ended.
    const cursors: (Cursor<T> | undefined)[] = parts.map(({ open }, index) => {
      const own = saved?.parts[index];
      return own === null ? undefined : open(epoch, own);
    });
    const hasEnded = (): boolean =>
      until === 'first'
        ? cursors.includes(undefined)
        : cursors.every((cursor) => cursor === undefined);
    let isOver = hasEnded();
    const choose = (): number => {
      const total = parts.reduce((sum, { weight }, i) => sum + (cursors[i] ? weight : 0), 0);
      let point = (draw(seed, epoch, draws++) / 2 ** 32) * total;
      let last = -1;
      for (const [index, { weight }] of parts.entries()) {
        if (cursors[index] === undefined) continue;
        last = index;
        point -= weight;
        if (point < 0) break;
      }
      return last;
    };
    return {
      next: async () => {
        while (!isOver) {
          const index = choose();
          const item = await cursors[index]?.next();
          if (item !== undefined) return item;
          cursors[index] = undefined;
          isOver = hasEnded();
        }
        return undefined;
      },
      state: () => ({ draws, parts: cursors.map((cursor) => cursor?.state() ?? null) }),
      close: async () => {
        for (const cursor of cursors) await cursor?.close();
      },
    };
  };
}
