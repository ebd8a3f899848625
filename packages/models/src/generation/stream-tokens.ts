import { checkOptions, defaultGenerator } from '@shardwise/core/extend';
import { anyGoesOn, tokensOfFirst } from './agreement.ts';
import { drawToken, mostLikely } from './choose-token.ts';
import { decodingOf } from './decoding.ts';
import { modelFacts, type GeneratingModel } from './generating-model.ts';
import {
  checkDraws,
  checkPrompts,
  type GenerationOptions,
  streamRules,
} from './generation-options.ts';
import { processorsOf } from './logits-processors.ts';
import { endOf } from './stopping.ts';

/**
 * Continues prompts, and yields the new token of each row as soon as it is known; null for rows that have ended. Its
 * passes are those of evaluation, and the model keeps its mode. Where ranks have parts of a model, all of them must iterate;
 * they get the same tokens if they have the same rows. Throws ConfigError for prompts that are empty or longer than the
 * context, and for options that are out of range or have no effect.
 *
 *     for await (const [token] of streamTokens(model, [prompt], { maxNewTokens: 64 })) { … }
 */
export async function* streamTokens(
  model: GeneratingModel,
  prompts: readonly (readonly number[])[],
  options: GenerationOptions,
): AsyncGenerator<readonly (number | null)[], void, void> {
  checkOptions('streamTokens', options, streamRules);
  const facts = modelFacts(model);
  checkPrompts(prompts, options.maxNewTokens, facts);
  checkDraws(options, facts);
  const { doSample = false, generator = defaultGenerator() } = options;
  const choose = doSample
    ? (scores: Float32Array) => drawToken(scores, generator)
    : (scores: Float32Array) => mostLikely(scores);
  const processors = processorsOf(settingsOf(options), doSample);
  const hasEnded = endOf(options, eosOf(options, facts.eosTokenIds));
  const added: number[][] = prompts.map(() => []);
  const ended = new Set<number>();
  const decoding = decodingOf(model, facts, prompts);
  try {
    let scores = await decoding.start();
    for (;;) {
      const own = scores.map((rowScores, row) => {
        if (ended.has(row)) return 0;
        const tokens = [...(prompts[row] ?? []), ...(added[row] ?? [])];
        for (const process of processors) process(rowScores, tokens);
        return choose(rowScores);
      });
      const tokens = await tokensOfFirst(own, facts.sameRowsAxes);
      const step = tokens.map((token, row) => (ended.has(row) ? null : token));
      for (const [row, token] of step.entries()) {
        if (token === null) continue;
        const rowTokens = added[row] ?? [];
        rowTokens.push(token);
        if (hasEnded(rowTokens)) ended.add(row);
      }
      if (step.some((token) => token !== null)) yield step;
      if (!(await anyGoesOn(ended.size < prompts.length, facts.sharedAxes))) return;
      scores = await decoding.next(tokens);
    }
  } finally {
    decoding.dispose();
  }
}

export function settingsOf({
  temperature = 1,
  topK,
  topP = 1,
  minP = 0,
  repetitionPenalty = 1,
}: GenerationOptions): Parameters<typeof processorsOf>[0] {
  return { temperature, topK: topK ?? null, topP, minP, repetitionPenalty };
}

export function eosOf(
  { eosTokenId }: GenerationOptions,
  ofConfig: readonly number[],
): readonly number[] {
  if (eosTokenId === undefined) return ofConfig;
  return typeof eosTokenId === 'number' ? [eosTokenId] : eosTokenId;
}
