import { readFileSync } from 'node:fs';
import { fromData, nn, type Tensor } from '@shardwise/core';
import { compose, contextParallel, ddp, parallelize } from '@shardwise/strategies';
import { onRanks } from '@shardwise/testing/node';
import { expect, it } from 'vitest';
import { z } from 'zod';

const [heads, width] = [2, 4];
const numbers = z.array(z.number());

/** What tools/golden-context-parallel.py records. The values have the shape [T, heads, width]. */
const golden = z
  .array(z.object({ ranks: z.number(), y: numbers, dq: numbers, dk: numbers, dv: numbers }))
  .parse(JSON.parse(readFileSync(`${import.meta.dirname}/golden/ring-attention.json`, 'utf8')));

/** Shape: [T, C]. */
function tokensOf(length: number, part: number): Float32Array<ArrayBuffer> {
  const count = length * heads * width;
  return Float32Array.from({ length: count }, (_, i) => Math.sin(0.7 * (part * count + i)));
}

/** Causal attention of parameters, one row for each token. */
class Attending extends nn.Module {
  readonly parts: nn.ParameterList;

  constructor(length: number) {
    super();
    this.parts = new nn.ParameterList(
      [0, 1, 2].map((part) => new nn.Parameter(tokensOf(length, part), [length, heads * width])),
    );
  }

  /** Shape: which tokens, as rows of the identity [1, T, T] -> [1, T, C]. */
  forward(rows: Tensor): Tensor {
    const [q, k, v] = Array.from(this.parts, (part) =>
      rows.matmul(part).reshape([1, -1, heads, width]).transpose(1, 2),
    );
    if (q === undefined || k === undefined || v === undefined) throw new RangeError('three parts');
    const attended = nn.functional.scaledDotProductAttention(q, k, v, { causal: true });
    return attended.transpose(1, 2).flatten(2);
  }
}

it.each(
  golden.flatMap(({ ranks, ...values }) =>
    (['ring', 'allGather'] as const).map((method) => ({ ranks, method, ...values })),
  ),
)(
  "on $ranks ranks, attention by $method and its gradients are those of PyTorch's ring",
  async ({ ranks, method, y, dq, dk, dv }) => {
    const length = 4 * ranks;
    const found = await onRanks(
      ranks,
      async () => {
        const model = new Attending(length);
        const parallel = await parallelize(
          model,
          compose(contextParallel({ axis: 'cp', method }), ddp({ axis: 'cp' })),
        );
        const identity = Float32Array.from({ length: length ** 2 }, (_, i) =>
          Number(i % (length + 1) === 0),
        );
        const output = parallel.forward(fromData(identity, [1, length, length], 'f32'));
        const dy = fromData(tokensOf(length, 3), [1, length, heads * width], 'f32');
        output.mul(dy).sum().backward();
        const gradients = Array.from(model.parts, (part) => part.grad ?? expect.unreachable());
        return Promise.all(
          [output, ...gradients].map(async (each) => Array.from(await each.data(), Number)),
        );
      },
      { axes: [{ name: 'cp', size: ranks }] },
    );
    for (const ofRank of found) {
      for (const [index, meant] of [y, dq, dk, dv].entries()) {
        const values = ofRank[index] ?? [];
        expect(values).toHaveLength(meant.length);
        const largest = Math.max(...meant.map((each, at) => Math.abs(each - (values[at] ?? NaN))));
        expect(largest).toBeLessThan(1e-5);
      }
    }
  },
);
