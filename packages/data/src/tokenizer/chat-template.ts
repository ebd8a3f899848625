import { Template } from '@huggingface/jinja';
import {
  checkOptions,
  ConfigError,
  DataError,
  option,
  type OptionRules,
} from '@shardwise/core/extend';
import type { SpecialTokens } from './tokenizer-config.ts';

/** A message of a conversation. Templates may read more fields than these, such as `tool_calls`. */
export type ChatMessage = {
  readonly role: string;
  readonly content?: unknown;
  readonly [field: string]: unknown;
};

/** Options of `applyChatTemplate`. */
export interface ChatOptions {
  /** Whether the text ends where the model's answer begins. Default: false. */
  readonly addGenerationPrompt?: boolean;
  /** The functions that the model may call, as JSON schemas. */
  readonly tools?: readonly object[];
  /** The name of a template if there are several. Default: `tool_use` with tools if there is one, or `default`. */
  readonly template?: string;
  /** More variables of the template, such as `enable_thinking`. */
  readonly variables?: Readonly<Record<string, unknown>>;
}

const chatRules: OptionRules<ChatOptions> = {
  addGenerationPrompt: option.flag,
  tools: option.listOf(option.object<object>('a tool')),
  template: option.nonEmptyText,
  variables: option.object('variables by name'),
};

/** The templates of a tokenizer, in Jinja's language. They are interpreted, and cannot call anything of the host. */
export class ChatTemplates {
  readonly #sources: ReadonlyMap<string, string>;
  readonly #parsed = new Map<string, Template>();
  readonly #tokens: SpecialTokens;
  readonly #name: string;

  constructor(
    templates: string | ReadonlyMap<string, string> | undefined,
    tokens: SpecialTokens,
    name: string,
  ) {
    this.#sources =
      typeof templates === 'string' ? new Map([['default', templates]]) : (templates ?? new Map());
    this.#tokens = tokens;
    this.#name = name;
  }

  render(messages: readonly ChatMessage[], options: ChatOptions): string {
    checkOptions('applyChatTemplate', options, chatRules);
    checkOptions('applyChatTemplate', { messages }, messagesRules);
    const { addGenerationPrompt = false, tools, variables } = options;
    const tokens = Object.entries(this.#tokens).map(([role, token]) => [`${role}_token`, token]);
    const name =
      options.template ??
      (tools !== undefined && this.#sources.has('tool_use') ? 'tool_use' : 'default');
    const template = this.#templateOf(name);
    try {
      return template.render({
        ...Object.fromEntries(tokens),
        ...variables,
        messages,
        add_generation_prompt: addGenerationPrompt,
        tools: tools ?? null,
      });
    } catch (cause) {
      throw new DataError(
        {
          asked: `the chat template of ${this.#name} for ${messages.length} messages`,
          found: cause instanceof Error ? cause.message : String(cause),
          todo: 'Give the messages and variables that the template expects',
        },
        { messages: messages.length },
        { cause },
      );
    }
  }

  #templateOf(name: string): Template {
    const parsed = this.#parsed.get(name);
    if (parsed !== undefined) return parsed;
    const source = this.#sources.get(name);
    if (source === undefined) {
      const names = [...this.#sources.keys()].join(', ');
      throw new ConfigError(
        {
          asked: `the chat template '${name}' of ${this.#name}`,
          found: names === '' ? 'a tokenizer without templates' : `the templates ${names}`,
          todo: 'Give one: Tokenizer.fromJson(json, { chatTemplate }), or put chat_template.jinja into the folder',
        },
        { template: name },
      );
    }
    try {
      const template = new Template(source);
      this.#parsed.set(name, template);
      return template;
    } catch (cause) {
      throw new ConfigError(
        {
          asked: `the chat template '${name}' of ${this.#name}`,
          found: cause instanceof Error ? cause.message : String(cause),
          todo: 'Give a template in the part of Jinja that chat templates use',
        },
        { template: name },
        { cause },
      );
    }
  }
}

const messagesRules: OptionRules<{ readonly messages: readonly object[] }> = {
  messages: option.required(option.listOf(option.object<object>('a message: { role, content }'))),
};
