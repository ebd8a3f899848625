import { ConfigError } from '@shardwise/core/extend';

export type TruncationSide = 'left' | 'right';

interface Limits {
  readonly maxLength: number;
  readonly special: number;
  readonly side: TruncationSide;
}

/**
 * Shortens a text or a pair to at most `maxLength` tokens, of which `special` are special ones. Of a pair, the longer text loses
 * tokens until both have the same length (`longest_first` of transformers). Throws ConfigError if there are more special tokens.
 */
export function truncate<Token>(
  first: readonly Token[],
  second: readonly Token[] | undefined,
  { maxLength, special, side }: Limits,
): readonly [readonly Token[], (readonly Token[])?] {
  const room = maxLength - special;
  if (room < 0) {
    throw new ConfigError(
      {
        asked: 'to cut a text to maxLength',
        found: `maxLength ${maxLength}, and ${special} special tokens`,
        todo: 'Raise maxLength, or set addSpecialTokens: false',
      },
      { maxLength, special },
    );
  }
  const cut = (ids: readonly Token[], length: number): readonly Token[] =>
    ids.length <= length
      ? ids
      : side === 'right'
        ? ids.slice(0, length)
        : ids.slice(ids.length - length);
  if (second === undefined) return [cut(first, room)];
  if (first.length + second.length <= room) return [first, second];
  const half = Math.floor(room / 2);
  // A text that takes at most half of the room stays whole.
  if (first.length <= half) return [first, cut(second, room - first.length)];
  if (second.length <= half) return [cut(first, room - second.length), second];
  // The longer one has the greater part of an odd room.
  const ofFirst = first.length > second.length ? room - half : half;
  return [cut(first, ofFirst), cut(second, room - ofFirst)];
}
