import type { FinishReason, GeneratedToken } from './generation-request.ts';
import type { TokenProbability } from '../sampling/log-probabilities.ts';

/** A whole text of a request. */
export interface Completion {
  readonly sample: number;
  readonly text: string;
  readonly tokens: readonly number[];
  /** Empty if they were not asked for. */
  readonly logProbabilities: readonly number[];
  /** For each token, the most likely ones in its place. */
  readonly likely: readonly (readonly TokenProbability[])[];
  readonly finishReason: FinishReason;
  /** How many tokens of the prompt had their keys and values in the cache when the request began. */
  readonly cachedTokens: number;
}

/** Waits for the whole texts of a request, in the order of their samples. */
export async function complete(
  tokens: AsyncIterable<GeneratedToken>,
): Promise<readonly Completion[]> {
  const bySample = new Map<number, GeneratedToken[]>();
  for await (const each of tokens) {
    const known = bySample.get(each.sample);
    if (known === undefined) bySample.set(each.sample, [each]);
    else known.push(each);
  }
  return [...bySample]
    .toSorted(([a], [b]) => a - b)
    .map(([sample, own]) => ({
      sample,
      text: own.map(({ text }) => text).join(''),
      tokens: own.flatMap(({ token }) => token ?? []),
      logProbabilities: own.flatMap(({ logProbability }) => logProbability ?? []),
      likely: own.flatMap(({ token, likely }) => (token === null ? [] : [likely])),
      finishReason: own.at(-1)?.finishReason ?? 'stop',
      cachedTokens: own.at(-1)?.cachedTokens ?? 0,
    }));
}
