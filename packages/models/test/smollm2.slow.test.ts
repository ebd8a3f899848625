import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { Tokenizer } from '@huggingface/tokenizers';
import { cpu } from '@shardwise/backend-cpu';
import { fromData, noGrad, setRank } from '@shardwise/core';
import { diskFolder } from '@shardwise/core/node';
import { ggufTokenizer } from '@shardwise/models';
import { fromPretrained } from '@shardwise/models/node';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';

// The real SmolLM2, as transformers computes it from the same file. It is downloaded, so the test runs only where the
// package can be had and there is a Python with transformers.

const python = process.env['SHARDWISE_PEER_PYTHON'];
const expectedSchema = z.array(
  z.object({ prompt: z.string(), ids: z.array(z.number()), logits: z.string() }),
);
const UNAVAILABLE = 3;

/** The path of the file and what is expected of it. Null if they cannot be had. */
function download(): { path: string; expected: z.infer<typeof expectedSchema> } | null {
  if (python === undefined) return null;
  const folder = mkdtempSync(join(tmpdir(), 'shardwise-smollm2-'));
  const script = join(import.meta.dirname, '../../../tools/real-smollm2.py');
  try {
    const path = execFileSync(python, [script, folder], { encoding: 'utf8' }).trim();
    const text = readFileSync(join(folder, 'expected.json'), 'utf8');
    return { path, expected: expectedSchema.parse(JSON.parse(text)) };
  } catch (error) {
    if (error instanceof Error && 'status' in error && error.status === UNAVAILABLE) return null;
    throw error;
  }
}

const found = download();
const reason = found === null ? ' (not here: no SHARDWISE_PEER_PYTHON, or no package)' : '';

describe.skipIf(found === null)(`SmolLM2-135M-Instruct in a GGUF file${reason}`, () => {
  it('has the tokens and the logits of transformers', { timeout: 600_000 }, async () => {
    if (found === null) throw new RangeError();
    const { path, expected } = found;
    setRank({ device: await cpu() });
    const model = await fromPretrained(path);
    model.eval();
    const { tokenizer, config } = await ggufTokenizer(diskFolder(dirname(path)), basename(path));
    const own = new Tokenizer(tokenizer, config);
    for (const { prompt, ids, logits } of expected) {
      expect(own.encode(prompt).ids, prompt).toEqual(ids);
      const inputs = fromData(Int32Array.from(ids), [1, ids.length], 'i32');
      const last = noGrad(() => model.forward(inputs))
        .select(1, -1)
        .flatten();
      const values = new Float32Array(new Uint8Array(Buffer.from(logits, 'base64')).buffer);
      const differences = Array.from(await last.data(), Number).map((value, index) =>
        Math.abs(value - (values[index] ?? NaN)),
      );
      expect(differences).toHaveLength(49_152);
      expect(Math.max(...differences), prompt).toBeLessThan(1e-3);
    }
  });
});
