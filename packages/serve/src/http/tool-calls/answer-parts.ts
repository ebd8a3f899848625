import { randomUUID } from 'node:crypto';
import type { ChatTools } from './chat-tools.ts';
import type { AnswerPart, ToolCall, ToolCallReader } from './tool-call-reader.ts';

type Reason = 'stop' | 'length' | null;

/** A call, as OpenAI's interface writes it. */
interface WrittenCall {
  readonly id: string;
  readonly type: 'function';
  readonly function: ToolCall;
}

/** What a chunk of a stream adds to a message. */
interface Delta {
  readonly content?: string;
  readonly tool_calls?: readonly (WrittenCall & { readonly index: number })[];
}

interface AnswerStep {
  readonly delta: Delta;
  readonly finish_reason: Reason | 'tool_calls';
}

/** The message of a whole text, and why it ended. */
export function answerOf(tools: ChatTools | null, text: string, reason: Reason): object {
  const { delta, finish_reason } = new AnswerStream(tools).push(text, reason ?? 'stop');
  const { content = delta.tool_calls === undefined ? '' : null, tool_calls: indexed } = delta;
  const tool_calls = indexed?.map(({ index: _, ...call }) => call);
  const calls = tool_calls === undefined ? {} : { tool_calls };
  return { message: { role: 'assistant', content, refusal: null, ...calls }, finish_reason };
}

/** Finds the parts of an answer that comes piece by piece. Without tools, all of it is text. */
export class PartReader {
  readonly #reader: ToolCallReader | null;

  constructor(tools: ChatTools | null) {
    this.#reader = tools?.reader() ?? null;
  }

  push(text: string, isEnd: boolean): readonly AnswerPart[] {
    if (this.#reader === null) return [{ kind: 'content', text }];
    return [...this.#reader.push(text), ...(isEnd ? this.#reader.end() : [])];
  }
}

/** Makes the chunks of a message of a text that comes piece by piece. */
export class AnswerStream {
  readonly #parts: PartReader;
  #calls = 0;

  constructor(tools: ChatTools | null) {
    this.#parts = new PartReader(tools);
  }

  push(text: string, reason: Reason): AnswerStep {
    const parts = this.#parts.push(text, reason !== null);
    const content = parts.map((part) => (part.kind === 'content' ? part.text : '')).join('');
    const calls = parts.flatMap((part) => (part.kind === 'call' ? [part.call] : []));
    const delta: Delta = {
      ...(content === '' ? {} : { content }),
      ...(calls.length === 0 ? {} : { tool_calls: calls.map((call) => this.#written(call)) }),
    };
    const isCall = reason === 'stop' && this.#calls > 0;
    return { delta, finish_reason: isCall ? 'tool_calls' : reason };
  }

  #written(call: ToolCall): WrittenCall & { readonly index: number } {
    const id = `call_${randomUUID()}`;
    return { index: this.#calls++, id, type: 'function', function: call };
  }
}
