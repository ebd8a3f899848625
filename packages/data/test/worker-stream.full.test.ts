import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DataError } from '@shardwise/core';
import type { ImageSample } from '@shardwise/data';
import { WorkerStream, type WorkerStreamOptions } from '@shardwise/data/node';
import sharp from 'sharp';
import { describe, expect, it } from 'vitest';
import { images } from './workers/image-stream.ts';
import { numbers } from './workers/number-stream.ts';

const module = new URL('workers/number-stream.ts', import.meta.url);
const inWorkers = (options: Omit<WorkerStreamOptions, 'module'>): WorkerStream<number> =>
  new WorkerStream({ module, export: 'numbers', arguments: [30], ...options });

async function collect<T>(items: AsyncIterable<T>): Promise<T[]> {
  const list: T[] = [];
  for await (const item of items) list.push(item);
  return list;
}

describe('a stream whose items threads make', () => {
  it.each([1, 3])('has the items of split in their order, with %i threads', async (workers) => {
    for (const dropLast of [false, true]) {
      const options = { rank: 1, numReplicas: 2, dropLast };
      const stream = inWorkers({ ...options, workers });
      const items = await collect(numbers(30).split(options));
      expect([await collect(stream), stream.epoch]).toEqual([items, 1]);
    }
  });

  it('goes on after any item, with another number of threads and ranks', async () => {
    const order = await collect(numbers(30).split({ rank: 0, numReplicas: 1 }));
    for (const turns of [2, 3]) {
      const states: string[] = [];
      for (const rank of [0, 1]) {
        const stream = inWorkers({ rank, numReplicas: 2, workers: 3 });
        let taken = 0;
        for await (const _ of stream) if (++taken === turns) break;
        states.push(JSON.stringify(stream.state()));
      }
      expect(states[0]).toBe(states[1]);
      const alone = numbers(30).split({ rank: 0, numReplicas: 1 });
      alone.load(JSON.parse(states[0] ?? ''));
      expect(await collect(alone)).toEqual(order.slice(2 * turns));
      const threads = inWorkers({ rank: 0, numReplicas: 1, workers: 2 });
      threads.load(JSON.parse(states[0] ?? ''));
      expect(await collect(threads)).toEqual(order.slice(2 * turns));
    }
  });

  it('decodes images in its threads, and names the file that cannot be decoded', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'image-stream-'));
    mkdirSync(join(folder, 'a'));
    const write = async (index: number): Promise<void> => {
      const create = { width: 9, height: 7, background: { r: index, g: 0, b: 9 } };
      await sharp({ create: { ...create, channels: 3 } }).toFile(join(folder, 'a', `${index}.png`));
    };
    for (let index = 0; index < 7; index++) await write(index);
    const options = { rank: 0, numReplicas: 1 };
    const threads = new WorkerStream<ImageSample>({
      ...options,
      module: new URL('workers/image-stream.ts', import.meta.url),
      export: 'images',
      arguments: [folder],
      workers: 2,
    });
    const wanted = await collect((await images(folder)).split(options));
    expect(await collect(threads)).toEqual(wanted);
    expect(new Set(wanted.map(({ pixelValues }) => pixelValues.data[0])).size).toBe(7);
    writeFileSync(join(folder, 'a', '3.png'), 'no image');
    await expect(collect(threads)).rejects.toThrow(join(folder, 'a', '3.png'));
    rmSync(folder, { recursive: true });
  });

  it('throws the error of an item when its turn comes, and for what is no stream', async () => {
    const stream = new WorkerStream<number>({
      module,
      export: 'failing',
      rank: 0,
      numReplicas: 1,
      workers: 2,
    });
    const seen: number[] = [];
    const read = async (): Promise<void> => {
      for await (const item of stream) seen.push(item);
    };
    await expect(read()).rejects.toThrow(/worker \d failed: TypeError: no seven/);
    const order = await collect(numbers(20).split({ rank: 0, numReplicas: 1 }));
    expect(seen).toEqual(order.slice(0, order.indexOf(7)));
    const none = new WorkerStream({ module, export: 'nothing', rank: 0, numReplicas: 1 });
    await expect(collect(none)).rejects.toThrow(DataError);
    await expect(collect(inWorkers({ arguments: [2], rank: 3, numReplicas: 4 }))).rejects.toThrow(
      /fewer items than ranks/,
    );
  });
});
