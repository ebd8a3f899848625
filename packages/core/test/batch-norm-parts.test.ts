import { interpreter } from '@shardwise/testing';
import { beforeEach, describe, expect, it } from 'vitest';
import { BatchNorm1d } from '../src/nn/norm/batch-norm-layers.ts';
import { setRank } from '../src/rank.ts';
import { tensor } from '../src/tensor/create.ts';
import type { Tensor } from '../src/tensor/tensor.ts';

const rows = Array.from({ length: 7 }, (_, row) => [row * row, Math.sin(row), 1000 + row]);
/** The first and last index of each part. */
const parts = [
  [0, 3],
  [3, 5],
  [5, 7],
] as const;

async function buffersOf(norm: BatchNorm1d): Promise<number[][]> {
  return Promise.all(
    norm.namedBuffers().map(async ([, buffer]) => [...(await buffer.data())].map(Number)),
  );
}

function expectClose(found: readonly number[][], expected: readonly number[][]): void {
  for (const [at, values] of expected.flat().entries())
    expect(found.flat()[at]).toBeCloseTo(values, 3);
}

describe('a batch norm that is given a batch in parts', () => {
  beforeEach(() => setRank({ device: interpreter() }));

  it.each([0.1, null])(
    'moves its running statistics once, by those of the batch: momentum %s',
    async (momentum) => {
      const [whole, inParts] = [new BatchNorm1d(3, { momentum }), new BatchNorm1d(3, { momentum })];
      for (let batch = 0; batch < 2; batch++) {
        const x = tensor(rows.map((row) => row.map((value) => value * (batch + 1))));
        whole.forward(x);
        for (const [index, [first, stop]] of parts.entries()) {
          inParts.expectPart({ index, count: parts.length });
          inParts.forward(x.slice(0, first, stop));
        }
        inParts.expectPart(null);
      }
      expectClose(await buffersOf(inParts), await buffersOf(whole));
      expect((await buffersOf(inParts)).flat()).toContain(2);
    },
  );

  it('normalises each part by its own statistics, as a batch', async () => {
    const x = tensor(rows.slice(0, 3));
    const norm = new BatchNorm1d(3);
    const expected = await norm.forward(x).data();
    norm.expectPart({ index: 0, count: 2 });
    expect(await norm.forward(x).data()).toEqual(expected);
  });

  it('refuses a second call for one part, whose statistics would count for another one', () => {
    const norm = new BatchNorm1d(3);
    const call = (): Tensor => norm.forward(tensor(rows));
    norm.expectPart({ index: 0, count: 2 });
    call();
    expect(call).toThrow(/BatchNorm1d .*a second call for one part.*deferredBatchNorm: false/);
    norm.expectPart(null);
    expect(call).not.toThrow();
  });
});
