import { describe, expect, it } from 'vitest';
import { CallQueue, type Movement } from '../src/call/call-queue.ts';
import type { IssuedCall } from '../src/call/issued-call.ts';
import type { Transfer } from '../src/call/calls.ts';

type Message = IssuedCall<Transfer, undefined>;

const limits = { timeoutMs: 1000, signal: undefined };

/** A queue whose messages end only when the test ends them. */
function queueOf(options: Partial<Movement<Transfer, undefined>> = {}, isTimed = false) {
  const issued: Message[] = [];
  const aborted: unknown[] = [];
  const movement: Movement<Transfer, undefined> = {
    begin: () => undefined,
    move: (message) => void issued.push(message),
    isMoving: () => false,
    late: ({ call }) => ({ missing: [call.peer], slow: [] }),
    abort: (reason) => void aborted.push(reason),
    ...options,
  };
  return { queue: new CallQueue(0, movement, { isTimed }), issued, aborted };
}

function message(peer: number): Transfer {
  return { operation: 'send', buffer: { bytes: new Uint8Array(8), dtype: 'f32' }, peer, tag: 3 };
}

/** Returns the peers of the calls that have not ended, oldest first. */
function pendingOf(queue: CallQueue<Transfer, undefined>): readonly number[] {
  const peers: number[] = [];
  for (let next = queue.oldest; next !== undefined; next = next.next) peers.push(next.call.peer);
  return peers;
}

describe('a queue of calls', () => {
  it('keeps calls in the order of issue until they end, in whatever order', async () => {
    const { queue, issued } = queueOf();
    const done = [1, 2, 3, 4].map((peer) => queue.issue(message(peer), limits));
    expect(issued.map(({ sequence }) => sequence)).toEqual([0, 1, 2, 3]);
    queue.settle(issued[1]!);
    expect(pendingOf(queue)).toEqual([1, 3, 4]);
    queue.settle(issued[3]!);
    queue.settle(issued[0]!);
    expect(pendingOf(queue)).toEqual([3]);
    void queue.issue(message(5), limits);
    expect(pendingOf(queue)).toEqual([3, 5]);
    await Promise.all([done[0], done[1], done[3]]);
  });

  it('a call that has ended ends no second time', async () => {
    const { queue, issued } = queueOf();
    const first = queue.issue(message(1), limits);
    void queue.issue(message(2), limits);
    queue.reject(issued[0]!, new Error('first'));
    queue.settle(issued[0]!);
    expect(pendingOf(queue)).toEqual([2]);
    await expect(first).rejects.toThrow('first');
  });

  it('that ends rejects what is pending and what comes, with the first cause', async () => {
    const { queue } = queueOf();
    const pending = queue.issue(message(1), limits);
    queue.end({ rank: 2, reason: 'no power' });
    queue.end({ rank: 0, reason: 'it closed the group' });
    const later = queue.issue(message(1), limits);
    await expect(pending).rejects.toThrow(
      'send #0 on rank 0: rank 2 of the world ended the group (no power)',
    );
    await expect(later).rejects.toMatchObject({ fields: { sequence: 1, abortedBy: 2 } });
    expect(queue.oldest).toBeUndefined();
  });

  it('leaves calls whose bytes move to their movement when it ends', async () => {
    const { queue, issued } = queueOf({ isMoving: ({ call }) => call.peer === 2 });
    const [waiting, moving] = [1, 2].map((peer) => queue.issue(message(peer), limits));
    queue.end({ rank: 1, reason: 'it closed the group' });
    await expect(waiting).rejects.toThrow('it closed the group');
    expect(pendingOf(queue)).toEqual([2]);
    queue.settle(issued[1]!);
    await moving;
  });

  it('fails the call that is too late, says for whom it waits, and has the group end', async () => {
    const { queue, aborted } = queueOf();
    const done = queue.issue(message(7), limits);
    expect(queue.deadline()).toBeLessThan(Infinity);
    queue.expire(queue.deadline() - 1);
    expect(aborted).toEqual([]);
    queue.expire(queue.deadline());
    await expect(done).rejects.toThrow(
      'send #0 on rank 0, send(to 7, tag 3, f32 [2]): after 1000 ms rank 7 has not arrived',
    );
    expect(aborted).toMatchObject([{ code: 'COLLECTIVE_TIMEOUT' }]);
    expect(queue.deadline()).toBe(Infinity);
  });

  it('times its calls by itself where nobody looks at the deadlines', async () => {
    const { queue, aborted } = queueOf({}, true);
    const short = { timeoutMs: 1, signal: undefined };
    await expect(queue.issue(message(1), short)).rejects.toThrow('after 1 ms');
    expect(aborted).toHaveLength(1);
  });

  it('has the group end where a signal is given', async () => {
    const { queue, aborted } = queueOf();
    const signal = AbortSignal.abort('enough');
    void queue.issue(message(1), { timeoutMs: 1000, signal });
    await Promise.resolve();
    expect(aborted).toEqual(['enough']);
  });
});
