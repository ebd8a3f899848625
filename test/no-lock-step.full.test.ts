import { expect, it } from 'vitest';
import { compare } from '../bench/no-lock-step/compare.ts';

const [ranks, steps] = [4, 52];
const text = Uint8Array.from({ length: 1 << 15 }, (_, at) => 32 + ((at * at) % 89));
const model = { vocabularySize: 256, contextLength: 16, layers: 1, heads: 2, channels: 128 };
const often = { every: 13, bits: 4, outer: { lr: 1, momentum: 0 } } as const;

it('the benchmark compares DDP with DiLoCo at 1/100 of its bytes, and with ranks that come and go', async () => {
  const [ddp, fixed, changing] = await compare(
    {
      contestants: [
        { name: 'ddp', diloco: null },
        { name: 'fixed', diloco: often },
        { name: 'changing', diloco: often, away: 0.25 },
      ],
      seeds: [1],
      steps,
      model,
      batchSize: 1,
      learningRate: 2e-3,
      text: { train: text, validation: text },
      link: { bitsPerSecond: 100e6, latencySeconds: 0.05 },
      stepSeconds: 0.05,
    },
    ranks,
  );
  expect(fixed?.timesFewerBytes).toBeGreaterThan(98);
  expect(fixed?.timesFewerBytes).toBeLessThan(101);
  expect(changing?.timesFewerBytes).toBeGreaterThan(10);
  const tokens = steps * ranks * model.contextLength;
  const roundTokens = ranks * often.every * model.contextLength;
  for (const each of [ddp, fixed]) expect(each?.tokens).toEqual([tokens]);
  expect(changing?.tokens[0]).toBeLessThanOrEqual(tokens);
  expect(changing?.tokens[0]).toBeGreaterThan(tokens - roundTokens);
  for (const each of [ddp, fixed, changing]) {
    const [curve = []] = each?.training ?? [];
    expect(curve.at(-1)).toBeLessThan(curve[0] ?? 0);
  }
});
