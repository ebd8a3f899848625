import { nn } from '@shardwise/core';
import { beforeAll, expect, test } from 'vitest';
import { build, decoderCases, oneRank } from './decoder-cases.ts';
import { tokens } from './golden/formulas.ts';

beforeAll(oneRank);

test.each(decoderCases.filter(({ name }) => /^(GPT-2|Qwen 3|Llama)$/.test(name)))(
  'The FLOPs of a token of $name are those that nn.summary counts in a forward pass.',
  async (golden) => {
    const model = await build(golden);
    const { flops } = nn.summary(model, tokens('ids', [2, 12]));
    expect(model.flopsPerToken(12) * 24).toBe(flops);
  },
);
