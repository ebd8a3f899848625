import { randomUUID } from 'node:crypto';
import type { AnswerPart, ToolCall } from '../tool-calls/tool-call-reader.ts';

/** An event of a stream without its number. */
export interface ResponseEvent {
  readonly type: string;
  readonly [field: string]: unknown;
}

type Status = 'in_progress' | 'completed' | 'incomplete';

/** The message that a text becomes. */
interface OpenMessage {
  readonly id: string;
  text: string;
}

/** The items of a response: messages and calls in the order in which they come, and the events that tell of them. */
export class ResponseOutput {
  readonly #items: object[] = [];
  #message: OpenMessage | null = null;

  /** The items that are whole. */
  get items(): readonly object[] {
    return this.#items;
  }

  /** Adds a part of an answer. A call ends the text before it. */
  add(part: AnswerPart): readonly ResponseEvent[] {
    if (part.kind === 'call') return [...this.#endMessage('completed'), ...this.#call(part.call)];
    if (part.text === '') return [];
    const begun = this.#message === null ? this.#beginMessage() : [];
    const message = this.#message;
    if (message === null) return begun;
    message.text += part.text;
    const delta = { ...this.#place(message), delta: part.text, logprobs: [] };
    return [...begun, { type: 'response.output_text.delta', ...delta }];
  }

  /** Ends the last text. An answer without parts is an empty message. `isCut`: it has as many tokens as it may. */
  end(isCut: boolean): readonly ResponseEvent[] {
    const isEmpty = this.#message === null && this.#items.length === 0;
    const begun = isEmpty ? this.#beginMessage() : [];
    return [...begun, ...this.#endMessage(isCut ? 'incomplete' : 'completed')];
  }

  #beginMessage(): readonly ResponseEvent[] {
    const message = { id: `msg_${randomUUID()}`, text: '' };
    this.#message = message;
    return [
      this.#itemEvent('added', messageItem(message, 'in_progress')),
      { type: 'response.content_part.added', ...this.#place(message), part: partOf('') },
    ];
  }

  #endMessage(status: Status): readonly ResponseEvent[] {
    const message = this.#message;
    if (message === null) return [];
    this.#message = null;
    const place = this.#place(message);
    const item = messageItem(message, status);
    const events = [
      { type: 'response.output_text.done', ...place, text: message.text, logprobs: [] },
      { type: 'response.content_part.done', ...place, part: partOf(message.text) },
      this.#itemEvent('done', item),
    ];
    this.#items.push(item);
    return events;
  }

  /** A call is known when it is whole, so its arguments are a single piece. */
  #call({ name, arguments: written }: ToolCall): readonly ResponseEvent[] {
    const id = `fc_${randomUUID()}`;
    const call = { id, type: 'function_call', call_id: `call_${randomUUID()}`, name };
    const item = { ...call, arguments: written, status: 'completed' };
    const place = { item_id: id, output_index: this.#items.length };
    const type = 'response.function_call_arguments';
    const events = [
      this.#itemEvent('added', { ...call, arguments: '', status: 'in_progress' }),
      { type: `${type}.delta`, ...place, delta: written },
      { type: `${type}.done`, ...place, name, arguments: written },
      this.#itemEvent('done', item),
    ];
    this.#items.push(item);
    return events;
  }

  #itemEvent(what: 'added' | 'done', item: object): ResponseEvent {
    return { type: `response.output_item.${what}`, output_index: this.#items.length, item };
  }

  #place({ id }: OpenMessage): object {
    return { item_id: id, output_index: this.#items.length, content_index: 0 };
  }
}

function messageItem({ id, text }: OpenMessage, status: Status): object {
  const content = status === 'in_progress' ? [] : [partOf(text)];
  return { id, type: 'message', role: 'assistant', status, content };
}

function partOf(text: string): object {
  return { type: 'output_text', text, annotations: [], logprobs: [] };
}
