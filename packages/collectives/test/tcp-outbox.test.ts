import type { Socket } from 'node:net';
import { expect, test, vi } from 'vitest';
import { Outbox } from '../src/transports/tcp/outbox.ts';
import { messageLimits } from '../src/transports/tcp/message-frame.ts';
import { FrameParser } from '../src/wire/frame-parser.ts';
import { connectedSockets } from './connected-sockets.ts';

/** Returns the tag, the length and the repeated byte of the first `count` messages. */
async function messagesOf(far: Socket, count: number): Promise<readonly (readonly number[])[]> {
  const parser = new FrameParser(messageLimits);
  const messages: (readonly number[])[] = [];
  for await (const chunk of far) {
    for (const { tag, body } of parser.push(new Uint8Array(chunk))) {
      expect(new Set(body).size).toBeLessThanOrEqual(1);
      messages.push([tag, body.byteLength, body[0] ?? -1]);
    }
    if (messages.length >= count) return messages;
  }
  return messages;
}

test('short messages that are sent in one go leave with one write', async () => {
  const { near, far } = await connectedSockets();
  const write = vi.spyOn(near, 'write');
  const outbox = new Outbox(near);
  await Promise.all([1, 2, 3].map((tag) => outbox.send(tag, new Uint8Array(100).fill(tag))));
  await messagesOf(far, 3);
  expect(write).toHaveBeenCalledTimes(1);
  await outbox.send(4, new Uint8Array(0));
  await Promise.resolve();
  expect(write).toHaveBeenCalledTimes(2);
});

test('a short message may be overwritten as soon as it is sent', async () => {
  const { near, far } = await connectedSockets();
  const bytes = new Uint8Array(8).fill(1);
  const sent = new Outbox(near).send(0, bytes);
  bytes.fill(2);
  await sent;
  expect(await messagesOf(far, 1)).toEqual([[0, 8, 1]]);
});

test('messages of all lengths arrive in order, however late the peer reads', async () => {
  const { near, far } = await connectedSockets();
  const outbox = new Outbox(near);
  const lengths = [0, 3, 16 * 1024, 16 * 1024 + 1, 1 << 20, 40_000, 7];
  const expected: (readonly number[])[] = [];
  const sent: Promise<void>[] = [];
  for (let tag = 0; tag < 300; tag++) {
    const length = lengths[tag % lengths.length] ?? 0;
    expected.push([tag, length, length === 0 ? -1 : tag % 251]);
    sent.push(outbox.send(tag, new Uint8Array(length).fill(tag % 251)));
    // The loop yields only after every fifth message. Most messages find earlier ones still waiting.
    if (tag % 5 === 0) await new Promise<void>((resolve) => void setImmediate(resolve));
  }
  expect(await messagesOf(far, expected.length)).toEqual(expected);
  await Promise.all(sent);
});
