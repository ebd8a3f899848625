import { manualSeed, nn, optim, setRank, tensor } from '@shardwise/core';
import { assertAllclose, interpreter } from '@shardwise/testing';
import { expect } from 'vitest';
import type { DeviceOfSmallBindings } from './small-bindings.ts';

/** Returns what `compute` gives on the device and on the interpreter. */
export async function onBoth<T>(
  { device }: DeviceOfSmallBindings,
  compute: () => Promise<T>,
): Promise<readonly [ours: T, theirs: T]> {
  setRank({ device });
  manualSeed(0);
  const ours = await compute();
  setRank({ device: interpreter() });
  manualSeed(0);
  return [ours, await compute()];
}

/** Returns the losses of four steps of a language model, with a block of attention or without. */
async function losses(hasBlock: boolean): Promise<number[]> {
  const [vocabulary, width] = [160, 32];
  const table = new nn.Embedding(vocabulary, width);
  const places = new nn.Embedding(16, width);
  const block = hasBlock
    ? new nn.TransformerEncoderLayer(width, 2, { normFirst: true, dropout: 0, dimFeedforward: 64 })
    : new nn.Identity();
  const head = new nn.Linear(width, vocabulary);
  const parameters = [table, places, block, head].flatMap((each) => [...each.parameters()]);
  const optimizer = new optim.AdamW(parameters, { lr: 0.01 });
  const words = Array.from({ length: 66 }, (_, i) => (7 * i * i) % vocabulary);
  const found: number[] = [];
  for (let step = 0; step < 4; step++) {
    optimizer.zeroGrad();
    const positions = tensor(
      Array.from({ length: 16 }, (_, i) => i),
      'i32',
    );
    const embedded = table.forward(tensor(words.slice(0, 64), 'i32').reshape([4, 16]));
    const hidden = block.forward(embedded.add(places.forward(positions)));
    const logits = head.forward(hidden).reshape([64, vocabulary]);
    const loss = nn.functional.crossEntropy(logits, tensor(words.slice(2), 'i32'));
    loss.backward();
    await optimizer.step();
    found.push(await loss.item());
  }
  return found;
}

/** Expects that a model whose embedding, logits and optimizer states exceed the bindings has the right losses. */
export async function expectLossesOfInterpreter(
  created: DeviceOfSmallBindings,
  bindingBytes: number,
  { hasBlock }: { readonly hasBlock: boolean },
): Promise<void> {
  created.largestBinding = 0;
  const [ours, theirs] = await onBoth(created, () => losses(hasBlock));
  assertAllclose(ours, theirs, { rtol: 1e-4, atol: 1e-5 });
  expect(theirs[3]).toBeLessThan(theirs[0] ?? 0);
  expect(created.largestBinding).toBeLessThanOrEqual(bindingBytes);
  expect(created.largestBinding).toBeGreaterThan(bindingBytes / 2);
}
