/** The pieces of a vocabulary of sentencepiece, as a GGUF file has them. */
export interface GgufPieces {
  readonly tokens: readonly string[];
  /** Pairs with the largest score are merged first. */
  readonly scores: readonly number[];
  /** The types of tokens (llama.cpp's token_type). */
  readonly types: readonly number[];
  /** Whether a blank is put before each text. */
  readonly addsSpace: boolean;
}

const NORMAL = 1;
const BYTE = 6;
/** What stands for a blank in pieces. */
const BLANK = '\u2581';

/**
 * The parts of a tokenizer.json with which it finds the tokens of sentencepiece's BPE: pairs of neighbours are merged
 * whose piece has the largest score, and characters without a piece become bytes. Each text, also after an added token,
 * begins with a blank, as in llama.cpp.
 */
export function sentencepieceParts(pieces: GgufPieces, unknown: string | undefined): object {
  const { tokens, types, addsSpace } = pieces;
  const replaced = { type: 'Replace', pattern: { String: ' ' }, content: BLANK };
  const prepended = { type: 'Prepend', prepend: BLANK };
  const withBlanks = { type: 'Replace', pattern: { String: BLANK }, content: ' ' };
  const decoders = [withBlanks, { type: 'ByteFallback' }, { type: 'Fuse' }];
  const withoutFirst = { type: 'Strip', content: ' ', start: 1, stop: 0 };
  return {
    normalizer: { type: 'Sequence', normalizers: addsSpace ? [prepended, replaced] : [replaced] },
    pre_tokenizer: null,
    decoder: { type: 'Sequence', decoders: addsSpace ? [...decoders, withoutFirst] : decoders },
    model: {
      type: 'BPE',
      dropout: null,
      unk_token: unknown ?? null,
      continuing_subword_prefix: null,
      end_of_word_suffix: null,
      fuse_unk: true,
      byte_fallback: types.includes(BYTE),
      ignore_merges: false,
      vocab: Object.fromEntries(tokens.map((token, id) => [token, id])),
      merges: mergesOf(pieces),
    },
  };
}

/** All pairs of pieces that are a piece together, those of the largest score first. */
function mergesOf({ tokens, scores, types }: GgufPieces): readonly (readonly [string, string])[] {
  // Control tokens, bytes and tokens that the user has added are no pieces of words.
  const ids = new Map(tokens.flatMap((token, id) => (types[id] === NORMAL ? [[token, id]] : [])));
  const pairs = tokens.flatMap((token, id) => {
    if (types[id] !== NORMAL) return [];
    const found: { readonly pair: readonly [string, string]; readonly score: number }[] = [];
    for (let at = 1; at < token.length; at++) {
      const pair = [token.slice(0, at), token.slice(at)] as const;
      if (ids.has(pair[0]) && ids.has(pair[1])) found.push({ pair, score: scores[id] ?? 0 });
    }
    return found;
  });
  return pairs.toSorted((a, b) => b.score - a.score).map(({ pair }) => pair);
}
