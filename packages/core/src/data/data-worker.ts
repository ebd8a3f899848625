// This is the entry of a data loader's worker thread. It builds the dataset, and then answers requests for batches.
import { parentPort, workerData } from 'node:worker_threads';
import { DataError } from '../spec/errors.ts';
import type { Collate } from './batch-source.ts';
import { collate as stack } from './collate.ts';
import type { Dataset } from './dataset.ts';
import { type ArrayTree, mapArrays } from '../tensor/nd-array.ts';
import { type BatchReply, type BatchRequest, reportOf, type WorkerTask } from './worker-message.ts';

const task: WorkerTask = workerData;
const port = parentPort;

// Requests can arrive while the dataset is being built. Each waits until it is built.
const opened = open();
// A failure is reported by every request that waits. Here it must not be an unhandled rejection.
opened.catch(() => {});
port?.on('message', (request: BatchRequest) => void answer(request));

async function answer({ id, indices }: BatchRequest): Promise<void> {
  try {
    const { dataset, collate } = await opened;
    const samples = await Promise.all(indices.map(async (index) => dataset.get(index)));
    // The memory of a batch from a user's function is copied, because the dataset may still need it. The memory of a
    // batch that was stacked here is moved to the other thread.
    if (collate !== undefined) send({ kind: 'batch', id, batch: collate(samples, indices) });
    else sendMoved(id, stack(samples, indices));
  } catch (error) {
    send({ kind: 'error', id, error: reportOf(error) });
  }
}

function send(reply: BatchReply<ArrayTree>, moved: readonly ArrayBuffer[] = []): void {
  port?.postMessage(reply, moved);
}

function sendMoved(id: number, batch: ArrayTree): void {
  const buffers = new Set<ArrayBuffer>();
  mapArrays(batch, (array) => {
    if (array.data.buffer instanceof ArrayBuffer) buffers.add(array.data.buffer);
    return array;
  });
  send({ kind: 'batch', id, batch }, [...buffers]);
}

async function open(): Promise<{
  dataset: Dataset;
  collate: Collate<ArrayTree> | undefined;
}> {
  const exports: Readonly<Record<string, unknown>> = await import(task.module);
  const exported = exports[task.exportName];
  const dataset: unknown =
    typeof exported === 'function' ? await exported(...task.arguments) : exported;
  if (!isDataset(dataset)) {
    throw missing(task.exportName, 'no dataset and no function that returns one');
  }
  if (dataset.length !== task.length) {
    throw missing(task.exportName, `${dataset.length} items instead of ${task.length}`);
  }
  if (task.collateName === null) return { dataset, collate: undefined };
  const collate = exports[task.collateName];
  if (!isCollate(collate)) throw missing(task.collateName, 'no function');
  return { dataset, collate };
}

function isDataset(value: unknown): value is Dataset {
  return (
    typeof value === 'object' &&
    value !== null &&
    'length' in value &&
    typeof value.length === 'number' &&
    'get' in value &&
    typeof value.get === 'function'
  );
}

function isCollate(value: unknown): value is Collate<ArrayTree> {
  return typeof value === 'function';
}

function missing(name: string, found: string): DataError {
  return new DataError(
    {
      asked: `the dataset of a data loader's worker, export ${name} of ${task.module}`,
      found,
      todo: 'Name an export that is a dataset (length and get), or a function that returns one',
    },
    { module: task.module, export: name },
  );
}
