import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  costOf,
  hasRoom,
  parsePortMessage,
  type PortMessage,
} from '../../src/browser/port-message.ts';

const count = fc.maxSafeNat();
const kind = fc.constantFrom('message', 'taken', 'goodbye', 'abort', 'other');
const messages: fc.Arbitrary<PortMessage> = fc.oneof(
  fc.record({
    kind: fc.constant('message' as const),
    tag: count,
    bytes: fc.nat(8).map((byteLength) => new ArrayBuffer(byteLength)),
  }),
  fc.record({ kind: fc.constant('taken' as const), cost: count }),
  fc.record({ kind: fc.constant('goodbye' as const) }),
  fc.record({
    kind: fc.constant('abort' as const),
    rank: fc.option(count, { nil: undefined }),
    reason: fc.string(),
  }),
);

describe('messages of ports', () => {
  it('are understood as they were sent', () => {
    fc.assert(
      fc.property(messages, (message) => {
        expect(parsePortMessage(structuredClone(message))).toEqual(message);
      }),
    );
  });

  it('are refused where anything about them is wrong, and nothing else happens', () => {
    const bad = fc.oneof(fc.integer({ max: -1 }), fc.double({ min: 0.1, max: 0.9 }), fc.string());
    const fields = fc.record({ kind, tag: bad, bytes: fc.uint8Array(), cost: bad, rank: bad });
    const nonsense = fc.oneof(
      fields.filter((data) => data.kind !== 'goodbye'),
      fc.anything().filter((data) => !JSON.stringify(data, plain)?.includes('goodbye')),
    );
    fc.assert(
      fc.property(nonsense, (data) => {
        expect(parsePortMessage(data)).toBeUndefined();
      }),
      { numRuns: 2000 },
    );
  });

  it('have reasons of a bounded length', () => {
    const message = { kind: 'abort', rank: 0, reason: 'x'.repeat(1 << 20) };
    expect(parsePortMessage(message)).toMatchObject({ reason: 'x'.repeat(4096) });
  });
});

describe('the room for messages', () => {
  const most = fc.integer({ min: 200, max: 2000 });

  it('is left by one message at most, which then came to a half full one', () => {
    fc.assert(
      fc.property(fc.array(fc.nat(5000)), most, (lengths, limit) => {
        let waiting = 0;
        for (const cost of lengths.map(costOf)) {
          if (!hasRoom(waiting, cost, limit)) continue;
          expect(waiting + cost).toBeLessThanOrEqual(Math.max(limit, limit / 2 + cost));
          waiting += cost;
        }
      }),
    );
  });

  it('is there for every message once less than a quarter is left that nobody was told of', () => {
    fc.assert(
      fc.property(
        fc.nat(1 << 30),
        most,
        fc.double({ min: 0, max: 0.25, noNaN: true }),
        (length, limit, share) => {
          expect(hasRoom(share * limit, costOf(length), limit)).toBe(true);
        },
      ),
    );
  });
});

/** Converts big integers, which JSON does not have. */
function plain(_: string, value: unknown): unknown {
  return typeof value === 'bigint' ? String(value) : value;
}
