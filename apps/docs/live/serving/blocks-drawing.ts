import type { CacheState } from '@shardwise/serve';
import { h, type VNode } from 'vue';

/** Draws who has which blocks of a cache. Before there is one, it draws as many that are free. */
export function drawBlocks(
  cache: CacheState | undefined,
  blockCount: number,
  blockSize: number,
): VNode {
  const users = Array.from({ length: blockCount }, (): number[] => []);
  for (const { number, blocks } of cache?.sequences ?? []) {
    for (const block of blocks) users[block]?.push(number);
  }
  const kept = new Set(cache?.keptBlocks);
  const used = users.filter((own) => own.length > 0).length;
  return h('figure', { class: 'blocks' }, [
    h(
      'figcaption',
      `The cache: ${blockCount} blocks of ${blockSize} tokens, of which ${used} are used and ${kept.size} kept`,
    ),
    h(
      'div',
      { class: 'grid', role: 'img', 'aria-label': describe(cache) },
      users.map((own, block) => h('i', { key: block, class: classOf(own, kept.has(block)) })),
    ),
    h('p', { class: 'setting' }, [
      h('i', { class: 'block shared s0' }),
      'of several sequences ',
      h('i', { class: 'block kept' }),
      'kept for prompts that begin alike ',
      h('i', { class: 'block' }),
      'free',
    ]),
  ]);
}

function classOf([first, ...others]: readonly number[], isKept: boolean): string {
  if (first === undefined) return isKept ? 'block kept' : 'block';
  return `block s${first % 8}${others.length > 0 ? ' shared' : ''}`;
}

function describe(cache: CacheState | undefined): string {
  const all = cache?.sequences.filter(({ blocks }) => blocks.length > 0) ?? [];
  if (all.length === 0) return 'No sequence has blocks.';
  return all
    .map(({ number, blocks }) => `Sequence ${number} has the blocks ${blocks.join(', ')}.`)
    .join(' ');
}
