import type { ChatMessage, Tokenizer } from '@shardwise/data';
import type { TokenConstraint } from '../../constraints/token-constraint.ts';
import type { Engine } from '../../engine/engine.ts';
import { ApiError } from '../api-error.ts';
import { made } from '../constraint-of.ts';
import type { Tool, ToolFields } from '../request-bodies.ts';
import { type ToolCallFormat, toolCallFormatOf } from './tool-call-format.ts';
import { ToolCallReader } from './tool-call-reader.ts';

/** The tools that an answer may call. */
export interface ChatTools {
  /** What the template gets. */
  readonly tools: readonly Tool[];
  /** Null if the answer may be text. */
  readonly constraint: TokenConstraint | null;
  reader(): ToolCallReader;
}

/**
 * The tools of a body, or null if none may be called. Throws ApiError 400 for a template that shows the model no tools,
 * for a choice that is no tool, and for parameters that cannot be met by a call that is required.
 */
export function chatToolsOf(engine: Engine, body: ToolFields): ChatTools | null {
  const { tools = [], tool_choice: choice, parallel_tool_calls: parallel } = body;
  const asked = tools ?? [];
  if (asked.length === 0) {
    if (choice == null || choice === 'none' || choice === 'auto') return null;
    throw new ApiError(400, 'tool_choice asks for a call, and there are no tools.', {
      param: 'tool_choice',
    });
  }
  if (choice === 'none') return null;
  const { tokenizer } = engine;
  if (tokenizer === null) throw new ApiError(400, 'The model has no tokenizer: send tokens.');
  requireShown(tokenizer, asked);
  const format = toolCallFormatOf(tokenizer);
  const names = new Set(asked.map((tool) => tool.function.name));
  if (names.size < asked.length) {
    throw new ApiError(400, 'tools: two have the same name.', { param: 'tools' });
  }
  const isFree = choice == null || choice === 'auto';
  return {
    tools: asked,
    constraint: isFree ? null : constraintOf(engine, format, chosen(asked, choice)),
    reader: () =>
      new ToolCallReader({ format, names, maxCalls: parallel === false ? 1 : Infinity }),
  };
}

/** The form of an answer. Throws ApiError 400 if it is asked for in two ways. */
export function formOf(
  tools: ChatTools | null,
  own: TokenConstraint | null,
): TokenConstraint | null {
  const call = tools?.constraint ?? null;
  if (call === null || own === null) return call ?? own;
  throw new ApiError(400, 'tool_choice asks for a call, and another field for another form.', {
    param: 'tool_choice',
  });
}

/** Messages as templates read them: arguments of calls are objects, and not their JSON. */
export function withReadArguments(message: ChatMessage): ChatMessage {
  const { tool_calls: calls } = message;
  if (!Array.isArray(calls)) return message;
  return { ...message, tool_calls: calls.map(withReadArgumentsOf) };
}

function withReadArgumentsOf(call: {
  readonly function?: { readonly arguments?: unknown };
}): object {
  const { arguments: written } = call.function ?? {};
  if (typeof written !== 'string') return call;
  try {
    return { ...call, function: { ...call.function, arguments: JSON.parse(written) as unknown } };
  } catch {
    throw new ApiError(400, 'messages: the arguments of a call are not JSON.', {
      param: 'messages',
    });
  }
}

/** Otherwise the model would know nothing of the tools, and nobody would see why it calls none. */
function requireShown(tokenizer: Tokenizer, tools: readonly Tool[]): void {
  const messages = [{ role: 'user', content: 'a' }];
  const [without, shown] = [{}, { tools }].map((options) =>
    tokenizer.applyChatTemplate(messages, options),
  );
  if (without !== shown) return;
  throw new ApiError(400, "The model's chat template has no tools.", { param: 'tools' });
}

function chosen(
  tools: readonly Tool[],
  choice: 'required' | { readonly function: { readonly name: string } },
): readonly Tool[] {
  if (choice === 'required') return tools;
  const found = tools.filter((tool) => tool.function.name === choice.function.name);
  if (found.length > 0) return found;
  throw new ApiError(400, `tool_choice: there is no tool '${choice.function.name}'.`, {
    param: 'tool_choice',
  });
}

function constraintOf(
  engine: Engine,
  { tags, isList, argumentsName }: ToolCallFormat,
  tools: readonly Tool[],
): TokenConstraint {
  const [before, after] = tags === null ? ['', ''] : [`${tags.open}\n`, `\n${tags.close}`];
  const [open, close] = isList ? ['[', ']'] : ['', ''];
  return made('tools', () =>
    engine.constraints.alternatives(
      tools.map(({ function: { name, parameters } }) => [
        `${before}${open}{"name": ${JSON.stringify(name)}, "${argumentsName}": `,
        { jsonSchema: parameters ?? { type: 'object', properties: {} } },
        `}${close}${after}`,
      ]),
    ),
  );
}
