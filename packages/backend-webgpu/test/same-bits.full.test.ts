import { manualSeed, nn, optim, setRank, tensor } from '@shardwise/core';
import { reasonWithoutDevice } from '@shardwise/testing/node';
import { describe, expect, test } from 'vitest';
import { type WebGpuBackend, webgpu } from '../src/index.ts';

const reason = await reasonWithoutDevice(webgpu);
const [vocabulary, width, batch, length] = [40, 32, 20, 32];

/** Returns the losses of some steps, and the parameters after them. */
async function train(
  device: WebGpuBackend,
): Promise<{ readonly losses: number[]; readonly parameters: Uint8Array[] }> {
  setRank({ device });
  manualSeed(0);
  const table = new nn.Embedding(vocabulary, width);
  const block = new nn.TransformerEncoderLayer(width, 2, { dropout: 0.1, dimFeedforward: 64 });
  const head = new nn.Linear(width, vocabulary);
  const parameters = [table, block, head].flatMap((each) => [...each.parameters()]);
  const optimizer = new optim.AdamW(parameters, { lr: 0.01 });
  const losses: number[] = [];
  for (let step = 0; step < 4; step++) {
    optimizer.zeroGrad();
    const words = Array.from(
      { length: batch * length + 1 },
      (_, i) => (7 * i * (i + step)) % vocabulary,
    );
    const x = tensor(words.slice(0, -1), 'i32').reshape([batch, length]);
    const logits = head.forward(block.forward(table.forward(x)));
    // Gradients of weights are sums of 640 terms, and some words occur several times.
    const loss = nn.functional.crossEntropy(
      logits.reshape([batch * length, vocabulary]),
      tensor(words.slice(1), 'i32'),
    );
    loss.backward();
    await optimizer.step();
    losses.push(await loss.item());
  }
  const bytes: Uint8Array[] = [];
  for (const parameter of parameters) {
    const data = await parameter.data();
    bytes.push(new Uint8Array(data.buffer, data.byteOffset, data.byteLength).slice());
  }
  return { losses, parameters: bytes };
}

describe.skipIf(reason !== undefined)(`training${reason ? ` (not here: ${reason})` : ''}`, () => {
  test('gives the same bits twice on the same device: of losses, and of parameters', async () => {
    const device = await webgpu();
    const [first, second] = [await train(device), await train(device)];
    device.close();
    expect(second.losses).toEqual(first.losses);
    expect(second.parameters).toEqual(first.parameters);
    expect(first.losses.every(Number.isFinite)).toBe(true);
    expect(new Set(first.losses).size).toBe(4);
  }, 300_000);
});
