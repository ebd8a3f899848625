import { option, type OptionRule } from '@shardwise/core/extend';

/** The tokens that an update was learned from. */
export const tokenCount: OptionRule<number> = option.integer(1);

/** The bytes before an update that say its tokens, as f64. */
export const TOKENS_BYTES = 8;

/** Puts the number of tokens that an update was learned from before it. */
export function withTokens(tokens: number, update: Uint8Array): Uint8Array {
  const message = new Uint8Array(TOKENS_BYTES + update.byteLength);
  new DataView(message.buffer).setFloat64(0, tokens, true);
  message.set(update, TOKENS_BYTES);
  return message;
}

/** Takes such a message apart. The tokens are whatever its member says. */
export function splitTokens(message: Uint8Array): {
  readonly tokens: number;
  readonly update: Uint8Array;
} {
  const view = new DataView(message.buffer, message.byteOffset, message.byteLength);
  return { tokens: view.getFloat64(0, true), update: message.subarray(TOKENS_BYTES) };
}
