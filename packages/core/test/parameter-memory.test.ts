import { interpreter } from '@shardwise/testing';
import { beforeEach, expect, it } from 'vitest';
import { constructParts, Parameter } from '../src/extend.ts';
import { hostPages, setRank } from '../src/index.ts';

// A parameter owns the array that it is made of. It frees the array as soon as the contents are elsewhere, without
// waiting for the garbage collector.

const expected = Float32Array.of(1, 2, 3, 4);

beforeEach(() => setRank({ device: interpreter() }));

it('a parameter gives its array back with its first use', async () => {
  const values = expected.slice();
  const parameter = new Parameter(values, [4]);
  expect(values).toEqual(expected);
  expect(await parameter.mul(1).data()).toEqual(expected);
  expect(values).toHaveLength(0);
  expect(await parameter.data()).toEqual(expected);
});

it('an array that a parameter has taken makes no other', async () => {
  const values = expected.slice();
  await new Parameter(values, [4]).mul(1).data();
  expect(() => new Parameter(values, [4])).toThrow(
    /its memory was given to a parameter made of it\. Give each/,
  );
});

it('what was read before is the reader’s', async () => {
  const parameter = new Parameter(expected.slice(), [4]);
  const read = await parameter.data();
  const detached = await parameter.detach().realize();
  await parameter.mul(2).data();
  expect(read).toEqual(expected);
  expect(await detached.data()).toEqual(expected);
});

it('a parameter that is paged out or disposed of gives its array back', async () => {
  const [paged, disposed] = [expected.slice(), expected.slice()];
  const parameter = new Parameter(paged, [4]);
  await parameter.pageOut('weight', hostPages());
  new Parameter(disposed, [4]).dispose();
  expect([paged.length, disposed.length]).toEqual([0, 0]);
  expect(await parameter.data()).toEqual(expected);
});

it('of a parameter that is made in parts only the part is kept', () => {
  const values = expected.slice();
  const parameter = constructParts(
    (bytes) => ({
      bytes: Uint8Array.from(bytes.subarray(0, 8)),
      layout: { dims: [['dp']], partial: [] },
      drawn: 0,
    }),
    () => new Parameter(values, [4]),
  );
  expect(values).toHaveLength(0);
  expect(parameter.initialPart?.bytes).toEqual(new Uint8Array(Float32Array.of(1, 2).buffer));
});

it('an array that is part of a larger buffer is left alone', async () => {
  const all = Float32Array.of(0, ...expected);
  const parameter = new Parameter(all.subarray(1), [4]);
  expect(await parameter.mul(1).data()).toEqual(expected);
  expect(all).toEqual(Float32Array.of(0, ...expected));
});
