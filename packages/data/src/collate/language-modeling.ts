import {
  checkOptions,
  ConfigError,
  Generator,
  option,
  type OptionRules,
} from '@shardwise/core/extend';
import { padCollate, type PadCollateOptions, type TokenCollate } from './pad-collate.ts';
import { IGNORED, idsArray, idsOf } from './token-rows.ts';

/** What of a tokenizer is needed to mask texts. A `Tokenizer` has it. */
export interface MaskingTokenizer {
  readonly maskTokenId: number | undefined;
  readonly specialIds: ReadonlySet<number>;
  readonly vocabularySize: number;
  readonly padTokenId: number | undefined;
}

/** Options of `maskedLanguageModelCollate`. */
export interface MaskedLanguageModelOptions extends Omit<PadCollateOptions, 'padTokenId'> {
  readonly tokenizer: MaskingTokenizer;
  /**
   * Draws what is masked. Give each rank its own, as `new Generator(seed + rank)`, and save its state with the
   * checkpoint. The default generator must draw the same on all ranks, so it cannot be used for their different texts.
   */
  readonly generator: Generator;
  /** The share of the tokens that the model is to find. Default: 0.15. */
  readonly probability?: number;
}

const maskRules: OptionRules<MaskedLanguageModelOptions> = {
  tokenizer: option.required(option.object<MaskingTokenizer>('a tokenizer')),
  generator: option.required(option.instanceOf(Generator)),
  probability: option.fraction,
  length: option.checkedLater(),
  padToMultipleOf: option.checkedLater(),
  paddingSide: option.checkedLater(),
  fill: option.checkedLater(),
};

/**
 * Makes a collate function for masked language models (Devlin et al. 2019; `DataCollatorForLanguageModeling` of
 * transformers): each token is chosen with a probability of 15 %. Of the chosen ones, 80 % become the mask token, 10 %
 * another token at random, and 10 % stay. `labels` have the chosen tokens, and -100 elsewhere. Special tokens are never
 * chosen. Texts are then padded. Shape: inputIds [t] -> inputIds, labels, attentionMask [B, T].
 */
export function maskedLanguageModelCollate(options: MaskedLanguageModelOptions): TokenCollate {
  checkOptions('maskedLanguageModelCollate', options, maskRules);
  const { tokenizer, generator, probability = 0.15, ...padding } = options;
  const { maskTokenId, padTokenId, specialIds, vocabularySize } = tokenizer;
  if (maskTokenId === undefined) throw lacks('maskedLanguageModelCollate', 'mask');
  if (padTokenId === undefined) throw lacks('maskedLanguageModelCollate', 'pad');
  const ordinary = Int32Array.from({ length: vocabularySize }, (_, id) => id).filter(
    (id) => !specialIds.has(id),
  );
  const pad = padCollate({ ...padding, padTokenId });
  return (samples, indices) => {
    const masked = samples.map((sample, i) => {
      const ids = idsOf(sample, 'inputIds', `sample ${indices?.[i] ?? i}`);
      const inputIds = Int32Array.from(ids);
      const labels = new Int32Array(ids.length).fill(IGNORED);
      const isChosen = generator.bernoulli(ids.length, probability);
      const [fate, replacement] = [generator.rand(ids.length), generator.rand(ids.length)];
      for (const [at, id] of ids.entries()) {
        if (isChosen[at] !== 1 || specialIds.has(id)) continue;
        labels[at] = id;
        const drawn = fate[at] ?? 0;
        if (drawn < 0.8) inputIds[at] = maskTokenId;
        else if (drawn < 0.9) {
          inputIds[at] = ordinary[Math.floor((replacement[at] ?? 0) * ordinary.length)] ?? id;
        }
      }
      return { ...sample, inputIds: idsArray(inputIds), labels: idsArray(labels) };
    });
    return pad(masked, indices);
  };
}

/**
 * Makes a collate function for causal language models: `labels` are the tokens themselves, which models shift, and -100
 * for padding. Samples that have labels keep them. Shape: inputIds [t] -> inputIds, labels, attentionMask [B, T].
 */
export function causalLanguageModelCollate(options: PadCollateOptions): TokenCollate {
  const pad = padCollate(options);
  return (samples, indices) =>
    pad(
      samples.map((sample) => {
        const { inputIds, labels = inputIds } = sample;
        return labels === undefined ? sample : { ...sample, labels };
      }),
      indices,
    );
}

function lacks(of: string, role: string): ConfigError {
  return new ConfigError(
    {
      asked: of,
      found: `a tokenizer without a ${role} token`,
      todo: `Name one in its config: Tokenizer.fromJson(json, { config: { ${role}_token: '[${role.toUpperCase()}]' } })`,
    },
    { role },
  );
}
