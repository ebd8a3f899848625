import { activationBytes, autocast, nn, zeros, type Tensor } from '@shardwise/core';
import { describe, expect, it } from 'vitest';
import { GPT } from '../../../examples/gpt/model.ts';
import { countActivations } from '../explorers/count-activations.ts';
import { gptParameters } from '../explorers/gpt-parameters.ts';

const sizes = { layers: 2, width: 128, vocabulary: 50, context: 16 };
const [rows, tokens] = [3, sizes.context];
const pass = { ...sizes, rows, recomputes: false, isHalf: false };

function realGpt(): GPT {
  return new GPT({
    vocabularySize: sizes.vocabulary,
    contextLength: sizes.context,
    layers: sizes.layers,
    heads: sizes.width / 64,
    channels: sizes.width,
  });
}

/** What the library counts of a model with values. */
function countOf(forward: (ids: Tensor) => Tensor): number {
  const logits = forward(zeros([rows, tokens], 'i32'));
  const targets = zeros([rows * tokens], 'i32');
  return activationBytes(nn.functional.crossEntropy(logits.flatten(0, 1), targets));
}

describe('the memory of the page', () => {
  it('is of the parameters of the GPT of examples', () => {
    const found = realGpt()
      .namedParameters()
      .map(([name, { shape, dtype, requiresGrad }]) => ({ name, shape, dtype, requiresGrad }));
    expect(gptParameters(sizes)).toEqual(found);
  });

  it('counts the activations of that GPT, with no value of a parameter', () => {
    const model = realGpt();
    expect(countActivations(pass)).toBe(countOf((ids) => model.forward(ids)));
  });

  it('counts fewer in 16 bits, and of recomputed blocks what goes in and out', () => {
    const model = realGpt();
    // Of f32 parameters there are casts besides, which parameters of bf16 need not have.
    const mixed = countOf((ids) => autocast({ dtype: 'bf16' }, () => model.forward(ids)).to('f32'));
    const half = countActivations({ ...pass, isHalf: true });
    expect(half).toBeLessThan(mixed);
    expect(half).toBeLessThan(0.75 * countActivations(pass));
    const [kept, fewer, more] = [2, 1, 3].map((layers) =>
      countActivations({ ...pass, layers, recomputes: true }),
    );
    const stream = 4 * rows * tokens * sizes.width;
    expect([(kept ?? 0) - (fewer ?? 0), (more ?? 0) - (kept ?? 0)]).toEqual([stream, stream]);
  });

  it('grows with rows, and counts the largest model at once', () => {
    const large = { layers: 96, width: 12_288, vocabulary: 50_257, context: 2048 };
    const one = countActivations({ ...pass, ...large, rows: 1 });
    expect(one).toBeGreaterThan(2 ** 36);
    expect(countActivations({ ...pass, ...large, rows: 2 }) / one).toBeCloseTo(2, 1);
  });
});
