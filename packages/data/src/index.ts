// The entry point without Node: tokenizers, collators, metrics, and streams of any source.
export { Tokenizer, type DecodeOptions, type TokenizerFiles } from './tokenizer/tokenizer.ts';
export type { Encoding, EncodeOptions } from './tokenizer/encoding.ts';
export type { BatchEncoding, BatchOptions } from './tokenizer/batch-encoding.ts';
export type { ChatMessage, ChatOptions } from './tokenizer/chat-template.ts';
export type { SpecialTokens } from './tokenizer/tokenizer-config.ts';
export type { TextStream } from './tokenizer/text-stream.ts';
