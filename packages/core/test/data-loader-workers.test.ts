import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { describe, expect, test, vi } from 'vitest';
import { DataLoader, type DataLoaderOptions } from '../src/data/data-loader.ts';
import type { WorkerDataset } from '../src/data/worker-dataset.ts';
import { ConfigError, DataError } from '../src/spec/errors.ts';
import type { Numbered, NumbersOptions } from './data-worker-fixture.ts';

const module = new URL('./data-worker-fixture.ts', import.meta.url);

function numbers(options: NumbersOptions): WorkerDataset {
  return { module, arguments: [options], length: options.length };
}

type Options = Partial<DataLoaderOptions<Numbered>> & { readonly dataset: WorkerDataset };

function loaderOf(options: Options): DataLoader<Numbered> {
  return new DataLoader<Numbered>({ workers: 2, batchSize: 2, ...options });
}

async function readAll(
  loader: DataLoader<Numbered>,
): Promise<{ items: number[]; threads: number[] }> {
  const items: number[] = [];
  const threads = new Set<number>();
  for await (const batch of loader) {
    items.push(...batch.item.data);
    for (const thread of batch.thread.data) threads.add(thread);
  }
  return { items, threads: [...threads] };
}

/** Returns the error, and its cause as text, which describes the worker. */
async function failureOf(
  loader: DataLoader<Numbered>,
): Promise<{ error: DataError; stack: string }> {
  const error: unknown = await readAll(loader).then(
    () => undefined,
    (reason: unknown) => reason,
  );
  if (!(error instanceof DataError)) throw new Error('no DataError', { cause: error });
  return { error, stack: error.cause instanceof Error ? (error.cause.stack ?? '') : '' };
}

setFlagsFromString('--expose-gc');
const collect: unknown = runInNewContext('gc');

/** Returns the threads that this thread has started and that have not ended. */
function workers(): number {
  const report: unknown = process.report.getReport();
  if (typeof report !== 'object' || report === null || !('workers' in report)) return fail();
  return Array.isArray(report.workers) ? report.workers.length : fail();
}

describe('workers', () => {
  test('read in other threads, and batches come in order though later ones are ready first', async () => {
    const loader = loaderOf({ dataset: numbers({ length: 11, slowBelow: 2 }) });
    const { items, threads } = await readAll(loader);
    expect(items).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
    expect(threads).toHaveLength(2);
    expect(threads).not.toContain(0);
  });

  test('give the batches of this thread’s loader, shuffled and continued', async () => {
    const options = { dataset: numbers({ length: 12 }), shuffle: true, seed: 5 };
    const whole = await readAll(loaderOf(options));
    const first = loaderOf(options);
    const before: number[] = [];
    for await (const batch of first) {
      before.push(...batch.item.data);
      if (before.length === 4) break;
    }
    const second = loaderOf({ ...options, workers: 1 });
    second.load(first.state());
    expect([...before, ...(await readAll(second)).items]).toEqual(whole.items);
  });

  test('take a dataset that is an export, and a collate function by its name', async () => {
    const dataset = { module, export: 'ready', collate: 'firstOnly', length: 4 };
    expect((await readAll(loaderOf({ dataset, workers: 1 }))).items).toEqual([0, 2]);
  });

  test('report a broken item when its batch’s turn comes, with the stack in the worker', async () => {
    const loader = loaderOf({ dataset: numbers({ length: 12, broken: 5 }) });
    const { error, stack } = await failureOf(loader);
    expect(error.message).toBe(
      'a batch of a data loader: worker 0 failed: RangeError: item 5 is broken. ' +
        'Mend the dataset; the cause of this error has the stack in the worker',
    );
    expect(stack).toContain('data-worker-fixture.ts');
    expect(loader.state().batchesSeen).toBe(2);
  });

  test('report a thread that ends', async () => {
    const { error } = await failureOf(loaderOf({ dataset: numbers({ length: 12, deadly: 3 }) }));
    expect(error.message).toContain('worker 1 ended with code 7');
  });

  test.each([
    ['a dataset that cannot be made', { export: 'failing' }, 'cannot open the numbers'],
    ['a missing export', { export: 'nothing' }, 'no dataset and no function that returns one'],
    ['a missing collate function', { export: 'ready', collate: 'nothing' }, 'no function'],
    ['another length', { export: 'ready', length: 5 }, '4 items instead of 5'],
    ['a missing module', { module: new URL('./nowhere.ts', module) }, 'nowhere.ts'],
  ])('report %s', async (_name, dataset, message) => {
    const { error } = await failureOf(loaderOf({ dataset: { module, length: 4, ...dataset } }));
    expect(error.message).toContain(message);
  });

  test('end with the iteration, also with one that is left', async () => {
    const before = workers();
    const loader = loaderOf({ dataset: numbers({ length: 100 }), prefetch: 8 });
    for await (const batch of loader) {
      expect(batch.item.shape).toEqual([2]);
      expect(workers()).toBeGreaterThan(before);
      break;
    }
    await readAll(loader);
    expect(workers()).toBe(before);
  });

  test.each([
    'take the first batch and drop the iterator',
    'leave the loop',
    'make an iterator and never ask it',
    'give the iterator back',
    'read two epochs at once, and none to its end',
  ])('do not keep a program alive that has nothing left to do: %s', async (way) => {
    const program = fileURLToPath(new URL('./peek-fixture.ts', import.meta.url));
    const { stdout } = await promisify(execFile)(process.execPath, [program, way], {
      timeout: 20_000,
    });
    expect(stdout).toBe('saw 0\n');
  });

  test('end with an iterator that nobody has any more', async () => {
    const before = workers();
    const loader = loaderOf({ dataset: numbers({ length: 100 }) });
    await loader[Symbol.asyncIterator]().next();
    expect(workers()).toBe(before + 2);
    await vi.waitFor(
      () => {
        if (typeof collect === 'function') collect();
        expect(workers()).toBe(before);
      },
      { timeout: 10_000 },
    );
  });

  test.each<[string, Partial<DataLoaderOptions<Numbered>>]>([
    ['no workers', { workers: 0 }],
    ['a collate function of this thread', { collate: ([first]) => first ?? fail() }],
  ])('refuse %s for a described dataset', (_name, options) => {
    const dataset = numbers({ length: 4 });
    expect(() => loaderOf({ ...options, dataset })).toThrow(ConfigError);
  });

  test('refuse a module path whose folder nobody knows', async () => {
    const loader = loaderOf({ dataset: { module: './data.ts', length: 4 } });
    await expect(readAll(loader)).rejects.toThrow("Pass new URL('./data.ts', import.meta.url)");
  });
});

function fail(): never {
  throw new Error('not what is expected');
}
