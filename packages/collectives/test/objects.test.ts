import {
  createGroup,
  createLoopbackTransports,
  recvObject,
  sendObject,
} from '@shardwise/collectives';
import { ConfigError, DataError } from '@shardwise/core/spec';
import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { decodeObject, encodeObject } from '../src/operations/object-codec.ts';

const { value: plainData } = fc.letrec((tie) => ({
  value: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    fc.constantFrom(undefined, null, true, false, -0, Number.NaN, Infinity),
    fc.double(),
    fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }),
    fc.string({ unit: 'binary' }),
    fc.uint8Array(),
    fc.float32Array(),
    fc.bigInt64Array(),
    fc.array(tie('value')),
    fc.dictionary(
      fc.string().filter((key) => key !== '__proto__'),
      tie('value'),
    ),
  ),
}));

describe('objects as bytes', () => {
  it('come out as they went in', () => {
    fc.assert(
      fc.property(plainData, (value) => {
        expect(decodeObject(encodeObject(value))).toEqual(copyOf(value));
      }),
    );
  });

  it('typed arrays of every kind keep their kind, wherever they lie in memory', () => {
    const bytes = Uint8Array.from({ length: 24 }, (_, index) => index);
    const arrays = [
      bytes,
      new Int8Array(bytes.buffer),
      new Uint8ClampedArray(bytes.buffer, 3, 5),
      new Int16Array(bytes.buffer, 2, 3),
      new Uint16Array(bytes.buffer),
      new Int32Array(bytes.buffer, 4, 2),
      new Uint32Array(bytes.buffer),
      new Float16Array(bytes.buffer, 2, 4),
      new Float32Array(bytes.buffer, 8, 2),
      new Float64Array(bytes.buffer, 8, 1),
      new BigInt64Array(bytes.buffer),
      new BigUint64Array(bytes.buffer, 16, 1),
    ];
    expect(decodeObject(encodeObject(arrays))).toEqual(arrays);
  });

  it.each<[string, unknown, string]>([
    ['a function', { model: { forward: () => 0 } }, 'value.model.forward is a function'],
    ['a symbol', [Symbol('x')], 'value.0 is a symbol'],
    ['an instance of a class', [1, new Map()], 'value.1 is a Map'],
    ['a date', { now: new Date() }, 'value.now is a Date'],
    ['a large bigint', 2n ** 63n, 'value is a bigint of more than 64 bits'],
    ['half a surrogate pair', '\ud800', 'value is text with half a surrogate pair'],
    ['the key __proto__', JSON.parse('{"a":{"__proto__":1}}'), 'value.a is something with the key'],
  ])('refuse %s and name the place', (_, value, place) => {
    expect(() => encodeObject(value)).toThrow(ConfigError);
    expect(() => encodeObject(value)).toThrow(place);
  });

  it('refuse what contains itself', () => {
    const cycle: unknown[] = [];
    cycle.push(cycle);
    expect(() => encodeObject(cycle)).toThrow('more than 100 deep');
  });

  it('100 arrays inside one another pass, 101 do not', () => {
    const nested = (depth: number): unknown =>
      Array.from({ length: depth }).reduce((inner) => [inner], 1);
    expect(decodeObject(encodeObject(nested(101)))).toEqual(nested(101));
    expect(() => encodeObject(nested(102))).toThrow(ConfigError);
  });

  it('a peer cannot set a prototype', () => {
    const honest = encodeObject(JSON.parse('{"__prota__":{"isAdmin":1}}'));
    const text = new TextEncoder().encode('__prota__');
    const at = honest.findIndex((_, start) =>
      text.every((byte, index) => honest[start + index] === byte),
    );
    honest[at + 6] = 'o'.charCodeAt(0);
    expect(() => decodeObject(honest)).toThrow(DataError);
    expect(() => decodeObject(honest)).toThrow('__proto__');
    expect({}).not.toHaveProperty('isAdmin');
  });

  it('keys of Object.prototype are plain keys', () => {
    const value = { constructor: 1, toString: 'x', hasOwnProperty: null };
    expect(decodeObject(encodeObject(value))).toEqual(value);
  });

  it('a count of more values than there are bytes is refused before memory is taken', () => {
    const bytes = encodeObject([1, 2]);
    new DataView(bytes.buffer, bytes.byteOffset).setUint32(1, 0xffff_ffff, true);
    expect(() => decodeObject(bytes)).toThrow('4294967295 values should follow in 18 bytes');
  });

  it('bytes that are left over are refused', () => {
    const bytes = new Uint8Array([...encodeObject(null), 0]);
    expect(() => decodeObject(bytes)).toThrow('1 bytes are left over');
  });
});

describe('objects as messages', () => {
  it('one that its sender cannot send fails on its receiver as well', async () => {
    const [sender, receiver] = createLoopbackTransports(2).map((one) => createGroup(one));
    if (sender === undefined || receiver === undefined) throw new RangeError('two ranks');
    const outcomes = await Promise.allSettled([
      sendObject(sender, () => 0, 1),
      recvObject(receiver, 0),
    ]);
    expect(outcomes).toMatchObject([
      { status: 'rejected', reason: { code: 'CONFIG' } },
      { status: 'rejected', reason: { code: 'COLLECTIVE', fields: { rank: 0 } } },
    ]);
  });

  it('one of more than maxBytes is not sent', async () => {
    const [sender, receiver] = createLoopbackTransports(2).map((one) => createGroup(one));
    if (sender === undefined || receiver === undefined) throw new RangeError('two ranks');
    const outcomes = await Promise.allSettled([
      sendObject(sender, 'x'.repeat(1000), 1, { maxBytes: 1000 }),
      recvObject(receiver, 0, { maxBytes: 1000 }),
    ]);
    expect(outcomes).toMatchObject([
      { status: 'rejected', reason: { code: 'CONFIG', fields: { bytes: 1005, maxBytes: 1000 } } },
      { status: 'rejected', reason: { code: 'COLLECTIVE' } },
    ]);
  });

  it('one of more than maxBytes is refused by its receiver, with the numbers', async () => {
    const [sender, receiver] = createLoopbackTransports(2).map((one) => createGroup(one));
    if (sender === undefined || receiver === undefined) throw new RangeError('two ranks');
    const sent = sendObject(sender, new Uint8Array(200), 1);
    await expect(recvObject(receiver, 0, { maxBytes: 100 })).rejects.toThrow(
      'recvObject of an object of 206 bytes from rank 0: maxBytes is 100',
    );
    await sent;
  });
});

/** A copy without the special prototypes of fast-check's dictionaries. */
function copyOf(value: unknown): unknown {
  return structuredClone(value);
}
