import { Generator } from '@shardwise/core/extend';
import { z } from 'zod';
import {
  anyState,
  checkState,
  type Cursor,
  type Lazy,
  type OpenCursor,
  type StreamState,
} from './cursor.ts';
import { draw } from './draw.ts';

const place = z.object({
  buffer: z.int().min(0),
  /** The place before the items of the buffer. Null: the beginning. */
  start: anyState,
  taken: z.int().min(0),
});

/**
 * Fills a buffer, gives its items in random order, and fills it again. To continue, only the items of the buffer are read
 * again.
 */
export function openShuffled<T>(
  open: OpenCursor<T>,
  { bufferSize, seed }: { readonly bufferSize: number; readonly seed: number },
): OpenCursor<T> {
  return (epoch, state) => {
    const saved = state === undefined ? undefined : checkState(place, state, 'that is shuffled');
    const inner: Cursor<T> = open(epoch, saved?.start ?? undefined);
    let number = saved?.buffer ?? 0;
    let start: StreamState = saved?.start ?? null;
    let taken = 0;
    let items: Lazy<T>[] = [];
    let isFilled = false;
    const fill = async (): Promise<void> => {
      const buffer: Lazy<T>[] = [];
      while (buffer.length < bufferSize) {
        const item = await inner.next();
        if (item === undefined) break;
        buffer.push(item);
      }
      const order = new Generator(draw(seed, epoch, number)).randperm(buffer.length);
      items = Array.from(order).flatMap((index) => buffer.slice(index, index + 1));
      isFilled = true;
    };
    return {
      next: async () => {
        if (!isFilled) {
          await fill();
          taken = saved?.taken ?? 0;
        }
        if (taken >= items.length && items.length > 0) {
          start = inner.state();
          number += 1;
          await fill();
          taken = 0;
        }
        const item = items[taken];
        if (item !== undefined) taken += 1;
        return item;
      },
      state: () => ({ buffer: number, start, taken: isFilled ? taken : (saved?.taken ?? 0) }),
      close: () => inner.close(),
    };
  };
}
