import { DataError } from '@shardwise/core/extend';
import type { ChatMessage, ChatOptions } from '../tokenizer/chat-template.ts';
import type { Encoding, EncodeOptions } from '../tokenizer/encoding.ts';
import { IGNORED, idsArray, type TokenRows } from './token-rows.ts';

/** What of a tokenizer is needed for conversations. A `Tokenizer` has it. */
export interface ChatTokenizer {
  encode(text: string, options: EncodeOptions): Encoding;
  applyChatTemplate(messages: readonly ChatMessage[], options?: ChatOptions): string;
}

/**
 * A conversation as tokens, of which only the answers are learned: `labels` have the tokens of the messages of the role
 * `assistant`, with what ends them, and -100 elsewhere. An answer begins where the text ends that the model is given when
 * it generates, and both sides are encoded apart: the tokens are those of generation. Throws DataError for messages
 * without an answer, and for a template that writes earlier messages in another way when later ones follow.
 * Shape: -> inputIds [t], labels [t].
 */
export function conversationSample(
  tokenizer: ChatTokenizer,
  messages: readonly ChatMessage[],
  options: Omit<ChatOptions, 'addGenerationPrompt'> = {},
): TokenRows {
  const inputIds: number[] = [];
  const labels: number[] = [];
  let written = '';
  const add = (text: string, isLearned: boolean): void => {
    if (!text.startsWith(written)) throw rewritten(messages.length);
    const { inputIds: ids } = tokenizer.encode(text.slice(written.length), {
      addSpecialTokens: false,
    });
    inputIds.push(...ids);
    labels.push(...(isLearned ? ids : ids.map(() => IGNORED)));
    written = text;
  };
  const answers = messages.flatMap(({ role }, index) => (role === 'assistant' ? [index] : []));
  if (answers.length === 0) throw noAnswer(messages.length);
  for (const index of answers) {
    const before = messages.slice(0, index);
    add(tokenizer.applyChatTemplate(before, { ...options, addGenerationPrompt: true }), false);
    add(tokenizer.applyChatTemplate(messages.slice(0, index + 1), options), true);
  }
  const whole = tokenizer.applyChatTemplate(messages, options);
  if (whole !== written) add(whole, false);
  return { inputIds: idsArray(inputIds), labels: idsArray(labels) };
}

/**
 * A prompt and its completion as tokens, of which only the completion is learned. Special tokens of a text's beginning
 * are put before the prompt, and `eosTokenId`, if it is given, after the completion. Shape: -> inputIds [t], labels [t].
 */
export function completionSample(
  tokenizer: Pick<ChatTokenizer, 'encode'>,
  { prompt, completion }: { readonly prompt: string; readonly completion: string },
  options: { readonly eosTokenId?: number } = {},
): TokenRows {
  const { inputIds: before } = tokenizer.encode(prompt, {});
  const { inputIds: learned } = tokenizer.encode(completion, { addSpecialTokens: false });
  const { eosTokenId } = options;
  const after = eosTokenId === undefined ? learned : [...learned, eosTokenId];
  return {
    inputIds: idsArray([...before, ...after]),
    labels: idsArray([...before.map(() => IGNORED), ...after]),
  };
}

function noAnswer(messages: number): DataError {
  return new DataError(
    {
      asked: `a conversation of ${messages} messages to learn from`,
      found: 'no message of the role assistant, so that nothing would be learned',
      todo: "Give at least one answer: { role: 'assistant', content: '…' }",
    },
    { messages },
  );
}

function rewritten(messages: number): DataError {
  return new DataError(
    {
      asked: `which tokens of a conversation of ${messages} messages are answers`,
      found: 'a chat template that writes earlier messages in another way when others follow',
      todo: 'Give conversations that end with their only answer, or another template',
    },
    { messages },
  );
}
