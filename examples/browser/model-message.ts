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

/** What the page asks an open model to learn. */
export interface Lessons {
  readonly texts: readonly string[];
  readonly steps: number;
  readonly learningRate: number;
}

/** What the page asks the rank to do. */
export type Order =
  | { readonly kind: 'write'; readonly prompt: Prompt }
  | { readonly kind: 'train'; readonly lessons: Lessons }
  /** To give the files of the adapter. */
  | { readonly kind: 'save' };

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
  /** The loss of an update. */
  | {
      readonly kind: 'learned';
      readonly step: number;
      readonly steps: number;
      readonly loss: number;
    }
  | { readonly kind: 'trained'; readonly first: number; readonly last: number }
  /** The two files of an adapter, as PEFT has them. */
  | { readonly kind: 'adapter'; readonly config: string; readonly tensors: Uint8Array<ArrayBuffer> }
  /** What was asked cannot be done. The model stays open. */
  | { readonly kind: 'refused'; readonly message: string };

const kinds: ReadonlySet<unknown> = new Set([
  'opened',
  'text',
  'written',
  'learned',
  'trained',
  'adapter',
  'refused',
]);

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

/** Reads an order from a message. Throws TypeError for anything else. */
export function parseOrder(value: unknown): Order {
  if (typeof value === 'object' && value !== null && 'kind' in value) {
    if (value.kind === 'write' && 'prompt' in value && isPrompt(value.prompt)) {
      return { kind: 'write', prompt: value.prompt };
    }
    if (value.kind === 'train' && 'lessons' in value && isLessons(value.lessons)) {
      return { kind: 'train', lessons: value.lessons };
    }
    if (value.kind === 'save') return { kind: 'save' };
  }
  throw new TypeError('no order');
}

function isPrompt(value: unknown): value is Prompt {
  return (
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
  );
}

function isLessons(value: unknown): value is Lessons {
  return (
    typeof value === 'object' &&
    value !== null &&
    'texts' in value &&
    Array.isArray(value.texts) &&
    value.texts.every((text) => typeof text === 'string') &&
    'steps' in value &&
    typeof value.steps === 'number' &&
    'learningRate' in value &&
    typeof value.learningRate === 'number'
  );
}
