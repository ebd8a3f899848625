import type { ConfigError } from '@shardwise/core/extend';
import { isHost, valueError } from './variables.ts';

/** More hosts than any cluster has. Lists are expanded completely, and a short text can stand for a very long list. */
const MAX_NODES = 2 ** 16;
const MAX_CHARACTERS = 1 << 16;
const MAX_DIGITS = 9;

/**
 * Returns the hosts of a list that Slurm wrote, in the order of the list. `gnode[08-10,20],x1` is gnode08, gnode09,
 * gnode10, gnode20 and x1. `r[0-1]n[0-1]` is all four combinations. `name` is the variable that contains the list.
 * Throws ConfigError if the text is not such a list, or has more than 65536 hosts.
 */
export function expandNodeList(text: string, name: string): readonly string[] {
  const error = (): ConfigError =>
    valueError(name, text, `a list of at most ${MAX_NODES} hosts such as gnode[08-10,20],x1`);
  if (text.length > MAX_CHARACTERS) throw error();
  const hosts: string[] = [];
  for (const part of partsOf(text)) {
    const expanded = expand(part);
    if (expanded === undefined || hosts.length + expanded.length > MAX_NODES) throw error();
    for (const host of expanded) {
      if (!isHost(host)) throw error();
      hosts.push(host);
    }
  }
  return hosts;
}

/** Splits a list at the commas outside of brackets. */
function partsOf(text: string): readonly string[] {
  return text.match(/(?:[^,[\]]|\[[^[\]]*\]|[[\]])+|(?<=^|,)(?=,|$)/g) ?? [];
}

/** Returns the hosts of one part of a list. Returns undefined for a text that is not a part, or has too many hosts. */
function expand(part: string): readonly string[] | undefined {
  let hosts: readonly string[] = [''];
  for (const [piece, ranges] of part.matchAll(/\[([^[\]]*)\]|[^[\]]+|[[\]]/g)) {
    const texts = ranges === undefined ? [piece] : numbersOf(ranges);
    if (texts === undefined || piece === '[' || piece === ']') return undefined;
    if (hosts.length * texts.length > MAX_NODES) return undefined;
    hosts = hosts.flatMap((host) => texts.map((text) => host + text));
  }
  return hosts[0] === '' ? undefined : hosts;
}

/** Expands ranges: `08-10,20` is 08, 09, 10 and 20. */
function numbersOf(ranges: string): readonly string[] | undefined {
  const numbers: string[] = [];
  for (const range of ranges.split(',')) {
    const match = /^(\d+)(?:-(\d+))?$/.exec(range);
    const first = match?.[1] ?? '';
    const last = match?.[2] ?? first;
    if (first === '' || first.length > MAX_DIGITS || last.length > MAX_DIGITS) return undefined;
    const count = Number(last) - Number(first) + 1;
    if (count < 1 || numbers.length + count > MAX_NODES) return undefined;
    for (let index = 0; index < count; index++) {
      numbers.push(String(Number(first) + index).padStart(first.length, '0'));
    }
  }
  return numbers;
}
