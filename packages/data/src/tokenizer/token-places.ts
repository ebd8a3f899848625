import { DataError } from '@shardwise/core/extend';
import type { AddedTokens, Stretch } from './added-tokens.ts';
import { createAlignedNormalizer } from './aligned-normalizers.ts';
import { createAlignedPreTokenizer } from './aligned-pre-tokenizers.ts';
import { AlignedText, type Offsets } from './aligned-text.ts';
import type { PostProcessorConfig, TokenizerFile } from './file-types.ts';
import type { TokenModel } from './token-model.ts';
import { createTokenRanges } from './token-ranges.ts';

/** A token, and its place in the text that was encoded. */
export interface PlacedToken {
  readonly id: number;
  readonly token: string;
  readonly offsets: Offsets;
}

/** What a tokenizer has beside its file. */
interface TokenizerParts {
  readonly model: TokenModel;
  readonly rawAdded: AddedTokens;
  readonly normalizedAdded: AddedTokens;
}

/**
 * Finds the tokens of a text with their places, by the steps of the ordinary way on texts that know where their characters
 * come from. `ids` are those of the ordinary way; it throws DataError if the two differ, so that a place is never wrong.
 */
export function createTokenPlaces(
  file: TokenizerFile,
  { model, rawAdded, normalizedAdded }: TokenizerParts,
): (text: string, ids: readonly number[]) => readonly PlacedToken[] {
  const normalize = createAlignedNormalizer(file.normalizer);
  const preTokenize = createAlignedPreTokenizer(file.pre_tokenizer);
  const rangesOf = createTokenRanges(file.model);
  const added = new Map(file.added_tokens.map(({ id, content }) => [id, content]));

  const addedToken = (text: AlignedText, { id }: { readonly id: number }): PlacedToken => {
    const offsets = text.offsetsOf(0, text.text.length) ?? [0, 0];
    return { id, token: added.get(id) ?? '', offsets };
  };
  const tokensOfWord = (word: AlignedText): readonly PlacedToken[] => {
    const tokens = model.tokensOf(word.text);
    const ids = model.encode([word.text]);
    const ranges = rangesOf(word.text, tokens);
    if (ranges === undefined) throw noPlaces(word.text);
    return tokens.map((token, index) => {
      const [start, end] = ranges[index] ?? [0, 0];
      return { id: ids[index] ?? 0, token, offsets: word.offsetsOf(start, end) ?? [0, 0] };
    });
  };
  return (given, ids) => {
    const text = AlignedText.of(given.toWellFormed());
    const tokens = rawAdded.split(text.text, true).flatMap((stretch) => {
      const part = text.slice(stretch.start, stretch.end);
      if ('id' in stretch) return [addedToken(part, stretch)];
      const normalized = normalize(part);
      return normalizedAdded
        .split(normalized.text, stretch.isFirst)
        .flatMap((inner: Stretch): readonly PlacedToken[] => {
          const own = normalized.slice(inner.start, inner.end);
          if ('id' in inner) return [addedToken(own, inner)];
          return preTokenize(own, inner.isFirst).flatMap(tokensOfWord);
        });
    });
    const isEqual = tokens.length === ids.length && tokens.every(({ id }, i) => id === ids[i]);
    if (!isEqual) throw noPlaces(given);
    return tokens;
  };
}

/** Leaves blanks out of the places of the tokens of a text, if the file says so (`trim_offsets`). */
export function createTrimOffsets(
  config: PostProcessorConfig | null | undefined,
): (tokens: readonly PlacedToken[]) => readonly PlacedToken[] {
  if (config?.type === 'Sequence') {
    const steps = config.processors.map(createTrimOffsets);
    return (tokens) => steps.reduce((result, step) => step(result), tokens);
  }
  const trims = config?.type === 'ByteLevel' || config?.type === 'RobertaProcessing';
  if (!trims || !config.trim_offsets) return (tokens) => tokens;
  return (tokens) =>
    tokens.map((placed, index) => {
      const [start, end] = placed.offsets;
      let leading = /^[Ġ\p{White_Space}]*/u.exec(placed.token)?.[0].length ?? 0;
      const trailing = blanksAtEnd(placed.token);
      // The blank that was put before the text is in no place. Added tokens, whose blanks are not `Ġ`, have none.
      const isFirst = index === 0 || start === 0;
      if (config.add_prefix_space && isFirst && placed.token.startsWith('Ġ')) leading -= 1;
      if (leading === 0 && placed.token === 'Ġ') return { ...placed, offsets: [start, start] };
      const from = Math.min(start + leading, end);
      const to = end >= trailing ? Math.max(end - trailing, from) : end;
      return { ...placed, offsets: [from, to] };
    });
}

function blanksAtEnd(token: string): number {
  let end = token.length;
  while (end > 0 && /[Ġ\p{White_Space}]/u.test(token[end - 1] ?? '')) end -= 1;
  return token.length - end;
}

function noPlaces(text: string): DataError {
  return new DataError(
    {
      asked: `the places of the tokens of '${text.slice(0, 80)}'`,
      found: 'tokens that cannot be traced back to the text',
      todo: 'Encode it without returnOffsetsMapping, or report the tokenizer and the text',
    },
    {},
  );
}
