import { fromData, type Generator, noGrad } from 'shardwise';
import type { TrainedModel } from './strategies.ts';

/**
 * Continues a prompt of contextLength bytes, one byte after the other. Each byte is drawn from the model's
 * distribution, sharpened by the temperature. The window keeps its length, so that one plan serves all steps.
 */
export async function generate(
  model: Pick<TrainedModel, 'logits'>,
  prompt: Uint8Array,
  length: number,
  generator: Generator,
  temperature = 0.8,
): Promise<Uint8Array> {
  const window = Int32Array.from(prompt);
  const generated = new Uint8Array(length);
  for (let position = 0; position < length; position++) {
    const ids = fromData(window.slice(), [1, window.length], 'i32');
    const logits = await model.logits(ids); // [1, T, V]
    const probabilities = noGrad(() =>
      logits
        .select(1, -1)
        .mul(1 / temperature)
        .softmax(),
    ); // [1, V]
    const byte = draw(await probabilities.data(), generator);
    generated[position] = byte;
    window.copyWithin(0, 1);
    window[window.length - 1] = byte;
  }
  return generated;
}

/** Draws an index with the given probabilities. */
function draw(probabilities: ArrayLike<number | bigint>, generator: Generator): number {
  let left = generator.rand(1)[0] ?? 0;
  for (let index = 0; index < probabilities.length; index++) {
    left -= Number(probabilities[index]);
    if (left < 0) return index;
  }
  return probabilities.length - 1;
}
