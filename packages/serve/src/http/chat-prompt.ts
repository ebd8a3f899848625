import type { Engine } from '../engine/engine.ts';
import { ApiError } from './api-error.ts';
import { withReadArguments } from './tool-calls/chat-tools.ts';

/** The tokens that a chat model reads for messages. Throws ApiError 400 for a model without a template. */
export function promptOfChat(
  { tokenizer }: Engine,
  messages: readonly { readonly role: string; readonly content?: unknown }[],
  options: {
    readonly tools?: readonly object[];
    readonly variables?: Record<string, unknown>;
  } = {},
): readonly number[] {
  if (tokenizer === null) throw new ApiError(400, 'The model has no tokenizer: send tokens.');
  const plain = messages.map(({ content, ...fields }) =>
    withReadArguments({ ...fields, content: textOf(content) }),
  );
  const text = tokenizer.applyChatTemplate(plain, { addGenerationPrompt: true, ...options });
  return tokenizer.encode(text, { addSpecialTokens: false }).inputIds;
}

/** Most templates only know contents that are texts. */
function textOf(content: unknown): unknown {
  if (!Array.isArray(content)) return content ?? '';
  return content.map((part: { readonly text?: string }) => part.text ?? '').join('');
}
