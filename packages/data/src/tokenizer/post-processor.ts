import { ConfigError } from '@shardwise/core/extend';
import type { PostProcessorConfig } from './file-types.ts';

/** One or two texts as tokens, with the special tokens around them. */
export interface Processed {
  readonly ids: readonly number[];
  /** 0 for tokens of the first text, 1 for those of the second, as the file says. */
  readonly types: readonly number[];
  /** For each token the text that it belongs to: 0 or 1. Undefined for special tokens. */
  readonly sequences: readonly (0 | 1 | undefined)[];
}

/** Puts special tokens around the tokens of a text or of a pair. */
export type PostProcessor = (
  first: readonly number[],
  second: readonly number[] | undefined,
  addSpecialTokens: boolean,
) => Processed;

/** A place in a row: a special token, or one of the texts. */
type Place =
  | { readonly ids: readonly number[]; readonly type: number }
  | { readonly sequence: 'A' | 'B'; readonly type: number };

/** Makes the function that a `post_processor` of a file describes. */
export function createPostProcessor(config: PostProcessorConfig | null | undefined): PostProcessor {
  const template = templateOf(config) ?? plain;
  return (first, second, addSpecialTokens) => {
    const ids: number[] = [];
    const types: number[] = [];
    const sequences: (0 | 1 | undefined)[] = [];
    const add = (added: readonly number[], type: number, sequence: 0 | 1 | undefined): void => {
      for (const id of added) {
        ids.push(id);
        types.push(type);
        sequences.push(sequence);
      }
    };
    for (const place of second === undefined ? template.single : template.pair) {
      if ('sequence' in place) {
        if (place.sequence === 'A') add(first, place.type, 0);
        else add(second ?? [], place.type, 1);
      } else if (addSpecialTokens) add(place.ids, place.type, undefined);
    }
    return { ids, types, sequences };
  };
}

interface Template {
  readonly single: readonly Place[];
  readonly pair: readonly Place[];
}

const A = { sequence: 'A', type: 0 } as const;
const plain: Template = { single: [A], pair: [A, { sequence: 'B', type: 1 }] };

/** The template of a processor. Undefined for one that changes no ids. */
function templateOf(config: PostProcessorConfig | null | undefined): Template | undefined {
  if (config === null || config === undefined) return undefined;
  switch (config.type) {
    case 'ByteLevel':
      return undefined;
    case 'BertProcessing':
    case 'RobertaProcessing': {
      const [sep, cls] = [config.sep, config.cls].map(([, id]) => ({ ids: [id], type: 0 }));
      if (sep === undefined || cls === undefined) return undefined;
      // RoBERTa has one type only, and two separators between texts.
      if (config.type === 'RobertaProcessing') {
        return { single: [cls, A, sep], pair: [cls, A, sep, sep, { sequence: 'B', type: 0 }, sep] };
      }
      const second = { sequence: 'B', type: 1 } as const;
      return { single: [cls, A, sep], pair: [cls, A, sep, second, { ...sep, type: 1 }] };
    }
    case 'Sequence': {
      const templates = config.processors.map(templateOf).filter((each) => each !== undefined);
      if (templates.length > 1) throw refused('two of them that add tokens');
      return templates[0];
    }
    default: {
      const places = (pieces: typeof config.single): readonly Place[] =>
        pieces.map((piece): Place => {
          if ('Sequence' in piece) {
            return { sequence: piece.Sequence.id, type: piece.Sequence.type_id };
          }
          const { id, type_id: type } = piece.SpecialToken;
          const special = config.special_tokens[id];
          if (special === undefined)
            throw refused(`'${id}', which is not among its special_tokens`);
          return { ids: special.ids, type };
        });
      return { single: places(config.single), pair: places(config.pair) };
    }
  }
}

function refused(found: string): ConfigError {
  return new ConfigError({
    asked: 'the post_processor of a tokenizer',
    found,
    todo: 'Give the tokenizer.json that Hugging Face tokenizers writes',
  });
}
