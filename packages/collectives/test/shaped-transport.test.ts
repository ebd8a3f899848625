import { createGroup, createLoopbackTransports, shapeTransport } from '@shardwise/collectives';
import { ConfigError } from '@shardwise/core';
import { transportSuite } from '@shardwise/testing';
import { testSuite } from '@shardwise/testing/vitest';
import { describe, expect, it } from 'vitest';

const link = { bitsPerSecond: 8000, latencySeconds: 0.05 };
const open = (size: number): ReturnType<typeof shapeTransport>[] =>
  createLoopbackTransports(size).map((transport) => shapeTransport(transport, link));

testSuite(transportSuite({ name: 'a transport of slow links', open: async (size) => open(size) }));

describe('the clock of a transport of slow links', () => {
  it('moves to the time at which a message arrives: that of its bits and that of the link', async () => {
    const [one, two] = open(2);
    await one?.send(1, 0, new Uint8Array(1000));
    await two?.recv(0, 0, new Uint8Array(1000));
    expect(one?.seconds).toBe(0);
    expect(two?.seconds).toBeCloseTo(1 + 0.05, 12);
    expect(one?.sentBytes).toBe(1000);
  });

  it('sends one message after the other, and receives them so', async () => {
    const [one, two, three] = open(3);
    await one?.send(1, 0, new Uint8Array(1000));
    await one?.send(2, 0, new Uint8Array(1000));
    await two?.recv(0, 0, new Uint8Array(1000));
    await three?.recv(0, 0, new Uint8Array(1000));
    expect(three?.seconds).toBeCloseTo(2 + 0.05, 12);
    const [a, b, c] = open(3);
    await b?.send(0, 0, new Uint8Array(1000));
    await c?.send(0, 0, new Uint8Array(1000));
    await a?.recv(1, 0, new Uint8Array(1000));
    await a?.recv(2, 0, new Uint8Array(1000));
    expect(a?.seconds).toBeCloseTo(2 + 0.05, 12);
  });

  it('has an answer leave after its question came, and work that a rank adds', async () => {
    const [one, two] = open(2);
    await one?.send(1, 0, new Uint8Array(0));
    await two?.recv(0, 0, new Uint8Array(0));
    if (two !== undefined) two.seconds += 3;
    await two?.send(0, 0, new Uint8Array(0));
    await one?.recv(1, 0, new Uint8Array(0));
    expect(one?.seconds).toBeCloseTo(3 + 2 * 0.05, 12);
  });

  it('is the same in every run of a collective, and at least that of its bytes', async () => {
    const run = async (): Promise<readonly number[]> => {
      const ends = open(4);
      const groups = ends.map((end) => createGroup(end));
      await Promise.all(
        groups.map((group) =>
          group.allReduce({ bytes: new Uint8Array(4096), dtype: 'f32' }, 'sum'),
        ),
      );
      for (const group of groups) group.close();
      return ends.map(({ seconds }) => seconds);
    };
    const first = await run();
    expect(await run()).toEqual(first);
    // Each rank must send at least 2 · 3/4 of the bytes.
    for (const seconds of first) expect(seconds).toBeGreaterThanOrEqual((1.5 * 4096 * 8) / 8000);
  });
});

it('links without bits or with a negative latency are refused', () => {
  const [transport] = createLoopbackTransports(1);
  if (transport === undefined) expect.unreachable();
  expect(() => shapeTransport(transport, { ...link, bitsPerSecond: 0 })).toThrow(ConfigError);
  expect(() => shapeTransport(transport, { ...link, latencySeconds: -1 })).toThrow(ConfigError);
});
