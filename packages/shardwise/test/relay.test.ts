import { MemoryStore } from '@shardwise/collectives/node';
import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  BatchSender,
  decodeBatch,
  encodeBatch,
  encodeMessage,
  receiveBatches,
} from '../src/relay/batches.ts';
import { SlowStore } from './slow-store.ts';
import { receiveRelay, relaySender } from '../src/relay/relay.ts';
import type { RankMessage } from '../src/run-state/run-message.ts';
import { stepReport } from './run-fixture.ts';

async function relay(messages: readonly object[]): Promise<readonly RankMessage[]> {
  const store = new MemoryStore();
  const received: RankMessage[] = [];
  const receiving = receiveRelay({
    store,
    epoch: 3,
    node: 1,
    firstRank: 2,
    ranks: 2,
    signal: new AbortController().signal,
    onMessage: (message) => received.push(message),
  });
  const sender = relaySender({ store, epoch: 3, node: 1 });
  for (const message of messages) sender.send(message);
  await sender.close();
  await receiving;
  // Messages that have been received are not kept in the store.
  expect(await store.delete('relay/3/1/0')).toBe(false);
  store.close();
  return received;
}

describe('what ranks of another host say', () => {
  it('comes in order and as it was said, also a loss that has diverged', async () => {
    const losses = [1.5, Number.NaN, Infinity, -Infinity, 0.1 + 0.2];
    const messages = losses.map((loss, index) => stepReport(2 + (index % 2), index + 1, { loss }));
    expect(await relay(messages)).toEqual(messages);
  });

  it("comes with the script's own metrics, whatever they are called", async () => {
    const metrics = { accuracy: 0.5, constructor: NaN, loss: -Infinity, kind: Infinity, step: 0 };
    const messages = [stepReport(2, 1, { metrics }), stepReport(3, 1, { metrics: {} })];
    expect(await relay(messages)).toEqual(messages);
  });

  it('comes in several parts where it is more than a store takes at once', async () => {
    const events = Array.from({ length: 4000 }, (_, index) => ({
      name: `event ${index} ${'x'.repeat(60)}`,
      category: 'compute' as const,
      startMs: index,
      durationMs: 1,
    }));
    const messages = Array.from({ length: 5 }, (_, index) => ({
      kind: 'timeline' as const,
      rank: 2,
      step: index + 1,
      startMs: 0,
      endMs: 1,
      events,
    }));
    expect(await relay(messages)).toEqual(messages);
  });

  it('is left out where it is said in the name of a rank of another host, or no message', async () => {
    const others = [stepReport(0, 1), stepReport(4, 1), { kind: 'exit', rank: 2 }];
    expect(await relay([...others, stepReport(2, 1)])).toEqual([stepReport(2, 1)]);
  });

  it('is nothing where it is no batch', () => {
    const text = (value: string): Uint8Array => new TextEncoder().encode(value);
    expect(decodeBatch(text('{'))).toBeUndefined();
    expect(decodeBatch(text('{"messages":7,"isLast":true}'))).toBeUndefined();
    const batch = encodeBatch(['7', encodeMessage(stepReport(1, 1)), '{"kind":"exit"}'], false);
    expect(decodeBatch(batch)).toEqual({
      messages: [7, stepReport(1, 1), { kind: 'exit' }],
      isLast: false,
    });
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 200 }), (bytes) => {
        expect(decodeBatch(bytes)).toBeUndefined();
      }),
    );
  });
});

describe('batches of one host to another', () => {
  const never = new AbortController().signal;
  const received = async (store: MemoryStore): Promise<readonly unknown[]> => {
    const messages: unknown[] = [];
    const end = await receiveBatches({ store, prefix: 'a' }, never, (value) =>
      messages.push(value),
    );
    expect(end).toBe('last');
    return messages;
  };

  it('are one at a time, and what is sent while one is under way goes with the next', async () => {
    const store = new SlowStore();
    const sender = new BatchSender({ store, prefix: 'a' }, 0);
    const sent = Array.from({ length: 100 }, (_, index) => ({ index }));
    sender.send({ index: 0 });
    await store.asked(1);
    for (const message of sent.slice(1)) {
      sender.send(message);
      await new Promise((resolve) => setImmediate(resolve));
    }
    store.answer();
    await store.asked(2);
    const closing = sender.close();
    store.answer();
    await store.asked(3);
    store.answer();
    await closing;
    expect(await received(store)).toEqual(sent);
    expect(store.sets).toBe(3);
  });

  it('that wait go with a message after them that does not', async () => {
    const store = new SlowStore();
    const sender = new BatchSender({ store, prefix: 'a' }, 0);
    sender.send({ kind: 'step' }, 2 ** 30);
    sender.send({ kind: 'end' });
    sender.send({ kind: 'step' }, 2 ** 30);
    await store.asked(1);
    store.answer();
    // The next report waits again, until the end.
    const closing = sender.close();
    await store.asked(2);
    store.answer();
    await closing;
    expect(await received(store)).toEqual([{ kind: 'step' }, { kind: 'end' }, { kind: 'step' }]);
  });

  it('end with the reason when the store refuses one, and nothing follows it', async () => {
    const store = new SlowStore();
    const sender = new BatchSender({ store, prefix: 'a' }, 0);
    sender.send({ index: 0 });
    sender.send({ index: 1 });
    await store.asked(1);
    store.refuse(new Error('the store is full'));
    expect(await sender.failed).toEqual(new Error('the store is full'));
    sender.send({ index: 2 });
    await sender.close();
    expect(store.sets).toBe(1);
  });

  it('end after the last one, whatever is sent then', async () => {
    const store = new MemoryStore();
    const sender = new BatchSender({ store, prefix: 'a' }, 0);
    sender.send({ index: 0 });
    await sender.close();
    sender.send({ index: 1 });
    await sender.close();
    expect(await received(store)).toEqual([{ index: 0 }]);
    expect(await store.delete('a/1')).toBe(false);
  });

  it('end when something else than a batch comes, and the receiver says so', async () => {
    const store = new MemoryStore();
    await store.set('a/0', new TextEncoder().encode('{"messages":7}'));
    const end = await receiveBatches({ store, prefix: 'a' }, never, () => undefined);
    expect(end).toBe('broken');
  });
});
