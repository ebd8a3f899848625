import { fromData, noGrad } from 'shardwise';
import type { PretrainedModel } from '@shardwise/models';
import type { Answer } from './drive.ts';

/** The largest difference between the log-probabilities of generated tokens and those of a training forward. */
export async function largestDifference(
  model: PretrainedModel,
  answers: readonly Answer[],
): Promise<number> {
  model.eval();
  let largest = 0;
  for (const { prompt, tokens, logProbabilities } of answers) {
    const text = [...prompt, ...tokens];
    const next = fromData(Int32Array.from(tokens), [1, tokens.length, 1], 'i32');
    const ids = fromData(Int32Array.from(text), [1, text.length], 'i32');
    const own = noGrad(() =>
      model
        .forward(ids, {})
        .slice(1, prompt.length - 1, text.length - 1)
        .logSoftmax()
        .gather(2, next),
    );
    const expected = await own.data();
    for (const [at, value] of logProbabilities.entries()) {
      largest = Math.max(largest, Math.abs(value - Number(expected[at])));
    }
  }
  return largest;
}
