import type { CollectivePlan } from '@shardwise/core/extend';

interface Redistribution {
  readonly module: string;
  readonly change: string;
  readonly axis: string;
  readonly bytes: number;
  readonly forward: string;
  readonly backward: string;
}

const none = 'nothing';

/**
 * Returns the changes of activations' layouts that a plan inserts, as rows of a table with the communication of either
 * pass. Layers that differ only in numbers (`blocks.0.up`, `blocks.1.up`) are one row, and so are microbatches of the
 * same size.
 */
export function redistributionRows(collectives: readonly CollectivePlan[]): readonly string[][] {
  const rows = new Map<string, Redistribution[]>();
  for (const each of redistributionsOf(collectives)) {
    const key = JSON.stringify({ ...each, module: patternOf(each.module) });
    rows.set(key, [...(rows.get(key) ?? []), each]);
  }
  return [...rows.values()].flatMap((same) => {
    const [first] = same;
    if (first === undefined) return [];
    const { module, change, axis, forward, backward, bytes } = first;
    const layer = same.every((each) => each.module === module) ? module : patternOf(module);
    return [[layer, String(same.length), change, axis, forward, backward, String(bytes)]];
  });
}

/** Returns the redistributions of a plan, each with the collectives of both passes. */
function redistributionsOf(collectives: readonly CollectivePlan[]): readonly Redistribution[] {
  const found = new Map<string, Redistribution>();
  for (const { redistribution, axis, bytes, when, operation } of collectives) {
    if (redistribution === undefined) continue;
    const { module, from, to, microbatch } = redistribution;
    const key = JSON.stringify([module, from, to, axis, microbatch]);
    const known = found.get(key) ?? {
      module,
      change: `${from} to ${to}`,
      axis,
      bytes,
      forward: none,
      backward: none,
    };
    const others = when === 'backward' && known.backward !== none ? `${known.backward}, ` : '';
    found.set(key, { ...known, [when]: `${others}${operation}` });
  }
  return [...found.values()];
}

/** Replaces each number in a path by a star. */
function patternOf(path: string): string {
  return path
    .split('.')
    .map((part) => (/^\d+$/.test(part) ? '*' : part))
    .join('.');
}
