import type { GenerationOptions } from './generation-options.ts';

/** Whether a row ends with its last token. `added` are its new tokens. */
export type HasEnded = (added: readonly number[]) => boolean;

export function endOf(
  { maxNewTokens, stop = [], decode }: GenerationOptions,
  eosTokenIds: readonly number[],
): HasEnded {
  const eos = new Set(eosTokenIds);
  const rows = stop.filter((each) => typeof each !== 'string');
  const texts = stop.filter((each) => typeof each === 'string');
  return (added) => {
    if (added.length >= maxNewTokens || eos.has(added.at(-1) ?? -1)) return true;
    if (rows.some((row) => isEnd(row, added))) return true;
    if (texts.length === 0 || decode === undefined) return false;
    const text = decode(added);
    return texts.some((each) => text.includes(each));
  };
}

function isEnd(end: readonly number[], tokens: readonly number[]): boolean {
  const from = tokens.length - end.length;
  return from >= 0 && end.every((token, index) => token === tokens[from + index]);
}
