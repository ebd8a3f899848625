/** What the page gives to its rank when it starts. */
export interface Opening {
  readonly files: readonly File[];
  /** The name of the BroadcastChannel on which the page asks for texts. */
  readonly channel: string;
}

/** What the page asks an open model to write. */
export interface Prompt {
  readonly text: string;
  readonly maxNewTokens: number;
  /** 0: always the likeliest token. */
  readonly temperature: number;
  /** Whether the text is a message, which the chat template of the tokenizer wraps. */
  readonly isMessage: boolean;
}

/** What the rank says. */
export type ModelNews =
  | {
      readonly kind: 'opened';
      readonly facts: Readonly<Record<string, string>>;
      readonly hasChatTemplate: boolean;
    }
  /** New text, as soon as it is known. */
  | { readonly kind: 'text'; readonly text: string }
  | { readonly kind: 'written'; readonly tokens: number; readonly milliseconds: number }
  /** The prompt cannot be continued. The model stays open. */
  | { readonly kind: 'refused'; readonly message: string };

const kinds: ReadonlySet<unknown> = new Set(['opened', 'text', 'written', 'refused']);

/** Whether a value that came from the rank is news of it. */
export function isNews(value: unknown): value is ModelNews {
  return typeof value === 'object' && value !== null && 'kind' in value && kinds.has(value.kind);
}

/** Reads what the page gave. Throws TypeError for anything else. */
export function parseOpening(value: unknown): Opening {
  if (typeof value === 'object' && value !== null && 'files' in value && 'channel' in value) {
    const { files, channel } = value;
    const isList = Array.isArray(files) && files.every((file) => file instanceof File);
    if (isList && typeof channel === 'string') return { files, channel };
  }
  throw new TypeError('no files of a model');
}

/** Reads a prompt from a message. Throws TypeError for anything else. */
export function parsePrompt(value: unknown): Prompt {
  if (
    typeof value === 'object' &&
    value !== null &&
    'text' in value &&
    typeof value.text === 'string' &&
    'maxNewTokens' in value &&
    typeof value.maxNewTokens === 'number' &&
    'temperature' in value &&
    typeof value.temperature === 'number' &&
    'isMessage' in value &&
    typeof value.isMessage === 'boolean'
  ) {
    const { text, maxNewTokens, temperature, isMessage } = value;
    return { text, maxNewTokens, temperature, isMessage };
  }
  throw new TypeError('no prompt');
}
