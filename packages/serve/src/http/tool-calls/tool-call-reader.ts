import { z } from 'zod';
import type { ToolCallFormat } from './tool-call-format.ts';

/** A call of a tool, with its arguments as JSON. */
export interface ToolCall {
  readonly name: string;
  readonly arguments: string;
}

const argumentsRule = z.record(z.string(), z.unknown()).optional();
const callsRule = z
  .array(z.object({ name: z.string(), arguments: argumentsRule, parameters: argumentsRule }))
  .min(1);

/** A part of an answer. */
export type AnswerPart =
  | { readonly kind: 'content'; readonly text: string }
  | { readonly kind: 'call'; readonly call: ToolCall };

export interface ToolCallReaderOptions {
  readonly format: ToolCallFormat;
  /** The tools that there are. What names another one is text. */
  readonly names: ReadonlySet<string>;
  readonly maxCalls: number;
}

/**
 * Finds the calls of tools in a text that comes piece by piece. A call is held back until it is whole. What looks like a
 * call and is none is text.
 */
export class ToolCallReader {
  readonly #options: ToolCallReaderOptions;
  #held = '';
  /** Whether the held text is behind an opening tag. */
  #isInTags = false;
  /** Whether the answer has begun with text, if calls have no tags. */
  #isText = false;
  #calls = 0;

  constructor(options: ToolCallReaderOptions) {
    this.#options = options;
  }

  push(text: string): readonly AnswerPart[] {
    this.#held += text;
    const { tags, isList } = this.#options.format;
    if (tags !== null) return this.#pushTagged(tags);
    const begin = this.#held.trimStart();
    if (!this.#isText && (begin === '' || begin.startsWith(isList ? '[' : '{'))) return [];
    this.#isText = true;
    return this.#release(this.#held.length);
  }

  /** The parts that were held back, when nothing follows. */
  end(): readonly AnswerPart[] {
    const { tags } = this.#options.format;
    if (tags === null && !this.#isText) {
      const calls = this.#callsOf(this.#held);
      if (calls !== null) return calls;
    }
    if (tags !== null && this.#isInTags) this.#held = `${tags.open}${this.#held}`;
    // Blanks before and behind a call are no text.
    if (this.#calls > 0 && this.#held.trim() === '') return [];
    return this.#release(this.#held.length);
  }

  #pushTagged({ open, close }: NonNullable<ToolCallFormat['tags']>): readonly AnswerPart[] {
    const parts: AnswerPart[] = [];
    for (;;) {
      const at = this.#held.indexOf(this.#isInTags ? close : open);
      if (this.#isInTags) {
        if (at === -1) return parts;
        const inner = this.#held.slice(0, at);
        this.#held = this.#held.slice(at + close.length);
        const text = `${open}${inner}${close}`;
        parts.push(...(this.#callsOf(inner) ?? [{ kind: 'content', text } as const]));
        this.#isInTags = false;
      } else if (at === -1) {
        return [...parts, ...this.#release(this.#held.length - heldLength(this.#held, open))];
      } else {
        const text = this.#held.slice(0, at).trimEnd();
        if (text !== '') parts.push({ kind: 'content', text });
        this.#held = this.#held.slice(at + open.length);
        this.#isInTags = true;
      }
    }
  }

  #release(length: number): readonly AnswerPart[] {
    const text = this.#held.slice(0, length);
    this.#held = this.#held.slice(length);
    return text === '' ? [] : [{ kind: 'content', text }];
  }

  /** Null if the text is no call. */
  #callsOf(text: string): readonly AnswerPart[] | null {
    const { format, names, maxCalls } = this.#options;
    const read = callsRule.safeParse(format.isList ? parsed(text) : [parsed(text)]);
    if (!read.success) return null;
    const calls = read.data.flatMap(({ name, ...each }): readonly ToolCall[] => {
      const values = each[format.argumentsName];
      return names.has(name) && values !== undefined
        ? [{ name, arguments: JSON.stringify(values) }]
        : [];
    });
    if (calls.length < read.data.length) return null;
    const parts = calls
      .slice(0, maxCalls - this.#calls)
      .map((call): AnswerPart => ({ kind: 'call', call }));
    this.#calls += parts.length;
    return parts;
  }
}

/** How many last characters may be blanks before a tag, or a part of it. */
function heldLength(text: string, tag: string): number {
  let part = Math.min(tag.length - 1, text.length);
  while (part > 0 && !text.endsWith(tag.slice(0, part))) part--;
  const before = text.slice(0, text.length - part);
  return text.length - before.trimEnd().length;
}

/** Undefined for a text that is no JSON. */
function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
