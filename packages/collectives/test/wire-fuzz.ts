import { setImmediate as nextTurn } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { ShardwiseError } from '@shardwise/core/spec';
import { expect, it } from 'vitest';
import { decodeObject, encodeObject } from '../src/operations/object-codec.ts';
import { decodeParts, requestLimits } from '../src/stores/store-message.ts';
import { Inbox } from '../src/transports/tcp/inbox.ts';
import { controlLimits, messageKinds } from '../src/transports/tcp/message-frame.ts';
import { MessageReader } from '../src/transports/tcp/message-reader.ts';
import { Wakefulness } from '../src/transports/tcp/wakefulness.ts';
import { decodeAddress } from '../src/transports/tcp/join-peers.ts';
import { encodeFrame } from '../src/wire/frame-header.ts';
import { FrameParser } from '../src/wire/frame-parser.ts';
import { AcceptorHandshake, ConnectorHandshake } from '../src/wire/handshake.ts';

/** A generator after Marsaglia, Xorshift RNGs (2003). It gives the same frames in every run. */
function xorshift(seed: number): () => number {
  let state = seed;
  return () => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return state >>> 0;
  };
}

type Random = () => number;

/** Returns noise, or a good frame in which some bytes were changed or which was cut short. */
function badFrame(random: Random, kinds: readonly number[]): Uint8Array {
  const body = new Uint8Array(random() % 48).map(() => random());
  if (random() % 8 === 0) return body;
  const kind = kinds[random() % kinds.length] ?? 0;
  const frame = encodeFrame(kind, random() % 4, body);
  for (let changes = random() % 4; changes > 0; changes--) {
    frame[random() % frame.byteLength] = random();
  }
  return random() % 4 === 0 ? frame.subarray(0, random() % frame.byteLength) : frame;
}

const secret = 'open sesame';
const hello = { purpose: 'messages', from: 1, to: 0, size: 2, epoch: 0 } as const;
const messageOnly = [messageKinds.message, messageKinds.goodbye, messageKinds.abort];
const allKinds = [...requestLimits.keys(), ...controlLimits.keys(), 99];

const someObject = {
  step: 7,
  losses: Float32Array.of(0.5, 0.25),
  names: ['wte', null, undefined, { nested: [true, -1n, ['x']] }],
};

/** Parsers of one stream of frames each. The typed errors that they throw end a connection. */
const parsers: Readonly<Record<string, () => (frame: Uint8Array) => void>> = {
  'frames of a store': () => {
    const parser = new FrameParser(requestLimits);
    return (frame) => {
      for (const { body } of parser.push(frame)) decodeParts(body);
    };
  },
  'control frames': () => {
    const parser = new FrameParser(controlLimits);
    return (frame) => void parser.push(frame);
  },
  messages: () => {
    const wakefulness = new Wakefulness();
    const limit = { rank: 0, peer: 1, maxUnexpectedBytes: 4096, interrupt: () => {} };
    const inbox = new Inbox({ ...limit, wakefulness });
    const events = { onGoodbye: () => {}, onAbort: () => {} };
    const reader = new MessageReader(inbox, wakefulness, events);
    return (frame) => {
      inbox.receive(0, new Uint8Array(16)).catch(() => {});
      const target = reader.target();
      target.set(frame);
      // A stream that was told to wait sends nothing more.
      if (!reader.read(target.subarray(0, frame.byteLength))) inbox.fail(new Error('the end'));
    };
  },
  'the handshake of who connects': () => {
    const handshake = new ConnectorHandshake(secret, hello);
    return (frame) => void handshake.push(frame);
  },
  'the handshake of who is connected to': () => {
    const handshake = new AcceptorHandshake(secret, () => undefined);
    let isOpened = false;
    return (frame) => {
      const mark = new TextEncoder().encode('SHARDW 1');
      if (!isOpened) handshake.push(Buffer.concat([mark, new Uint8Array(32)]));
      isOpened = true;
      const { rest, refused } = handshake.push(frame);
      expect(rest).toBeUndefined();
      if (refused !== undefined) throw refused;
    };
  },
  addresses: () => (frame) => void decodeAddress(frame),
  objects: () => {
    const good = encodeObject(someObject);
    return (frame) => {
      // The frame says which bytes of a good object are changed, to which values, and where the object is cut.
      const bytes = good.slice(0, good.byteLength - ((frame[0] ?? 0) % 2));
      for (let at = 1; at + 1 < frame.byteLength; at += 9) {
        bytes[(frame[at] ?? 0) % bytes.byteLength] = frame[at + 1] ?? 0;
      }
      decodeObject(bytes);
    };
  },
};

/** A connection ends at its first bad frame, or after this many frames. */
const FRAMES_OF_A_CONNECTION = 16;

export function fuzzParsers(frames: number): void {
  it.each(Object.keys(parsers))(`${frames} bad frames: %s`, async (name) => {
    const open = parsers[name];
    if (open === undefined) throw new RangeError(name);
    const random = xorshift(2026);
    const kinds = name === 'messages' ? messageOnly : allKinds;
    const before = await usedBytes();
    let refused = 0;
    let push = open();
    for (let count = 0; count < frames; count++) {
      try {
        push(badFrame(random, kinds));
        if (count % FRAMES_OF_A_CONNECTION === 0) push = open();
      } catch (error) {
        if (!ShardwiseError.isInstance(error)) throw error;
        refused += 1;
        push = open();
      }
      // This lets work run that was put off to the next turn of the event loop.
      if (count % 1024 === 0) await nextTurn();
    }
    expect(refused).toBeGreaterThan(frames / 100);
    expect((await usedBytes()) - before).toBeLessThan(64 << 20);
  });
}

/** Waits some turns of the event loop, because buffers are freed only some turns after their arrays were collected. */
async function usedBytes(): Promise<number> {
  setFlagsFromString('--expose-gc');
  const collectGarbage: unknown = runInNewContext('gc');
  if (typeof collectGarbage !== 'function') throw new TypeError('no gc to call');
  for (let round = 0; round < 5; round++) {
    collectGarbage();
    await nextTurn();
  }
  const { heapUsed, arrayBuffers } = process.memoryUsage();
  return heapUsed + arrayBuffers;
}
