import { readFileSync } from 'node:fs';
import { cpu } from '@shardwise/backend-cpu';
import { fromData, Generator, nn, setRank, tensor } from 'shardwise';
import { beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { drawProblems, END, formatAnswer, reward } from '../examples/grpo/addition.ts';
import {
  groupAdvantages,
  grpoLoss,
  type GrpoOptions,
  lossTypes,
  selectiveLogSoftmax,
} from '../examples/grpo/grpo-loss.ts';

beforeAll(async () => setRank({ device: await cpu() }));

const rows = z.array(z.array(z.number()));
/** What TRL computes. `tools/golden-grpo.py` writes it. */
const golden = z
  .object({
    numGenerations: z.int(),
    epsilon: z.number(),
    logProbabilities: rows,
    oldLogProbabilities: rows,
    refLogProbabilities: rows,
    mask: rows,
    rewards: z.array(z.number()),
    advantages: z.array(z.number()),
    cases: z
      .array(
        z.object({
          lossType: z.enum(lossTypes),
          beta: z.number(),
          loss: z.number(),
          gradients: rows,
        }),
      )
      .length(8),
  })
  .parse(JSON.parse(readFileSync(new URL('golden/grpo.json', import.meta.url), 'utf8')));

const plain: GrpoOptions = { lossType: 'grpo', epsilon: 0.2, beta: 0 };

/** The loss of one token that was so probable and is so probable now, and its gradient by the log-probability. */
async function ofToken(
  old: number,
  now: number,
  advantage: number,
  options: GrpoOptions = plain,
  reference = now,
): Promise<{ readonly loss: number; readonly gradient: number }> {
  const logProbabilities = new nn.Parameter(Float32Array.of(Math.log(now)), [1, 1]);
  const { loss } = grpoLoss(
    {
      logProbabilities,
      oldLogProbabilities: tensor([[Math.log(old)]]),
      refLogProbabilities: tensor([[Math.log(reference)]]),
      advantages: tensor([advantage]),
      mask: tensor([[1]]),
      meanTokens: tensor(1),
    },
    options,
  );
  loss.backward();
  return { loss: await loss.item(), gradient: (await logProbabilities.grad?.item()) ?? NaN };
}

describe('the loss of GRPO', () => {
  it('is that of a policy gradient at the first update, where ratios are 1', async () => {
    for (const advantage of [2, -2]) {
      const { loss, gradient } = await ofToken(0.3, 0.3, advantage);
      expect([loss, gradient]).toEqual([-advantage, -advantage]);
    }
  });

  it.each([
    ['a token that became more probable, and should', 0.6, 1, -1.2, 0],
    ['a token that became less probable, and should', 0.2, -1, 0.8, 0],
    ['a token that became more probable, and should not', 0.6, -1, 1.5, 1.5],
    ['a token that became less probable, and should not', 0.2, 1, -0.5, -0.5],
  ])('bounds the ratio of %s', async (_, now, advantage, loss, gradient) => {
    const found = await ofToken(0.4, now, advantage);
    expect(found.loss).toBeCloseTo(loss, 5);
    expect(found.gradient).toBeCloseTo(gradient, 5);
  });

  it('adds the divergence from the reference, which is 0 where both agree', async () => {
    const options = { ...plain, beta: 0.5 };
    expect((await ofToken(0.4, 0.4, 1, options, 0.4)).loss).toBeCloseTo(-1, 6);
    const ratio = 0.1 / 0.4;
    const { loss, gradient } = await ofToken(0.4, 0.4, 1, options, 0.1);
    expect(loss).toBeCloseTo(-1 + 0.5 * (ratio - Math.log(ratio) - 1), 5);
    expect(gradient).toBeCloseTo(-1 + 0.5 * (1 - ratio), 5);
  });

  it('is the mean over completions of the mean over their tokens, without padding', async () => {
    const { loss, ratio } = grpoLoss(
      {
        logProbabilities: tensor([
          [-1, -2, -3],
          [-1, -5, -6],
        ]),
        oldLogProbabilities: tensor([
          [-1, -2, -3],
          [-1, 0, 0],
        ]),
        advantages: tensor([3, -1]),
        mask: tensor([
          [1, 1, 1],
          [1, 0, 0],
        ]),
        meanTokens: tensor(4),
      },
      plain,
    );
    expect(await loss.item()).toBe(-1);
    expect([...(await ratio.data())]).toEqual([1, 1, 1, 1, 1, 1]);
  });

  it.each(golden.cases)(
    'is that of TRL for $lossType with beta $beta, with its gradients',
    async ({ lossType, beta, loss: expected, gradients }) => {
      const { logProbabilities: all, advantages, mask, epsilon } = golden;
      const shape = [all.length, all[0]?.length ?? 0];
      const logProbabilities = new nn.Parameter(Float32Array.from(all.flat()), shape);
      const { loss } = grpoLoss(
        {
          logProbabilities,
          oldLogProbabilities: tensor(golden.oldLogProbabilities),
          refLogProbabilities: tensor(golden.refLogProbabilities),
          advantages: tensor(advantages),
          mask: tensor(mask),
          meanTokens: tensor(mask.flat().reduce((sum, each) => sum + each, 0)),
        },
        { lossType, epsilon, beta },
      );
      loss.backward();
      expect(await loss.item()).toBeCloseTo(expected, 6);
      const found = [...((await logProbabilities.grad?.data()) ?? [])].map(Number);
      expect(found).toEqual(gradients.flat().map((each) => expect.closeTo(each, 6)));
    },
  );

  it('reads the log-probabilities of the tokens that came', async () => {
    const logits = tensor([
      [
        [0, 0],
        [Math.log(3), 0],
      ],
    ]);
    const tokens = fromData(Int32Array.of(1, 0), [1, 2], 'i32');
    const [first, second] = await selectiveLogSoftmax(logits, tokens).data();
    expect([Math.exp(Number(first)), Math.exp(Number(second))]).toEqual([
      expect.closeTo(0.5, 6),
      expect.closeTo(0.75, 6),
    ]);
  });
});

describe('advantages', () => {
  it('are rewards beside those of their group', () => {
    const advantages = groupAdvantages([1, 0, 0, 0, 1, 1, 1, 1], 4);
    const [right, wrong] = [0.75 / (0.5 + 1e-4), -0.25 / (0.5 + 1e-4)];
    expect(advantages).toEqual([right, wrong, wrong, wrong, 0, 0, 0, 0]);
  });

  it('are those of TRL', () => {
    const { rewards, numGenerations, advantages } = golden;
    expect(groupAdvantages(rewards, numGenerations)).toEqual(
      advantages.map((each) => expect.closeTo(each, 5)),
    );
  });
});

describe('a problem of addition', () => {
  it('has a reward for the sum, its units first, and nothing behind its end', () => {
    const problem = { prompt: [9, 9, 9, 10, 1, 0, 2, 11], answer: [1, 0, 1, 1, END] };
    expect(formatAnswer(problem, problem.answer)).toBe('999+102=1101');
    expect(reward(problem, [1, 0, 1, 1, END])).toBe(1);
    for (const wrong of [[1, 1, 0, 1, END], [1, 0, 1, 1], [1, 0, 1, END], [1, 0, 1, 1, 0], []]) {
      expect(reward(problem, wrong)).toBe(0);
    }
  });

  it('has two numbers of three digits', () => {
    for (const { prompt, answer } of drawProblems(new Generator(1), 200, 3)) {
      const text = formatAnswer({ prompt, answer }, answer);
      const [, a, b, sum] = /^(\d{3})\+(\d{3})=(\d+)$/.exec(text) ?? [];
      expect(Number(a) + Number(b)).toBe(Number(sum));
    }
  });
});
