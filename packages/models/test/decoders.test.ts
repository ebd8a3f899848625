import { beforeAll, describe, expect, test } from 'vitest';
import { build, decoderCases, expectClose, oneRank, ROWS } from './decoder-cases.ts';
import { summary, tokens } from './golden/formulas.ts';

beforeAll(oneRank);

describe.each(decoderCases)('$name', (golden) => {
  test('has the logits of transformers, and writes back the config that it read', async () => {
    const model = await build(golden);
    const logits = model.forward(tokens('ids', [ROWS, golden.length]));
    expectClose(await logits.select(1, -1).flatten().data(), golden.lastLogits);
    expectClose(summary('logits', await logits.data()), golden.logits);
    const written = model.configJson();
    for (const [key, value] of Object.entries(golden.config)) {
      expect(written[key], key).toEqual(value);
    }
    expect(written['architectures']).toEqual([golden.architecture]);
  });
});
