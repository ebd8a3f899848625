// This is the entry of a thread that makes items of a stream. It makes the stream, and answers each request with an item.
import { parentPort, workerData } from 'node:worker_threads';
import { DataError, reportOf } from '@shardwise/core/extend';
import { Stream } from '../streams/stream.ts';
import type { StreamReply, StreamTask } from './stream-message.ts';

const task: StreamTask = workerData;
const items = itemsOf();
/** The last answer. The next one waits for it, so that items come in order. */
let last: Promise<void> = Promise.resolve();
parentPort?.on('message', () => {
  last = last.then(answer);
});

async function answer(): Promise<void> {
  try {
    const next = await items.next();
    send(next.done === true ? { kind: 'end' } : { kind: 'item', item: next.value });
  } catch (error) {
    send({ kind: 'error', error: reportOf(error) });
  }
}

function send(reply: StreamReply<unknown>): void {
  parentPort?.postMessage(reply, []);
}

async function* itemsOf(): ReturnType<Stream<unknown>['read']> {
  const exports: Readonly<Record<string, unknown>> = await import(task.module);
  const exported = exports[task.exportName];
  const stream: unknown =
    typeof exported === 'function' ? await exported(...task.arguments) : exported;
  if (!(stream instanceof Stream)) {
    throw new DataError(
      {
        asked: `the stream of a worker, export ${task.exportName} of ${task.module}`,
        found: 'no Stream and no function that returns one',
        todo: 'Name an export that is a Stream of @shardwise/data, or a function that returns one',
      },
      { module: task.module, export: task.exportName },
    );
  }
  return yield* stream.read(task.epoch, task.from, task.share);
}
