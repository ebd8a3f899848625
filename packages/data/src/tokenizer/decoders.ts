import { bytesOfLetters } from './byte-letters.ts';
import { patternOf } from './pattern.ts';
import { prependSchemeOf } from './pre-tokenizers.ts';
import type { DecoderConfig } from './file-types.ts';

/** Makes texts of tokens. What it returns, joined, is the text. */
export type Decoder = (tokens: readonly string[]) => readonly string[];

/** Makes the function that a `decoder` of a file describes. Without one, tokens are words with blanks between them. */
export function createDecoder(config: DecoderConfig | null | undefined): Decoder {
  if (config === null || config === undefined) return (tokens) => [tokens.join(' ')];
  switch (config.type) {
    case 'Sequence': {
      const steps = config.decoders.map(createDecoder);
      return (tokens) => steps.reduce((result, step) => step(result), tokens);
    }
    case 'ByteLevel':
      return byteLevel;
    case 'WordPiece': {
      const { prefix, cleanup } = config;
      return (tokens) =>
        tokens.map((token, index) => {
          const text = index === 0 ? token : withoutPrefix(token, prefix);
          return cleanup ? cleaned(text) : text;
        });
    }
    case 'Metaspace': {
      const { replacement } = config;
      const dropsFirst = prependSchemeOf(config) !== 'never';
      return (tokens) =>
        tokens.map((token, index) =>
          token.replaceAll(replacement, index === 0 && dropsFirst ? '' : ' '),
        );
    }
    case 'BPEDecoder':
      return (tokens) =>
        tokens.map((token, index) =>
          token.replaceAll(config.suffix, index === tokens.length - 1 ? '' : ' '),
        );
    case 'Fuse':
      return (tokens) => [tokens.join('')];
    case 'ByteFallback':
      return byteFallback;
    case 'Replace': {
      const { content } = config;
      const pattern = patternOf(config.pattern);
      return (tokens) => tokens.map((token) => token.replace(pattern, () => content));
    }
    default:
      return (tokens) =>
        tokens.map((token) => stripped(token, config.content, config.start, config.stop));
  }
}

// A mark of the order of bytes at the start is a character of the text like others.
const lenient = new TextDecoder('utf-8', { ignoreBOM: true });
const strict = new TextDecoder('utf-8', { ignoreBOM: true, fatal: true });

function byteLevel(tokens: readonly string[]): readonly string[] {
  return [lenient.decode(Uint8Array.from(tokens.flatMap(bytesOfLetters)))];
}

/** A token that continues a word, without the prefix that says so; any other with a blank before it. */
function withoutPrefix(token: string, prefix: string): string {
  return token.startsWith(prefix) ? token.slice(prefix.length) : ` ${token}`;
}

/** Without the blanks that English has not, in the order in which Hugging Face's library removes them. */
function cleaned(text: string): string {
  return [' .', ' ?', ' !', ' ,', " ' ", " n't", " 'm", ' do not', " 's", " 've", " 're"].reduce(
    (result, spaced) => result.replaceAll(spaced, spaced === ' do not' ? " don't" : spaced.trim()),
    text,
  );
}

/** Joins neighbouring tokens such as <0xE2> to characters. Bytes that are no UTF-8 become one U+FFFD each. */
function byteFallback(tokens: readonly string[]): readonly string[] {
  const texts: string[] = [];
  let bytes: number[] = [];
  const flush = (): void => {
    if (bytes.length === 0) return;
    try {
      texts.push(strict.decode(Uint8Array.from(bytes)));
    } catch {
      texts.push('\ufffd'.repeat(bytes.length));
    }
    bytes = [];
  };
  for (const token of tokens) {
    const byte = byteOf(token);
    if (byte === undefined) {
      flush();
      texts.push(token);
    } else bytes.push(byte);
  }
  flush();
  return texts;
}

/** The byte that a token such as <0xE2> stands for. */
function byteOf(token: string): number | undefined {
  const digits = /^<0x([\dA-Fa-f]{2})>$/.exec(token)?.[1];
  return digits === undefined ? undefined : Number.parseInt(digits, 16);
}

/** The bytes of a token that a decoder reads as bytes, not as text. Undefined for other tokens. */
export function tokenBytes(
  config: DecoderConfig | null | undefined,
  token: string,
): readonly number[] | undefined {
  switch (config?.type) {
    case 'ByteLevel':
      return bytesOfLetters(token);
    case 'ByteFallback': {
      const byte = byteOf(token);
      return byte === undefined ? undefined : [byte];
    }
    case 'Sequence':
      for (const each of config.decoders) {
        const bytes = tokenBytes(each, token);
        if (bytes !== undefined) return bytes;
      }
      return undefined;
    default:
      return undefined;
  }
}

/** Without up to `start` such characters at the beginning and up to `stop` at the end. */
function stripped(token: string, content: string, start: number, stop: number): string {
  let result = token;
  for (let i = 0; i < start && result.startsWith(content); i++)
    result = result.slice(content.length);
  for (let i = 0; i < stop && result.endsWith(content); i++)
    result = result.slice(0, -content.length);
  return result;
}
