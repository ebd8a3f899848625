import { Generator } from '@shardwise/core/extend';
import { z } from 'zod';
import type { Rows } from '../datasets/rows.ts';
import { checkState, lazy, type OpenCursor, otherStream } from './cursor.ts';
import { draw } from './draw.ts';

const place = z.object({ position: z.int().min(0), length: z.int().min(0) });

/** Reads rows in their order, or in a random one that differs between epochs. Rows of other ranks are not read. */
export function openRows<Row>(
  rows: Rows<Row>,
  order: { readonly shuffle: boolean; readonly seed: number },
): OpenCursor<Row> {
  const { length } = rows;
  return (epoch, state) => {
    let position = 0;
    if (state !== undefined) {
      const saved = checkState(place, state, `of ${length} rows`);
      if (saved.length !== length) throw otherStream(`of ${length} rows`, `${saved.length} rows`);
      position = saved.position;
    }
    const permutation = order.shuffle
      ? new Generator(draw(order.seed, epoch, 0)).randperm(length)
      : undefined;
    return {
      next: async () => {
        if (position >= length) return undefined;
        const index = permutation?.[position] ?? position;
        position += 1;
        return lazy(() => rows.get(index));
      },
      state: () => ({ position, length }),
      close: async () => {},
    };
  };
}

const count = z.object({ items: z.int().min(0) });

/** Reads what a function returns for an epoch. To continue, items before the place are read again and left out. */
export function openIterable<T>(
  open: (epoch: number) => Iterable<T> | AsyncIterable<T>,
): OpenCursor<T> {
  return (epoch, state) => {
    const skipped = state === undefined ? 0 : checkState(count, state, 'of an iterable').items;
    let items = 0;
    let toSkip = skipped;
    let iterator: AsyncIterator<T> | Iterator<T> | undefined;
    let isOver = false;
    const step = async (): Promise<IteratorResult<T>> => {
      iterator ??= iteratorOf(open(epoch));
      const result = await iterator.next();
      if (result.done === true) isOver = true;
      else items += 1;
      return result;
    };
    return {
      next: async () => {
        if (isOver) return undefined;
        let result = await step();
        for (; toSkip > 0 && result.done !== true; toSkip--) result = await step();
        if (result.done === true) return undefined;
        const { value } = result;
        return lazy(() => value);
      },
      state: () => ({ items: Math.max(items, skipped) }),
      close: async () => {
        if (!isOver) await iterator?.return?.();
        isOver = true;
      },
    };
  };
}

function iteratorOf<T>(items: Iterable<T> | AsyncIterable<T>): AsyncIterator<T> | Iterator<T> {
  return Symbol.asyncIterator in items ? items[Symbol.asyncIterator]() : items[Symbol.iterator]();
}
