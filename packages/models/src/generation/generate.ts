import { checkOptions, ConfigError } from '@shardwise/core/extend';
import { anyGoesOn, tokensOfFirst } from './agreement.ts';
import { BeamSearch } from './beam-search.ts';
import { decodingOf } from './decoding.ts';
import { modelFacts, type GeneratingModel, type ModelFacts } from './generating-model.ts';
import {
  checkDraws,
  checkPrompts,
  type GenerateOptions,
  generateRules,
} from './generation-options.ts';
import { logSoftmax, processorsOf } from './logits-processors.ts';
import { endOf } from './stopping.ts';
import { eosOf, settingsOf, streamTokens } from './stream-tokens.ts';

/**
 * Continues prompts, which may have different lengths, until each has ended: greedily, by draws, or by beam search.
 * Returns each prompt with its new tokens. Its passes are those of evaluation, and the model keeps its mode. Where ranks
 * have parts of a model, all of them must call it; they get the same tokens if they have the same rows. Ranks of a pipeline
 * keep no keys and values, so each token costs a pass over its row there. Throws ConfigError for prompts that are empty or
 * longer than the context, and for options that are out of range or have no effect.
 *
 *     const [tokens] = await generate(model, [tokenizer.encode('Once upon').inputIds], { maxNewTokens: 64 });
 */
export async function generate(
  model: GeneratingModel,
  prompts: readonly (readonly number[])[],
  options: GenerateOptions,
): Promise<number[][]> {
  checkOptions('generate', options, generateRules);
  const { numBeams = 1, lengthPenalty, earlyStopping, ...streamed } = options;
  if (numBeams > 1) return searchBeams(model, prompts, options);
  if (lengthPenalty !== undefined) throw withoutBeams('lengthPenalty', lengthPenalty);
  if (earlyStopping !== undefined) throw withoutBeams('earlyStopping', earlyStopping);
  checkPrompts(prompts, streamed.maxNewTokens, modelFacts(model));
  const rows = prompts.map((prompt) => [...prompt]);
  for await (const tokens of streamTokens(model, prompts, streamed)) {
    for (const [row, token] of tokens.entries()) if (token !== null) rows[row]?.push(token);
  }
  return rows;
}

async function searchBeams(
  model: GeneratingModel,
  prompts: readonly (readonly number[])[],
  options: GenerateOptions,
): Promise<number[][]> {
  const { numBeams = 1, lengthPenalty = 1, earlyStopping = false, maxNewTokens } = options;
  const facts: ModelFacts = modelFacts(model);
  checkPrompts(prompts, maxNewTokens, facts);
  checkDraws(options, facts);
  const eos = eosOf(options, facts.eosTokenIds);
  const hasEnded = endOf(options, eos);
  const processors = processorsOf(settingsOf(options), false);
  const settings = {
    numBeams,
    lengthPenalty,
    earlyStopping,
    endTokens: eos.length,
    maxNewTokens,
    hasEnded,
  };
  const searches = prompts.map(() => new BeamSearch(settings));
  const decoding = decodingOf(
    model,
    facts,
    prompts.flatMap((prompt) => Array.from({ length: numBeams }, () => prompt)),
  );
  try {
    let scores = await decoding.start();
    for (;;) {
      const steps = searches.map((search, index) => {
        const first = index * numBeams;
        const own = scores.slice(first, first + numBeams).map(logSoftmax);
        for (const [beam, rowScores] of own.entries()) {
          const tokens = [...(prompts[index] ?? []), ...(search.running[beam] ?? [])];
          for (const process of processors) process(rowScores, tokens);
        }
        if (search.isDone) return { tokens: own.map(() => 0), from: own.map((_, beam) => beam) };
        return search.advance(own);
      });
      if (
        !(await anyGoesOn(
          searches.some(({ isDone }) => !isDone),
          facts.sharedAxes,
        ))
      )
        break;
      const from = steps.flatMap((step, index) => step.from.map((beam) => index * numBeams + beam));
      decoding.reorder(from);
      const tokens = steps.flatMap((step) => step.tokens);
      scores = await decoding.next(await tokensOfFirst(tokens, facts.sameRowsAxes));
    }
  } finally {
    decoding.dispose();
  }
  return prompts.map((prompt, index) => [...prompt, ...(searches[index]?.rows[0] ?? [])]);
}

function withoutBeams(key: string, value: number | boolean): ConfigError {
  return new ConfigError(
    {
      asked: `generate with ${key}: ${value}`,
      found: 'no beams that it would rank or end',
      todo: 'Add numBeams: 4, or leave it out',
    },
    { [key]: value },
  );
}
