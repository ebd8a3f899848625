import { nn, setRank, tensor } from '@shardwise/core';
import { currentSession } from '@shardwise/core/extend';
import type { Backend, DeviceBuffer } from '@shardwise/core/spec';
import { interpreter } from '@shardwise/testing';
import { expect, it } from 'vitest';

/** A device that copies the bytes at once, but returns the copy only after `release` is called. */
function slowReader(): { readonly device: Backend; release: () => void; reads: number } {
  const memory = interpreter();
  const gate = Promise.withResolvers<void>();
  const counted = { device: memory, release: () => gate.resolve(), reads: 0 };
  counted.device = {
    ...memory,
    map: () => undefined,
    read: async (buffer: DeviceBuffer) => {
      counted.reads++;
      const bytes = await memory.read(buffer);
      await gate.promise;
      return bytes;
    },
  };
  return counted;
}

it('a value that nothing can change is read while later runs go on', async () => {
  const slow = slowReader();
  setRank({ device: slow.device });
  const loss = tensor([1, 2]).sum();
  const read = loss.item();
  let isRead = false;
  void read.then(() => (isRead = true));
  const next = loss.mul(2);
  await next.realize();
  expect([slow.reads, isRead]).toEqual([1, false]);
  const finished = currentSession().finish();
  slow.release();
  expect(await read).toBe(3);
  await finished;
  expect(await next.item()).toBe(6);
  // The value was kept and is not read again.
  const { reads } = slow;
  expect(await loss.item()).toBe(3);
  expect(slow.reads).toBe(reads);
});

it('a read of what an update may change is waited for first', async () => {
  const slow = slowReader();
  setRank({ device: slow.device });
  const parameter = new nn.Parameter(Float32Array.of(1), [1]);
  await parameter.realize();
  const read = parameter.data();
  parameter.assign(parameter.add(1));
  const updated = parameter.realize();
  slow.release();
  expect(await read).toEqual(Float32Array.of(1));
  await updated;
  expect(await parameter.data()).toEqual(Float32Array.of(2));
});
